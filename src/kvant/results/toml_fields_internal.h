// Typed reading of one TOML table that collects every error with its line. For the .cc files of results/ only: it shows
// toml++.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

#include "kvant/base/result.h"

namespace kvant {

class SpecErrors {
 public:
  explicit SpecErrors(std::string_view file_name) : file_name_(file_name) {}

  void Add(uint32_t line, std::string text) { errors_.push_back({line, std::move(text)}); }
  bool empty() const { return errors_.empty(); }
  // One line per error in the order of the file; beyond 30 only their number.
  std::string Join() const;

 private:
  struct Entry {
    uint32_t line;
    std::string text;
  };
  std::string file_name_;
  std::vector<Entry> errors_;
};

enum class Need { kRequired, kOptional };

class TomlFields {
 public:
  // `where` is put before every message, such as "arm 'k4': " or "". Both references outlive this object.
  TomlFields(const toml::table& table, std::string where, SpecErrors* errors);

  // Reports the keys of the table that are not in `known`.
  void RejectUnknown(std::initializer_list<std::string_view> known);

  // Text without control characters and not only of spaces.
  std::optional<std::string> Text(std::string_view key, Need need);
  // A whole number in [low, 2^31 - 1].
  std::optional<uint64_t> Number(std::string_view key, Need need, uint64_t low = 1);
  // A list, not empty, of distinct whole numbers in [1, 2^31 - 1]. Empty when something was wrong.
  std::vector<uint64_t> Numbers(std::string_view key);
  // Tables of a list such as [[arm]]; what is no table is reported. Null `list` when absent.
  std::vector<const toml::table*> Tables(std::string_view key, Need need);
  // A [table]; null when absent or something else (reported).
  const toml::table* Table(std::string_view key);
  const toml::node* Node(std::string_view key) const;

  // Line of the key's value, or of the table when the key is absent.
  uint32_t Line(std::string_view key) const;
  uint32_t Column(std::string_view key) const;

  void Fail(std::string_view key, std::string_view text);

 private:
  std::optional<uint64_t> NumberOf(const toml::node& node, std::string_view what, uint64_t low);
  void Missing(std::string_view key, Need need);

  const toml::table& table_;
  std::string where_;
  SpecErrors* errors_;
};

}  // namespace kvant
