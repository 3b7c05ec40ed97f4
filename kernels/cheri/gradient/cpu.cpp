// SPDX-License-Identifier: Apache-2.0
// The CPU path of cheri_conv_norm_grad. The first pass over x and dy computes all statistics of an
// example. The second pass computes dconv into working memory and, a dilation behind it, dx and dw
// from dconv. An element of x meets three elements of dconv, which serve its dx and its terms of
// dw. Large outputs are written past the caches.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/cheri/cheri.h"
#include "kernels/cheri/conv_norm/cpu_jobs.h"
#include "kernels/cheri/tunables.h"
#include "kernels/core/parallel.h"
#include "kernels/core/specialise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cheri/gradient/cpu.cpp"
#include "kernels/core/simd-inl.h"
// after it
#include "kernels/cheri/conv_norm/cpu_conv-inl.h"
#include "kernels/cheri/gradient/cpu_grad-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::cheri {
namespace HWY_NAMESPACE {
namespace {

// Vectors of an example go by two where all of them can.
template <class T>
Source<T> source_of(const GradJob& job, int64_t n) {
  return {job.geometry, Examples<const T>(job.x)[n], job.taps, job.geometry.all_by_two()};
}

// Computes part number `part` of example n, from its end to its beginning. `dconv_of(begin, end)`
// is the address where dconv of the example would begin. dconv of [begin, end) must be present
// there.
template <class T, class DconvOf>
void grad_part_of_rows(const GradJob& job, const Source<T>& source, int64_t n, int64_t part,
                       const GradNorm& norm, DconvOf&& dconv_of) {
  const GradParts& parts = job.parts;
  const Target<T> target(job, n);
  double* sums = job.sums + (n / parts.examples * parts.per_example + part) * parts.size;
  if (n % parts.examples == 0) std::fill_n(sums, parts.size, 0.0);
  const int64_t reach = source.shift < source.size ? source.shift : 0;
  const int64_t begin = part * parts.rows_of_part;
  const int64_t last = std::min(begin + parts.rows_of_part, parts.rows);
  for (int64_t end = last; end > begin;) {
    const int64_t row = begin + (end - begin - 1) / kSumGroup * kSumGroup;
    const float* dconv = dconv_of(std::max<int64_t>(row * source.period - reach, 0),
                                  std::min(end * source.period + reach, source.size));
    grad_group(source, dconv, target, row, end, sums);
    end = row;
  }
  if (!norm.is_nan()) return;
  hwy::FlushStream();
  target.dx.fill_with_nan(n, begin * source.period, std::min(last * source.period, source.size));
}

// dconv of a window of an example. The window moves from the end to the beginning.
template <class T>
class Window {
 public:
  Window(const GradJob& job, const Source<T>& source, const T* dy, const GradNorm& norm, float* memory)
      : source_(source),
        dy_(dy),
        norm_(norm),
        memory_(memory),
        capacity_(job.parts.window),
        first_(source.size - capacity_),
        ready_(source.size) {}

  const float* operator()(int64_t begin, int64_t end) {
    begin = begin / source_.run * source_.run;
    if (begin < ready_) {
      if (begin < first_) {
        const int64_t moved = end - capacity_;
        std::memmove(memory_ + ready_ - moved, memory_ + ready_ - first_,
                     static_cast<size_t>(end - ready_) * sizeof(float));
        first_ = moved;
      }
      compute_dconv(source_, dy_, norm_, begin, ready_, memory_ - first_);
      ready_ = begin;
    }
    return memory_ - first_;
  }

 private:
  const Source<T>& source_;
  const T* dy_;
  const GradNorm& norm_;
  float* memory_;
  int64_t capacity_;
  int64_t first_;  // the element at the beginning of the memory
  int64_t ready_;  // the first element that is computed
};

// Computes the blocks [begin, end) of examples. The second pass over an example goes backwards,
// since the caches hold its end.
void whole_blocks(const GradJob& job, int64_t begin, int64_t end, float* memory) {
  visit_storage(job.x.dtype, [&]<class T>(std::type_identity<T>) {
    const Examples<const T> dy(job.dy);
    const int64_t last = std::min(end * job.parts.examples, job.geometry.examples);
    for (int64_t n = begin * job.parts.examples; n < last; ++n) {
      const Source<T> source = source_of<T>(job, n);
      GradMoments moments;
      for (int64_t chunk = 0; chunk < job.geometry.chunks; ++chunk) {
        moments.add(chunk_grad_moments(source, dy[n], chunk));
      }
      const GradNorm norm(moments);
      Window<T> window(job, source, dy[n], norm, memory);
      for (int64_t part = job.parts.per_example; part-- > 0;) {
        grad_part_of_rows(job, source, n, part, norm, window);
      }
    }
  });
  hwy::FlushStream();
}

// Computes the statistics of the chunks [begin, end) of example n.
void grad_moments_of_chunks(const GradJob& job, int64_t n, int64_t begin, int64_t end, GradMoments* moments) {
  visit_storage(job.x.dtype, [&]<class T>(std::type_identity<T>) {
    const Source<T> source = source_of<T>(job, n);
    const T* dy = Examples<const T>(job.dy)[n];
    for (int64_t i = begin; i < end; ++i) moments[i] = chunk_grad_moments(source, dy, i);
  });
}

void dconv_of_chunks(const GradJob& job, int64_t n, int64_t begin, int64_t end, const GradNorm& norm,
                     float* dconv) {
  visit_storage(job.x.dtype, [&]<class T>(std::type_identity<T>) {
    const Source<T> source = source_of<T>(job, n);
    const int64_t last = std::min(end * source.chunk, source.size);
    compute_dconv(source, Examples<const T>(job.dy)[n], norm, begin * source.chunk, last, dconv);
  });
}

void grad_of_parts(const GradJob& job, int64_t n, int64_t begin, int64_t end, const GradNorm& norm,
                   const float* dconv) {
  visit_storage(job.x.dtype, [&]<class T>(std::type_identity<T>) {
    const Source<T> source = source_of<T>(job, n);
    for (int64_t part = begin; part < end; ++part) {
      grad_part_of_rows(job, source, n, part, norm, [&](int64_t, int64_t) { return dconv; });
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

GradParts::GradParts(const Geometry& geometry) {
  const int64_t rows_per_sum = kRowsPerSum.value();
  const int64_t period = std::max<int64_t>(geometry.period, 1);
  rows = (geometry.size + period - 1) / period;
  rows_of_part = (std::max(geometry.chunk / period, rows_per_sum) + kSumGroup - 1) / kSumGroup * kSumGroup;
  per_example = (rows + rows_of_part - 1) / rows_of_part;
  examples = std::max<int64_t>(rows_per_sum / std::max<int64_t>(rows, 1), 1);
  blocks = (geometry.examples + examples - 1) / examples;
  size = 3 * geometry.period;
  // The window holds a few times what a group of rows reaches, so that little is moved.
  constexpr Threshold kTimes{4, 1};
  const int64_t reach = geometry.shift < geometry.size ? geometry.shift : 0;
  const int64_t group = std::min(kSumGroup, rows) * period;
  window =
      std::min(geometry.size, kTimes.value() * (group + std::min(reach, geometry.size) * 2 + geometry.run));
}

namespace {

HWY_EXPORT(whole_blocks);
HWY_EXPORT(grad_moments_of_chunks);
HWY_EXPORT(dconv_of_chunks);
HWY_EXPORT(grad_of_parts);

// Vectors may reach beyond the last element.
int64_t dconv_bytes(int64_t elements) {
  return (elements + kMostLanes) * int64_t{sizeof(float)};
}

// Each task takes whole examples.
void run_whole(const GradJob& job, const Run& run) {
  const int64_t elements = job.parts.examples * job.geometry.size;
  parallel_for(job.parts.blocks, kChunk / elements, [&](int64_t begin, int64_t end) {
    const auto memory = run.context.workspace().lease(dconv_bytes(job.parts.window), run.stream);
    HWY_DYNAMIC_DISPATCH(whole_blocks)(job, begin, end, memory.as<float>());
  });
}

// All threads work on one example after the other.
void run_split(const GradJob& job, const Run& run) {
  const Geometry& geometry = job.geometry;
  const auto dconv = run.context.workspace().lease(dconv_bytes(geometry.size), run.stream);
  const auto moments =
      run.context.workspace().lease(geometry.chunks * int64_t{sizeof(GradMoments)}, run.stream);
  for (int64_t n = 0; n < geometry.examples; ++n) {
    parallel_for(geometry.chunks, 1, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(grad_moments_of_chunks)(job, n, begin, end, moments.as<GradMoments>());
    });
    GradMoments all;
    for (int64_t i = 0; i < geometry.chunks; ++i) all.add(moments.as<GradMoments>()[i]);
    const GradNorm norm(all);
    parallel_for(geometry.chunks, 1, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(dconv_of_chunks)(job, n, begin, end, norm, dconv.as<float>());
    });
    parallel_for(job.parts.per_example, 1, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(grad_of_parts)(job, n, begin, end, norm, dconv.as<float>());
    });
  }
}

// Adds up all parts, and within a part all places of a channel, in order.
void sum_parts(const GradJob& job, const TensorView& dw) {
  const int64_t channels = job.geometry.channels, period = job.geometry.period, size = job.parts.size;
  const int64_t count = job.parts.count();
  constexpr int64_t kColumns = 256;
  double* sums = job.sums;
  parallel_for((size + kColumns - 1) / kColumns, kChunk / (kColumns * std::max<int64_t>(count, 1)),
               [&](int64_t begin, int64_t end) {
                 const int64_t first = begin * kColumns, last = std::min(end * kColumns, size);
                 for (int64_t part = 1; part < count; ++part) {
                   for (int64_t i = first; i < last; ++i) sums[i] += sums[part * size + i];
                 }
               });
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();  // any other becomes this one
  visit_storage(dw.dtype, [&]<class T>(std::type_identity<T>) {
    T* to = dw.as<T>();
    for (int64_t k = 0; k < 3; ++k) {
      for (int64_t c = 0; c < channels; ++c) {
        double sum = 0;
        if (count > 0) {
          sum = sums[k * period + c];
          for (int64_t i = c + channels; i < period; i += channels) sum += sums[k * period + i];
        }
        to[k * dw.strides[0] + c * dw.strides[1]] = from_double<T>(std::isnan(sum) ? kNan : sum);
      }
    }
  });
}

}  // namespace

const Tunable& conv_norm_grad_cpu_tunable() {
  static const Tunable tunable{
      .name = "cheri_conv_norm_grad_cpu", .version = 1, .configs = ways_through_examples()};
  return tunable;
}

std::vector<Buffer> conv_norm_grad_buffers(const ConvNormGradTensors& t, std::vector<Buffer> scratch) {
  std::vector<Buffer> buffers{buffer_of("dy", Role::kRead, t.dy), buffer_of("x", Role::kRead, t.x),
                              buffer_of("w", Role::kRead, t.w), buffer_of("dx", Role::kWrite, t.dx),
                              buffer_of("dw", Role::kWrite, t.dw)};
  buffers.insert(buffers.end(), scratch.begin(), scratch.end());
  return buffers;
}

void conv_norm_grad_cpu(const ConvNormGradTensors& t, const Run& run) {
  require_valid(t, run.dilation);
  const Geometry geometry(t.x.shape, run.dilation);
  if (geometry.channels == 0) return;
  const GradParts parts(geometry);
  Workspace& workspace = run.context.workspace();
  const int64_t sums_bytes = parts.count() * parts.size * int64_t{sizeof(double)};
  const auto packed_dy = workspace.lease(packed_bytes(t.dy), run.stream);
  const auto packed_x = workspace.lease(packed_bytes(t.x), run.stream);
  const auto taps = workspace.lease(Taps::bytes(geometry), run.stream);
  const auto sums = workspace.lease(sums_bytes, run.stream);
  Call call;  // to name the problem
  call.dims = geometry.dims(run.dilation);
  call.dtype = t.x.dtype;
  call.inputs = {t.dy, t.x, t.w};
  call.outputs = {t.dx, t.dw};
  run.context.tuner().run({.tunable = &conv_norm_grad_cpu_tunable(),
                           .key = tuning_key(call),
                           .unfit = {},
                           .buffers = conv_norm_grad_buffers(
                               t, {{"packed_dy", Role::kScratch, packed_dy.data(), packed_bytes(t.dy)},
                                   {"packed_x", Role::kScratch, packed_x.data(), packed_bytes(t.x)},
                                   {"taps", Role::kScratch, taps.data(), Taps::bytes(geometry)},
                                   {"sums", Role::kScratch, sums.data(), sums_bytes}}),
                           .run =
                               [&](const Config& config, std::span<void* const> data) {
                                 GradJob job{.geometry = geometry,
                                             .parts = parts,
                                             .dy = t.dy,
                                             .x = t.x,
                                             .taps = taps.as<float>(),
                                             .dx = t.dx,
                                             .sums = sums.as<double>(),
                                             .stream = config["stream"] == 1};
                                 TensorView dw = t.dw;
                                 job.dx.data = data[3];
                                 dw.data = data[4];
                                 if (parts.count() > 0) {
                                   job.dy = pack_examples(t.dy, packed_dy.data());
                                   job.x = pack_examples(t.x, packed_x.data());
                                   repeat_taps(t.w, geometry, taps.as<float>());
                                   if (config["whole"] == 1) {
                                     run_whole(job, run);
                                   } else {
                                     run_split(job, run);
                                   }
                                 }
                                 sum_parts(job, dw);
                               },
                           .stream = run.stream});
}

}  // namespace assay::cheri
#endif  // HWY_ONCE
