// Text from a file, made fit for one line of a message.
#pragma once

#include <string>
#include <string_view>

namespace kvant {

// At most 80 bytes; quotes, backslashes and everything outside printable ASCII become \xNN.
std::string Printable(std::string_view text);

}  // namespace kvant
