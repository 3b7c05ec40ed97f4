// SPDX-License-Identifier: Apache-2.0
// The processes that workers are: how they start, and how they end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace assay {

using Seconds = std::chrono::duration<double>;

// Descriptors of a worker.
inline constexpr int kWorkerSocket = 3, kWorkerMemory = 4;

// By which workers, and whatever they start, are known: a variable in their environment, and the
// name of the memory that they share with this process. "ASSAY_WORKER_OF=1234"
std::string mark_of_workers();

// Each starts a process in a group of its own, with all signals as they are at first, no standard
// input, the standard error as its standard output, these two descriptors as those of a worker, and
// no others. Throws Error (internal) if the system does not let it.
//
// This program, /proc/self/exe, anew.
pid_t start_program(std::vector<std::string> arguments, int socket, int memory);
// A copy of this process, which ends with `main`.
pid_t start_copy(const std::function<void()>& main, int socket, int memory);

// Whether a child ends within this time. Its status stays.
bool ends_within(pid_t process, Seconds time);

// Ends a worker, which may have left its group, the group, and what the worker has left behind
// elsewhere, and then forgets it. Its status is returned if it is known. Throws Error (internal)
// for what is the number of no worker.
std::optional<int> end_group(pid_t process);

}  // namespace assay
