// SPDX-License-Identifier: Apache-2.0
#include "properties/specimens/cheri_tuning.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cheri/cheri.h"
#include "properties/core/planted.h"

namespace assay::cheri {
namespace {

// Three configurations that do the same. What matters is that they are tried, not what they are.
const Tunable& tries() {
  static const Tunable tunable{
      .name = "specimen_tries", .version = 1, .configs = {{{"try", 0}}, {{"try", 1}}, {{"try", 2}}}};
  return tunable;
}

struct Sizes {
  int64_t examples, rows, channels, dilation;
  explicit Sizes(const Call& call)
      : examples(call.dims[kN]),
        rows(call.dims[kL]),
        channels(call.dims[kC]),
        dilation(call.dims[kDilation]) {}
  int64_t count() const { return rows * channels; }
  // Whether tap k of row l lies inside the example.
  bool is_inside(int64_t l, int64_t k) const {
    return k == 0 ? l >= dilation : k != 2 || dilation < rows - l;
  }
};

template <class T>
float load(const Elements<T>& tensor, int64_t i, int64_t j, int64_t k = 0) {
  return static_cast<float>(to_double(tensor(i, j, k)));
}

// conv (N, L, C), dense.
template <class T>
void convolve(const Call& call, Input x_input, Input w_input, float* conv) {
  const Sizes s(call);
  const Elements<T> x(call.inputs[x_input]), w(call.inputs[w_input]);
  for (int64_t n = 0; n < s.examples; ++n) {
    for (int64_t l = 0; l < s.rows; ++l) {
      for (int64_t c = 0; c < s.channels; ++c) {
        float sum = 0;
        for (int64_t k = 0; k < 3; ++k) {
          if (s.is_inside(l, k)) sum += load(x, n, l + (k - 1) * s.dilation, c) * load(w, k, c);
        }
        conv[(n * s.rows + l) * s.channels + c] = sum;
      }
    }
  }
}

// mean, rstd of each example.
void statistics(const Sizes& s, const float* conv, double* mean, double* rstd) {
  for (int64_t n = 0; n < s.examples; ++n) {
    const std::span example(conv + n * s.count(), static_cast<size_t>(s.count()));
    double sum = 0, squares = 0;
    for (float c : example) sum += c;
    mean[n] = sum / static_cast<double>(s.count());
    for (float c : example) squares += (c - mean[n]) * (c - mean[n]);
    rstd[n] = 1 / std::sqrt(squares / static_cast<double>(s.count()) + kEpsilon);
  }
}

template <class T>
void normalise(const Call& call, const float* conv, const double* mean, const double* rstd) {
  const Sizes s(call);
  const Elements<T> y(call.outputs[kY]);
  for (int64_t n = 0; n < s.examples; ++n) {
    for (int64_t l = 0; l < s.rows; ++l) {
      for (int64_t c = 0; c < s.channels; ++c) {
        const double value = (conv[(n * s.rows + l) * s.channels + c] - mean[n]) * rstd[n];
        y(n, l, c) = from_double<T>(static_cast<float>(value));
      }
    }
  }
}

// Working memory of a call: conv, then statistics.
struct Scratch {
  Workspace::Lease conv_lease, statistics_lease;
  float* conv;
  double* mean;
  double* rstd;

  explicit Scratch(const Call& call) {
    const Sizes s(call);
    conv_lease =
        call.context->workspace().lease(std::max<int64_t>(4 * s.examples * s.count(), 4), call.stream);
    statistics_lease = call.context->workspace().lease(std::max<int64_t>(16 * s.examples, 16), call.stream);
    conv = conv_lease.as<float>();
    mean = statistics_lease.as<double>();
    rstd = mean + s.examples;
  }
  Buffer conv_buffer(Role role, const Sizes& s) const {
    return {"conv", role, conv, 4 * s.examples * s.count()};
  }
};

// The launch that turns conv into dconv in place and computes dw from it. It declares conv as
// scratch. So each trial works on what the trial before left, and so does the real call.
template <class T>
void updates_in_trials(const Call& call) {
  const Sizes s(call);
  const Scratch scratch(call);
  const Elements<T> dy(call.inputs[grad::kDy]), x(call.inputs[grad::kX]), w(call.inputs[grad::kW]);
  const Elements<T> dx(call.outputs[grad::kDx]), dw(call.outputs[grad::kDw]);
  convolve<T>(call, grad::kX, grad::kW, scratch.conv);
  statistics(s, scratch.conv, scratch.mean, scratch.rstd);
  const auto differentiate = [&](float* conv) {
    for (int64_t n = 0; n < s.examples; ++n) {
      float* const of = conv + n * s.count();
      double sum = 0, weighted = 0;
      const auto y = [&](int64_t i) { return (of[i] - scratch.mean[n]) * scratch.rstd[n]; };
      const auto dy_at = [&](int64_t i) { return load(dy, n, i / s.channels, i % s.channels); };
      for (int64_t i = 0; i < s.count(); ++i) {
        sum += dy_at(i);
        weighted += dy_at(i) * y(i);
      }
      if (!std::isfinite(sum)) sum = NAN;  // all of the example
      const auto count = static_cast<double>(s.count());
      for (int64_t i = 0; i < s.count(); ++i) {
        of[i] = static_cast<float>(scratch.rstd[n] * (dy_at(i) - sum / count - y(i) * weighted / count));
      }
    }
  };
  call.context->tuner().run({.tunable = &tries(),
                             .key = tuning_key(call),
                             .unfit = {},
                             .buffers = {scratch.conv_buffer(Role::kScratch, s)},
                             .run = [&](const Config&, std::span<void* const> data) {
                               differentiate(static_cast<float*>(data[0]));
                             }});
  const auto dconv = [&](int64_t n, int64_t l, int64_t c) {
    return scratch.conv[(n * s.rows + l) * s.channels + c];
  };
  for (int64_t c = 0; c < s.channels; ++c) {
    for (int64_t k = 0; k < 3; ++k) {
      double sum = 0;
      for (int64_t n = 0; n < s.examples; ++n) {
        for (int64_t l = 0; l < s.rows; ++l) {
          if (s.is_inside(l, k)) sum += double{dconv(n, l, c)} * load(x, n, l + (k - 1) * s.dilation, c);
        }
      }
      dw(k, c) = from_double<T>(static_cast<float>(sum));
    }
    for (int64_t n = 0; n < s.examples; ++n) {
      for (int64_t l = 0; l < s.rows; ++l) {
        float sum = 0;
        for (int64_t k = 0; k < 3; ++k) {
          if (s.is_inside(l, 2 - k)) sum += dconv(n, l + (1 - k) * s.dilation, c) * load(w, k, c);
        }
        dx(n, l, c) = from_double<T>(sum);
      }
    }
  }
}

// The sums of each example are added to accumulators that are zero before the first trial only.
template <class T>
void accumulates(const Call& call, Role declared) {
  const Sizes s(call);
  const Scratch scratch(call);
  convolve<T>(call, kX, kW, scratch.conv);
  std::fill_n(scratch.mean, s.examples, 0.0);
  call.context->tuner().run({.tunable = &tries(),
                             .key = tuning_key(call),
                             .unfit = {},
                             .buffers = {{"sums", declared, scratch.mean, 8 * s.examples}},
                             .run = [&](const Config&, std::span<void* const> data) {
                               double* const sums = static_cast<double*>(data[0]);
                               for (int64_t i = 0; i < s.examples * s.count(); ++i)
                                 sums[i / s.count()] += scratch.conv[i];
                             }});
  for (int64_t n = 0; n < s.examples; ++n) {
    const double mean = scratch.mean[n] / static_cast<double>(s.count());
    double squares = 0;
    for (int64_t i = 0; i < s.count(); ++i) {
      const double d = scratch.conv[n * s.count() + i] - mean;
      squares += d * d;
    }
    scratch.mean[n] = mean;
    scratch.rstd[n] = 1 / std::sqrt(squares / static_cast<double>(s.count()) + kEpsilon);
  }
  normalise<T>(call, scratch.conv, scratch.mean, scratch.rstd);
}

// A number decided when a key is first seen, and kept: a plan beside the tuner. In the tuner a key
// that lacks something costs time only: every choice that fits gives the same bits.
int64_t planned(const Call& call, const std::string& key, int64_t decision) {
  const auto held = call.context->derived().get("plan " + key, 8, {{1, nullptr}}, call.stream,
                                                [&](void* data) { std::memcpy(data, &decision, 8); });
  int64_t kept = 0;
  std::memcpy(&kept, held.data(), 8);
  return kept;
}

// What a plan depends on: each part of a complete key, and the specimen whose key lacks it.
struct KeyPart {
  std::string_view path;
  std::string (*value)(const Call& call);
};

template <const Dim& kDim>
std::string size_in(const Call& call) {
  return std::to_string(call.dims[kDim]);
}

std::string layouts(const Call& call) {
  std::vector<ConstTensorView> views = call.inputs;
  views.insert(views.end(), call.outputs.begin(), call.outputs.end());
  std::string text;
  for (const ConstTensorView& view : views) {
    text += fmt::format(" {}", reinterpret_cast<uintptr_t>(view.data) % 16);
    if (!view.is_dense()) text += view.strides.to_string();
  }
  return text;
}

const KeyPart kKeyParts[] = {
    {"specimen.key_without_n", size_in<kN>},
    {"specimen.key_without_l", size_in<kL>},
    {"specimen.key_without_c", size_in<kC>},
    {"specimen.key_without_dilation", size_in<kDilation>},
    {"specimen.key_without_dtype", [](const Call& call) { return std::string(name_of(call.dtype)); }},
    {"specimen.key_without_layout", layouts},
};

// The key of a plan lacks one part. A plan for another call leaves out the last of each example.
template <class T>
void plans_without(const Call& call, const KeyPart& lacking) {
  std::string key;
  for (const KeyPart& part : kKeyParts) {
    if (part.path != lacking.path) key += fmt::format(" {}", part.value(call));
  }
  const auto plan = static_cast<int64_t>(std::hash<std::string>()(lacking.value(call)));
  const Sizes s(call);
  const bool is_stale = planned(call, key, plan) != plan && s.count() > 0;
  const Scratch scratch(call);
  convolve<T>(call, kX, kW, scratch.conv);
  for (int64_t n = 0; n < s.examples && is_stale; ++n) scratch.conv[(n + 1) * s.count() - 1] = 0;
  statistics(s, scratch.conv, scratch.mean, scratch.rstd);
  normalise<T>(call, scratch.conv, scratch.mean, scratch.rstd);
}

// The key under which a copy of a weight is kept.
struct Key {
  std::string name;
  uint64_t version;
};

// The block of the production path, on copies of w1 and w2 kept under these keys.
void on_kept_copies(const Call& call, const std::function<Key(size_t input)>& key_of) {
  Call on_copies = call;
  std::vector<DerivedTensors::Held> held;
  for (Input i : {kW1, kW2}) {
    const ConstTensorView& view = call.inputs[i];
    const int64_t bytes = std::max<int64_t>(view.size() * static_cast<int64_t>(size_of(view.dtype)), 1);
    const Key key = key_of(i);
    held.push_back(call.context->derived().get(key.name, bytes, {{key.version, view.data}}, call.stream,
                                               [&](void* data) {
                                                 visit(view.dtype, [&]<class T>(std::type_identity<T>) {
                                                   const Elements<T> from(view);
                                                   for (int64_t k = 0; k < view.size(); ++k) {
                                                     const Extents index = index_of(k, view.shape);
                                                     static_cast<T*>(data)[k] = from(index[0], index[1]);
                                                   }
                                                 });
                                               }));
    on_copies.inputs[i].data = held.back().data();
    on_copies.inputs[i].strides = dense_strides(view.shape);
  }
  on_copies.versions.clear();
  ops()[2].path("cpu").run(on_copies);
}

std::string name_of_weight(const Call& call, size_t input) {
  const ConstTensorView& view = call.inputs[input];
  return fmt::format("weight {} {} {}", input, view.shape.to_string(), view.strides.to_string());
}

// New values at an old address go unnoticed.
void keeps_weights_by_address(const Call& call) {
  on_kept_copies(call, [&](size_t i) {
    return Key{name_of_weight(call, i), reinterpret_cast<uintptr_t>(call.inputs[i].data)};
  });
}

// As above; moreover, w2 may find the copy of w1.
void keeps_weights_by_place(const Call& call) {
  on_kept_copies(call, [&](size_t i) {
    return Key{"weight", reinterpret_cast<uintptr_t>(call.inputs[i].data)};
  });
}

// New values of w2 alone go unnoticed.
void keeps_weights_by_one_version(const Call& call) {
  on_kept_copies(call, [&](size_t i) {
    return Key{name_of_weight(call, i), call.versions.empty() ? 0 : call.versions[kW1]};
  });
}

// The address of a version's weights is kept, not their values: equal weights that have moved are
// read at their old address.
void keeps_pointers_to_weights(const Call& call) {
  Call on_kept = call;
  for (Input i : {kW1, kW2}) {
    const uint64_t version = call.versions.empty() ? 0 : call.versions[i];
    const void* const now = call.inputs[i].data;
    const auto held = call.context->derived().get("pointer to " + name_of_weight(call, i), sizeof(now),
                                                  {{version, nullptr}}, call.stream,
                                                  [&](void* data) { std::memcpy(data, &now, sizeof(now)); });
    std::memcpy(&on_kept.inputs[i].data, held.data(), sizeof(now));
  }
  on_kept.versions.clear();
  ops()[2].path("cpu").run(on_kept);
}

// Where w2 lies is kept until w1 moves or w2 changes: w2 may have moved alone.
void keeps_pointer_until_w1_moves(const Call& call) {
  const void* const now = call.inputs[kW2].data;
  const std::string key = fmt::format("{} beside {}", name_of_weight(call, kW2), call.inputs[kW1].data);
  const auto held = call.context->derived().get(
      key, sizeof(now), {{call.versions.empty() ? 0 : call.versions[kW2], nullptr}}, call.stream,
      [&](void* data) { std::memcpy(data, &now, sizeof(now)); });
  Call on_kept = call;
  on_kept.versions.clear();
  std::memcpy(&on_kept.inputs[kW2].data, held.data(), sizeof(now));
  ops()[2].path("cpu").run(on_kept);
}

// A version of 0 is taken for a version like others, where another input has one.
void keeps_weights_of_unknown_version(const Call& call) {
  const bool is_known = std::ranges::any_of(call.versions, [](uint64_t version) { return version != 0; });
  on_kept_copies(call, [&](size_t i) {
    return Key{name_of_weight(call, i), is_known ? call.versions[i] + 1 : 0};
  });
}

template <class Generic>
assay::Run on_dtype(Generic generic) {
  return [generic](const Call& call) {
    visit(call.dtype, [&]<class T>(std::type_identity<T> type) { generic(call, type); });
  };
}

}  // namespace

std::vector<Specimen> tuning_specimens() {
  std::vector<Specimen> all;
  const auto add = [&](size_t op, const FaultInfo& info, assay::Run run,
                       std::vector<const Tunable*> tunables) {
    all.push_back(make_specimen(ops()[op], info, std::move(run)));
    all.back().path.tunables = std::move(tunables);
  };
  const auto& of_block = ops()[2].path("cpu").tunables;
  add(1,
      {"specimen.updates_in_trials",
       "conv is overwritten by dconv in a launch that is tuned without restoring it, as in the source"},
      on_dtype([]<class T>(const Call& call, std::type_identity<T>) { updates_in_trials<T>(call); }),
      {&tries()});
  add(0, {"specimen.accumulates_in_trials", "sums are not zeroed between trials"},
      on_dtype(
          []<class T>(const Call& call, std::type_identity<T>) { accumulates<T>(call, Role::kScratch); }),
      {&tries()});
  add(0, {"specimen.accumulator_declared_written", "sums that are added to are declared as written"},
      on_dtype([]<class T>(const Call& call, std::type_identity<T>) { accumulates<T>(call, Role::kWrite); }),
      {&tries()});
  for (const KeyPart& part : kKeyParts) {
    const auto run = [part]<class T>(const Call& call, std::type_identity<T>) {
      plans_without<T>(call, part);
    };
    add(0, {part.path, "a plan is kept under a key that lacks this, though it depends on it"}, on_dtype(run),
        {});
  }
  add(2, {"specimen.stale_weights", "cast weights are kept by the address of the weights"},
      keeps_weights_by_address, of_block);
  add(2,
      {"specimen.weights_by_place", "cast weights are kept by address and size, whichever weight lies there"},
      keeps_weights_by_place, of_block);
  add(2, {"specimen.weights_by_one_version", "cast weights are kept by the version of the first of them"},
      keeps_weights_by_one_version, of_block);
  add(2, {"specimen.weights_by_pointer", "for each version of the weights it is kept where they lay"},
      keeps_pointers_to_weights, of_block);
  add(2, {"specimen.pointer_until_w1_moves", "where w2 lies is kept until w1 moves or w2 changes"},
      keeps_pointer_until_w1_moves, of_block);
  add(2, {"specimen.unknown_version_kept", "a weight of unknown version is kept if another has a version"},
      keeps_weights_of_unknown_version, of_block);
  return all;
}

}  // namespace assay::cheri
