#include "runtime/placement/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <type_traits>

namespace shunt::placement {
namespace {

constexpr char kMagic[8] = {'S', 'H', 'H', 'I', 'S', 'T', '0', '1'};
constexpr uint32_t kMaxRecords = 1'000'000;

struct Header {
  char magic[8];
  uint32_t version, header_bytes;
  uint32_t kernels, programs, uses, zero;
  uint64_t bytes, checksum;  // of all that follows the header
};
struct DiskKernel {
  uint64_t kernel, count;
  double mean, m2;
  uint32_t blocks, threads;
  char device[24];
};
struct DiskProgram {
  uint64_t program, runs, peak_bytes;
  uint32_t first_use, uses;
};
struct DiskUse {
  uint64_t kernel;
  double count;
  uint32_t blocks, threads;
};
static_assert(sizeof(Header) == 48 && sizeof(DiskKernel) == 64 && sizeof(DiskProgram) == 32 &&
              sizeof(DiskUse) == 24);

uint64_t checksum(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

template <typename T>
void append(std::string& to, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

bool read_all(const std::string& path, std::string& out, std::string& error) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat st {};
  if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > (256 << 20)) {
    error = "history snapshot '" + path + "': " + (fd < 0 ? strerror(errno) : "no file of its kind");
    if (fd >= 0) close(fd);
    return false;
  }
  out.resize(static_cast<size_t>(st.st_size));
  size_t at = 0;
  while (at < out.size()) {
    const ssize_t n = read(fd, out.data() + at, out.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    at += static_cast<size_t>(n);
  }
  close(fd);
  out.resize(at);
  return true;
}

}  // namespace

uint64_t program_id(const std::string& real_path, const std::vector<std::string>& arguments) {
  std::string text = real_path;
  for (size_t i = 1; i < arguments.size(); i++) text += '\0' + arguments[i];
  const uint64_t id = checksum(text);
  return id ? id : 1;
}

uint64_t this_program_id() {
  char path[4096] = "";
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  path[n > 0 ? n : 0] = 0;
  std::vector<std::string> arguments;
  if (FILE* file = fopen("/proc/self/cmdline", "re")) {
    std::string text;
    for (int c; (c = fgetc(file)) != EOF;)
      if (c)
        text += static_cast<char>(c);
      else
        arguments.push_back(std::move(text)), text.clear();
    fclose(file);
  }
  return program_id(path, arguments);
}

void History::add(ProgramRecord record) { programs_[record.program] = std::move(record); }

const ProgramRecord* History::find(uint64_t program) const {
  const auto at = programs_.find(program);
  return at == programs_.end() ? nullptr : &at->second;
}

Estimate History::predict(const ProgramRecord& program, const profiles::Profile& device) const {
  Estimate out;
  double independent = 0, common = 0;  // scaling errs in the same direction for all kernels
  for (const KernelUse& use : program.kernels) {
    const Estimate e = costs.estimate(use.shape, device);
    if (e.source == Source::none) return {};
    const bool first = out.source == Source::none;
    out.source = first ? e.source : std::min(out.source, e.source);
    out.samples = first ? e.samples : std::min(out.samples, e.samples);
    if (e.source == Source::scaled) out.from = e.from, out.mark = e.mark;
    out.seconds += use.count * e.seconds;
    if (e.source == Source::scaled)
      common += use.count * e.sigma;
    else
      independent += use.count * e.sigma * e.sigma;
  }
  out.sigma = std::sqrt(independent + common * common);
  return out;
}

bool write_snapshot(const std::string& path, const std::vector<KernelRecord>& kernels,
                    const std::vector<ProgramRecord>& programs, std::string& error) {
  std::string body;
  for (const KernelRecord& r : kernels) {
    DiskKernel d{r.shape.kernel,
                 r.samples.count,
                 r.samples.mean,
                 r.samples.m2,
                 r.shape.blocks,
                 r.shape.block_threads,
                 {}};
    r.device->key.copy(d.device, sizeof d.device - 1);
    append(body, d);
  }
  uint32_t uses = 0;
  for (const ProgramRecord& p : programs) {
    append(body, DiskProgram{p.program, p.runs, p.peak_bytes, uses, static_cast<uint32_t>(p.kernels.size())});
    uses += static_cast<uint32_t>(p.kernels.size());
  }
  for (const ProgramRecord& p : programs)
    for (const KernelUse& u : p.kernels)
      append(body, DiskUse{u.shape.kernel, u.count, u.shape.blocks, u.shape.block_threads});
  Header h{{},
           1,
           sizeof(Header),
           static_cast<uint32_t>(kernels.size()),
           static_cast<uint32_t>(programs.size()),
           uses,
           0,
           body.size(),
           checksum(body)};
  memcpy(h.magic, kMagic, sizeof kMagic);
  std::string text;
  append(text, h);
  text += body;
  // Whole or not at all: readers may have the old one open.
  const std::string temporary = path + "." + std::to_string(getpid());
  const int fd = open(temporary.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  bool ok = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) ok &= close(fd) == 0;
  ok = ok && rename(temporary.c_str(), path.c_str()) == 0;
  if (!ok) {
    error = "history snapshot '" + path + "': " + strerror(errno);
    unlink(temporary.c_str());
  }
  return ok;
}

bool read_snapshot(const std::string& path, History& out, std::string& error) {
  std::string text;
  if (!read_all(path, text, error)) return false;
  Header h{};
  auto bad = [&](const char* what) {
    error = "history snapshot '" + path + "' " + what + "; `shunt history snapshot` makes a new one";
    return false;
  };
  if (text.size() < sizeof h) return bad("is cut off");
  memcpy(&h, text.data(), sizeof h);
  if (memcmp(h.magic, kMagic, sizeof kMagic) != 0 || h.version != 1 || h.header_bytes != sizeof h)
    return bad("is of another format");
  const std::string_view body = std::string_view(text).substr(sizeof h);
  if (h.kernels > kMaxRecords || h.programs > kMaxRecords || h.uses > kMaxRecords || body.size() != h.bytes ||
      body.size() !=
          h.kernels * sizeof(DiskKernel) + h.programs * sizeof(DiskProgram) + h.uses * sizeof(DiskUse))
    return bad("is cut off");
  if (checksum(body) != h.checksum) return bad("is damaged");
  History read;
  const char* at = body.data();
  for (uint32_t i = 0; i < h.kernels; i++, at += sizeof(DiskKernel)) {
    DiskKernel d;
    memcpy(&d, at, sizeof d);
    d.device[sizeof d.device - 1] = 0;
    read.costs.add({{d.kernel, d.blocks, d.threads}, profiles::find(d.device), {d.count, d.mean, d.m2}});
  }
  const char* uses = at + h.programs * sizeof(DiskProgram);
  for (uint32_t i = 0; i < h.programs; i++, at += sizeof(DiskProgram)) {
    DiskProgram d;
    memcpy(&d, at, sizeof d);
    if (d.first_use > h.uses || d.uses > h.uses - d.first_use) return bad("is damaged");
    ProgramRecord p{d.program, d.runs, d.peak_bytes, {}};
    for (uint32_t u = 0; u < d.uses; u++) {
      DiskUse use;
      memcpy(&use, uses + (d.first_use + u) * sizeof use, sizeof use);
      if (!(use.count > 0) || !std::isfinite(use.count)) return bad("is damaged");
      p.kernels.push_back({{use.kernel, use.blocks, use.threads}, use.count});
    }
    read.add(std::move(p));
  }
  out = std::move(read);
  return true;
}

}  // namespace shunt::placement
