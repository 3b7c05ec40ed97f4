// SPDX-License-Identifier: Apache-2.0
// The journal of a study: lines of JSON that are appended while it runs, so that what ends the
// program costs no more than one draw. The first line is a study.json without cells. Each other one
// has members to append to its lists, "devices" to those of its machine:
//   {"at": 12.5, "cells": [...]}        `at` is in seconds since the study began
#pragma once

#include "reports/record/study_json.h"

namespace assay {

std::string study_head(const StudyRecord& begun);
std::string study_line(double at, const char* list, Json members);

// The study so far, not complete. The last line may be cut short, and is ignored then. Throws Error
// (usage) for what is no journal or is damaged elsewhere.
StudyRecord read_study_journal(std::string_view text, std::string_view source);

}  // namespace assay
