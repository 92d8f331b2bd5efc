// Host threads shared by all executions of the process. They start on first need, are never joined (nothing
// of ours runs at exit), and after fork the child starts its own.
#pragma once
#include <cstdint>
#include <functional>

namespace simgpu::exec {
// Runs task(1) .. task(n) on pool threads; returns at once. `finished` is called by each when it is done.
void pool_run(uint32_t n, const std::function<void(uint32_t)>& task);
}  // namespace simgpu::exec
