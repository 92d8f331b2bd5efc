// Result<T>: a value or an Error (stable reason code and one line of text). Used inside shunt; at a driver
// boundary the driver's own code is returned instead. Plain values, no exceptions, any thread.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/reasons.h"

namespace shunt {

// `message` names the thing, the value and the fix.
struct Error {
  Reason reason = Reason::none;
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}      // NOLINT: conversion is the point
  Result(Error error) : error_(std::move(error)) {}  // NOLINT
  Result(Reason reason, std::string message) : error_{reason, std::move(message)} {}

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T value_or(T other) const { return value_ ? *value_ : std::move(other); }
  const Error& error() const { return error_; }

 private:
  std::optional<T> value_;
  Error error_;
};

}  // namespace shunt
