// Addresses in libibverbs' form and in weft's. Stateless.
#pragma once

#include "shim/objects.h"
#include "weft/result.h"

namespace weft::shim {

/// A port without GRH is found by its local identifier, which devices with an InfiniBand link layer
/// have.
Result<AddressVector> vector_of(Context& context, const ibv_ah_attr& attr);

}  // namespace weft::shim
