// SPDX-License-Identifier: Apache-2.0
#include "reports/render/html_assets.h"

namespace assay {

const std::string_view kGlossary = R"html(
<dl>
<dt class="pass">✓ pass</dt><dd>Every check held, and for this very case each of them could have failed.</dd>
<dt class="fail">✗ fail</dt><dd>The path is wrong: an element outside its bound, an rms beyond the recipe, a write outside the
outputs, a changed input, an element left unwritten.</dd>
<dt class="mistrusted">? mistrusted</dt><dd>The path agrees with the oracle, but a plausible wrong answer would have agreed too. Not a
pass.</dd>
<dt class="crashed">! crashed, timeout</dt><dd>The device reported a fault, or the call did not return in time.</dd>
<dt class="unsupported">– unsupported, skipped</dt><dd>The path says that it does not serve the problem; or there was
nothing to judge, as in an empty problem, or no means to. Neither counts for or against the path.</dd>
<dt>error/bound</dt><dd>The largest error of an element over the largest error that a right path can make there, which is derived
from the recipe's roundings and this data. At most 1 for a right path.</dd>
<dt>rms/allowed</dt><dd>The rms of all errors over the largest that the recipe's roundings allow, but for one right case in a thousand
million. It tells a path of lower precision than declared, even within the bound. At most 1 for a right path; a dash where errors may
depend on each other or are too few.</dd>
<dt>max ulp</dt><dd>The largest error in units of the last place of the output dtype at the exact value.</dd>
<dt>normwise error</dt><dd>Euclidean norm of the error over that of the exact output.</dd>
<dt>median, interval</dt><dd>Of the samples, one call each. The interval holds the median with 95 % confidence; it comes from order
statistics and assumes no distribution.</dd>
<dt>cold, warm</dt><dd>Cold: the caches were filled with other data before each call. Warm: the same call ran just before.</dd>
<dt>floor</dt><dd>The time of moving every input and output once at the copy bandwidth, or, where products were measured and it is
longer, of the flops at the rate of products with such factors; in the same run. A little more than 100 % is possible: memory can be
read faster than copied, which favours a path that reads more than it writes, and warm calls may be served by the cache. A time that would need more than the measured read bandwidth is called implausible,
unless a cache can explain it.</dd>
<dt>drift</dt><dd>The median of the first tenth of the samples is more than 3 % from that of the last half, and their intervals do not
meet: the time changed while it was taken, as that of a GPU that meets its power limit does.</dd>
</dl>
)html";

}  // namespace assay
