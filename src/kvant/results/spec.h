// An experiment as its TOML file states it: question, model, text, where to measure, arms, and bars written before the
// run. Policy texts and text names stay text here; the layers that know them parse them with the places kept below.
//
//   name = "keys-vs-values"                 # letters, digits, '-', '_', '.'; names the output files
//   question = "Which hurts more, keys or values?"
//   model = "smollm2-135m"                  # a known name or a path
//   text = "jargon"                         # a known name or a path
//   contexts = [256, 1024]                  # tokens fed before each span
//   spans = [{end = 2304, length = 256}]    # or spans = {ends = [2304, 4608], length = 256}
//   reference = "k=f32 v=f32"               # optional, this is the default
//   chunk = 512                             # optional: tokens of one prefill chunk
//   seed = 1                                # optional: of the bootstrap; changes no cell
//   [[arm]]
//   name = "k4"
//   policy = "k=q4_0 v=f32"
//   [[bar]]                                 # any number; grammar in bar.h
//   name = "keys hurt more"
//   claim = "mean kl(k4) > mean kl(v4) at 1024"
//   [floor]                                 # optional: the reference again with another chunk
//   second_chunk = 64
//   [smoke]                                 # optional: the tiny cell of --smoke
//   end = 320
//   length = 64
//   context = 256
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/results/bar.h"

namespace kvant {

// Where a text begins in the file, from 1, for errors that a higher layer finds in it.
struct TextPlace {
  uint32_t line = 0;
  uint32_t column = 0;
};

struct SpanSpec {
  uint64_t end = 0;     // tokens of the text
  uint64_t length = 0;  // tokens scored: [end - length, end)

  auto operator<=>(const SpanSpec&) const = default;
};

struct ArmSpec {
  std::string name;
  std::string policy;
  TextPlace policy_place;
};

struct BarSpec {
  std::string name;
  std::string claim_text;
  Claim claim;
};

struct SmokeSpec {
  SpanSpec span;
  uint64_t context = 0;
};

struct ExperimentSpec {
  std::string file_name;
  std::string name;
  std::string question;
  std::string model;
  std::string text;
  std::string reference = "k=f32 v=f32";
  TextPlace reference_place;  // line 0 when the default is used
  uint64_t chunk = 512;
  uint64_t seed = 1;
  std::vector<uint64_t> contexts;  // as written; distinct
  std::vector<SpanSpec> spans;     // as written; distinct
  std::vector<ArmSpec> arms;       // distinct names, distinct policy texts
  std::vector<BarSpec> bars;
  std::optional<uint64_t> floor_second_chunk;
  std::optional<SmokeSpec> smoke;
};

// Checks everything that can be known without the model and the text: syntax, unknown and missing keys, types, ranges,
// duplicates, spans that begin before the text does, and bars that speak of what is not measured. All errors of a file
// come together, one a line, as "FILE:LINE: what is wrong and how to put it right", in the order of the file. Never
// throws. `file_name` is only used in messages. At most 1 MiB of text.
Result<ExperimentSpec> ParseExperiment(std::string_view toml_text, std::string_view file_name);

// "keys-vs-values.toml:14:11", for an error `offset` characters into the text at `place`.
std::string PlaceText(const ExperimentSpec& spec, const TextPlace& place, size_t offset = 0);

// Every span fits a text of `text_tokens` tokens; names the first that does not.
Status CheckSpansFit(const ExperimentSpec& spec, uint64_t text_tokens);

// What else changes numbers, known only to the runner.
struct SpecInputs {
  std::string model_hash;
  std::string text_hash;
};

// SHA-256, as hex, of a canonical form of everything that changes a number: inputs, reference, chunk, policies, spans
// and contexts. Names, question, bars, seed, comments, layout and the order of lists do not change it.
std::string SpecHash(const ExperimentSpec& spec, const SpecInputs& inputs);

// One tiny cell per arm: the span of [smoke], or 64 tokens after a context of 64 at the start of the text. Has no bars
// and no floor, and another hash than the full experiment.
ExperimentSpec SmokeVariant(const ExperimentSpec& spec);

}  // namespace kvant
