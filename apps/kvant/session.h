// What most verbs begin with: a model, its tokenizer, a text, worker threads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "environment.h"
#include "kvant/base/parallel.h"
#include "kvant/base/result.h"
#include "kvant/model/transformer.h"

namespace kvant {

struct ModelArguments {
  std::string model;
  size_t threads = 0;  // 0: as many as this process may use
};

// -m/--model (with `fallback` as default, if not empty) and --threads.
void AddModelArguments(CLI::App& verb, ModelArguments& arguments, const std::string& fallback = "");
void AddThreads(CLI::App& verb, size_t& threads);
// The checked number of threads.
size_t ThreadsOf(size_t threads);

struct LoadedModel {
  std::string path;
  Model model;
  Tokenizer tokenizer;
  std::optional<int32_t> bos;  // set where the vocabulary asks for one before a text
};

Result<LoadedModel> LoadModel(const ModelArguments& arguments, const Environment& environment);

}  // namespace kvant
