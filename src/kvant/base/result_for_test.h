// What tests ask a Result. Test code only.
#pragma once

#include <string>

#include "kvant/base/result.h"

namespace kvant {

// The message of a failure, "no error" for a success.
template <typename T>
std::string ErrorOf(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

}  // namespace kvant
