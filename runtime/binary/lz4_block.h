// LZ4 block format. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace shunt::binary {

// Decodes exactly `out_size` bytes from one block; false when the block is malformed or has another size.
bool lz4_decode(const uint8_t* in, size_t in_size, uint8_t* out, size_t out_size);

}  // namespace shunt::binary
