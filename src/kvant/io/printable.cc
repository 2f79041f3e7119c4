#include "kvant/io/printable.h"

#include <fmt/format.h>

namespace kvant {

std::string Printable(std::string_view text) {
  constexpr size_t kLongest = 80;
  std::string out;
  for (const char c : text.substr(0, kLongest)) {
    if (c >= ' ' && c <= '~' && c != '"' && c != '\\') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (text.size() > kLongest) out += fmt::format("... ({} bytes)", text.size());
  return out;
}

}  // namespace kvant
