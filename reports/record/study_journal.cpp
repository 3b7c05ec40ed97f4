// SPDX-License-Identifier: Apache-2.0
#include "reports/record/study_journal.h"

#include <array>

#include "kernels/core/json.h"

namespace assay {
namespace {

constexpr std::array kLists{"times", "sites", "distances", "cells"};

void append(Json& study, const Json& line, std::string_view source) {
  const JsonFields fields(line, source);
  if (!line.is_object())
    throw usage_error("{}: a line is a {}, expected an object", source, line.type_name());
  study["seconds"] = fields.number("at");
  const auto move = [&](const char* key, Json& to) {
    if (!fields.has(key)) return;
    fields.objects(key);
    for (const Json& member : line[key]) to.push_back(member);
  };
  move("devices", study["machine"]["devices"]);
  for (const char* list : kLists) move(list, study[list]);
}

}  // namespace

std::string study_head(const StudyRecord& begun) {
  return one_line(to_json(begun)) + "\n";
}

std::string study_line(double at, const char* list, Json members) {
  return one_line(Json{{"at", at}, {list, std::move(members)}}) + "\n";
}

StudyRecord read_study_journal(std::string_view text, std::string_view source) {
  Json study;
  size_t begin = 0;
  int64_t number = 0;
  for (size_t end = 0; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
    const std::string where = fmt::format("{}: line {}", source, ++number);
    Json line = parse_json(text.substr(begin, end - begin), where);
    if (number > 1) {
      append(study, line, where);
    } else {
      study_from_json(line, where);  // throws for what is none
      study = std::move(line);
    }
  }
  if (number == 0) throw usage_error("{}: the study ended before it began", source);
  return study_from_json(study, source);
}

}  // namespace assay
