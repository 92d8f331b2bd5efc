#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/driver/driver_test.h"

using driver_test::Driver;

TEST(BeforeInit, CallsAnswerNotInitialized) {
  int n = 0;
  FAILS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
  CUcontext c;
  FAILS(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&c));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuInit(1));
  int version = 0;
  OK(cuDriverGetVersion(&version));
  EXPECT_EQ(version, 13000);
}

TEST_F(Driver, DevicesAreThoseOfTheBox) {
  int n = 0;
  OK(cuDeviceGetCount(&n));
  EXPECT_EQ(n, 3);
  CUdevice d;
  OK(cuDeviceGet(&d, 2));
  FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&d, 3));
  FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&d, -1));
  char name[64];
  OK(cuDeviceGetName(name, sizeof name, 0));
  EXPECT_STREQ(name, "NVIDIA B200");
  OK(cuDeviceGetName(name, 7, 0));
  EXPECT_STREQ(name, "NVIDIA");
  int major = 0, minor = 0;
  OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 2));
  OK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 2));
  EXPECT_EQ(major * 10 + minor, 107);
  int sms = 0;
  OK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  EXPECT_EQ(sms, 148);
}

TEST_F(Driver, EveryAttributeOfTheHeaderAnswers) {
  for (int a = 1; a < CU_DEVICE_ATTRIBUTE_MAX; ++a) {
    int v = -12345;
    if (a == CU_DEVICE_ATTRIBUTE_MAX) continue;
    EXPECT_EQ(cuDeviceGetAttribute(&v, CUdevice_attribute(a), 0), CUDA_SUCCESS) << a;
    EXPECT_NE(v, -12345) << a;
  }
  int v;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&v, CUdevice_attribute(5000), 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
}

TEST_F(Driver, PciIdsLeadBackToTheDevice) {
  for (int i = 0; i < 3; ++i) {
    char id[32];
    OK(cuDeviceGetPCIBusId(id, sizeof id, i));
    CUdevice d = -1;
    OK(cuDeviceGetByPCIBusId(&d, id));
    EXPECT_EQ(d, i) << id;
    EXPECT_EQ(strlen(id), 12u) << id;
  }
  CUdevice d;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetByPCIBusId(&d, "nonsense"));
  FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetByPCIBusId(&d, "0000:fe:00.0"));
}

TEST_F(Driver, UuidsDifferAndMatchBothVersions) {
  CUuuid a, b, c;
  OK(cuDeviceGetUuid(&a, 0));
  OK(cuDeviceGetUuid(&b, 1));
  EXPECT_NE(memcmp(&a, &b, sizeof a), 0);
  OK(cuDeviceGetUuid_v2(&c, 0));
  EXPECT_EQ(memcmp(&a, &c, sizeof a), 0);
}

TEST_F(Driver, ErrorNamesAndStringsAreComplete) {
  const char* text = nullptr;
  OK(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  EXPECT_STREQ(text, "an illegal memory access was encountered");
  OK(cuGetErrorName(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT");
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGetErrorName(CUresult(12345), &text));
  EXPECT_EQ(text, nullptr);
}

TEST_F(Driver, ForkedChildIsRefused) {
  EXPECT_EXIT(
      {
        const pid_t child = fork();
        if (child == 0) {
          int n = 0;
          _exit(cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED
                    ? 7
                    : 1);
        }
        int status = 0;
        waitpid(child, &status, 0);
        _exit(WEXITSTATUS(status));
      },
      testing::ExitedWithCode(7), "");
}

namespace {
// Runs `device_count` in a fresh process with CUDA_VISIBLE_DEVICES set.
int visible(const std::string& value) {
  const std::string command = "CUDA_VISIBLE_DEVICES='" + value + "' " + testing::internal::GetArgvs()[0] +
                              " --gtest_also_run_disabled_tests --gtest_filter=*.DISABLED_PrintDevices "
                              "2>/dev/null | grep -o 'devices:.*'";
  FILE* pipe = popen(command.c_str(), "r");
  char line[256] = "";
  if (!fgets(line, sizeof line, pipe)) line[0] = 0;
  pclose(pipe);
  int n = -1;
  sscanf(line, "devices:%d", &n);
  return n;
}
}  // namespace

TEST(Visible, DISABLED_PrintDevices) {
  int n = 0;
  const CUresult r = cuInit(0);
  if (r == CUDA_SUCCESS) cuDeviceGetCount(&n);
  printf("devices:%d\n", n);
}

TEST(Visible, FollowsTheDocumentedRules) {
  EXPECT_EQ(visible("0,1"), 2);
  EXPECT_EQ(visible("2"), 1);
  EXPECT_EQ(visible("0,7,1"), 1);  // stops at the first invalid entry
  EXPECT_EQ(visible("-1"), 0);
  EXPECT_EQ(visible(""), 0);
  EXPECT_EQ(visible("nonsense,0"), 0);
  EXPECT_EQ(visible("0,0"), 0);  // a repeated device hides all
}
