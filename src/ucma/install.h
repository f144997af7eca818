// Puts the rdma_cm device in its place. Called once, when the preloaded library starts.
#pragma once

namespace weft::ucma {

void install();

}  // namespace weft::ucma
