// Errors of the world: a wrong file, argument or spec. Functions that can meet one return Result<T>; the message
// is one sentence that names the thing, the value and the fix. Errors of ours are KVANT_CHECK (base/check.h).
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

namespace kvant {

struct Error {
  std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

// Fail("{}: no such file", path) converts to any Result<T>.
template <typename... Args>
tl::unexpected<Error> Fail(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{fmt::format(format, std::forward<Args>(args)...)});
}

}  // namespace kvant

#define KVANT_CONCAT_INNER(a, b) a##b
#define KVANT_CONCAT(a, b) KVANT_CONCAT_INNER(a, b)

// KVANT_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
#define KVANT_ASSIGN_OR_RETURN(lhs, expr) KVANT_ASSIGN_OR_RETURN_IMPL(KVANT_CONCAT(kvant_result_, __LINE__), lhs, expr)
#define KVANT_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)               \
  auto tmp = (expr);                                              \
  if (!tmp) return ::tl::unexpected<::kvant::Error>(tmp.error()); \
  lhs = std::move(*tmp)

#define KVANT_RETURN_IF_ERROR(expr)                                                              \
  do {                                                                                           \
    auto kvant_status = (expr);                                                                  \
    if (!kvant_status) return ::tl::unexpected<::kvant::Error>(std::move(kvant_status).error()); \
  } while (false)
