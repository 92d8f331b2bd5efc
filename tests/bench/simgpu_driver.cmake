shunt_bench(simgpu_driver_bench BENCH simgpu SOURCES simgpu_driver_bench.cpp LIBS shunt::cuda_headers ${CMAKE_DL_LIBS})
if(TARGET simgpu_cuda)
  add_dependencies(simgpu_driver_bench simgpu_cuda)
endif()
