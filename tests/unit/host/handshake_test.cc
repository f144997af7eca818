#include "host/handshake.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <vector>

#include "base/random.h"
#include "host/link.h"
#include "unit/host/host_kit.h"

namespace weft::host {
namespace {

using test::open_fds;
using test::Pair;

Message message_of(const Handshake& note, std::size_t fds) {
  Message message;
  const auto bytes = std::as_bytes(std::span(&note, 1));
  message.bytes.assign(bytes.begin(), bytes.end());
  for (std::size_t i = 0; i < fds; ++i) message.fds.emplace_back(dup(0));
  return message;
}

Handshake note_of(Note kind) {
  Handshake note;
  note.note = kind;
  return note;
}

// ---- parsing --------------------------------------------------------------------------------

TEST(Handshake, is_understood_with_as_many_descriptors_as_it_says) {
  for (const Note kind : {Note::kHello, Note::kWelcome}) {
    for (unsigned flags = 0; flags < 4; ++flags) {
      Handshake note = note_of(kind);
      note.has_pidfd = (flags & 1) != 0;
      note.owner_checks = (flags & 2) != 0;
      const std::size_t wanted = 2 + (flags & 1);
      for (std::size_t fds = 0; fds < 7; ++fds) {
        EXPECT_EQ(parse_handshake(message_of(note, fds)).has_value(), fds == wanted);
      }
    }
  }
  for (std::size_t fds = 0; fds < 4; ++fds) {
    EXPECT_EQ(parse_handshake(message_of(note_of(Note::kArena), fds)).has_value(), fds == 1);
    EXPECT_EQ(parse_handshake(message_of(note_of(Note::kArenaGone), fds)).has_value(), fds == 0);
  }
}

TEST(Handshake, of_another_length_is_refused) {
  for (std::size_t n = 0; n < 2 * sizeof(Handshake); ++n) {
    Message message = message_of(note_of(Note::kHello), 2);
    message.bytes.resize(n);
    EXPECT_EQ(parse_handshake(message).has_value(), n == sizeof(Handshake)) << n;
  }
}

TEST(Handshake, with_something_wrong_is_refused) {
  const auto refused = [](const std::function<void(Handshake&)>& spoil) {
    Handshake note = note_of(Note::kWelcome);
    spoil(note);
    return !parse_handshake(message_of(note, 2)).has_value();
  };
  EXPECT_FALSE(refused([](Handshake&) {}));
  EXPECT_TRUE(refused([](Handshake& note) { ++note.magic; }));
  EXPECT_TRUE(refused([](Handshake& note) { ++note.version; }));
  EXPECT_TRUE(refused([](Handshake& note) { note.note = static_cast<Note>(4); }));
  EXPECT_TRUE(refused([](Handshake& note) { note.note = static_cast<Note>(0xFFFF); }));
  EXPECT_TRUE(refused([](Handshake& note) { note.address_count = kMaxAddresses + 1; }));
  EXPECT_FALSE(refused([](Handshake& note) { note.address_count = kMaxAddresses; }));
}

TEST(Handshake, whose_truth_values_are_neither_is_refused) {
  for (const std::size_t at : {offsetof(Handshake, has_pidfd), offsetof(Handshake, owner_checks)}) {
    for (const int value : {2, 3, 0x80, 0xFF}) {
      for (std::size_t fds = 2; fds < 5; ++fds) {
        Message message = message_of(note_of(Note::kWelcome), fds);
        message.bytes[at] = static_cast<std::byte>(value);
        EXPECT_FALSE(parse_handshake(message));
      }
    }
  }
}

// ---- descriptors ----------------------------------------------------------------------------

Fd make_pipe_end() {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  close(ends[0]);
  return Fd(ends[1]);
}
Fd make_memfd() { return Fd(memfd_create("anon_inode:[eventfd]", MFD_CLOEXEC)); }

TEST(Handshake, pidfd_that_is_none_is_not_waited_on) {
  EXPECT_FALSE(take_pidfd(make_pipe_end()));
  EXPECT_FALSE(take_pidfd(make_memfd()));
  EXPECT_FALSE(take_pidfd(Fd(eventfd(0, EFD_CLOEXEC))));
  EXPECT_FALSE(take_pidfd(Fd()));
  EXPECT_TRUE(take_pidfd(open_own_pidfd()));
}

// ---- what an initiator takes from its target ------------------------------------------------

class OutboundTest : public testing::Test {
 public:
  void send(const Handshake& note, const std::vector<int>& fds) {
    ASSERT_TRUE(pair.there.send(std::as_bytes(std::span(&note, 1)), fds));
    link->receive(0);
  }
  std::vector<int> good() { return {page->fd(), tables->fd()}; }
  bool dead() const { return link->dead.load(); }

  base::SeededRandom random{5};
  ProcessPage* page = ProcessPage::mine().value();
  std::unique_ptr<PublicTables> tables =
      PublicTables::create(1, base::Permutation24(random)).value();
  Fd bell{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Pair pair;
  std::shared_ptr<Outbound> link =
      std::make_shared<Outbound>(std::move(pair.here), RingProducer::create().value(), getpid());
};

TEST_F(OutboundTest, is_usable_after_a_welcome) {
  Handshake note = note_of(Note::kWelcome);
  note.address_count = 1;
  note.addresses[0].raw[15] = 9;
  ASSERT_TRUE(tables->add_block(0x321));
  EXPECT_FALSE(link->usable());
  send(note, good());
  EXPECT_TRUE(link->usable());
  EXPECT_TRUE(link->has(note.addresses[0], 0x321));
  EXPECT_FALSE(link->has(note.addresses[0], 0x322));
  EXPECT_FALSE(link->has(note.addresses[1], 0x321)) << "an address that it did not tell";
}

TEST_F(OutboundTest, dies_of_a_welcome_that_comes_twice) {
  send(note_of(Note::kWelcome), good());
  EXPECT_FALSE(dead());
  send(note_of(Note::kWelcome), good());
  EXPECT_TRUE(dead());
}

TEST_F(OutboundTest, dies_of_a_hello) {
  send(note_of(Note::kHello), good());
  EXPECT_TRUE(dead());
}

TEST_F(OutboundTest, dies_of_a_note_that_nobody_knows) {
  send(note_of(static_cast<Note>(9)), good());
  EXPECT_TRUE(dead());
  EXPECT_FALSE(link->usable());
}

TEST_F(OutboundTest, dies_of_tables_that_are_none) {
  send(note_of(Note::kWelcome), {page->fd(), page->fd()});
  EXPECT_TRUE(dead());
}

TEST_F(OutboundTest, dies_of_a_page_that_is_none) {
  const Fd pipe = make_pipe_end();
  send(note_of(Note::kWelcome), {pipe.get(), tables->fd()});
  EXPECT_TRUE(dead());
}

TEST_F(OutboundTest, dies_of_garbage) {
  const std::vector<std::byte> bytes(sizeof(Handshake), std::byte{0x5A});
  ASSERT_TRUE(pair.there.send(bytes, good()));
  link->receive(0);
  EXPECT_TRUE(dead());
}

TEST_F(OutboundTest, dies_when_the_target_hangs_up) {
  send(note_of(Note::kWelcome), good());
  pair.there.close();
  link->receive(0);
  EXPECT_TRUE(dead());
}

TEST_F(OutboundTest, maps_an_arena_of_the_size_that_was_told_and_no_other) {
  const auto memory =
      SharedMemory::create("weft-test", 8192, 8192, SharedMemory::Peers::kWrite).value();
  Handshake note = note_of(Note::kArena);
  note.arena = 3;
  note.arena_bytes = 4096;
  send(note, {memory.fd()});
  EXPECT_TRUE(link->arena(3).empty());
  note.arena_bytes = 8192;
  EXPECT_TRUE(link->arena(3).empty());
  const std::uint32_t before = link->arenas_changed.load();
  send(note, {memory.fd()});
  ASSERT_EQ(link->arena(3).size(), 8192u);
  EXPECT_NE(link->arenas_changed.load(), before) << "who has not found it before looks again";
  memory.data()[77] = std::byte{5};
  EXPECT_EQ(link->arena(3)[77], std::byte{5});
  EXPECT_TRUE(link->arena(4).empty());
  EXPECT_FALSE(dead());
}

/// Whether this process has anything mapped there.
bool is_mapped(const void* at) {
  unsigned char resident = 0;
  return mincore(const_cast<void*>(at), 1, &resident) == 0;
}

TEST_F(OutboundTest, unmaps_an_arena_that_is_gone_when_nobody_works_there_any_more) {
  send(note_of(Note::kWelcome), good());
  const auto memory =
      SharedMemory::create("weft-test", 8192, 8192, SharedMemory::Peers::kWrite).value();
  Handshake note = note_of(Note::kArena);
  note.arena = 3;
  note.arena_bytes = 8192;
  send(note, {memory.fd()});
  const auto mapped = link->arena(3);
  ASSERT_FALSE(mapped.empty());
  const std::uint32_t before = link->arenas_changed.load();
  // A thread that has found it, and is in the middle of its copy.
  FlightSlot* const slot = page->flight();
  slot->put(FlightUse::kKey, flight_word(tables->tag(), false, 9));
  note.note = Note::kArenaGone;
  send(note, {});
  EXPECT_FALSE(dead());
  EXPECT_TRUE(link->arena(3).empty()) << "nobody finds it any more";
  EXPECT_NE(link->arenas_changed.load(), before) << "nor does who has found it before";
  EXPECT_FALSE(link->release_arenas(*page));
  EXPECT_TRUE(is_mapped(mapped.data()));
  slot->put(FlightUse::kKey, flight_word(tables->tag() + 1, false, 9));  // elsewhere
  EXPECT_TRUE(link->release_arenas(*page));
  EXPECT_FALSE(is_mapped(mapped.data()));
  slot->clear();
  note.arena = 77;
  send(note, {});  // one that it never had
  EXPECT_FALSE(dead());
}

TEST_F(OutboundTest, leaves_no_descriptor_behind_whatever_came) {
  const std::size_t before = open_fds();
  for (int i = 0; i < 20; ++i) {
    Pair fresh;
    Outbound other(std::move(fresh.here), RingProducer::create().value(), getpid());
    Handshake note = note_of(i % 2 == 0 ? Note::kWelcome : Note::kHello);
    std::vector<int> fds = good();
    if (i % 3 == 0) fds.push_back(bell.get());
    ASSERT_TRUE(fresh.there.send(std::as_bytes(std::span(&note, 1)), fds));
    other.receive(0);
  }
  EXPECT_LE(open_fds(), before);  // fewer: of a test before this one some were still being closed
}

}  // namespace
}  // namespace weft::host
