// The public headers, included one way everywhere: visible definitions, checked against NVIDIA's
// declarations.
#pragma once
#pragma GCC visibility push(default)
#include <cupti.h>
#pragma GCC visibility pop

#define CUPTI_EXPORT extern "C" __attribute__((visibility("default")))
