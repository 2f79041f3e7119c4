// Bytes of text per second on one core. KVANT_MODEL_SMOLLM2=model.gguf KVANT_TEXTS=folder tokenizer_bench
#include <algorithm>
#include <cstdlib>
#include <string>

#include <benchmark/benchmark.h>

#include "kvant/model/tokenizer/test_vocabulary.h"
#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {
namespace {

struct Setup {
  Tokenizer tokenizer;
  std::string text;
};

Result<Setup> Load() {
  const char* model = std::getenv("KVANT_MODEL_SMOLLM2");
  const char* texts = std::getenv("KVANT_TEXTS");
  if (model == nullptr || texts == nullptr) return Fail("set KVANT_MODEL_SMOLLM2 and KVANT_TEXTS");
  KVANT_ASSIGN_OR_RETURN(const TokenizerData data, testing::VocabularyFromGguf(model));
  KVANT_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Create(data));
  KVANT_ASSIGN_OR_RETURN(std::string text, testing::ReadFile(std::string(texts) + "/wiki.test.raw"));
  return Setup{std::move(tokenizer), std::move(text)};
}

// Inputs vary: a different part of the text each time, of `state.range(0)` bytes.
void Encode(benchmark::State& state, EncodeOptions options) {
  const auto setup = Load();
  if (!setup) return state.SkipWithError(setup.error().message.c_str());
  const auto size = std::min<size_t>(state.range(0), setup->text.size());
  size_t begin = 0;
  int64_t tokens = 0;
  for (auto _ : state) {
    if (begin + size > setup->text.size()) begin = 0;
    const auto ids = setup->tokenizer.Encode(std::string_view(setup->text).substr(begin, size), options);
    tokens += static_cast<int64_t>(ids.size());
    begin += size;
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(size));
  state.SetItemsProcessed(tokens);
}
BENCHMARK_CAPTURE(Encode, words_cached, EncodeOptions{})->Arg(1 << 10)->Arg(1 << 16)->Arg(1 << 20);
BENCHMARK_CAPTURE(Encode, plain, EncodeOptions{.word_cache = false})->Arg(1 << 20);

void Decode(benchmark::State& state) {
  const auto setup = Load();
  if (!setup) return state.SkipWithError(setup.error().message.c_str());
  const auto ids = setup->tokenizer.Encode(setup->text);
  for (auto _ : state) benchmark::DoNotOptimize(setup->tokenizer.Decode(ids));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(setup->text.size()));
}
BENCHMARK(Decode);

}  // namespace
}  // namespace kvant
