// Every kernel of cu/access.cu with many shapes and values: what it touches lies in what was predicted, and
// where the pattern is affine the prediction is tight.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/ptx/access_run.h"
#include "tests/ptx/support.h"

namespace {

using namespace shunt::ptx;

struct Case {
  const char* name;
  const char* values;  // per parameter: p pointer, n count, or a number
  bool two_dimensional;
  double tightness;  // touched / predicted at least; 0: nothing is promised
};
const Case kCases[] = {{"copy_guarded", "ppn", false, 1.0},    {"copy_unguarded", "pp", false, 1.0},
                       {"copy_unsigned", "ppn", false, 1.0},   {"copy_long", "ppn", false, 1.0},
                       {"copy_reversed", "ppn", false, 0.5},   {"grid_stride", "ppn", false, 1.0},
                       {"row_copy", "ppnnw", true, 0.0},       {"stencil", "ppn", false, 0.9},
                       {"matmul", "ppps", true, 0.0},          {"matmul_tiled", "ppp8", true, 0.0},
                       {"pointer_loop", "pps", false, 0.0},    {"backwards", "pn", false, 0.0},
                       {"select_pointer", "ppps", false, 0.0}, {"histogram", "pnp", false, 0.9},
                       {"warp_sums", "pp", false, 0.9},        {"modulo", "ppns", false, 0.0},
                       {"clamped", "ppn", false, 0.5},         {"local_pointers", "ppps", false, 0.0},
                       {"vectors", "ppn", false, 1.0},         {"only_scalars", "nn", false, 0.0},
                       {"fence_device", "pp", false, 0.9},     {"wrapping_signed", "ps", false, 0.0},
                       {"triangle", "pw", false, 0.0},         {"doubling", "pn", false, 0.0}};

TEST(AccessExec, ObservedIsInsidePredicted) {
  std::mt19937 engine(17);
  auto random = [&] { return static_cast<uint32_t>(engine()); };
  size_t runs = 0, bounded = 0;
  for (const char* file : {"access_75", "access_90", "access_100"}) {
    auto module = ptx_test::parse_ok(ptx_test::read_file(std::string(PTX_TEST_DIR) + "/" + file + ".ptx"));
    for (const Case& c : kCases) {
      SCOPED_TRACE(std::string(file) + " " + c.name);
      const std::string mangled = std::to_string(std::strlen(c.name)) + c.name;
      const KernelAccess access = analyse_access(*module, *ptx_test::find(*module, mangled));
      ASSERT_FALSE(access.unknown) << access.reason;
      for (int round = 0; round < 6; ++round) {
        ptx_test::Arena arena;
        LaunchShape shape;
        if (c.two_dimensional) {
          shape = {{1 + random() % 3, 1 + random() % 3, 1}, {8, 8, 1}};
        } else {
          shape = {{1 + random() % 4, 1, 1}, {32 * (1 + random() % 4), 1, 1}};
        }
        const uint32_t n = c.two_dimensional ? 1 + random() % 24 : random() % 600;
        std::vector<uint8_t> parameters(access.parameter_bytes + 8);
        for (size_t i = 0; i < access.layout.size(); ++i) {
          uint64_t value = 0;
          switch (c.values[i]) {
            case 'p':
              value = arena.allocate(1 << 20);
              break;
            case 'n':
              value = n;
              break;
            case 's':
              value = 1 + random() % 16;
              break;
            case 'w':
              value = 64;
              break;
            case '8':
              value = 8 * (1 + random() % 3);
              break;
          }
          std::memcpy(parameters.data() + access.layout[i].offset, &value,
                      std::min<size_t>(access.layout[i].size, 8));
        }
        const auto result = ptx_test::run_and_compare(*module, access, arena, shape, parameters);
        ASSERT_TRUE(result.ran) << result.error;
        EXPECT_EQ(result.error, "") << "grid " << shape.grid[0] << "x" << shape.grid[1] << " block "
                                    << shape.block[0] << " n " << n;
        ++runs;
        bounded += result.bounded;
        if (c.tightness > 0 && n > 100) {
          EXPECT_TRUE(result.bounded);
          EXPECT_GE(static_cast<double>(result.touched), c.tightness * static_cast<double>(result.predicted))
              << "n " << n;
        }
      }
    }
  }
  RecordProperty("runs", static_cast<int>(runs));
  EXPECT_GT(bounded * 10, runs * 6) << "most of these kernels have bounds";
}

}  // namespace
