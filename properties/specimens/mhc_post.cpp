// SPDX-License-Identifier: Apache-2.0
#include "properties/specimens/mhc_post.h"

#include <algorithm>
#include <mutex>
#include <thread>

#include "kernels/core/parallel.h"
#include "kernels/mhc_post/mhc_post.h"
#include "properties/core/planted.h"

namespace assay::mhc_post {
namespace {

enum class Own : uint8_t {
  kCombTransposed,
  kCombOfBlockStart,
  kLastStreamDropped,
  kFourStreamsAssumed,
  kStreamsUpdatedInPlace,
  kResidualAddedUnmixed,
  kPostOnResidual,
  kPostOfNextToken,
  kPostOfFirstStream,
  kXUnweighted,
  kXAddedTwice,
  kMixesRounded,
  kSumsFromZero,
  // They show on other schedules only.
  kTermsAddedAsTheyEnd,
  kTermsAddedPerRange,
  kRowShared,
  kRangeBeforeNotAwaited,
};
using enum Own;

constexpr int64_t kBlock = 4;  // [tokens]

template <class T>
void loop(const Call& call, const Fault<Own>& fault) {
  const Elements<T> x(call.inputs[kX]), residual(call.inputs[kResidual]), out(call.outputs[kOut]);
  const Elements<float> post(call.inputs[kPost]), comb(call.inputs[kComb]);
  const FaultyArithmetic<T> math(fault);
  const auto mix = [&](float stored) {
    return fault == kMixesRounded ? math.through_storage(stored) : math.load(stored);
  };
  const int64_t tokens = call.dims[kN], streams = call.dims[kHc], hidden = call.dims[kH];
  const int64_t mixed_streams = fault == kLastStreamDropped    ? streams - 1
                                : fault == kFourStreamsAssumed ? std::min<int64_t>(streams, 4)
                                                               : streams;
  const auto element = [&](int64_t n, int64_t i, int64_t h) {
    const int64_t post_token = fault == kPostOfNextToken ? std::min(n + 1, tokens - 1) : n;
    const int64_t comb_token = fault == kCombOfBlockStart ? n / kBlock * kBlock : n;
    const float weight =
        fault == kXUnweighted ? 1 : mix(post(post_token, fault == kPostOfFirstStream ? 0 : i));
    const float weighted =
        math.multiply(weight, math.load(fault == kPostOnResidual ? residual(n, i, h) : x(n, h)));
    float sum = fault == kSumsFromZero ? math.add(0.0f, weighted) : weighted;
    if (fault == kXAddedTwice) sum = math.add(sum, weighted);
    if (fault == kResidualAddedUnmixed) sum = math.add(sum, math.load(residual(n, i, h)));
    for (int64_t j = 0; j < mixed_streams; ++j) {
      const float m = mix(fault == kCombTransposed ? comb(comb_token, i, j) : comb(comb_token, j, i));
      const bool is_updated = fault == kStreamsUpdatedInPlace && j < i;
      sum = math.add(sum, math.multiply(m, math.load(is_updated ? out(n, j, h) : residual(n, j, h))));
    }
    return math.store(sum);
  };
  for (int64_t n = 0; n < tokens; ++n) {
    for (int64_t i = 0; i < streams; ++i) {
      for (int64_t h = 0; h < hidden; ++h) out(n, i, h) = element(n, i, h);
    }
  }
}

// A sum over terms in ranges, or tokens in ranges. Each is right if the ranges come in order, one
// after the other, and are as long as here.
template <class T>
void loop_in_ranges(const Call& call, Own fault) {
  const Elements<T> x(call.inputs[kX]), residual(call.inputs[kResidual]), out(call.outputs[kOut]);
  const Elements<float> post(call.inputs[kPost]), comb(call.inputs[kComb]);
  const FaultyArithmetic<T> math(Fault<Own>{.own = fault});
  const int64_t tokens = call.dims[kN], streams = call.dims[kHc], hidden = call.dims[kH];
  constexpr int64_t kOneRange = int64_t{1} << 40;
  using Sums = std::vector<float>;
  const auto add_term = [&](int64_t n, int64_t term, float weight, float* sums) {
    for (int64_t h = 0; h < hidden; ++h)
      sums[h] += weight * math.load(term == 0 ? x(n, h) : residual(n, term - 1, h));
  };
  const auto each_row = [&](const auto& body) {
    for (int64_t row = 0; row < tokens * streams; ++row)
      body(row / streams, row % streams, static_cast<size_t>(row * hidden));
  };
  if (fault == kTermsAddedAsTheyEnd || fault == kTermsAddedPerRange) {
    const auto weight = [&](int64_t n, int64_t i, int64_t term) {
      return term == 0 ? post(n, i) : comb(n, term - 1, i);
    };
    const Sums zeros(static_cast<size_t>(tokens * streams * hidden));
    std::vector<Sums> parts(static_cast<size_t>(streams + 1), zeros);  // by their first term
    std::vector<size_t> order;
    std::mutex mutex;
    const int64_t grain = fault == kTermsAddedPerRange ? 2 : kOneRange;
    parallel_for(streams + 1, grain, [&](int64_t begin, int64_t end) {
      Sums& part = parts[static_cast<size_t>(begin)];
      for (int64_t term = begin; term < end; ++term)
        each_row([&](int64_t n, int64_t i, size_t at) { add_term(n, term, weight(n, i, term), &part[at]); });
      const std::lock_guard lock(mutex);
      order.push_back(static_cast<size_t>(begin));
    });
    if (fault == kTermsAddedPerRange) std::ranges::sort(order);
    Sums sums = zeros;
    for (const size_t begin : order) {
      for (size_t k = 0; k < sums.size(); ++k) sums[k] += parts[begin][k];
    }
    each_row([&](int64_t n, int64_t i, size_t at) {
      for (int64_t h = 0; h < hidden; ++h) out(n, i, h) = math.store(sums[at + static_cast<size_t>(h)]);
    });
    return;
  }
  Sums shared(static_cast<size_t>(hidden));
  Sums posts(static_cast<size_t>((tokens + 1) * streams));  // of a token, copied by the one before
  const auto copy_posts = [&](int64_t n) {
    for (int64_t i = 0; i < streams && n < tokens; ++i)
      posts[static_cast<size_t>(n * streams + i)] = post(n, i);
  };
  copy_posts(0);
  parallel_for(tokens, kOneRange, [&](int64_t begin, int64_t end) {
    Sums own(static_cast<size_t>(hidden));
    Sums& sums = fault == kRowShared ? shared : own;
    for (int64_t n = begin; n < end; ++n) {
      if (fault == kRowShared) copy_posts(n);  // itself
      for (int64_t i = 0; i < streams; ++i) {
        std::ranges::fill(sums, 0.0f);
        add_term(n, 0, posts[static_cast<size_t>(n * streams + i)], sums.data());
        for (int64_t j = 0; j < streams; ++j) add_term(n, j + 1, comb(n, j, i), sums.data());
        // Another range gets its turn even on a machine that is busy with something else.
        if (fault == kRowShared && n < 8 && i == 0) std::this_thread::yield();
        for (int64_t h = 0; h < hidden; ++h) out(n, i, h) = math.store(sums[static_cast<size_t>(h)]);
      }
      copy_posts(n + 1);
    }
  });
}

void any_loop(const Call& call, const Fault<Own>& fault) {
  visit(call.dtype, [&]<class T>(std::type_identity<T>) {
    const bool is_in_ranges = fault.own && *fault.own >= kTermsAddedAsTheyEnd;
    is_in_ranges ? loop_in_ranges<T>(call, *fault.own) : loop<T>(call, fault);
  });
}

}  // namespace

std::vector<Specimen> specimens() {
  const std::vector<OwnFault<Own>> own = {
      {kCombTransposed, {"specimen.comb_transposed", "comb is read at [i,j] instead of [j,i]"}},
      {kCombOfBlockStart,
       {"specimen.comb_of_block_start", "the comb of its first token serves a block of four tokens"}},
      {kLastStreamDropped, {"specimen.last_stream_dropped", "stream HC - 1 of the residual is left out"}},
      {kFourStreamsAssumed,
       {"specimen.four_streams_assumed", "streams of the residual after the fourth are left out"}},
      {kStreamsUpdatedInPlace,
       {"specimen.streams_updated_in_place", "a stream is mixed with streams that were already written"}},
      {kResidualAddedUnmixed,
       {"specimen.residual_added_unmixed", "the residual of the stream is added once more, unmixed"}},
      {kPostOnResidual, {"specimen.post_on_residual", "post weighs the residual instead of x"}},
      {kPostOfNextToken, {"specimen.post_of_next_token", "post is read one token further on"}},
      {kPostOfFirstStream, {"specimen.post_of_first_stream", "the post of stream 0 serves all streams"}},
      {kXUnweighted, {"specimen.x_unweighted", "x is added without its weight"}},
      {kXAddedTwice, {"specimen.x_added_twice", "x is added once too often"}},
      {kMixesRounded,
       {"specimen.mixes_rounded",
        "post and comb are rounded to the storage dtype",
        {DType::kF16, DType::kBF16}}},
      {kSumsFromZero, {"specimen.sums_from_zero", "sums begin at +0, so that -0 becomes 0"}},
      {kTermsAddedAsTheyEnd,
       {"specimen.terms_added_as_they_end",
        "ranges of terms are added in the order in which threads finish them",
        {DType::kF32}}},
      {kTermsAddedPerRange,
       {"specimen.terms_added_per_range",
        "each range of terms is added up first, however long it is",
        {DType::kF32}}},
      {kRowShared, {"specimen.row_shared", "all ranges of tokens add up in the same row of memory"}},
      {kRangeBeforeNotAwaited,
       {"specimen.range_before_not_awaited",
        "a range of tokens reads what the range before may not have written yet"}},
  };
  // The other terms of each sum hide a subnormal input, so flushing it changes no result visibly.
  return plant(ops().front(), own, any_loop, {CommonFault::kSubnormalsFlushed});
}

}  // namespace assay::mhc_post
