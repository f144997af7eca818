#include "host/presence.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <set>
#include <thread>

#include "host/arena_registry.h"
#include "memory/host_vmm.h"
#include "unit/host/host_kit.h"
#include "weft/arena.h"

namespace weft::host {
namespace {

using test::Child;
using test::open_fds;
using test::soon;

/// An address that no other test, and no other run of this one, uses.
Gid fresh_address() {
  static std::uint8_t count = 0;
  Gid gid;
  gid.raw[0] = 0xFD;
  gid.raw[1] = ++count;
  const pid_t pid = getpid();
  std::memcpy(&gid.raw[8], &pid, sizeof pid);
  return gid;
}

/// The page of this process, alive.
ProcessPage& living_page() {
  ProcessPage& page = *ProcessPage::mine().value();
  if (!page.has_liveness()) {
    page.adopt_liveness();  // by the thread of the tests, which ends with the process
  }
  return page;
}

struct Node {
  explicit Node(const Gid& address, std::uint64_t seed = 1) : Node(std::vector{address}, seed) {}
  Node(std::vector<Gid> addresses, std::uint64_t seed) : random(seed) {
    living_page();
    presence = Presence::create(std::move(addresses), hidden, random).value();
  }
  Qpn claim() { return Qpn(presence->claim_block().value() << kBlockBits | 5); }

  base::SeededRandom random;
  base::Permutation24 hidden{random};
  std::unique_ptr<Presence> presence;
};

/// Serves the target until the link is welcome.
bool become_usable(Node& target, Outbound& link) {
  return soon([&] {
    target.presence->serve();
    link.receive(0);
    return link.usable();
  });
}

TEST(Presence, without_a_descriptor_for_a_caller_does_not_look_again_at_once) {
  const Gid address = fresh_address();
  Node target(address), earlier(fresh_address()), caller(fresh_address());
  // What a sanitizer looks at for the first time costs it descriptors too.
  auto before = earlier.presence->reach(address, target.claim()).value();
  ASSERT_TRUE(become_usable(target, *before));
  auto link = caller.presence->reach(address, target.claim()).value();
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const Fd next(dup(0));
  const rlimit none{static_cast<rlim_t>(next.get()), old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto start = std::chrono::steady_clock::now();
  target.presence->serve();
  const auto took = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_GE(took, std::chrono::milliseconds(10)) << "the caller still waits: that would be a loop";
  EXPECT_TRUE(become_usable(target, *link));
}

// ---- names ----------------------------------------------------------------------------------

TEST(Presence, two_with_one_address_never_have_the_same_numbers) {
  const Gid address = fresh_address();
  // With the same seed they want the same blocks.
  Node one(address, 7), other(address, 7);
  std::set<std::uint32_t> blocks;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(blocks.insert(one.presence->claim_block().value()).second);
    EXPECT_TRUE(blocks.insert(other.presence->claim_block().value()).second);
  }
  EXPECT_EQ(blocks.count(0) + blocks.count(0xFFF), 0u) << "reserved";
}

TEST(Presence, processes_with_one_address_never_have_the_same_numbers) {
  const Gid address = fresh_address();
  Node mine(address, 8);
  std::set<std::uint32_t> blocks;
  for (int i = 0; i < 50; ++i) blocks.insert(mine.presence->claim_block().value());
  Child child([&] {
    Node theirs(address, 8);
    for (int i = 0; i < 50; ++i) {
      if (blocks.count(theirs.presence->claim_block().value()) != 0) return 1;
    }
    return 0;
  });
  EXPECT_EQ(child.exit_code(), 0);
}

TEST(Presence, other_addresses_have_all_numbers_for_themselves) {
  Node one(fresh_address(), 9), other(fresh_address(), 9);
  EXPECT_EQ(*one.presence->claim_block(), *other.presence->claim_block());
}

TEST(Presence, a_block_is_free_on_all_addresses_or_not_taken) {
  const Gid shared = fresh_address(), own = fresh_address();
  Node holder(shared, 10);
  const std::uint32_t taken = *holder.presence->claim_block();
  Node both(std::vector{own, shared}, 10);
  const std::uint32_t got = *both.presence->claim_block();
  EXPECT_NE(got, taken);
  // What it tried and could not have everywhere, it let go of.
  Node third(own, 10);
  EXPECT_EQ(*third.presence->claim_block(), taken);
}

TEST(Presence, names_and_descriptors_are_free_again_when_it_ends) {
  const Gid address = fresh_address();
  living_page();
  const std::size_t before = open_fds();
  std::uint32_t block = 0;
  {
    Node node(address, 11);
    block = *node.presence->claim_block();
  }
  EXPECT_EQ(open_fds(), before);
  Node next(address, 11);
  EXPECT_EQ(*next.presence->claim_block(), block);
}

// ---- links ----------------------------------------------------------------------------------

TEST(Presence, leads_from_a_number_to_its_process) {
  const Gid address = fresh_address();
  Node target(address), initiator(fresh_address(), 2);
  const Qpn qpn = target.claim();
  auto link = initiator.presence->reach(address, qpn);
  ASSERT_TRUE(link) << link.error().message;
  EXPECT_FALSE((*link)->usable());
  EXPECT_EQ(*initiator.presence->reach(address, qpn), *link) << "one call is enough";
  ASSERT_TRUE(become_usable(target, **link));
  EXPECT_TRUE((*link)->alive());
  EXPECT_EQ((*link)->tables.tag(), target.presence->tag());
  EXPECT_NE((*link)->tables.queue_pair(qpn), nullptr);
  EXPECT_TRUE(initiator.presence->has_links() && target.presence->has_links());
  // Its other numbers are reached over the same link.
  EXPECT_EQ(*initiator.presence->reach(address, target.claim()), *link);
}

TEST(Presence, finds_nobody_where_nobody_is) {
  Node node(fresh_address());
  EXPECT_EQ(node.presence->reach(fresh_address(), Qpn(0x123456)).error().code, Errc::kNotFound);
}

TEST(Presence, records_and_answers_pass_through_a_link) {
  const Gid address = fresh_address(), caller = fresh_address();
  Node target(address), initiator(caller, 2);
  auto link = *initiator.presence->reach(address, target.claim());
  ASSERT_TRUE(become_usable(target, *link));
  int owner = 0;
  ASSERT_NE(link->ring.reserve(8), nullptr);
  RecordHeader header;
  header.kind = static_cast<std::uint8_t>(RecordKind::kFirstOfUser);
  header.bytes = 8;
  link->ring.publish(header, {&owner, 3});
  ASSERT_EQ(target.presence->inbound().size(), 1u);
  Inbound& inbound = *target.presence->inbound()[0];
  EXPECT_EQ(inbound.addresses, std::vector{caller});
  RingConsumer::Taken taken;
  ASSERT_TRUE(inbound.ring.take(&taken));
  taken.record->status = 9;
  inbound.ring.give_back();
  RingProducer::Answered answered;
  ASSERT_TRUE(link->ring.peek(&answered));
  EXPECT_EQ(answered.owner, &owner);
  EXPECT_EQ(answered.record->status, 9u);
}

TEST(Presence, both_ends_learn_when_the_other_has_closed) {
  const Gid address = fresh_address();
  auto target = std::make_unique<Node>(address);
  auto initiator = std::make_unique<Node>(fresh_address(), 2);
  auto link = *initiator->presence->reach(address, target->claim());
  ASSERT_TRUE(become_usable(*target, *link));

  auto second = std::make_unique<Node>(fresh_address(), 3);
  auto other = *second->presence->reach(address, target->claim());
  ASSERT_TRUE(become_usable(*target, *other));
  const std::shared_ptr<Inbound> inbound = target->presence->inbound().at(1);
  EXPECT_FALSE(inbound->dead.load());
  other.reset();
  second.reset();
  EXPECT_TRUE(soon([&] {
    target->presence->serve();
    return inbound->dead.load();
  }));
  EXPECT_FALSE(target->presence->inbound().at(0)->dead.load()) << "its neighbour is not disturbed";

  target.reset();
  EXPECT_TRUE(soon([&] {
    initiator->presence->serve();
    return link->dead.load();
  }));
  EXPECT_FALSE(link->usable());
}

TEST(Presence, whoever_calls_and_talks_nonsense_is_turned_away_and_nobody_else) {
  const Gid address = fresh_address();
  Node target(address);
  const Qpn qpn = target.claim();
  std::string name = "weft/";
  for (const std::uint8_t byte : address.raw) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    name += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  const std::uint32_t block = qpn.value >> kBlockBits;
  name += {'/', kDigits[block >> 8], kDigits[block >> 4 & 15], kDigits[block & 15]};
  auto silent = LocalSocket::connect(name);
  auto talker = LocalSocket::connect(name);
  ASSERT_TRUE(silent && talker) << name;
  const std::vector<std::byte> nonsense(sizeof(Handshake), std::byte{7});
  ASSERT_TRUE(talker->send(nonsense, {}));
  EXPECT_TRUE(soon([&] {
    target.presence->serve();
    const auto reply = talker->receive(sizeof(Handshake), 0);
    return !reply && reply.error().code == Errc::kNotFound;
  }));
  EXPECT_FALSE(target.presence->has_links());
  Node initiator(fresh_address(), 2);
  auto link = *initiator.presence->reach(address, qpn);
  EXPECT_TRUE(become_usable(target, *link));
}

// ---- arenas ---------------------------------------------------------------------------------

TEST(Presence, arenas_reach_links_that_are_there_and_links_that_come_later) {
  const Gid address = fresh_address();
  Node target(address), early(fresh_address(), 2), late(fresh_address(), 3);
  memory::KeyTable keys(target.random);
  keys.set_publisher(target.presence.get());
  const Qpn qpn = target.claim();
  auto first = *early.presence->reach(address, qpn);
  ASSERT_TRUE(become_usable(target, *first));

  Arena arena = Arena::create(1 << 16).value();
  auto* bytes = static_cast<std::byte*>(arena.allocate(64));
  memory::HostVmm vmm;
  const auto region = keys.register_region({&vmm, PdId(1), reinterpret_cast<std::uint64_t>(bytes),
                                            64, Access::kLocalWrite, std::nullopt});
  ASSERT_TRUE(region);
  auto second = *late.presence->reach(address, qpn);
  ASSERT_TRUE(become_usable(target, *second));
  const ArenaPlace place = find_in_arena(bytes, 64);
  bytes[3] = std::byte{42};
  for (Outbound* link : {first.get(), second.get()}) {
    const auto mapped = link->arena(place.arena);
    ASSERT_GT(mapped.size(), place.offset + 3);
    EXPECT_EQ(mapped[place.offset + 3], std::byte{42});
    EXPECT_NE(mapped.data() + place.offset, bytes) << "another mapping of the same memory";
  }
  ASSERT_TRUE(keys.deregister_region(region->lkey));
}

// ---- revocation -----------------------------------------------------------------------------

class DrainOf : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Keys, DrainOf, testing::Bool());

TEST_P(DrainOf, a_key_waits_for_a_neighbour_that_is_in_flight) {
  // B4.9
  const bool fenced = GetParam();
  const Gid address = fresh_address();
  Node target(address), initiator(fresh_address(), 2);
  auto link = *initiator.presence->reach(address, target.claim());
  ASSERT_TRUE(become_usable(target, *link));
  FlightSlot* slot = living_page().flight();
  slot->put(FlightUse::kKey, flight_word(target.presence->tag(), false, 12));
  target.presence->drain(13, fenced);  // another key: at once
  std::atomic<bool> drained{false};
  std::thread revoker([&] {
    target.presence->drain(12, fenced);
    drained.store(true);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(drained.load());
  slot->clear();
  revoker.join();
  EXPECT_TRUE(drained.load());
}

/// A child that has called `address`, holds the word and never lets go of it.
int hold_for_ever(const Gid& address, Qpn qpn, std::uint32_t key) {
  Node node(fresh_address(), 5);
  auto link = node.presence->reach(address, qpn);
  if (!link) return 1;
  (*link)->receive(10'000);
  if (!(*link)->usable()) return 2;
  living_page().flight()->put(FlightUse::kKey, flight_word((*link)->tables.tag(), false, key));
  for (;;) pause();
}

TEST(Drain, counts_a_neighbour_that_was_killed_as_gone_and_a_stopped_one_as_there) {
  const Gid address = fresh_address();
  Node target(address);
  const Qpn qpn = target.claim();
  Child holder([&] { return hold_for_ever(address, qpn, 21); });
  const std::uint64_t word = flight_word(target.presence->tag(), false, 21);
  ASSERT_TRUE(soon([&] {
    target.presence->serve();
    const auto& links = target.presence->inbound();
    return !links.empty() && links[0]->process.in_flight(word);
  }));
  kill(holder.pid(), SIGSTOP);
  std::atomic<bool> drained{false};
  std::thread revoker([&] {
    target.presence->drain(21, false);
    drained.store(true);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  EXPECT_FALSE(drained.load()) << "it may go on at any time";
  const auto killed_at = std::chrono::steady_clock::now();
  holder.kill();
  revoker.join();
  EXPECT_LT(std::chrono::steady_clock::now() - killed_at, std::chrono::seconds(5));
}

TEST(Drain, costs_nothing_without_neighbours) {
  Node node(fresh_address());
  living_page().flight()->put(FlightUse::kKey, flight_word(node.presence->tag(), false, 1));
  node.presence->drain(1,
                       false);  // nobody is linked: that word is of a process that cannot reach us
  living_page().flight()->clear();
}

}  // namespace
}  // namespace weft::host
