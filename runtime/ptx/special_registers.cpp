#include "runtime/ptx/special_registers.h"

#include <cstdint>

namespace shunt::ptx {
namespace {

constexpr std::string_view kVector[] = {"%tid",       "%ntid",       "%ctaid",         "%nctaid",
                                        "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid"};

constexpr std::string_view kScalar[] = {"%laneid",
                                        "%warpid",
                                        "%nwarpid",
                                        "%smid",
                                        "%nsmid",
                                        "%gridid",
                                        "%is_explicit_cluster",
                                        "%cluster_ctarank",
                                        "%cluster_nctarank",
                                        "%lanemask_eq",
                                        "%lanemask_le",
                                        "%lanemask_lt",
                                        "%lanemask_ge",
                                        "%lanemask_gt",
                                        "%clock",
                                        "%clock_hi",
                                        "%clock64",
                                        "%globaltimer",
                                        "%globaltimer_lo",
                                        "%globaltimer_hi",
                                        "%reserved_smem_offset_begin",
                                        "%reserved_smem_offset_end",
                                        "%reserved_smem_offset_cap",
                                        "%total_smem_size",
                                        "%aggr_smem_size",
                                        "%dynamic_smem_size",
                                        "%current_graph_exec"};

struct Numbered {
  std::string_view prefix, suffix;
  uint32_t count;
};
constexpr Numbered kNumbered[] = {
    {"%envreg", "", 32}, {"%pm", "", 8}, {"%pm", "_64", 8}, {"%reserved_smem_offset_", "", 2}};

bool numbered(std::string_view name, const Numbered& family) {
  if (name.size() <= family.prefix.size() + family.suffix.size()) return false;
  if (name.substr(0, family.prefix.size()) != family.prefix) return false;
  name.remove_prefix(family.prefix.size());
  if (name.substr(name.size() - family.suffix.size()) != family.suffix) return false;
  name.remove_suffix(family.suffix.size());
  if (name.empty() || name.size() > 2 || (name.size() == 2 && name[0] == '0')) return false;
  uint32_t index = 0;
  for (char c : name) {
    if (c < '0' || c > '9') return false;
    index = index * 10 + static_cast<uint32_t>(c - '0');
  }
  return index < family.count;
}

}  // namespace

bool special_register_has_components(std::string_view name) {
  for (std::string_view known : kVector) {
    if (known == name) return true;
  }
  return false;
}

bool is_special_register(std::string_view name) {
  if (special_register_has_components(name)) return true;
  for (std::string_view known : kScalar) {
    if (known == name) return true;
  }
  for (const Numbered& family : kNumbered) {
    if (numbered(name, family)) return true;
  }
  return false;
}

}  // namespace shunt::ptx
