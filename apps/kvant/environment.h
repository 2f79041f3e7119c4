// What the program takes from its environment, read once.
#pragma once

#include <string>

#include "kvant/eval/corpus.h"

namespace kvant {

struct Environment {
  std::string cache_folder;   // KVANT_CACHE, else ~/.cache/kvant
  std::string models_folder;  // cache_folder/models
  CorpusPlaces texts;         // KVANT_TEXTS, cache_folder/texts
  std::string target;         // KVANT_TARGET: SIMD target to force
};

Environment ReadEnvironment();

}  // namespace kvant
