// The driver-API programs' counterpart of check.h; it calls nothing itself, so each program decides how it
// finds the driver.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define DRIVER(call)                                                                      \
  do {                                                                                    \
    const CUresult status_ = (call);                                                      \
    if (status_ != CUDA_SUCCESS) {                                                        \
      std::printf("line %d: %s: error %d\n", __LINE__, #call, static_cast<int>(status_)); \
      std::exit(1);                                                                       \
    }                                                                                     \
  } while (0)

inline int finish(bool ok) {
  std::printf("%s\n", ok ? "PASSED" : "FAILED");
  return ok ? 0 : 1;
}

// A file built beside the program.
inline std::string beside(const char* argv0, const char* name) {
  const std::string path = argv0;
  const size_t slash = path.rfind('/');
  return (slash == std::string::npos ? std::string() : path.substr(0, slash + 1)) + name;
}
