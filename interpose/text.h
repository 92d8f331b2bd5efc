/* String comparison without libc's functions: the first look-ups of a process may be those of a sanitizer
 * that is just setting itself up, and its replacements for strcmp, strlen or dl_iterate_phdr do not work
 * before it has finished. (The build keeps the compiler from turning these loops back into calls.) No state;
 * any thread. */
#pragma once
#include <stddef.h>

namespace shunt::interpose {

inline bool equal(const char* a, const char* b) {
  for (; *a && *a == *b; ++a, ++b) {
  }
  return *a == *b;
}

inline size_t length(const char* text) {
  size_t size = 0;
  while (text[size]) ++size;
  return size;
}

inline const char* file_name(const char* path) {
  const char* name = path;
  for (; *path; ++path)
    if (*path == '/') name = path + 1;
  return name;
}

}  // namespace shunt::interpose
