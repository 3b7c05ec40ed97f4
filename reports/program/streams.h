// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace assay {

// Makes sure that no stream costs a run its reports. A descriptor of 0 to 2 that is closed fails
// from now on when it is used, so that no file gets its number. A reader that goes away ends no
// process, and what cannot be written to stderr is dropped.
void prepare_streams();

}  // namespace assay
