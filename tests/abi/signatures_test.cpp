// The generated signatures of the runtime's hooks equal the toolkit's own typedefs, the hidden old ones
// included; and the interposer's own copies of public constants equal the header's.
#define __CUDA_API_VERSION_INTERNAL  // shows the old declarations, for this file only
#include <cuda.h>
#include <cudaProfiler.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "interpose/state.h"
#include "runtime/link/generated/signatures.h"

#define SHUNT_SAME_TYPE(symbol, pfn) \
  static_assert(std::is_same_v<ShuntFn_##symbol, pfn>, #symbol " differs from the header's " #pfn);
#include "tests/abi/generated/signature_pairs.inc"

static_assert(shunt::interpose::kCudaErrorStubLibrary == CUDA_ERROR_STUB_LIBRARY);
static_assert(shunt::interpose::kCudaErrorNotSupported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM == 2, "flag of the slots, proc_address.cpp");

TEST(Signatures, AreCheckedByTheCompiler) {
  int pairs = 0;
#undef SHUNT_SAME_TYPE
#define SHUNT_SAME_TYPE(symbol, pfn) ++pairs;
#include "tests/abi/generated/signature_pairs.inc"
  EXPECT_EQ(pairs, SHUNT_SLOT_FIRST_NCCL);
}
