shunt_bench_script(chaos_graphs_bench BENCH chaos SCRIPT chaos_graphs_bench.py)
foreach(target graphs_random_program shunt shunt_rt)
  add_dependencies(chaos_graphs_bench ${target})
endforeach()
