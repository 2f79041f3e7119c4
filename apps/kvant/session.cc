#include "session.h"

#include "kvant/experiment/provenance.h"
#include "kvant/model/catalog.h"
#include "messages.h"

namespace kvant {

void AddThreads(CLI::App& verb, size_t& threads) {
  verb.add_option("--threads", threads, "worker threads (default: all that this process may use)")
      ->check(WholeNumber(1, 1024));
}

void AddModelArguments(CLI::App& verb, ModelArguments& arguments, const std::string& fallback) {
  arguments.model = fallback;
  CLI::Option* model = verb.add_option("-m,--model", arguments.model, "a .gguf file or a known name (kvant doctor)");
  if (fallback.empty()) {
    model->required();
  } else {
    model->capture_default_str();
  }
  AddThreads(verb, arguments.threads);
}

size_t ThreadsOf(size_t threads) { return threads == 0 ? AvailableThreads() : threads; }

Result<LoadedModel> LoadModel(const ModelArguments& arguments, const Environment& environment) {
  KVANT_ASSIGN_OR_RETURN(const std::string path, ResolveModel(arguments.model, environment.models_folder));
  KVANT_ASSIGN_OR_RETURN(Model model, Model::Load(path));
  KVANT_ASSIGN_OR_RETURN(Tokenizer tokenizer, model.LoadTokenizer());
  LoadedModel loaded{path, std::move(model), std::move(tokenizer), std::nullopt};
  if (loaded.tokenizer.add_bos()) loaded.bos = loaded.tokenizer.bos();
  return loaded;
}

}  // namespace kvant
