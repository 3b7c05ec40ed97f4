// SPDX-License-Identifier: Apache-2.0
#include "bench/core/measure.h"
#include "properties/core/registry.h"
#include "reports/program/program.h"

int main(int argc, char** argv) {
  return assay::run_program(argc, argv, assay::registry(), assay::sweeps());
}
