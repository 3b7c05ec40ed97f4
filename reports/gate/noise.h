// SPDX-License-Identifier: Apache-2.0
// How much times scatter where nothing changed: what several runs of one program on one machine say
// of each time. Schema: reports/schema/assay.noise-1.schema.json.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "reports/record/record.h"

namespace assay {

// A scatter is the largest of the runs' medians over the least, minus 1. Another run of the same
// program lies beyond those runs in 2 of n + 1 cases, if they differ by chance alone.
struct Noise {
  int64_t runs = 0;
  std::map<std::string, std::string> models = {};  // "NVIDIA H200 with 132 units", by device
  std::map<std::string, double> times = {};        // [1] by time_key()
  std::map<std::string, double> rates = {};        // [1] of ceilings, by rate_key()
};

// A problem is the same under another seed.
std::string time_key(const Case& which, const std::string& device, Cache cache);
std::string rate_key(const std::string& device, const std::string& name);

// Throws Error (usage) unless there are two runs or more, all complete, of one commit without local
// changes and on one machine, which timed the same problems.
Noise noise_of(std::span<const Record> runs);

// JSON of the schema assay.noise/1, and back. read_noise() throws Error (usage), which names the
// source and the field.
std::string noise_text(const Noise& noise);
Noise read_noise(std::string_view text, std::string_view source);

}  // namespace assay
