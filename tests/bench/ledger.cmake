shunt_bench(ledger_bench BENCH placement SOURCES ledger_bench.cpp LIBS shunt_ledger)
