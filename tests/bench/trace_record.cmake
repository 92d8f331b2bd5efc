# What writing a record costs; reading and exporting are in the trace verbs' own bench.
shunt_bench(trace_record_bench BENCH trace SOURCES trace_record_bench.cpp LIBS shunt_trace)
