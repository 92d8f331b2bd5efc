// Names of trace directories and files. Any thread.
#pragma once
#include <string>

namespace shunt::trace {

// %h host, %p pid, %q{VAR} environment variable, %% percent. A pattern without ".shunt" at its end gets it.
std::string expand_directory(const std::string& pattern, int pid);
std::string host_name();
// Rank of a launched job from RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID; -1 when there is none.
int job_rank();
// Local ranks started on this machine by the same launcher; 1 when there is none.
int local_ranks();
// Start time of this process in clock ticks (field 22 of /proc/self/stat).
unsigned long long process_start();

}  // namespace shunt::trace
