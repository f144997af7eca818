// Another user takes the names by which processes share an address: the address can be joined all
// the same, and nothing is handed to that user.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <string>
#include <vector>

#include "port/address_share.h"
#include "support/name_taker.h"
#include "udp_fixture.h"

namespace weft::port {
namespace {

using weft::test::NameHold;
using weft::test::NameTaker;

std::vector<std::string> names_of_slots(const Gid& address, unsigned first = 0) {
  std::vector<std::string> names;
  for (unsigned slot = first; slot < host::kNumberSlots; ++slot) {
    names.push_back("weft-port/" + network::to_string(address) + "/" + std::to_string(slot));
  }
  return names;
}

class SharedWithOthers : public testing::Test {
 protected:
  void SetUp() override {
    if (!weft::test::can_be_two_users()) GTEST_SKIP() << "only root can be two users";
  }
  Incoming frame() const {
    static const std::vector<std::byte> secret(256, std::byte{0x5A});
    Incoming out;
    out.flow.source = address;
    out.packet = secret;
    return out;
  }
  static bool arrives(AddressShare& share) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < end) {
      const auto taken = share.take();
      if (taken) return taken->packet.size() == 256 && taken->packet[0] == std::byte{0x5A};
      pollfd entry{share.fd(), POLLIN, 0};
      poll(&entry, 1, 100);
    }
    return false;
  }
  const Gid address = test::random_ipv4();
};

TEST_F(SharedWithOthers, a_held_join_name_stops_nobody) {
  WEFT_NEEDS_OWNERS_OF_NAMES();
  for (const NameHold how : {NameHold::kBound, NameHold::kListening, NameHold::kFull}) {
    const NameTaker taker({"weft-port/" + network::to_string(address) + "/join"}, how);
    ASSERT_TRUE(taker.ready());
    const auto joined = AddressShare::join(address, 0, {});
    EXPECT_TRUE(joined) << joined.error().message;
  }
}

TEST_F(SharedWithOthers, held_slots_stop_nobody_and_frames_are_forwarded) {
  for (const int type : {SOCK_SEQPACKET, SOCK_DGRAM}) {
    const NameTaker taker(names_of_slots(address), NameHold::kListening, type);
    ASSERT_TRUE(taker.ready());
    const auto first = AddressShare::join(address, 0, {}),
               second = AddressShare::join(address, 0, {});
    ASSERT_TRUE(first && second);
    ASSERT_NE(first->share->slot(), second->share->slot());
    const Qpn number((host::kNumberSlots + second->share->slot()) << host::kBlockBits);
    bool taken = false;
    for (Nanoseconds now = 1; now < 100 && !taken; ++now) {
      taken = first->share->forward(number, frame(), now * 1'000'000'000);
    }
    ASSERT_TRUE(taken);
    EXPECT_TRUE(arrives(*second->share));
  }
}

/// As the other user: whatever comes to one of these names. 0: nothing did.
int listen_for_parcels(const std::vector<std::string>& names, int type,
                       const weft::test::Wire& wire) {
  if (!weft::test::become(weft::test::kNobody)) return 1;
  std::vector<pollfd> entries;
  for (const std::string& name : names) {
    const int fd = weft::test::hold_name(name, NameHold::kListening, type);
    if (fd >= 0) entries.push_back({fd, POLLIN, 0});
  }
  wire.put('l');
  wire.get<char>();  // all has been sent
  if (poll(entries.data(), entries.size(), 0) < 0) return 2;
  for (const pollfd& entry : entries) {
    std::byte byte{};
    if (type == SOCK_DGRAM) {
      if (recv(entry.fd, &byte, 1, MSG_DONTWAIT) > 0) return 3;
      continue;
    }
    for (;;) {
      const int caller = accept4(entry.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (caller < 0) break;
      if (recv(caller, &byte, 1, MSG_DONTWAIT) > 0) return 4;
      close(caller);
    }
  }
  return 0;
}

TEST_F(SharedWithOthers, nothing_is_forwarded_to_another_user) {
  for (const int type : {SOCK_SEQPACKET, SOCK_DGRAM}) {
    const auto joined = AddressShare::join(address, 0, 0u);
    ASSERT_TRUE(joined);
    const auto names = names_of_slots(address, 1);
    weft::test::Partner other([&](const weft::test::Wire& wire) {
      const int heard = listen_for_parcels(names, type, wire);
      if (heard != 0) _exit(10 + heard);
    });
    other.wire().get<char>();
    for (unsigned slot = 1; slot < host::kNumberSlots; ++slot) {
      const Qpn number((host::kNumberSlots + slot) << host::kBlockBits);
      EXPECT_FALSE(joined->share->forward(number, frame(), 1'000'000'000)) << slot;
    }
    other.wire().put('s');
    EXPECT_EQ(other.join(), 0);
  }
}

TEST_F(SharedWithOthers, nothing_is_taken_from_another_user) {
  const auto joined = AddressShare::join(address, 0, 0u);
  ASSERT_TRUE(joined);
  weft::test::Partner other([&](const weft::test::Wire& wire) {
    weft::test::require(weft::test::become(weft::test::kNobody), "to be another user");
    const weft::test::RawName name(names_of_slots(address).front());
    for (int i = 0; i < 200; ++i) {
      const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      WEFT_REQUIRE(connect(fd, name.generic(), name.size) == 0);
      const std::vector<std::byte> junk(400, std::byte{0x5A});
      send(fd, junk.data(), junk.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    wire.put('s');
    wire.get<char>();
  });
  other.wire().get<char>();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(joined->share->take());
  other.wire().put('d');
  EXPECT_EQ(other.join(), 0);
}

}  // namespace
}  // namespace weft::port
