// SPDX-License-Identifier: Apache-2.0
#include "reports/program/program.h"

int main(int argc, char** argv) { return assay::run_program(argc, argv); }
