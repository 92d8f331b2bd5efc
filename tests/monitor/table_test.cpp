// The table fits, whatever is in it; the JSON says the same.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/shunt/devices_table.h"

using namespace shunt::monitor;
using shunt::tools::render_json;
using shunt::tools::render_table;

namespace {

Snapshot snapshot() {
  Snapshot s;
  s.driver_version = "615.23";
  s.cuda_version = 13000;
  for (uint32_t i = 0; i < 3; ++i) {
    Device d;
    d.identity.nvml_index = i;
    d.identity.uuid = "GPU-6b0e7c2a-1111-2222-3333-44445555666" + std::to_string(i);
    d.identity.pci_bus_id = "00000000:1b:00.0";
    d.identity.name = i == 2 ? "NVIDIA Graphics Device" : "NVIDIA B200";
    d.identity.profile = shunt::profiles::find(i == 2 ? "rubin" : "b200");
    d.now.memory = Memory{192265846784, 150000000000, 41000000000, 734003200, i == 2};
    d.now.busy_percent = 87;
    d.now.power.watts = 612.4;
    d.now.power.limit_w = 1000;
    d.now.celsius = 54;
    d.now.links.resize(i == 2 ? 36 : 18, Link{LinkState::active, 7, 53125});
    s.devices.push_back(d);
  }
  s.devices[2].now.links[35].state = LinkState::inactive;
  s.devices[1].now.processes = {{4711, 41000000000, "python"}, {4712, std::nullopt, ""}};
  return s;
}

size_t widest(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  size_t width = 0;
  while (std::getline(lines, line)) width = std::max(width, line.size());
  return width;
}

TEST(DevicesTable, FitsAndNamesWhatMatters) {
  Snapshot s = snapshot();
  std::string text = render_table(s, 80);
  EXPECT_LE(widest(text), 80u) << text;
  for (const char* word : {"3 devices", "driver 615.23", "CUDA 13.0", "NVIDIA B200", "rubin", "38.2/179.1",
                           "612/1000", "18/18", "35/36", "1 of 36 NVLink links are down (35)",
                           "the board calls itself NVIDIA Graphics Device", "python", "4712", "*"})
    EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
  std::string wide = render_table(s, 200);
  EXPECT_NE(wide.find("GPU-6b0e7c2a"), std::string::npos);
  EXPECT_EQ(text.find("GPU-6b0e7c2a"), std::string::npos);
  for (int columns : {-5, 0, 40, 41, 50, 60, 79, 80, 100, 132, 500})
    EXPECT_LE(widest(render_table(s, columns)), static_cast<size_t>(std::max(40, columns))) << columns;
}

TEST(DevicesTable, UnknownIsADash) {
  Snapshot s;
  Device d;
  d.identity.uuid = "GPU-x";
  d.identity.name = "Some GPU";
  s.devices.push_back(d);
  std::string text = render_table(s, 80);
  EXPECT_NE(text.find("Some GPU"), std::string::npos);
  EXPECT_NE(text.find("  -  "), std::string::npos) << text;
  EXPECT_NE(text.find("no profile of this model"), std::string::npos);
  EXPECT_NE(render_table(Snapshot{}, 80).find("0 devices"), std::string::npos);
}

TEST(DevicesTable, NamesCannotDrawOnTheTerminal) {
  Snapshot s = snapshot();
  s.devices[1].now.processes[0].name = "\x1b[2Jevil\nname";
  s.devices[0].identity.name = std::string(300, 'x');
  std::string text = render_table(s, 80);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_LE(widest(text), 80u);
}

TEST(DevicesTable, JsonSaysTheSame) {
  Snapshot s = snapshot();
  s.devices[1].now.processes[0].name = "\xff\xfe";  // no UTF-8
  nlohmann::json j = nlohmann::json::parse(render_json(s));
  EXPECT_EQ(j["driver"], "615.23");
  ASSERT_EQ(j["devices"].size(), 3u);
  EXPECT_EQ(j["devices"][2]["model"], "rubin");
  EXPECT_EQ(j["devices"][2]["links"].size(), 36u);
  EXPECT_EQ(j["devices"][2]["links_active"], 35);
  EXPECT_EQ(j["devices"][0]["memory"]["used"], 41000000000);
  EXPECT_EQ(j["devices"][0]["memory"]["os_accounted"], false);
  EXPECT_TRUE(j["devices"][0]["rates"].is_null());
  EXPECT_EQ(j["devices"][1]["processes"][1]["bytes"], nullptr);
}

}  // namespace
