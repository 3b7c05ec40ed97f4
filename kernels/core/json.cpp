// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/json.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>

namespace assay {
namespace {

constexpr const char* kNonfinite = "nonfinite_fields";

// Functions that walk a document call themselves at each level.
constexpr int kDeepest = 32;
// An object of ordered_json takes a time that grows with the square of its fields.
constexpr size_t kMostFields = 1000;

// What the parser tells of a document while it parses it: whether that may go on.
class Limits {
 public:
  explicit Limits(std::string_view source) : source_(source) {}

  bool operator()(int depth, nlohmann::ordered_json::parse_event_t event, nlohmann::ordered_json& parsed) {
    using enum nlohmann::ordered_json::parse_event_t;
    const bool starts = event == object_start || event == array_start;
    if (starts && depth >= kDeepest) throw usage_error("{}: it nests deeper than {}", source_, kDeepest);
    if (event == object_start) fields_.emplace_back();
    if (event == object_end) fields_.pop_back();
    if (event == key) add(parsed.get<std::string>());
    return true;
  }

 private:
  void add(const std::string& field) {
    std::set<std::string>& fields = fields_.back();
    if (!fields.insert(field).second) throw usage_error("{}: it holds '{}' twice", source_, excerpt(field));
    if (fields.size() > kMostFields)
      throw usage_error("{}: an object has more than {} fields", source_, kMostFields);
  }

  std::string_view source_;
  std::vector<std::set<std::string>> fields_;  // of each object that is open
};

// What the library says, without its name for the exception.
std::string_view reason_of(const nlohmann::json::exception& error) {
  const std::string_view what = error.what();
  const size_t name_end = what.find("] ");
  return name_end == std::string_view::npos ? what : what.substr(name_end + 2);
}

}  // namespace

nlohmann::ordered_json parse_json(std::string_view text, std::string_view source) {
  const std::string name = excerpt(source);
  try {
    return nlohmann::ordered_json::parse(text, Limits(name));
  } catch (const nlohmann::json::parse_error& error) {
    throw usage_error("{}: not JSON, or cut short: {}", name, excerpt(reason_of(error)));
  } catch (const nlohmann::json::exception& error) {  // a number out of range
    throw usage_error("{}: {}", name, excerpt(reason_of(error)));
  }
}

std::string JsonFields::path_of(std::string_view key) const {
  return where_.empty() ? std::string(key) : fmt::format("{}.{}", where_, key);
}

const JsonFields::Json& JsonFields::at(std::string_view key) const {
  const auto found = json_->find(std::string(key));
  if (found == json_->end()) throw error(key, "is missing");
  return *found;
}

const JsonFields::Json& JsonFields::array(std::string_view key) const {
  const Json& json = at(key);
  if (!json.is_array()) throw error(key, "is a {}, expected an array", json.type_name());
  return json;
}

bool JsonFields::has(std::string_view key) const {
  const auto found = json_->find(std::string(key));
  return found != json_->end() && !found->is_null();
}

bool JsonFields::has_number(std::string_view key) const {
  return has(key) || (has(kNonfinite) && at(kNonfinite).contains(std::string(key)));
}

std::string JsonFields::text(std::string_view key) const {
  const Json& json = at(key);
  if (!json.is_string()) throw error(key, "is a {}, expected a string", json.type_name());
  return json.get<std::string>();
}

bool JsonFields::flag(std::string_view key) const {
  const Json& json = at(key);
  if (!json.is_boolean()) throw error(key, "is a {}, expected true or false", json.type_name());
  return json.get<bool>();
}

double JsonFields::number(std::string_view key) const {
  if (!has(key) && has_number(key)) {
    const std::string kind = object(kNonfinite).text(key);
    if (kind == "inf") return std::numeric_limits<double>::infinity();
    if (kind == "-inf") return -std::numeric_limits<double>::infinity();
    if (kind == "nan") return std::numeric_limits<double>::quiet_NaN();
    throw error(key, "is '{}' in nonfinite_fields, expected inf, -inf or nan", excerpt(kind));
  }
  const Json& json = at(key);
  if (!json.is_number()) throw error(key, "is a {}, expected a number", json.type_name());
  return json.get<double>();
}

template <class Integer>
Integer JsonFields::integer(std::string_view key) const {
  const Json& json = at(key);
  if (!json.is_number_integer()) throw error(key, "is a {}, expected an integer", json.type_name());
  const bool in_range = json.is_number_unsigned() ? std::in_range<Integer>(json.get<uint64_t>())
                                                  : std::in_range<Integer>(json.get<int64_t>());
  if (!in_range) throw error(key, "is {}, which is out of range", json.dump());
  return json.get<Integer>();
}
template int JsonFields::integer<int>(std::string_view) const;
template int64_t JsonFields::integer<int64_t>(std::string_view) const;
template uint64_t JsonFields::integer<uint64_t>(std::string_view) const;

template <class Integer>
Integer JsonFields::count(std::string_view key) const {
  const auto count = integer<Integer>(key);
  if (count < 0) throw error(key, "is {}, which is negative", count);
  return count;
}
template int JsonFields::count<int>(std::string_view) const;
template int64_t JsonFields::count<int64_t>(std::string_view) const;

std::vector<double> JsonFields::numbers(std::string_view key) const {
  std::vector<double> values;
  for (const Json& item : array(key)) {
    if (!item.is_number()) throw error(key, "holds a {}, expected numbers", item.type_name());
    values.push_back(item.get<double>());
  }
  return values;
}

std::vector<std::string> JsonFields::texts(std::string_view key) const {
  std::vector<std::string> values;
  for (const Json& item : array(key)) {
    if (!item.is_string()) throw error(key, "holds a {}, expected strings", item.type_name());
    values.push_back(item.get<std::string>());
  }
  return values;
}

JsonFields JsonFields::object(std::string_view key) const {
  const Json& json = at(key);
  if (!json.is_object()) throw error(key, "is a {}, expected an object", json.type_name());
  return {json, source_, path_of(key)};
}

std::vector<JsonFields> JsonFields::objects(std::string_view key) const {
  std::vector<JsonFields> items;
  for (const Json& item : array(key)) {
    const std::string where = fmt::format("{}[{}]", path_of(key), items.size());
    if (!item.is_object())
      throw usage_error("{}: {} is a {}, expected an object", excerpt(source_), where, item.type_name());
    items.emplace_back(item, source_, where);
  }
  return items;
}

void put_number(nlohmann::ordered_json& object, const char* key, double value) {
  if (std::isfinite(value)) {
    object[key] = value;
  } else {
    object[kNonfinite][key] = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
}

}  // namespace assay
