shunt_bench_script(trace_tools_bench BENCH trace SCRIPT trace_tools_bench.py)
if(TARGET make_trace)
  add_dependencies(trace_tools_bench make_trace shunt_tool)
endif()
