# Speed of the PTX executor (SIMGPU.md, Speed).
shunt_bench(exec_bench BENCH simgpu SOURCES exec_bench.cpp LIBS simgpu_exec GTest::gtest)
target_compile_definitions(exec_bench PRIVATE SHUNT_NVCC="${SHUNT_NVCC}")
