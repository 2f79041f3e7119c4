// The vocabulary of a GGUF file. Here and not in tokenizer/, which knows no files.
#pragma once

#include "kvant/base/result.h"
#include "kvant/io/gguf.h"
#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {

// Copies the metadata under tokenizer.ggml.*. Model and tokens are required; an absent `pre` is GPT-2's, which files
// that are older than the key mean; any other absent key leaves its field as TokenizerData has it. Fails with the key
// in the message when a value has the wrong type. Whether the parts fit each other is for Tokenizer::Create to say.
Result<TokenizerData> ReadTokenizerData(const GgufFile& file);

}  // namespace kvant
