// kvant codecs: what formats exist and what they take.
#include <cstdio>

#include <nlohmann/json.hpp>

#include "kvant/codec/codec.h"
#include "messages.h"
#include "verbs.h"

namespace kvant {
namespace {

struct CodecsArguments {
  size_t head_dim = 64;
  size_t kv_heads = 3;
  bool json = false;
};

Result<int> ListCodecs(const CodecsArguments& arguments) {
  if (!arguments.json) {
    std::puts(fmt::format("Stored bits per value, metadata and padding included, for {} KV heads of {} values.",
                          arguments.kv_heads, arguments.head_dim)
                  .c_str());
    std::puts("Before a codec: had+ (Hadamard rotation over the head), had64+ (over blocks of 64).\n");
  }
  for (const CodecSpec& spec : AllCodecs()) {
    const auto supported = Supports(spec, arguments.kv_heads, arguments.head_dim);
    const size_t unit = supported ? UnitElems(spec, arguments.kv_heads, arguments.head_dim) : 0;
    const double bits = supported ? 8.0 * static_cast<double>(UnitBytes(spec, unit)) / static_cast<double>(unit) : 0;
    if (arguments.json) {
      nlohmann::ordered_json line;
      line["codec"] = ToText(spec);
      line["bits_per_value"] = supported ? nlohmann::ordered_json(bits) : nlohmann::ordered_json(nullptr);
      line["about"] = Describe(spec.family);
      if (!supported) line["refused"] = supported.error().message;
      std::puts(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    } else {
      std::puts(fmt::format("{:<20} {:>8}  {}", ToText(spec), supported ? fmt::format("{:.4f}", bits) : "-",
                            supported ? std::string(Describe(spec.family)) : supported.error().message)
                    .c_str());
    }
  }
  return kExitOk;
}

}  // namespace

void AddCodecs(CLI::App& app, const Environment&, Action& run) {
  auto arguments = std::make_shared<CodecsArguments>();
  CLI::App* verb = app.add_subcommand("codecs", "the formats that exist, with their stored bits per value");
  verb->add_option("--head-dim", arguments->head_dim, "values of one head")
      ->check(WholeNumber(1, 1024))
      ->capture_default_str();
  verb->add_option("--kv-heads", arguments->kv_heads, "KV heads")->check(WholeNumber(1, 1024))->capture_default_str();
  verb->add_flag("--json", arguments->json, "one JSON object a line");
  verb->callback([arguments, &run] { run = [arguments] { return ListCodecs(*arguments); }; });
}

}  // namespace kvant
