// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace assay {

// Makes sure that no stream costs a run its reports. A descriptor of 0 to 2 that is closed fails
// from now on when it is used, so that no file gets its number. What comes after the reader of
// stdout went away is dropped, and so is all that stderr does not take.
void prepare_streams();

}  // namespace assay
