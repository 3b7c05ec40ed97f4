// SPDX-License-Identifier: Apache-2.0
// study.json and back: schema assay.study/1, reports/schema/assay.study-1.schema.json.
#pragma once

#include "reports/record/record.h"
#include "study/findings.h"

namespace assay {

// Who made a study, and when.
struct StudyOrigin {
  std::string started;  // ISO 8601, UTC
  double seconds = 0;   // [s] wall time
  std::vector<std::string> command;
  ToolRecord tool;
  MachineRecord machine;
  std::optional<Conditions> conditions = {};  // if something was timed
};

struct StudyRecord {
  StudyOrigin origin;
  study::Study study;
};

// With all findings. What is absent is left out.
Json to_json(const StudyRecord& record);
Json to_json(const study::Cell& cell);
Json to_json(const study::Time& time);
Json to_json(const study::SiteShare& share);
Json to_json(const study::Distances& distances);
std::string study_text(const StudyRecord& record);
// The study alone; its findings follow from it. Throws Error (usage) that names the field.
StudyRecord parse_study(std::string_view text, std::string_view source);
StudyRecord study_from_json(const Json& json, std::string_view source);

}  // namespace assay
