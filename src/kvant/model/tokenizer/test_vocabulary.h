// Vocabularies for tests and benchmarks.
#pragma once

#include <string>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant::testing {

Result<std::string> ReadFile(const std::string& path);

// From a Hugging Face tokenizer.json (byte-level BPE); `pre` is given because the file spells it out as regexes.
Result<TokenizerData> VocabularyFromJson(const std::string& path, const std::string& pre);

// From the metadata of a GGUF file.
Result<TokenizerData> VocabularyFromGguf(const std::string& path);

// Printable ASCII, newline and every other byte as tokens 0..255 in byte order, then the results of `merges`.
TokenizerData ByteVocabulary(const std::vector<std::string>& merges);

}  // namespace kvant::testing
