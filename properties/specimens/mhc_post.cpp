// SPDX-License-Identifier: Apache-2.0
#include "properties/specimens/mhc_post.h"

#include <algorithm>

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
    float sum = weighted;
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

void any_loop(const Call& call, const Fault<Own>& fault) {
  visit(call.dtype, [&]<class T>(std::type_identity<T>) { loop<T>(call, fault); });
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
  };
  // The other terms of each sum hide a subnormal input, so flushing it changes no result visibly.
  return plant(ops().front(), own, any_loop, {CommonFault::kSubnormalsFlushed});
}

}  // namespace assay::mhc_post
