// A key table over host memory with one region to play with, for the tests of keys.
#pragma once

#include <gtest/gtest.h>

#include "base/random.h"
#include "memory/copy.h"
#include "memory/host_vmm.h"
#include "memory/key_table.h"
#include "unit/memory/pages.h"

namespace weft::memory::test {

inline constexpr Access kAllRemote =
    Access::kRemoteRead | Access::kRemoteWrite | Access::kRemoteAtomic;
inline constexpr Access kEverything = Access::kLocalWrite | kAllRemote | Access::kWindowBind;

class Keys : public testing::Test {
 protected:
  RegionSpec spec(Access access = kEverything) {
    return {&vmm, kPd, pages.address(), pages.size(), access, std::nullopt};
  }
  RegionKeys region(Access access = kEverything) { return *table.register_region(spec(access)); }

  RemoteAccess write_of(std::uint64_t address, std::uint64_t length, std::uint64_t use = 1) {
    return {kPd, kQpn, address, length, Access::kRemoteWrite, use};
  }
  /// What a peer gets; like the responder, it lets go of the key afterwards.
  tl::expected<std::uint64_t, AccessError> remote(RemoteKey rkey, const RemoteAccess& access) {
    const auto place = table.check_remote(rkey, access);
    Flight::clear(Hold::kRemote);
    if (!place) return tl::unexpected(place.error());
    return place->address;
  }
  AccessError refused(RemoteKey rkey, const RemoteAccess& access) {
    const auto place = remote(rkey, access);
    EXPECT_FALSE(place) << "access was granted";
    return place ? AccessError{} : place.error();
  }
  tl::expected<std::uint64_t, AccessError> local(LocalKey lkey, std::uint64_t address,
                                                 std::uint64_t length, Intent intent,
                                                 PdId pd = kPd) {
    const auto place = table.check_local(lkey, pd, address, length, intent, Hold::kLocal);
    Flight::clear(Hold::kLocal);
    if (!place) return tl::unexpected(place.error());
    return place->address;
  }
  BindSpec bind_of(RemoteKey window, LocalKey lkey, std::uint64_t address, std::uint64_t length,
                   Access access = kAllRemote, std::uint8_t tag = 0) {
    return {window, tag, lkey, address, length, access, kPd, kQpn};
  }

  static constexpr PdId kPd{7};
  static constexpr PdId kOtherPd{8};
  static constexpr Qpn kQpn{0x123};
  static constexpr Qpn kOtherQpn{0x124};

  HostVmm vmm;
  base::SeededRandom random{42};
  KeyTable table{random};
  Pages pages{4};
};

}  // namespace weft::memory::test
