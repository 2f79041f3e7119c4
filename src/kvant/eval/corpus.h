// Texts by name, or any file.
//
//   jargon           the Jargon File 4.4.7, public domain, from Debian's package jargon-text
//   python-stdlib    a fixed list of modules from Debian's package libpython3.11-stdlib, one after another: code
//   wikitext-2-test  WikiText-2's raw test split, the file wiki.test.raw in the folder that KVANT_TEXTS names
#pragma once

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

// The bytes of a known text or of a file (a path to a file named like a known text needs "./"); files that end in .gz
// are unpacked. Texts are at most 1 GiB and must be UTF-8 without NUL: otherwise it is probably not a text.
Result<std::string> LoadText(const std::string& name_or_path, const CorpusPlaces& places);

}  // namespace kvant
