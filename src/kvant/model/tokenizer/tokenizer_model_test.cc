// SmolLM2-135M-Instruct's vocabulary on WikiText-2: KVANT_MODEL_SMOLLM2 names the GGUF file, KVANT_TEXTS the folder
// with wiki.test.raw. Expected ids: llama.cpp and Hugging Face `tokenizers`, which agree.
#include <cstdlib>
#include <span>

#include <gtest/gtest.h>

#include "kvant/base/sha256.h"
#include "kvant/model/tokenizer/test_vocabulary.h"
#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {
namespace {

TEST(SmolLm2, IdsOfWikiText2) {
  const char* model = std::getenv("KVANT_MODEL_SMOLLM2");
  const char* texts = std::getenv("KVANT_TEXTS");
  if (model == nullptr) GTEST_SKIP() << "KVANT_MODEL_SMOLLM2 is not set: no model file";
  if (texts == nullptr) GTEST_SKIP() << "KVANT_TEXTS is not set: no wiki.test.raw";
  const auto data = testing::VocabularyFromGguf(model);
  ASSERT_TRUE(data) << data.error().message;
  const auto tokenizer = Tokenizer::Create(*data);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->vocab_size(), 49152);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_FALSE(tokenizer->add_bos());

  const auto text = testing::ReadFile(std::string(texts) + "/wiki.test.raw");
  ASSERT_TRUE(text) << text.error().message;
  for (const bool parse_special : {false, true}) {
    for (const bool word_cache : {false, true}) {
      const auto ids = tokenizer->Encode(*text, {.parse_special = parse_special, .word_cache = word_cache});
      ASSERT_EQ(ids.size(), 304830u);
      EXPECT_EQ(std::vector<int32_t>(ids.begin(), ids.begin() + 8),
                (std::vector<int32_t>{446, 6356, 389, 9226, 352, 446, 216, 2738}));
      EXPECT_EQ(Sha256Hex(std::as_bytes(std::span(ids))),
                "f1fc968436f59cc521729ce7380120ad247797684b8eb530062c486b00d9bc13");
      EXPECT_EQ(tokenizer->Decode(ids).value(), *text);
    }
  }
}

}  // namespace
}  // namespace kvant
