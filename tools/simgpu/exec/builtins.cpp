#include "tools/simgpu/exec/builtins.h"

#include <cstdio>
#include <cstring>

#include "tools/simgpu/exec/heap.h"
#include "tools/simgpu/exec/worker.h"

namespace simgpu::exec {
namespace {

// Arguments and results are 32-bit words beyond the caller's frame.
uint32_t* word(Ctx* c, uint32_t k) {
  return reinterpret_cast<uint32_t*>(c->base[kRow32] + c->warp->function->frame32 + k * 128);
}
uint64_t arg64(Ctx* c, uint32_t k, uint32_t lane) {
  return word(c, k)[lane] | (static_cast<uint64_t>(word(c, k + 1)[lane]) << 32);
}
void result64(Ctx* c, uint32_t k, uint32_t lane, uint64_t v) {
  word(c, k)[lane] = static_cast<uint32_t>(v);
  word(c, k + 1)[lane] = static_cast<uint32_t>(v >> 32);
}

// One thread's printf: the format's conversions read the packed argument buffer with natural alignment.
bool format_text(Ctx* c, uint32_t lane, const std::string& format, uint64_t args, std::string& out,
                 int& count) {
  uint64_t at = 0;
  count = 0;
  const auto fetch = [&](void* to, uint64_t bytes) {
    at = (at + bytes - 1) / bytes * bytes;
    const uint8_t* p = host_pointer(c, args + at, bytes, lane);
    if (!p) return false;
    std::memcpy(to, p, bytes);
    at += bytes;
    return true;
  };
  for (size_t k = 0; k < format.size();) {
    if (format[k] != '%') {
      out.push_back(format[k++]);
      continue;
    }
    if (k + 1 < format.size() && format[k + 1] == '%') {
      out.push_back('%');
      k += 2;
      continue;
    }
    std::string spec = "%";
    size_t j = k + 1;
    int longs = 0;
    for (; j < format.size(); ++j) {
      const char ch = format[j];
      if (std::strchr("-+ #0123456789.", ch)) {
        spec.push_back(ch);
        continue;
      }
      if (ch == '*') {
        int32_t width;
        if (!fetch(&width, 4)) return false;
        spec += std::to_string(width);
        count++;
        continue;
      }
      if (ch == 'l') {
        longs++;
        continue;
      }
      if (ch == 'j' || ch == 'z' || ch == 't' || ch == 'q') {
        longs = 2;
        continue;
      }
      if (ch == 'h' || ch == 'L') {
        if (ch == 'h') spec.push_back('h');
        continue;
      }
      break;
    }
    if (j >= format.size()) {
      out.append(format, k, std::string::npos);
      break;
    }
    const char conv = format[j];
    char buffer[512];
    int n = -1;
    if (std::strchr("diouxXc", conv)) {
      if (longs) {
        int64_t v;
        if (!fetch(&v, 8)) return false;
        spec += "ll";
        spec.push_back(conv);
        n = std::snprintf(buffer, sizeof(buffer), spec.c_str(), static_cast<long long>(v));
      } else {
        int32_t v;
        if (!fetch(&v, 4)) return false;
        spec.push_back(conv);
        n = std::snprintf(buffer, sizeof(buffer), spec.c_str(), v);
      }
    } else if (std::strchr("fFeEgGaA", conv)) {
      double v;
      if (!fetch(&v, 8)) return false;
      spec.push_back(conv);
      n = std::snprintf(buffer, sizeof(buffer), spec.c_str(), v);
    } else if (conv == 'p') {
      uint64_t v;
      if (!fetch(&v, 8)) return false;
      spec.push_back('p');
      n = std::snprintf(buffer, sizeof(buffer), spec.c_str(), reinterpret_cast<void*>(v));
    } else if (conv == 's') {
      uint64_t v;
      if (!fetch(&v, 8)) return false;
      std::string s;
      if (v == 0)
        s = "(null)";
      else if (!read_string(c, v, lane, s))
        return false;
      spec.push_back('s');
      const int need = std::snprintf(nullptr, 0, spec.c_str(), s.c_str());
      if (need >= 0) {
        std::string t(static_cast<size_t>(need) + 1, '\0');
        std::snprintf(t.data(), t.size(), spec.c_str(), s.c_str());
        t.pop_back();
        out += t;
      }
      count++;
      k = j + 1;
      continue;
    } else {
      out.append(format, k, j + 1 - k);
      k = j + 1;
      continue;
    }
    if (n > 0)
      out.append(buffer,
                 static_cast<size_t>(n) < sizeof(buffer) ? static_cast<size_t>(n) : sizeof(buffer) - 1);
    count++;
    k = j + 1;
  }
  return true;
}

const Inst* device_vprintf(Ctx* c, const Inst* i) {
  std::string text;
  for (uint32_t m = c->mask; m; m &= m - 1) {
    const uint32_t l = static_cast<uint32_t>(__builtin_ctz(m));
    std::string format;
    int count = -1;
    const uint64_t f = arg64(c, 0, l);
    if (f != 0) {
      if (!read_string(c, f, l, format))
        return raise_fault(c, i, Fault::illegal_address, f, l, "printf format");
      if (!format_text(c, l, format, arg64(c, 2, l), text, count))
        return raise_fault(c, i, Fault::illegal_address, arg64(c, 2, l), l, "printf argument");
    }
    word(c, 4)[l] = static_cast<uint32_t>(count);
  }
  print_text(c, text.data(), text.size());
  return i + 1;
}

// __assertfail(message, file, line, function, char size)
const Inst* device_assertfail(Ctx* c, const Inst* i) {
  std::string text;
  uint32_t first = 32;
  for (uint32_t m = c->mask; m; m &= m - 1) {
    const uint32_t l = static_cast<uint32_t>(__builtin_ctz(m));
    if (first == 32) first = l;
    std::string message, file, function;
    read_string(c, arg64(c, 0, l), l, message);
    read_string(c, arg64(c, 2, l), l, file);
    read_string(c, arg64(c, 5, l), l, function);
    Dim3 b, t;
    thread_of(c, l, b, t);
    char where[160];
    std::snprintf(where, sizeof(where), ": block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `", b.x, b.y, b.z,
                  t.x, t.y, t.z);
    text += file + ":" + std::to_string(word(c, 4)[l]) + ": " + function + where + message + "` failed.\n";
  }
  print_text(c, text.data(), text.size());
  return raise_fault(c, i, Fault::assert_failed, 0, first, nullptr);
}

const Inst* device_malloc(Ctx* c, const Inst* i) {
  for (uint32_t m = c->mask; m; m &= m - 1) {
    const uint32_t l = static_cast<uint32_t>(__builtin_ctz(m));
    const uint64_t p = heap_allocate(arg64(c, 0, l));
    result64(c, 2, l, p);
  }
  return i + 1;
}
const Inst* device_free(Ctx* c, const Inst* i) {
  for (uint32_t m = c->mask; m; m &= m - 1) heap_free(arg64(c, 0, static_cast<uint32_t>(__builtin_ctz(m))));
  return i + 1;
}

}  // namespace

Fn find_builtin(const std::string& name) {
  if (name == "vprintf") return device_vprintf;
  if (name == "__assertfail") return device_assertfail;
  if (name == "malloc") return device_malloc;
  if (name == "free") return device_free;
  return nullptr;
}

}  // namespace simgpu::exec
