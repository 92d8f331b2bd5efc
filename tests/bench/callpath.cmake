# The runtime's own part of the call path: real hooks, model and trace around a driver function that does nothing.
shunt_bench(callpath_bench BENCH intercept SOURCES callpath_bench.cpp LIBS shunt_exec)
