#include "kvant/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace kvant {

void CheckFailed(const char* file, int line, const char* text) {
  std::fprintf(stderr, "%s:%d: check failed: %s (a bug in kvant: please report it)\n", file, line, text);
  std::abort();
}

}  // namespace kvant
