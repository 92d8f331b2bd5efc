shunt_bench_script(chaos_seeds_bench BENCH chaos SCRIPT chaos_seeds_bench.py)
if(TARGET simgpu_cuda)
  add_dependencies(chaos_seeds_bench driver_seed_test)
endif()
