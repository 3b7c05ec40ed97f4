// SPDX-License-Identifier: Apache-2.0
// The CPU path of cheri_conv_norm. It reads an example twice: for its statistics, and to normalise
// it. It computes the convolution both times, by the same operations, so only what the caches still
// hold of x connects the passes. Large outputs are written past the caches.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cheri/cheri.h"
#include "kernels/cheri/conv_norm/cpu_jobs.h"
#include "kernels/cheri/tunables.h"
#include "kernels/core/parallel.h"
#include "kernels/core/specialise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cheri/conv_norm/cpu.cpp"
#include "kernels/core/simd-inl.h"
// after it
#include "kernels/cheri/conv_norm/cpu_conv-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::cheri {
namespace HWY_NAMESPACE {
namespace {

// Writes Taps, in both orders.
void write_taps(const ConstTensorView& w, const Geometry& geometry, float* taps) {
  const int64_t pitch = Taps::pitch(geometry);
  visit_storage(w.dtype, [&]<class T>(std::type_identity<T>) {
    for (int64_t k = 0; k < 3; ++k) {
      const T* from = w.as<T>() + k * w.strides[0];
      float* to = taps + k * pitch;
      for (int64_t c = 0; c < geometry.channels; ++c) {
        to[c] = static_cast<float>(to_double(from[c * w.strides[1]]));
      }
      for (int64_t i = geometry.channels; i < pitch; ++i) to[i] = to[i - geometry.channels];
      for (int64_t i = 0; geometry.by_two() && i < geometry.period; i += kTwo) {
        T two[kTwo];
        V32 first, second;
        store(hn::LoadU(F32(), to + i), two, false);
        store(hn::LoadU(F32(), to + i + kLanes), two + kLanes, false);
        load_two(two, first, second);
        hn::StoreU(first, F32(), to + 3 * pitch + i);
        hn::StoreU(second, F32(), to + 3 * pitch + i + kLanes);
      }
    }
  });
}

template <class T>
struct WriteNormalised {
  WriteNormalised(const Norm& norm, T* example, bool past_caches)
      : normalise(norm), y(example), stream(past_caches) {}

  HWY_INLINE void whole(int64_t at, V32 conv) { store(normalise(conv), y + at, stream); }
  HWY_INLINE void two(int64_t at, V32 first, V32 second) {
    store_two(normalise(first), normalise(second), y + at, stream);
  }
  void part(int64_t at, V32 conv, int64_t count) {
    T last[kLanes] = {};
    store(normalise(conv), last, false);
    std::copy_n(last, count, y + at);
  }

  Normalise normalise;
  T* y;
  bool stream;
};

template <class T>
bool is_aligned(const T* at) {
  return reinterpret_cast<uintptr_t>(at) % kStreamAlignment<T> == 0;
}

// Computes the elements [begin, end) of y of example n.
template <class T>
void apply(const ConvNormJob& job, const Source<T>& source, int64_t n, const Norm& norm, int64_t begin,
           int64_t end) {
  const Examples<T> y(job.y);
  if (norm.is_nan()) return y.fill_with_nan(n, begin, end);
  if (y.is_dense) {
    WriteNormalised<T> write(norm, y[n], job.stream && is_aligned(y[n] + begin));
    for_convolution(source, begin, end, write);
    return;
  }
  T packed[kRun];
  for (int64_t at = begin; at < end; at += source.run) {
    const int64_t run_end = std::min(at + source.run, end);
    WriteNormalised<T> write(norm, packed - at, false);
    for_convolution(source, at, run_end, write);
    y.unpack(n, at, run_end, packed);
  }
}

// Chunks are counted through all examples.
void moments_of_chunks(const ConvNormJob& job, int64_t begin, int64_t end, Moments* moments) {
  visit_storage(job.x.dtype, [&]<class T>(std::type_identity<T>) {
    const Examples<const T> x(job.x);
    for (int64_t i = begin; i < end; ++i) {
      const Source<T> source(job.geometry, x[i / job.geometry.chunks], job.taps);
      moments[i] = chunk_moments(source, i % job.geometry.chunks);
    }
  });
}

void apply_chunks(const ConvNormJob& job, int64_t begin, int64_t end, const Norm* norms) {
  visit_storage(job.x.dtype, [&]<class T>(std::type_identity<T>) {
    const Examples<const T> x(job.x);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / job.geometry.chunks, at = i % job.geometry.chunks * job.geometry.chunk;
      const Source<T> source(job.geometry, x[n], job.taps);
      apply(job, source, n, norms[n], at, std::min(at + source.chunk, source.size));
    }
  });
  hwy::FlushStream();
}

void whole_examples(const ConvNormJob& job, int64_t begin, int64_t end) {
  visit_storage(job.x.dtype, [&]<class T>(std::type_identity<T>) {
    const Examples<const T> x(job.x);
    for (int64_t n = begin; n < end; ++n) {
      const Source<T> source(job.geometry, x[n], job.taps);
      Moments moments;
      for (int64_t chunk = 0; chunk < job.geometry.chunks; ++chunk) moments.add(chunk_moments(source, chunk));
      apply(job, source, n, Norm(moments), 0, job.geometry.size);
    }
  });
  hwy::FlushStream();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::cheri
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::cheri {
namespace {

HWY_EXPORT(write_taps);
HWY_EXPORT(moments_of_chunks);
HWY_EXPORT(apply_chunks);
HWY_EXPORT(whole_examples);

// Small examples share a task.
int64_t grain_of(int64_t elements) {
  return std::max<int64_t>(kChunk / std::max<int64_t>(elements, 1), 1);
}

}  // namespace

void repeat_taps(const ConstTensorView& w, const Geometry& geometry, float* taps) {
  HWY_DYNAMIC_DISPATCH(write_taps)(w, geometry, taps);
}

void norms_of_examples(const ConvNormJob& job, Moments* moments, Norm* norms) {
  const Geometry& geometry = job.geometry;
  parallel_for(geometry.examples * geometry.chunks, grain_of(geometry.size), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(moments_of_chunks)(job, begin, end, moments);
  });
  for (int64_t n = 0; n < geometry.examples; ++n) {
    Moments all;
    for (int64_t i = 0; i < geometry.chunks; ++i) all.add(moments[n * geometry.chunks + i]);
    norms[n] = Norm(all);
  }
}

std::vector<Config> ways_through_examples() {
  return {{{"whole", 1}, {"stream", 1}},
          {{"whole", 0}, {"stream", 1}},
          {{"whole", 1}, {"stream", 0}},
          {{"whole", 0}, {"stream", 0}}};
}

const Tunable& conv_norm_cpu_tunable() {
  static const Tunable tunable{
      .name = "cheri_conv_norm_cpu", .version = 1, .configs = ways_through_examples()};
  return tunable;
}

void conv_norm_cpu(const ConvNormTensors& t, const Run& run) {
  require_valid(t, run.dilation);
  const Geometry geometry(t.x.shape, run.dilation);
  const int64_t chunks = geometry.examples * geometry.chunks;
  if (chunks == 0) return;
  Workspace& workspace = run.context.workspace();
  const auto packed = workspace.lease(packed_bytes(t.x), run.stream);
  const auto taps = workspace.lease(Taps::bytes(geometry), run.stream);
  const auto moments = workspace.lease(chunks * int64_t{sizeof(Moments)}, run.stream);
  const auto norms = workspace.lease(geometry.examples * int64_t{sizeof(Norm)}, run.stream);
  Call call;  // to name the problem
  call.dims = geometry.dims(run.dilation);
  call.dtype = t.x.dtype;
  call.inputs = {t.x, t.w};
  call.outputs = {t.y};
  run.context.tuner().run(
      {.tunable = &conv_norm_cpu_tunable(),
       .key = tuning_key(call),
       .unfit = {},
       .buffers = {buffer_of("x", Role::kRead, t.x),
                   buffer_of("w", Role::kRead, t.w),
                   buffer_of("y", Role::kWrite, t.y),
                   {"packed", Role::kScratch, packed.data(), packed_bytes(t.x)},
                   {"taps", Role::kScratch, taps.data(), Taps::bytes(geometry)},
                   {"moments", Role::kScratch, moments.data(), chunks * int64_t{sizeof(Moments)}},
                   {"norms", Role::kScratch, norms.data(), geometry.examples * int64_t{sizeof(Norm)}}},
       .run =
           [&](const Config& config, std::span<void* const> data) {
             repeat_taps(t.w, geometry, taps.as<float>());
             ConvNormJob job{.geometry = geometry,
                             .x = pack_examples(t.x, packed.data()),
                             .taps = taps.as<float>(),
                             .y = t.y,
                             .stream = config["stream"] == 1};
             job.y.data = data[2];
             if (config["whole"] == 1) {
               parallel_for(geometry.examples, grain_of(geometry.size), [&](int64_t begin, int64_t end) {
                 HWY_DYNAMIC_DISPATCH(whole_examples)(job, begin, end);
               });
               return;
             }
             norms_of_examples(job, moments.as<Moments>(), norms.as<Norm>());
             parallel_for(chunks, grain_of(geometry.size), [&](int64_t begin, int64_t end) {
               HWY_DYNAMIC_DISPATCH(apply_chunks)(job, begin, end, norms.as<Norm>());
             });
           },
       .stream = run.stream});
}

}  // namespace assay::cheri
#endif  // HWY_ONCE
