#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <gtest/gtest.h>
#include <stddef.h>

extern "C" const size_t shunt_old_layout[];

TEST(OldTypes, LayoutEqualsTheHeaders) {
  const size_t header[] = {
#include "tests/abi/old_layout.inc"
  };
  for (size_t i = 0; i < sizeof header / sizeof *header; ++i)
    EXPECT_EQ(shunt_old_layout[i], header[i]) << "entry " << i;
}
