// Small text helpers for box specifications: sizes, rates, numbers. No state; any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simgpu {

std::string_view trim(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);
std::optional<uint64_t> parse_count(std::string_view text);  // digits only
std::optional<double> parse_number(std::string_view text);   // finite, not negative
std::optional<uint64_t> parse_bytes(std::string_view text);  // 64GiB, 64G (= GiB), 64GB, 512MiB, 1048576
std::optional<double> parse_rate(std::string_view text);     // bytes per second: 450GB/s, 1.5TB/s
std::string quoted(std::string_view text);                   // 'text', cut when long, control characters as ?

}  // namespace simgpu
