// /dev/infiniband/uverbs<n> of a shown device: it can be found, opened and polled, as programs do
// that look whether they may use the device; its commands are the kernel's business, and refused.
// Any thread.
#pragma once

namespace weft::files {

/// For all of shown_devices(); the first call does it. Not when the library is loaded: most
/// processes never ask.
void emulate_uverbs();

}  // namespace weft::files
