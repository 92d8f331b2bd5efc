#include "runtime/binary/lz4_block.h"

#include <cstring>

namespace shunt::binary {
namespace {

// A length whose nibble is 15 goes on in bytes, until one is not 255.
bool read_length(const uint8_t*& in, const uint8_t* end, size_t& length) {
  uint8_t byte;
  do {
    if (in == end) return false;
    byte = *in++;
    length += byte;
  } while (byte == 255);
  return true;
}

}  // namespace

bool lz4_decode(const uint8_t* in, size_t in_size, uint8_t* out, size_t out_size) {
  const uint8_t* const in_end = in + in_size;
  uint8_t* const out_begin = out;
  uint8_t* const out_end = out + out_size;
  while (in < in_end) {
    const uint8_t token = *in++;
    size_t literals = token >> 4;
    if (literals == 15 && !read_length(in, in_end, literals)) return false;
    if (literals > static_cast<size_t>(in_end - in) || literals > static_cast<size_t>(out_end - out))
      return false;
    if (literals != 0) std::memcpy(out, in, literals);
    in += literals;
    out += literals;
    if (in == in_end) return out == out_end;  // the last sequence has no match
    if (in_end - in < 2) return false;
    const size_t offset = in[0] | static_cast<size_t>(in[1]) << 8;
    in += 2;
    size_t length = token & 15;
    if (length == 15 && !read_length(in, in_end, length)) return false;
    length += 4;
    if (offset == 0 || offset > static_cast<size_t>(out - out_begin) ||
        length > static_cast<size_t>(out_end - out))
      return false;
    for (const uint8_t* from = out - offset; length != 0; --length)
      *out++ = *from++;  // may overlap: byte by byte
  }
  return false;
}

}  // namespace shunt::binary
