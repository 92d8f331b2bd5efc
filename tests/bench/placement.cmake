shunt_bench(plan_bench BENCH placement SOURCES plan_bench.cpp LIBS shunt_plan shunt_tool_plan)
# pagmo2 is an oracle only (its licence keeps it out of the product): the row needs Debian's libpagmo-dev.
find_package(Pagmo QUIET)
if(Pagmo_FOUND)
  shunt_bench(pagmo_bench BENCH placement SOURCES pagmo_bench.cpp LIBS shunt_plan Pagmo::pagmo)
endif()
