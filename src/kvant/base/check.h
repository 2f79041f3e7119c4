// Checks of our own mistakes. They are never reachable from input: input is validated with Result<T> first.
#pragma once

namespace kvant {
// Writes "file:line: check failed: text" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* text);
}  // namespace kvant

#define KVANT_CHECK(cond)                                         \
  do {                                                            \
    if (!(cond)) ::kvant::CheckFailed(__FILE__, __LINE__, #cond); \
  } while (false)

#ifdef NDEBUG
#define KVANT_DCHECK(cond) \
  do {                     \
  } while (false)
#else
#define KVANT_DCHECK(cond) KVANT_CHECK(cond)
#endif
