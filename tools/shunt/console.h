// What the command says and how: shunt's own words go to stderr with the prefix "[shunt]", answers the user
// asked for (tables, JSON) to stdout. Colour only on terminals, never with NO_COLOR or TERM=dumb unless
// forced. One thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace shunt::tool {

// One error, one line: what, value, fix. Returns `status` so that callers can `return fail(...)`.
int fail(int status, const std::string& message);
void warn(const std::string& message);
void say(const std::string& message);

void set_color(const std::string& mode);  // auto | always | never
bool color_enabled(int fd);
bool is_terminal(int fd);

// Columns aligned by content; the first row is the header. Numbers (cells that start with a digit or "-"
// alone) go right.
std::string table(const std::vector<std::vector<std::string>>& rows);

}  // namespace shunt::tool
