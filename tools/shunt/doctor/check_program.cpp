#include <algorithm>
#include <set>

#include "tools/shunt/doctor/finding.h"

namespace shunt::tool::doctor {
namespace {

std::string capability(uint32_t cc) { return std::to_string(cc / 10) + "." + std::to_string(cc % 10); }

}  // namespace

void check_program(const Program& program, const monitor::Snapshot& box, Findings& out) {
  using binary::Entry;
  if (!program.elf) {
    out.push_back({Severity::note, "program", program.path + " is a script: its device code is not looked at",
                   "give the program it starts"});
    return;
  }
  if (program.device_code.empty()) {
    out.push_back({Severity::note, "program",
                   program.path + " carries no device code of its own (its libraries may)", ""});
    return;
  }
  std::set<uint32_t> capabilities;
  for (const monitor::Device& d : box.devices)
    capabilities.insert(d.identity.cc_major * 10 + d.identity.cc_minor);
  uint32_t newest_ptx = 0;
  uint16_t major = 0, minor = 0;
  for (const Entry& e : program.device_code)
    if (e.kind == Entry::Kind::ptx) {
      newest_ptx = std::max(newest_ptx, e.sm);
      if (std::pair(e.version_major, e.version_minor) > std::pair(major, minor))
        major = e.version_major, minor = e.version_minor;
    }
  for (const uint32_t cc : capabilities) {
    const binary::Choice choice = binary::choose(program.device_code, cc);
    const std::string on = program.path + " on compute capability " + capability(cc);
    if (choice.elf >= 0)
      out.push_back(
          {Severity::fine, "program",
           on + ": machine code for " + capability(program.device_code[static_cast<size_t>(choice.elf)].sm),
           ""});
    else if (choice.ptx >= 0)
      out.push_back({Severity::note, "program",
                     on + ": PTX for " + capability(program.device_code[static_cast<size_t>(choice.ptx)].sm) +
                         " only, translated at the first start",
                     "add -gencode arch=compute_" + std::to_string(cc) + ",code=sm_" + std::to_string(cc)});
    else
      out.push_back({Severity::error, "program",
                     on + ": nothing runs there (" +
                         (newest_ptx ? "its PTX is newer, for " + capability(newest_ptx)
                                     : "machine code for others only") +
                         ")",
                     "rebuild with -gencode arch=compute_" + std::to_string(cc) + ",code=compute_" +
                         std::to_string(cc)});
  }
  // PTX ISA 9.0 came with CUDA 13.0; each release has one: a driver refuses PTX of a newer one.
  if (major && box.cuda_version) {
    const int needs = major == 9   ? 13000 + minor * 10
                      : major == 8 ? (minor < 5 ? 12000 + minor * 10 : 12050 + (minor - 5) * 10)
                                   : 0;
    if (needs > box.cuda_version)
      out.push_back({Severity::error, "ptx-version",
                     program.path + " carries PTX " + std::to_string(major) + "." + std::to_string(minor) +
                         ", newer than the driver's CUDA " + std::to_string(box.cuda_version / 1000) + "." +
                         std::to_string(box.cuda_version % 1000 / 10),
                     "install a newer driver, or build with an older toolkit"});
  }
  if (program.static_cudart)
    out.push_back({Severity::note, "runtime",
                   program.path + " has the CUDA runtime inside: fine on a GPU, not on simgpu",
                   "nvcc -cudart shared where it should run simulated"});
}

}  // namespace shunt::tool::doctor
