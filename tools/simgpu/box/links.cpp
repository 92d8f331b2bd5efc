// Links of a box: by name (nvlink5, nvlink6, pcie5, pcie6, none) or from a TOML file:
//
//   default = "nvlink5"                 # what every pair has that is not listed
//   [[pair]]
//   devices = [0, 3]
//   link = "pcie5"                      # optional; nvlink5 | nvlink6 | pcie5 | pcie6 | none
//   bandwidth = "40GB/s"                # optional, one way
//   p2p = "broken"                      # optional; ok | not_supported | broken (says yes, bytes never
//   arrive)
//   [[device]]
//   index = 0
//   host_link = "pcie5"                 # optional; pcie5 | pcie6 | c2c
//   host_bandwidth = "50GB/s"           # optional
//   links_down = [4, 17]                # optional, NVLink links that are down; pairs lose bandwidth in
//   proportion power_limit_w = 800                 # optional numa_node = 1                       # optional
//   pci = "0002:81"                     # optional, domain:bus in hexadecimal
//
// A pair's rate is never more than either device can do: "nvlink6" between a B200 and a Rubin is NVLink 5.
#include "tools/simgpu/box/links.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "runtime/base/toml.h"
#include "tools/simgpu/box/text.h"

namespace simgpu {
namespace {

using shunt::profiles::Profile;

struct LinkType {
  std::string_view name;
  LinkKind kind;
  double bytes_per_s;  // one way
};
constexpr LinkType kLinkTypes[] = {{"nvlink5", LinkKind::nvlink, 900e9},
                                   {"nvlink6", LinkKind::nvlink, 1800e9},
                                   {"pcie5", LinkKind::pcie, 63e9},
                                   {"pcie6", LinkKind::pcie, 121e9},
                                   {"none", LinkKind::none, 0}};

const LinkType* find_type(std::string_view name) {
  for (const LinkType& type : kLinkTypes)
    if (type.name == name) return &type;
  return nullptr;
}

double links_up_fraction(const DeviceSpec& device) {
  double total = device.profile->nvlink_links.value;
  if (total <= 0) return 0;
  uint64_t existing = total >= 64 ? ~0ull : (1ull << static_cast<int>(total)) - 1;
  return 1 - std::popcount(device.links_down & existing) / total;
}

void set_pair(BoxSpec& spec, size_t a, size_t b, const LinkType& type) {
  const Profile &pa = *spec.devices[a].profile, &pb = *spec.devices[b].profile;
  double rate = type.bytes_per_s;
  if (type.kind == LinkKind::nvlink)
    rate = std::min({rate, pa.nvlink_bandwidth_per_direction.value, pb.nvlink_bandwidth_per_direction.value});
  if (type.kind == LinkKind::pcie)
    rate = std::min({rate, pa.pcie_bandwidth_per_direction.value, pb.pcie_bandwidth_per_direction.value});
  LinkKind kind = rate > 0 ? type.kind : LinkKind::none;
  // CUDA documents peer access for devices of one major compute capability.
  bool peers = kind != LinkKind::none && pa.cc_major == pb.cc_major;
  spec.link[a][b] = spec.link[b][a] = kind;
  spec.link_bytes_per_s[a][b] = spec.link_bytes_per_s[b][a] = rate;
  spec.p2p[a][b] = spec.p2p[b][a] = peers ? P2p::ok : P2p::not_supported;
}

void set_host(BoxSpec& spec, size_t i, LinkKind kind, double limit) {
  const Profile& p = *spec.devices[i].profile;
  double own =
      kind == LinkKind::c2c ? p.c2c_bandwidth_per_direction.value : p.pcie_bandwidth_per_direction.value;
  spec.host_link[i] = kind;
  spec.host_link_bytes_per_s[i] = limit > 0 ? std::min(own, limit) : own;
}

void set_all(BoxSpec& spec, const LinkType& type) {
  size_t n = spec.devices.size();
  spec.link.assign(n, std::vector<LinkKind>(n, LinkKind::none));
  spec.link_bytes_per_s.assign(n, std::vector<double>(n, 0));
  spec.p2p.assign(n, std::vector<P2p>(n, P2p::not_supported));
  spec.host_link.assign(n, LinkKind::pcie);
  spec.host_link_bytes_per_s.assign(n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i + 1; j < n; ++j) set_pair(spec, i, j, type);
    bool c2c = type.kind != LinkKind::pcie && spec.devices[i].profile->c2c_bandwidth_per_direction.value > 0;
    set_host(spec, i, c2c ? LinkKind::c2c : LinkKind::pcie,
             type.kind == LinkKind::pcie ? type.bytes_per_s : 0);
  }
}

void apply_links_down(BoxSpec& spec) {
  size_t n = spec.devices.size();
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      if (i == j || spec.link[i][j] != LinkKind::nvlink) continue;
      double up = std::min(links_up_fraction(spec.devices[i]), links_up_fraction(spec.devices[j]));
      spec.link_bytes_per_s[i][j] *= up;
      if (up > 0) continue;
      spec.link[i][j] = LinkKind::none;
      spec.p2p[i][j] = P2p::not_supported;
    }
}

// Reads one file. Every method returns false after writing the one line of the first error.
class FileReader {
 public:
  FileReader(std::string_view file, BoxSpec& spec, std::string& error)
      : file_(file), spec_(spec), error_(error) {}

  bool read(const toml::table& root) {
    if (!only_keys(root, {"default", "pair", "device"}, "")) return false;
    std::string name = "nvlink5";
    if (!text(root, "default", name)) return false;
    const LinkType* type = find_type(name);
    if (!type) return fail("default", name, "use nvlink5, nvlink6, pcie5, pcie6 or none");
    set_all(spec_, *type);
    return each(root, "pair", &FileReader::pair) && each(root, "device", &FileReader::device) && finish();
  }

 private:
  bool fail(std::string_view what, std::string_view value, std::string_view fix) {
    error_ = "link file " + quoted(file_) + ": bad " + std::string(what) + " " + quoted(value) + ": " +
             std::string(fix);
    return false;
  }
  bool only_keys(const toml::table& table, std::set<std::string_view> known, std::string_view where) {
    for (auto&& [key, node] : table)
      if (!known.contains(key.str())) {
        std::string list;
        for (std::string_view k : known) list += (list.empty() ? "" : ", ") + std::string(k);
        return fail("key" + (where.empty() ? "" : " in [[" + std::string(where) + "]]"), key.str(),
                    "known keys are " + list);
      }
    return true;
  }
  bool text(const toml::table& table, std::string_view key, std::string& out) {
    const toml::node* node = table.get(key);
    if (!node) return true;
    if (!node->is_string()) return fail(key, "(not a string)", "write it in quotes");
    out = **node->as_string();
    return true;
  }
  bool index(const toml::node* node, size_t& out) {
    if (!node || !node->is_integer())
      return fail("device index", "(missing or not a number)", "use 0 and up");
    int64_t value = **node->as_integer();
    if (value < 0 || value >= static_cast<int64_t>(spec_.devices.size()))
      return fail("device index", std::to_string(value),
                  "the box has devices 0 to " + std::to_string(spec_.devices.size() - 1));
    out = static_cast<size_t>(value);
    return true;
  }
  bool rate(const toml::table& table, std::string_view key, double& out) {
    std::string value;
    if (!text(table, key, value)) return false;
    if (value.empty()) return true;
    std::optional<double> parsed = parse_rate(value);
    if (!parsed || *parsed <= 0) return fail(key, value, "use for example \"450GB/s\"");
    out = *parsed;
    return true;
  }
  bool each(const toml::table& root, std::string_view key, bool (FileReader::*read)(const toml::table&)) {
    const toml::node* node = root.get(key);
    if (!node) return true;
    if (!node->is_array_of_tables()) return fail(key, "(not tables)", "write [[" + std::string(key) + "]]");
    for (const toml::node& item : *node->as_array())
      if (!(this->*read)(*item.as_table())) return false;
    return true;
  }

  bool pair(const toml::table& table) {
    if (!only_keys(table, {"devices", "link", "bandwidth", "p2p"}, "pair")) return false;
    const toml::array* devices = table["devices"].as_array();
    size_t a = 0, b = 0;
    if (!devices || devices->size() != 2)
      return fail("devices", "in [[pair]]", "use two indices, for example [0, 1]");
    if (!index(devices->get(0), a) || !index(devices->get(1), b)) return false;
    if (a == b) return fail("devices", std::to_string(a), "a pair is two different devices");
    std::string link, p2p;
    double bandwidth = 0;
    if (!text(table, "link", link) || !text(table, "p2p", p2p) || !rate(table, "bandwidth", bandwidth))
      return false;
    if (!link.empty()) {
      const LinkType* type = find_type(link);
      if (!type) return fail("link", link, "use nvlink5, nvlink6, pcie5, pcie6 or none");
      set_pair(spec_, a, b, *type);
    }
    if (bandwidth > 0) {
      if (spec_.link[a][b] == LinkKind::none)
        return fail("bandwidth", "of a pair without a link", "give the pair a link");
      spec_.link_bytes_per_s[a][b] = spec_.link_bytes_per_s[b][a] = bandwidth;
    }
    if (!p2p.empty()) {
      P2p value = P2p::ok;
      if (p2p == "broken")
        value = P2p::broken;
      else if (p2p == "not_supported")
        value = P2p::not_supported;
      else if (p2p != "ok")
        return fail("p2p", p2p, "use ok, not_supported or broken");
      if (value != P2p::not_supported && spec_.link[a][b] == LinkKind::none)
        return fail("p2p", p2p, "the pair has no link, so only not_supported is possible");
      spec_.p2p[a][b] = spec_.p2p[b][a] = value;
    }
    return true;
  }

  bool device(const toml::table& table) {
    if (!only_keys(
            table,
            {"index", "host_link", "host_bandwidth", "links_down", "power_limit_w", "numa_node", "pci"},
            "device"))
      return false;
    size_t i = 0;
    if (!index(table.get("index"), i)) return false;
    DeviceSpec& device = spec_.devices[i];
    std::string host, pci;
    double bandwidth = 0;
    if (!text(table, "host_link", host) || !text(table, "pci", pci) ||
        !rate(table, "host_bandwidth", bandwidth))
      return false;
    if (host == "c2c") {
      if (device.profile->c2c_bandwidth_per_direction.value <= 0)
        return fail("host_link", host,
                    std::string(device.profile->key) + " has no chip-to-chip link; use pcie5 or pcie6");
      set_host(spec_, i, LinkKind::c2c, 0);
    } else if (host == "pcie5" || host == "pcie6") {
      set_host(spec_, i, LinkKind::pcie, find_type(host)->bytes_per_s);
    } else if (!host.empty()) {
      return fail("host_link", host, "use pcie5, pcie6 or c2c");
    }
    if (bandwidth > 0) spec_.host_link_bytes_per_s[i] = bandwidth;
    return down(table, device) && limits(table, device) && (pci.empty() || bus(pci, device));
  }

  bool down(const toml::table& table, DeviceSpec& device) {
    const toml::node* node = table.get("links_down");
    if (!node) return true;
    if (!node->is_array()) return fail("links_down", "(not a list)", "use for example [4, 17]");
    auto count = static_cast<int64_t>(device.profile->nvlink_links.value);
    for (const toml::node& item : *node->as_array()) {
      int64_t link = item.is_integer() ? **item.as_integer() : -1;
      if (link < 0 || link >= count)
        return fail("links_down", std::to_string(link),
                    std::string(device.profile->key) + " has links 0 to " + std::to_string(count - 1));
      device.links_down |= 1ull << link;
    }
    return true;
  }

  bool limits(const toml::table& table, DeviceSpec& device) {
    if (const toml::node* node = table.get("power_limit_w")) {
      double watts = node->value<double>().value_or(-1);
      const Profile& p = *device.profile;
      if (watts < p.power_min_w.value || watts > p.power_max_w.value)
        return fail("power_limit_w", std::to_string(static_cast<long>(watts)),
                    "use " + std::to_string(static_cast<long>(p.power_min_w.value)) + " to " +
                        std::to_string(static_cast<long>(p.power_max_w.value)));
      device.power_limit_w = watts;
    }
    if (const toml::node* node = table.get("numa_node")) {
      int64_t value = node->value<int64_t>().value_or(-1);
      if (value < 0 || value > 255) return fail("numa_node", std::to_string(value), "use 0 to 255");
      device.numa_node = static_cast<uint32_t>(value);
    }
    return true;
  }

  bool bus(const std::string& pci, DeviceSpec& device) {
    char* end = nullptr;
    unsigned long domain = std::strtoul(pci.c_str(), &end, 16), number = 256;
    if (end != pci.c_str() && *end == ':') {
      const char* start = end + 1;
      number = std::strtoul(start, &end, 16);
      if (end == start || *end != 0) number = 256;
    }
    if (number > 255 || domain > 0xFFFFFFFF)
      return fail("pci", pci, "use domain:bus in hexadecimal, for example \"0002:81\"");
    device.pci_domain = static_cast<uint32_t>(domain);
    device.pci_bus = static_cast<uint32_t>(number);
    return true;
  }

  bool finish() {
    std::set<std::pair<uint32_t, uint32_t>> seen;
    for (const DeviceSpec& d : spec_.devices)
      if (!seen.insert({d.pci_domain, d.pci_bus}).second)
        return fail("pci", std::to_string(d.pci_domain) + ":" + std::to_string(d.pci_bus),
                    "two devices share it");
    return true;
  }

  std::string_view file_;
  BoxSpec& spec_;
  std::string& error_;
};

}  // namespace

bool build_links_from_toml(std::string_view text, std::string_view file, BoxSpec& spec, std::string& error) {
  toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    error = "link file " + quoted(file) + ", line " + std::to_string(parsed.error().source().begin.line) +
            ": " + std::string(parsed.error().description());
    return false;
  }
  if (!FileReader(file, spec, error).read(parsed.table())) return false;
  apply_links_down(spec);
  return true;
}

bool build_links(std::string_view links, BoxSpec& spec, std::string& error) {
  links = trim(links);
  if (links.empty()) links = "nvlink5";
  spec.links = std::string(links);
  if (const LinkType* type = find_type(links)) {
    set_all(spec, *type);
    return true;
  }
  std::ifstream file(spec.links);
  bool looks_like_file =
      links.find('/') != std::string_view::npos || links.find('.') != std::string_view::npos;
  if (!file) {
    error = looks_like_file ? "cannot read the link file " + quoted(links) + ": check the path"
                            : "unknown links " + quoted(links) +
                                  ": use nvlink5, nvlink6, pcie5, pcie6, none or a TOML file";
    return false;
  }
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.bad()) {
    error = "cannot read the link file " + quoted(links) + ": is it a directory?";
    return false;
  }
  return build_links_from_toml(text.str(), links, spec, error);
}

}  // namespace simgpu
