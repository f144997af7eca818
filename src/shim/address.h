// Addresses in libibverbs' form and in weft's. Stateless.
#pragma once

#include "shim/objects.h"
#include "weft/result.h"

namespace weft::shim {

/// A link-local GID becomes the address that it stands for (files/gid_table.h). A port without GRH
/// is found by its local identifier, which devices with an InfiniBand link layer have.
Result<AddressVector> vector_of(Context& context, const ibv_ah_attr& attr);

/// The error of who asks for a GID that the device does not have: `what` names the argument.
tl::unexpected<Error> no_such_gid(const files::ShownDevice& device, const char* what,
                                  std::uint32_t index);

/// The GIDs of the two ends are of different kinds, which weft carries and network cards do not: a
/// sentence that says so. Empty: they fit.
std::string mixed_gids(Context& context, const ibv_ah_attr& attr);
/// What else about the GIDs may keep a peer that is not weft from answering. Empty: nothing.
std::string foreign_gids(Context& context, const ibv_ah_attr& attr);

}  // namespace weft::shim
