// SPDX-License-Identifier: Apache-2.0
// Reads JSON strictly. What is wrong with a document is an Error that names its source and, if it
// has been parsed, the field.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/printable.h"

namespace assay {

// Parses all JSON that comes from outside. Throws Error (usage) that starts with `source` if the
// text is not JSON, holds a number that no double holds, nests deeper than 32, or names a field
// twice or more than 1000 fields in one object.
nlohmann::ordered_json parse_json(std::string_view text, std::string_view source);

class JsonFields {
 public:
  // Errors show `source` and `where` before the field's name: "run.json: cases[3]". The JSON must
  // outlive this object.
  JsonFields(const nlohmann::ordered_json& json, std::string_view source, std::string where = "")
      : json_(&json), source_(source), where_(std::move(where)) {}

  bool has(std::string_view key) const;         // present and not null
  bool has_number(std::string_view key) const;  // present or in nonfinite_fields

  std::string text(std::string_view key) const;
  bool flag(std::string_view key) const;
  double number(std::string_view key) const;  // infinite or NaN if nonfinite_fields says so
  template <class Integer>
  Integer integer(std::string_view key) const;
  template <class Integer = int64_t>
  Integer count(std::string_view key) const;  // an integer that is not negative
  std::vector<double> numbers(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  JsonFields object(std::string_view key) const;
  std::vector<JsonFields> objects(std::string_view key) const;

  // The enumerator among `values` whose name is the text of this field.
  template <class Enums>
  typename Enums::value_type one_of(std::string_view key, const Enums& values) const {
    const std::string name = text(key);
    for (auto value : values) {
      if (name_of(value) == name) return value;
    }
    throw error(key, "is '{}', which this program does not know", excerpt(name));
  }

  template <class... Args>
  Error error(std::string_view key, FormatOf<Args...> format, const Args&... args) const {
    const std::string what = fmt::vformat(format.text, fmt::make_format_args(args...));
    return Error(Error::Kind::kUsage, fmt::format("{}: {} {}", excerpt(source_), path_of(key), what),
                 format.where);
  }

 private:
  using Json = nlohmann::ordered_json;

  std::string path_of(std::string_view key) const;
  const Json& at(std::string_view key) const;
  const Json& array(std::string_view key) const;

  const Json* json_;
  std::string_view source_;
  std::string where_;
};

// Sets a field. A number that is not finite is listed in nonfinite_fields instead.
void put_number(nlohmann::ordered_json& object, const char* key, double value);
inline void put_number(nlohmann::ordered_json& object, const char* key, const std::optional<double>& value) {
  if (value) put_number(object, key, *value);
}

// Sets an array of numbers. Throws Error (internal) unless all are finite.
template <class Numbers>
void put_numbers(nlohmann::ordered_json& object, const char* key, const Numbers& values) {
  object[key] = nlohmann::ordered_json::array();
  for (double value : values) {
    if (!(value - value == 0)) throw Error("{} holds {}", key, value);
    object[key].push_back(value);
  }
}

}  // namespace assay
