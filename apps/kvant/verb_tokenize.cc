// kvant tokenize: the token ids of a text.
#include <cstdint>
#include <cstdio>

#include "messages.h"
#include "session.h"
#include "verbs.h"

namespace kvant {
namespace {

struct TokenizeArguments {
  ModelArguments model;
  std::string text;
  bool u32 = false;
  bool special = false;
};

Result<int> Tokenize(const TokenizeArguments& arguments, const Environment& environment) {
  KVANT_ASSIGN_OR_RETURN(LoadedModel loaded, LoadModel(arguments.model, environment));
  KVANT_ASSIGN_OR_RETURN(const std::string text, LoadText(arguments.text, environment.texts));
  const std::vector<int32_t> ids = loaded.tokenizer.Encode(text, {.parse_special = arguments.special});
  const size_t uncovered = loaded.tokenizer.UncoveredBytes(text);
  if (uncovered > 0) {
    PrintMessage(
        fmt::format("warning: {} bytes of the text have no token in this vocabulary and are left out", uncovered));
  }
  std::string out;
  for (const int32_t id : ids) {
    if (arguments.u32) {
      const auto bits = static_cast<uint32_t>(id);
      for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>((bits >> shift) & 0xff));
    } else {
      out += fmt::format("{}\n", id);
    }
  }
  std::fwrite(out.data(), 1, out.size(), stdout);
  return kExitOk;
}

}  // namespace

void AddTokenize(CLI::App& app, const Environment& environment, Action& run) {
  auto arguments = std::make_shared<TokenizeArguments>();
  CLI::App* verb = app.add_subcommand("tokenize", "the token ids of a text, one a line");
  AddModelArguments(*verb, arguments->model);
  verb->add_option("-f,--text", arguments->text, "a text file or a known name (kvant doctor)")->required();
  verb->add_flag("--u32", arguments->u32, "raw little-endian 32-bit ids");
  verb->add_flag("--special", arguments->special, "special tokens written in the text become their ids");
  verb->callback(
      [arguments, &environment, &run] { run = [=, &environment] { return Tokenize(*arguments, environment); }; });
}

}  // namespace kvant
