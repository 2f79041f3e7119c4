// Texts by name, or any file.
//
//   jargon           the Jargon File 4.4.7, public domain, from Debian's package jargon-text
//   python-stdlib    a fixed list of modules from Debian's package libpython3.11-stdlib, one after another: code
//   wikitext-2-test  WikiText-2's raw test split, the file wiki.test.raw in the folder that KVANT_TEXTS names
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/result.h"

namespace kvant {

// Folders that the caller knows from its environment; empty where it has none.
struct CorpusPlaces {
  std::string texts;  // KVANT_TEXTS: searched first
  std::string cache;  // ~/.cache/kvant/texts
};

inline constexpr std::string_view kDefaultText = "jargon";

struct KnownText {
  std::string_view name;
  std::string_view about;
  std::string_view how_to_get;  // what to do when it is not there
};

const std::vector<KnownText>& KnownTexts();

inline constexpr size_t kMaxTextBytes = size_t{1} << 30;

// The bytes of a known text or of a regular file (a path to a file named like a known text needs "./"); gzip data is
// unpacked. Texts have at most max_bytes bytes, unpacked, and must be UTF-8 without NUL: otherwise it is probably not a
// text.
Result<std::string> LoadText(const std::string& name_or_path, const CorpusPlaces& places,
                             size_t max_bytes = kMaxTextBytes);

}  // namespace kvant
