#include "kvant/results/toml_fields_internal.h"

#include <algorithm>

#include <fmt/format.h>

namespace kvant {
namespace {

constexpr size_t kMaxErrors = 30;
constexpr int64_t kMaxNumber = INT32_MAX;

std::string_view TypeName(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

uint32_t LineOf(const toml::source_region& source) { return std::max<uint32_t>(1, source.begin.line); }

// Names and keys of hostile files are shown, but not at any length and not with their control characters.
std::string Shown(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, 60)) shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (text.size() > 60) shown += "...";
  return shown;
}

}  // namespace

std::string SpecErrors::Join() const {
  std::vector<Entry> sorted = errors_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) { return a.line < b.line; });
  std::string text;
  for (size_t index = 0; index < std::min(sorted.size(), kMaxErrors); ++index) {
    if (index > 0) text += '\n';
    text += fmt::format("{}:{}: {}", file_name_, sorted[index].line, sorted[index].text);
  }
  if (sorted.size() > kMaxErrors) text += fmt::format("\n{}: and {} more", file_name_, sorted.size() - kMaxErrors);
  return text;
}

TomlFields::TomlFields(const toml::table& table, std::string where, SpecErrors* errors)
    : table_(table), where_(std::move(where)), errors_(errors) {}

void TomlFields::RejectUnknown(std::initializer_list<std::string_view> known) {
  for (const auto& [key, node] : table_) {
    if (std::find(known.begin(), known.end(), key.str()) != known.end()) continue;
    errors_->Add(LineOf(key.source()),
                 fmt::format("{}unknown key '{}' (known: {})", where_, Shown(key.str()), fmt::join(known, ", ")));
  }
}

std::optional<std::string> TomlFields::Text(std::string_view key, Need need) {
  const toml::node* node = Node(key);
  if (node == nullptr) {
    Missing(key, need);
    return std::nullopt;
  }
  const toml::value<std::string>* text = node->as_string();
  if (text == nullptr) {
    Fail(key, fmt::format("'{}' is {}; write a text in quotes", key, TypeName(*node)));
    return std::nullopt;
  }
  const std::string& value = text->get();
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(value.begin(), value.end(), control)) {
    Fail(key, fmt::format("'{}' holds a line break or another control character; write it on one line", key));
    return std::nullopt;
  }
  if (value.find_first_not_of(' ') == std::string::npos) {
    Fail(key, fmt::format("'{}' is empty", key));
    return std::nullopt;
  }
  return value;
}

std::optional<uint64_t> TomlFields::Number(std::string_view key, Need need, uint64_t low) {
  const toml::node* node = Node(key);
  if (node == nullptr) {
    Missing(key, need);
    return std::nullopt;
  }
  return NumberOf(*node, fmt::format("'{}'", key), low);
}

std::vector<uint64_t> TomlFields::Numbers(std::string_view key) {
  const toml::node* node = Node(key);
  if (node == nullptr) {
    Missing(key, Need::kRequired);
    return {};
  }
  const toml::array* list = node->as_array();
  if (list == nullptr) {
    Fail(key, fmt::format("'{}' is {}; write a list such as [256, 1024]", key, TypeName(*node)));
    return {};
  }
  if (list->empty()) Fail(key, fmt::format("'{}' is empty; write at least one number", key));
  std::vector<uint64_t> numbers;
  for (const toml::node& element : *list) {
    const std::optional<uint64_t> number = NumberOf(element, fmt::format("an element of '{}'", key), 1);
    if (!number) continue;
    if (std::find(numbers.begin(), numbers.end(), *number) != numbers.end()) {
      errors_->Add(LineOf(element.source()), fmt::format("{}'{}' holds {} twice; drop one", where_, key, *number));
    } else {
      numbers.push_back(*number);
    }
  }
  return numbers;
}

std::vector<const toml::table*> TomlFields::Tables(std::string_view key, Need need) {
  const toml::node* node = Node(key);
  if (node == nullptr) {
    Missing(key, need);
    return {};
  }
  const toml::array* list = node->as_array();
  if (list == nullptr || list->empty()) {
    Fail(key, fmt::format("'{}' is {}; write [[{}]] before each one", key,
                          list == nullptr ? TypeName(*node) : "an empty list", key));
    return {};
  }
  std::vector<const toml::table*> tables;
  for (const toml::node& element : *list) {
    if (const toml::table* table = element.as_table()) {
      tables.push_back(table);
    } else {
      errors_->Add(LineOf(element.source()),
                   fmt::format("{}an element of '{}' is {}; it must be a table", where_, key, TypeName(element)));
    }
  }
  return tables;
}

const toml::table* TomlFields::Table(std::string_view key) {
  const toml::node* node = Node(key);
  if (node == nullptr) return nullptr;
  const toml::table* table = node->as_table();
  if (table == nullptr) Fail(key, fmt::format("'{}' is {}; write a table [{}]", key, TypeName(*node), key));
  return table;
}

const toml::node* TomlFields::Node(std::string_view key) const { return table_.get(key); }

uint32_t TomlFields::Line(std::string_view key) const {
  const toml::node* node = Node(key);
  return LineOf(node == nullptr ? table_.source() : node->source());
}

uint32_t TomlFields::Column(std::string_view key) const {
  const toml::node* node = Node(key);
  return node == nullptr ? 1 : std::max<uint32_t>(1, node->source().begin.column);
}

void TomlFields::Fail(std::string_view key, std::string_view text) {
  errors_->Add(Line(key), fmt::format("{}{}", where_, text));
}

std::optional<uint64_t> TomlFields::NumberOf(const toml::node& node, std::string_view what, uint64_t low) {
  const toml::value<int64_t>* number = node.as_integer();
  if (number == nullptr) {
    errors_->Add(LineOf(node.source()), fmt::format("{}{} is {}; write a whole number", where_, what, TypeName(node)));
    return std::nullopt;
  }
  const int64_t value = number->get();
  if (value < static_cast<int64_t>(low) || value > kMaxNumber) {
    errors_->Add(LineOf(node.source()),
                 fmt::format("{}{} is {}; it must be from {} to {}", where_, what, value, low, kMaxNumber));
    return std::nullopt;
  }
  return static_cast<uint64_t>(value);
}

void TomlFields::Missing(std::string_view key, Need need) {
  if (need == Need::kRequired) Fail(key, fmt::format("missing key '{}'", key));
}

}  // namespace kvant
