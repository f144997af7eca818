// The numbers of the character devices that weft shows. Those of the kernel, so that nobody is
// surprised; the devices themselves are never made. Plain functions, any thread.
#pragma once

#include <sys/sysmacros.h>
#include <sys/types.h>

#include <cstdint>

namespace weft::files {

inline constexpr const char* kRdmaCmPath = "/dev/infiniband/rdma_cm";

/// /dev/infiniband/uverbs<n>.
inline dev_t uverbs_number(std::uint32_t n) { return makedev(231, 192 + n); }

/// /dev/infiniband/rdma_cm: as the tree says. A machine with RDMA has its own number for it, which
/// librdmacm compares with what netlink told it, and that one is taken over.
dev_t rdma_cm_number();

/// What the tree says when the machine has no rdma_cm of its own.
inline dev_t usual_rdma_cm_number() { return makedev(10, 122); }

}  // namespace weft::files
