// SPDX-License-Identifier: Apache-2.0
#include "properties/specimens/dynamic_conv_hostile.h"

#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "kernels/dynamic_conv/dynamic_conv.h"
#include "properties/specimens/dynamic_conv_cheat.h"

namespace assay::dynamic_conv {
namespace {

using namespace std::chrono_literals;

float& element(const Call& call, int64_t i) {
  return static_cast<float*>(call.outputs[kOut].data)[i];
}

// Some elements of the inputs, as a cheap key of their values.
std::vector<float> fingerprint(const Call& call) {
  std::vector<float> values;
  for (const ConstTensorView& view : call.inputs) {
    const auto* data = static_cast<const float*>(view.data);
    for (int64_t i = 0; i < 32 && view.size() > 0; ++i) values.push_back(data[i * (view.size() - 1) / 31]);
  }
  return values;
}

// Rounds the answer to bf16.
void make_coarse(const Call& call) {
  for (int64_t i = 0; i < call.outputs[kOut].size(); ++i)
    element(call, i) = static_cast<float>(to_double(to_bf16(element(call, i))));
}

bool holds_poison(const Call& call) {
  return is_poison(element(call, 0));
}

// Whether the values may be normal ones. All others that the harness draws lie within 1.5.
bool looks_normal(const Call& call) {
  const std::vector<float> values = fingerprint(call);
  return std::ranges::any_of(values, [](float value) { return std::abs(value) > 1.5F; });
}

// Or is so small that nobody times it.
bool has_timed_length(const Call& call) {
  return call.dims[kT] == 256 || call.outputs[kOut].size() < 4096;
}

void serve_from_results(const Call& call) {
  static std::map<std::vector<float>, std::vector<float>> results;
  const std::vector<float> key = fingerprint(call);
  auto* const out = static_cast<float*>(call.outputs[kOut].data);
  if (const auto found = results.find(key);
      found != results.end() && found->second.size() * 4 == output_bytes(call)) {
    std::memcpy(out, found->second.data(), output_bytes(call));
    return;
  }
  compute(call);
  results[key].assign(out, out + call.outputs[kOut].size());
}

void compute_later(const Call& call) {
  static std::jthread thread;
  if (thread.joinable()) thread.join();
  thread = std::jthread([call] {
    std::this_thread::sleep_for(1ms);
    compute(call);
  });
}

// All but the last row at once, and that one a millisecond after the call.
void end_later(const Call& call) {
  static std::jthread thread;
  if (thread.joinable()) thread.join();
  const int64_t rows = call.dims[kB];
  if (rows < 2) return compute(call);
  compute(rows_of(call, 0, rows - 1));
  thread = std::jthread([last = rows_of(call, rows - 1, 1)] {
    std::this_thread::sleep_for(5ms);
    compute(last);
  });
}

// Knows the inputs of the call before again by a few of their values.
void idle_on_last_inputs(const Call& call) {
  static std::vector<float> last;
  std::vector<float> key = fingerprint(call);
  if (std::exchange(last, key) != key) compute(call);
}

// Its answer is right when it returns. By the time that the thread writes the memory may be gone.
void write_later(const Call& call) {
  static std::jthread thread;
  if (thread.joinable()) thread.join();
  compute(call);
  thread = std::jthread([to = &element(call, 0)] {
    std::this_thread::sleep_for(5ms);
    float wrong = 1000;
    const iovec from{&wrong, sizeof(wrong)}, there{to, sizeof(wrong)};
    static_cast<void>(process_vm_writev(getpid(), &from, 1, &there, 1, 0));
  });
}

}  // namespace

size_t output_bytes(const Call& call) {
  return static_cast<size_t>(call.outputs[kOut].size()) * sizeof(float);
}

Call rows_of(Call call, int64_t first, int64_t count) {
  const auto narrow = [&](auto& view) {
    view.shape[0] = count;
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(view.data)>>,
                                    const std::byte, std::byte>;
    view.data =
        static_cast<Byte*>(view.data) + first * view.strides[0] * static_cast<int64_t>(size_of(view.dtype));
  };
  for (ConstTensorView& view : call.inputs) narrow(view);
  for (TensorView& view : call.outputs) narrow(view);
  call.dims.set(kB.key, count);
  call.versions.clear();
  return call;
}

bool is_poison(float value) {
  return std::isnan(value) || std::bit_cast<uint32_t>(value) == 0x5A5A5A5Au;
}

Run counted(const std::function<void(const Call&, int number)>& run) {
  return [run, calls = std::make_shared<std::atomic<int>>(0)](const Call& call) { run(call, (*calls)++); };
}

void compute(const Call& call) {
  ops()[0].path("cpu").run(call);
}

Specimen cheat(std::string_view path, std::string_view fault, const Run& run) {
  Specimen specimen = make_specimen(ops()[0], {path, fault, {DType::kF32}}, run);
  specimen.timed_on = Dims{{kB, 4}, {kT, 256}, {kD, 256}, {kW, 4}};
  return specimen;
}

Specimen without_promise(Specimen specimen) {
  specimen.path.deterministic = false;
  return specimen;
}

std::vector<Specimen> hostile_on_cpu() {
  const auto is_small = [](const Call& call) { return call.outputs[kOut].size() == 0; };
  return {
      cheat("hostile.nothing", "does nothing", [](const Call&) {}),
      cheat("hostile.constant", "writes zeros",
            [](const Call& call) { std::memset(call.outputs[kOut].data, 0, output_bytes(call)); }),
      cheat("hostile.first_row", "computes the first row of the batch only",
            [=](const Call& call) {
              if (!is_small(call)) compute(rows_of(call, 0, 1));
            }),
      cheat("hostile.one_shape", "is right for the timed shape only",
            [](const Call& call) {
              compute(call);
              if (call.dims[kT] != 256 && call.outputs[kOut].size() > 0) element(call, 0) += 1;
            }),
      cheat("hostile.coarse", "rounds its results to bf16",
            [](const Call& call) {
              compute(call);
              make_coarse(call);
            }),
      cheat("hostile.cached_by_address", "a call on the addresses of the call before returns at once",
            counted([last = std::make_shared<const void*>(nullptr)](const Call& call, int) {
              if (*last == call.inputs[kX].data) return;
              *last = call.inputs[kX].data;
              compute(call);
            })),
      cheat("hostile.cached_by_values", "keeps results, and knows inputs again by a few of their values",
            [=](const Call& call) { is_small(call) ? compute(call) : serve_from_results(call); }),
      cheat("hostile.idle_after_calls", "does nothing after some calls",
            counted([](const Call& call, int number) {
              if (number < kJudgedCalls) compute(call);
            })),
      cheat("hostile.idle_for_one_call_in_two", "computes every second call, after some",
            counted([](const Call& call, int number) {
              if (number < kJudgedCalls || number % 2 == 0) compute(call);
            })),
      cheat("hostile.part_after_calls", "computes the first row of the batch only, after some calls",
            counted([](const Call& call, int number) {
              if (number < kJudgedCalls || call.outputs[kOut].size() == 0) return compute(call);
              compute(rows_of(call, 0, 1));
            })),
      cheat("hostile.copies_an_answer", "answers all calls but two with its first answer",
            counted([first = std::make_shared<std::vector<float>>()](const Call& call, int number) {
              auto* const out = static_cast<float*>(call.outputs[kOut].data);
              const bool has_answer = first->size() * sizeof(float) == output_bytes(call) && !first->empty();
              if (has_answer && number >= 2) {
                std::memcpy(out, first->data(), output_bytes(call));
                return;
              }
              compute(call);
              if (first->empty()) first->assign(out, out + call.outputs[kOut].size());
            })),
      without_promise(
          cheat("hostile.unrepeatable_idle_when_warm",
                "promises no equal bits, and does nothing on the inputs of the call before, after some calls",
                counted([=](const Call& call, int number) {
                  number < kJudgedCalls || is_small(call) ? compute(call) : idle_on_last_inputs(call);
                }))),
      cheat("hostile.works_on_poison", "computes only where its output holds a judge's poison",
            [=](const Call& call) {
              if (!is_small(call) && holds_poison(call)) compute(call);
            }),
      cheat("hostile.coarse_without_poison", "rounds to bf16 unless its output holds a judge's poison",
            [=](const Call& call) {
              const bool is_judged = is_small(call) || holds_poison(call);
              compute(call);
              if (!is_judged) make_coarse(call);
            }),
      cheat("hostile.coarse_on_new_inputs", "rounds to bf16 on inputs that it has not met in its first calls",
            counted([known = std::make_shared<std::map<std::vector<float>, bool>>()](const Call& call,
                                                                                     int number) {
              if (number < 3) (*known)[fingerprint(call)] = true;
              compute(call);
              if (!known->contains(fingerprint(call))) make_coarse(call);
            })),
      cheat("hostile.coarse_on_most_new_inputs",
            "rounds to bf16 on three of four new inputs that look normal, after some calls",
            counted([known = std::make_shared<std::map<std::vector<float>, bool>>()](const Call& call,
                                                                                     int number) {
              compute(call);
              if (!looks_normal(call)) return;
              const bool is_coarse = number >= kJudgedCalls && known->size() % 4 != 0;
              if (known->try_emplace(fingerprint(call), is_coarse).first->second) make_coarse(call);
            })),
      cheat("hostile.coarse_on_other_data", "rounds to bf16 unless its inputs look normal",
            [=](const Call& call) {
              compute(call);
              if (call.outputs[kOut].size() > 4096 && !looks_normal(call)) make_coarse(call);
            }),
      cheat("hostile.slow_on_other_data", "is fast on normal data only",
            [](const Call& call) {
              const int times = looks_normal(call) || call.outputs[kOut].size() < 4096 ? 1 : 4;
              for (int i = 0; i < times; ++i) compute(call);
            }),
      cheat("hostile.slow_on_other_shapes", "is fast for the timed length only",
            [](const Call& call) {
              const int times = has_timed_length(call) ? 1 : 32;
              for (int i = 0; i < times; ++i) compute(call);
            }),
      cheat("hostile.coarse_on_other_shapes", "rounds to bf16 unless its length is the timed one",
            [](const Call& call) {
              compute(call);
              if (!has_timed_length(call)) make_coarse(call);
            }),
      cheat("hostile.computes_later", "returns at once and computes in a thread",
            [=](const Call& call) {
              if (!is_small(call)) compute_later(call);
            }),
      cheat("hostile.ends_later", "leaves a row to a thread that ends after the call", end_later),
      cheat("hostile.writes_later_after_calls", "goes on in a thread after the call, after some calls",
            counted([=](const Call& call, int number) {
              number < 2 * kJudgedCalls || is_small(call) ? compute(call) : write_later(call);
            })),
      cheat("hostile.spoils_inputs_after_calls", "writes to an input, after some calls",
            counted([](const Call& call, int number) {
              compute(call);
              if (number >= kJudgedCalls && call.inputs[kX].size() > 0)
                *static_cast<float*>(const_cast<void*>(call.inputs[kX].data)) += 1;
            })),
  };
}

}  // namespace assay::dynamic_conv
