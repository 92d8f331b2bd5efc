# The interposer's own rows: what a call, a look-up and a process start cost under the preload, with a driver whose functions
# do nothing and a runtime whose hooks only forward.
set(intercept_files ${CMAKE_BINARY_DIR}/tests/bench_files)
add_library(bench_driver SHARED EXCLUDE_FROM_ALL intercept_driver.cpp)
set_target_properties(bench_driver PROPERTIES OUTPUT_NAME cuda VERSION 1 SOVERSION 1
  LIBRARY_OUTPUT_DIRECTORY ${intercept_files})
target_link_options(bench_driver PRIVATE -Wl,-Bsymbolic)
add_executable(intercept_child EXCLUDE_FROM_ALL intercept_child.cpp)
target_link_libraries(intercept_child PRIVATE bench_driver dl)
set_target_properties(intercept_child PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${intercept_files} BUILD_RPATH ${intercept_files})
shunt_bench(intercept_bench BENCH intercept SOURCES intercept_bench.cpp)
target_compile_definitions(intercept_bench PRIVATE SHUNT_CHILD="$<TARGET_FILE:intercept_child>"
  SHUNT_PRELOAD="$<TARGET_FILE:shunt>" SHUNT_STUB_RT="$<TARGET_FILE:stub_rt>")
add_dependencies(intercept_bench intercept_child shunt stub_rt)
shunt_bench(start_bench BENCH intercept SOURCES start_bench.cpp)
target_compile_definitions(start_bench PRIVATE SHUNT_PRELOAD="$<TARGET_FILE:shunt>")
add_dependencies(start_bench shunt)
