// SPDX-License-Identifier: Apache-2.0
// What each site of a recipe does to the outputs: it alone, and all but it.
//
// A rounding is left out of a recipe by its removal. A sum becomes almost exact where its factors
// are as stored and each product is added in f64 (groups of one). What no site names, f32
// arithmetic between sites and the functions, is there in every evaluation as a right path does it:
// it is measured alone, and its square is taken away from that of a sum. Outputs are rounded to
// storage, or not at all (f64).
#pragma once

#include <functional>
#include <vector>

#include "study/study.h"

namespace assay::study {

// At a point of the study, for each contender that has errors there. Appends as it goes on; stops
// where `gives_up` says so.
void measure_sites(const Plan& plan, const Study& study, size_t point, const std::function<bool()>& gives_up,
                   const std::function<void(SiteShare)>& add);

// Distances at the point in the first draw.
std::vector<Distances> measure_distances(const Plan& plan, const Study& study, size_t point, Runner& runner);

}  // namespace assay::study
