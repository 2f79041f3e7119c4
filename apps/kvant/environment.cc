#include "environment.h"

#include <cstdlib>

namespace kvant {
namespace {
std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}
}  // namespace

Environment ReadEnvironment() {
  Environment environment;
  environment.cache_folder = Variable("KVANT_CACHE");
  if (environment.cache_folder.empty()) environment.cache_folder = Variable("HOME") + "/.cache/kvant";
  environment.models_folder = environment.cache_folder + "/models";
  environment.texts = {Variable("KVANT_TEXTS"), environment.cache_folder + "/texts"};
  environment.target = Variable("KVANT_TARGET");
  return environment;
}

}  // namespace kvant
