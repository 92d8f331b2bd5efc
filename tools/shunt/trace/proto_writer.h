// The few pieces of protobuf's wire format that Perfetto traces need: varints, tagged fields,
// length-delimited messages.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace shunt::tool {

class ProtoWriter {
 public:
  void clear() { bytes_.clear(); }
  std::string_view bytes() const { return bytes_; }
  void varint_raw(uint64_t v) {
    while (v >= 0x80) {
      bytes_.push_back(static_cast<char>(v | 0x80));
      v >>= 7;
    }
    bytes_.push_back(static_cast<char>(v));
  }
  void varint(uint32_t field, uint64_t v) {
    varint_raw(uint64_t{field} << 3);
    varint_raw(v);
  }
  void text(uint32_t field, std::string_view v) {
    varint_raw(uint64_t{field} << 3 | 2);
    varint_raw(v.size());
    bytes_.append(v);
  }
  void message(uint32_t field, const ProtoWriter& inner) { text(field, inner.bytes()); }
  void fixed64(uint32_t field, uint64_t v) {
    varint_raw(uint64_t{field} << 3 | 1);
    char raw[8];
    std::memcpy(raw, &v, 8);  // little endian, as every machine shunt runs on
    bytes_.append(raw, 8);
  }

 private:
  std::string bytes_;
};

}  // namespace shunt::tool
