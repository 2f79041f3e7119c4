#include "environment.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace kvant {
namespace {
std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Where HOME is unset (services, containers), the account's folder, as Python's Path.home() in tools/fetch_model has
// it.
std::string Home() {
  std::string home = Variable("HOME");
  if (!home.empty()) return home;
  const passwd* account = getpwuid(getuid());
  return account == nullptr ? "" : account->pw_dir;
}
}  // namespace

Environment ReadEnvironment() {
  Environment environment;
  environment.cache_folder = Variable("KVANT_CACHE");
  if (environment.cache_folder.empty()) environment.cache_folder = Home() + "/.cache/kvant";
  environment.models_folder = environment.cache_folder + "/models";
  environment.texts = {Variable("KVANT_TEXTS"), environment.cache_folder + "/texts"};
  environment.target = Variable("KVANT_TARGET");
  return environment;
}

}  // namespace kvant
