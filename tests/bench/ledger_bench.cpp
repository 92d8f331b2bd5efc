// What the ledger costs: 64 processes that start together with it and without, the longest any of them waited
// for a lock, and the price of a note and of a promise. Rows of the placement bench.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "runtime/ledger/layout.h"
#include "runtime/ledger/ledger.h"
#include "tests/bench/bench_rows.h"

using namespace shunt::ledger;

namespace {

constexpr int kProcesses = 64;
Options g_options;

Uuid uuid(uint8_t n) {
  Uuid u{};
  u[0] = n;
  return u;
}

// What a program under shunt does with the ledger while it starts: register, find its devices, look, be
// promised memory, take it. Its longest wait for a lock, in nanoseconds, goes to `worst`.
int child(const char* mode, int report_fd) {
  uint64_t worst = 0;
  if (!strcmp(mode, "ledger")) {
    std::string error;
    auto* ledger = Ledger::open(g_options, error).release();
    if (!ledger) {
      fprintf(stderr, "bench: %s\n", error.c_str());
      return 1;
    }
    int devices[8];
    for (int d = 0; d < 8; ++d) devices[d] = ledger->device(uuid(static_cast<uint8_t>(d + 1)));
    for (int d : devices) shunt::bench::keep(ledger->view(d).reserved);
    Request request{devices[getpid() % 8], 1 << 30, ~0ull};
    Reservation reservation;
    if (ledger->reserve({&request, 1}, reservation) != Grant::granted) return 2;
    ledger->commit(reservation);
    worst = worst_lock_wait_ns();
  }
  return write(report_fd, &worst, sizeof worst) == sizeof worst ? 0 : 3;
}

struct Start {
  double ms = 0, worst_wait_ms = 0;
  bool ok = true;
};

Start start_all(const char* mode) {
  Start out;
  int go[2], report[2];
  if (pipe(go) != 0 || pipe(report) != 0) return out.ok = false, out;
  std::string report_text = std::to_string(report[1]), go_text = std::to_string(go[0]);
  std::vector<pid_t> pids;
  for (int p = 0; p < kProcesses; ++p) {
    pid_t pid = fork();
    if (pid == 0) {
      char c;
      close(go[1]);
      if (read(go[0], &c, 1) != 0) _exit(9);  // until the parent lets all of them go
      execl("/proc/self/exe", "ledger_bench", "--child", mode, report_text.c_str(), g_options.scope.c_str(),
            nullptr);
      _exit(9);
    }
    pids.push_back(pid);
  }
  close(go[0]);
  uint64_t begin = shunt::bench::now_ns();
  close(go[1]);
  for (pid_t pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    out.ok &= status == 0;
  }
  out.ms = static_cast<double>(shunt::bench::now_ns() - begin) * 1e-6;
  close(report[1]);
  uint64_t worst = 0;
  while (read(report[0], &worst, sizeof worst) == sizeof worst)
    out.worst_wait_ms = std::max(out.worst_wait_ms, static_cast<double>(worst) * 1e-6);
  close(report[0]);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && !strcmp(argv[1], "--child")) {
    g_options.scope = argv[4];
    return child(argv[2], atoi(argv[3]));
  }
  shunt::bench::Rows rows(argc, argv);
  g_options.scope = "bench-" + std::to_string(getpid());
  std::string error;
  std::unique_ptr<Ledger> ledger = Ledger::open(g_options, error);
  if (!ledger) {
    rows.fail("ledger_64_start_ratio", error.c_str());
    return rows.finish();
  }
  int device = ledger->device(uuid(1));

  std::vector<double> worst;
  bool ok = true;
  auto with = [&] {
    ledger->sweep();  // the dead of the last round: a real start finds a tidy ledger too
    Start s = start_all("ledger");
    ok &= s.ok;
    worst.push_back(s.worst_wait_ms);
    return s.ms;
  };
  auto without = [&] {
    Start s = start_all("none");
    ok &= s.ok;
    return s.ms;
  };
  auto starts = rows.alternate(with, without);
  if (!ok) rows.fail("ledger_64_start_ratio", "a process failed");
  rows.emit({"ledger_64_start_ratio", "ratio", "64 processes without a ledger, ms", 1.1}, starts.ratio(),
            starts.baseline);
  rows.emit({"ledger_worst_wait_ms", "ms", "", 20}, worst);

  uint64_t calls = rows.quick() ? 200000 : 1000000;
  rows.emit({"ledger_note_ns", "ns", "", 100}, rows.repeat([&] {
    return shunt::bench::ns_per_call(calls, [&] {
      ledger->add_used(device, 1 << 20);
      ledger->sub_used(device, 1 << 20);
    });
  }));
  rows.emit({"ledger_reserve_commit_ns", "ns", "", {}}, rows.repeat([&] {
    return shunt::bench::ns_per_call(calls / 10, [&] {
      Request request{device, 1 << 20, ~0ull};
      Reservation reservation;
      ledger->reserve({&request, 1}, reservation);
      ledger->commit(reservation);
      ledger->sub_used(device, 1 << 20);
    });
  }));
  rows.emit({"ledger_view_us", "us", "", 50}, rows.repeat([&] {
    return shunt::bench::ns_per_call(1000, [&] { shunt::bench::keep(ledger->view(device).used); }) / 1000;
  }));
  ledger.reset();
  Ledger::remove(g_options, error);
  return rows.finish();
}
