#include "tools/shunt/console.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

namespace shunt::tool {
namespace {
std::string g_color = "auto";

void line(int fd, const char* tag, const char* color, const std::string& message) {
  const bool colored = *color && color_enabled(fd);
  const std::string text =
      std::string("[shunt] ") + (colored ? color : "") + tag + (colored ? "\033[0m" : "") + message + "\n";
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

// Columns of a terminal, not bytes: continuation bytes of UTF-8 take no room.
size_t width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool numeric(const std::string& cell) {
  return cell == "-" || (!cell.empty() && cell[0] >= '0' && cell[0] <= '9');
}

}  // namespace

int fail(int status, const std::string& message) {
  line(STDERR_FILENO, "error: ", "\033[1;31m", message);
  return status;
}
void warn(const std::string& message) { line(STDERR_FILENO, "warning: ", "\033[1;33m", message); }
void say(const std::string& message) { line(STDERR_FILENO, "", "", message); }

void set_color(const std::string& mode) { g_color = mode; }

bool is_terminal(int fd) { return isatty(fd) == 1; }

bool color_enabled(int fd) {
  if (g_color == "always") return true;
  if (g_color == "never") return false;
  const char* none = getenv("NO_COLOR");
  const char* term = getenv("TERM");
  return !(none && *none) && term && strcmp(term, "dumb") != 0 && is_terminal(fd);
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  std::vector<bool> right;
  for (size_t r = 0; r < rows.size(); r++)
    for (size_t c = 0; c < rows[r].size(); c++) {
      if (widths.size() <= c) widths.push_back(0), right.push_back(rows.size() > 1);
      widths[c] = std::max(widths[c], width(rows[r][c]));
      if (r > 0 && !numeric(rows[r][c])) right[c] = false;
    }
  std::string out;
  for (const auto& row : rows) {
    std::string text;
    for (size_t c = 0; c < row.size(); c++) {
      const std::string pad(widths[c] - width(row[c]), ' ');
      text += (c ? "  " : "") + (right[c] ? pad + row[c] : row[c] + pad);
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    out += text + "\n";
  }
  return out;
}

}  // namespace shunt::tool
