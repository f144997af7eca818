// What a hostile process can say on the socket of a link, to an initiator that waits for its
// welcome and to a presence that listens: notes of any kind with any descriptors. Nobody crashes,
// nobody believes a welcome without a real page and real tables, and no descriptor is left over.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "host/presence.h"
#include "obs/log.h"
#include "support/byte_feed.h"

namespace weft::test {
namespace {

using host::Handshake;
using host::Note;

std::ptrdiff_t open_fds() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

/// What may be sent along: the real things, and others.
struct Things {
  base::SeededRandom random{3};
  base::Permutation24 hidden{random};
  host::ProcessPage* page = host::ProcessPage::mine().value();
  std::unique_ptr<host::PublicTables> tables = host::PublicTables::create(1, hidden).value();
  host::RingProducer ring = host::RingProducer::create().value();
  host::Fd bell{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  host::Fd pidfd = host::open_own_pidfd();
  host::Fd memory{open("/proc/self/mem", O_RDWR | O_CLOEXEC)};
  host::Fd zero{open("/dev/zero", O_RDWR | O_CLOEXEC)};
  host::Fd unsealed{memfd_create("weft-fuzz", MFD_CLOEXEC)};
  host::SharedMemory arena =
      host::SharedMemory::create("weft-fuzz", 8192, 8192, host::SharedMemory::Peers::kWrite)
          .value();
  std::string name = "weft-fuzz-handshake-" + std::to_string(getpid());
  host::LocalSocket listener = host::LocalSocket::listen(name).value();

  int pick(std::uint32_t kind) const {
    const std::array all{page->fd(), tables->fd(), bell.get(),     pidfd.get(), memory.get(),
                         ring.fd(),  zero.get(),   unsealed.get(), arena.fd()};
    return all[kind % all.size()];
  }
  /// What a good note of this kind carries.
  std::vector<int> proper(const Handshake& note) const {
    if (note.note == Note::kArena) return {arena.fd()};
    if (note.note == Note::kArenaGone) return {};
    std::vector<int> fds{page->fd(), note.note == Note::kHello ? ring.fd() : tables->fd()};
    if (note.has_pidfd) fds.push_back(pidfd.get());
    return fds;
  }
};

struct Said {
  Handshake note;
  std::vector<std::byte> bytes;
  std::vector<int> fds;
};

Said any_note(ByteFeed& feed, const Things& things) {
  Said said;
  Handshake& note = said.note;
  note.note = static_cast<Note>(feed.below(8) == 0 ? feed.byte() : feed.below(4));
  note.has_pidfd = feed.below(2) != 0 && things.pidfd;
  note.owner_checks = feed.below(2) != 0;
  note.address_count = feed.below(4) == 0 ? feed.byte() : std::uint16_t{1};
  note.arena = feed.byte();
  note.arena_bytes = feed.below(4) == 0 ? feed.word() : 8192;
  said.fds = things.proper(note);
  if (feed.below(4) == 0) said.fds.resize(feed.below(host::kMaxMessageFds + 1), things.bell.get());
  if (feed.below(4) == 0 && !said.fds.empty()) {
    said.fds[feed.below(static_cast<std::uint32_t>(said.fds.size()))] = things.pick(feed.byte());
  }
  const auto bytes = std::as_bytes(std::span(&note, 1));
  said.bytes.assign(bytes.begin(), bytes.end());
  for (std::uint32_t n = feed.below(8) == 0 ? feed.below(4) : 0; n > 0; --n) {
    said.bytes[feed.word() % said.bytes.size()] = std::byte{feed.byte()};
  }
  if (feed.below(16) == 0) said.bytes.resize(1 + feed.word() % 300);
  return said;
}

bool is_tables(int fd, const Things& things) { return fd == things.tables->fd(); }

void to_initiator(ByteFeed& feed, const Things& things) {
  auto there = host::LocalSocket::connect(things.name).value();
  host::Outbound link(things.listener.accept().value(), host::RingProducer::create().value(),
                      getpid());
  bool could_be_welcome = false;
  for (std::uint32_t n = 1 + feed.below(6); n > 0; --n) {
    const Said said = any_note(feed, things);
    could_be_welcome =
        could_be_welcome || (said.fds.size() >= 2 && said.fds[0] == things.page->fd() &&
                             is_tables(said.fds[1], things));
    static_cast<void>(there.send(said.bytes, said.fds));
    link.receive(0);
    WEFT_ASSERT(!link.usable() || could_be_welcome);
    const auto arena = link.arena(feed.byte());
    if (!arena.empty()) arena.back() = arena.front();
    WEFT_ASSERT(link.release_arenas(*things.page));
    if (link.usable()) {
      static_cast<void>(link.alive());
      static_cast<void>(link.has(Gid{}, feed.word() & 0xFFF));
      link.ring_doorbell();
    }
  }
}

std::string name_of_block(const Gid& gid, std::uint32_t block) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string name = "weft/";
  for (const std::uint8_t byte : gid.raw) name += {kDigits[byte >> 4], kDigits[byte & 15]};
  return name +
         std::string{'/', kDigits[block >> 8], kDigits[block >> 4 & 15], kDigits[block & 15]};
}

void to_presence(ByteFeed& feed, const Things& things) {
  Gid gid{};
  gid.raw[0] = 0xFD;
  for (std::size_t i = 0; i < 4; ++i) {
    gid.raw[8 + i] = static_cast<std::uint8_t>(static_cast<unsigned>(getpid()) >> 8 * i);
  }
  base::SeededRandom random(4);
  const auto presence = host::Presence::create({gid}, things.hidden, random).value();
  const std::string name = name_of_block(gid, presence->claim_block().value());
  auto caller = host::LocalSocket::connect(name).value();
  for (std::uint32_t n = 1 + feed.below(4); n > 0; --n) {
    const Said said = any_note(feed, things);
    static_cast<void>(caller.send(said.bytes, said.fds));
    for (int turn = 0; turn < 3; ++turn) presence->serve();
  }
  for (const auto& link : presence->inbound()) {
    WEFT_ASSERT(link->addresses.size() <= host::kMaxAddresses);
    host::RingConsumer::Taken taken;
    while (link->ring.take(&taken)) link->ring.give_back();
    link->ring_doorbell();
    static_cast<void>(link->process.alive());
  }
  WEFT_ASSERT(presence->inbound().size() <= 1);
}

}  // namespace
}  // namespace weft::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const weft::test::Things things;
  weft::obs::log().set_level(spdlog::level::off);
  weft::test::ByteFeed feed({data, size});
  const auto before = weft::test::open_fds();
  if (feed.below(4) == 0) {
    weft::test::to_presence(feed, things);
  } else {
    weft::test::to_initiator(feed, things);
  }
  // Some kinds of descriptors are closed by another thread.
  for (int i = 0; i < 10'000 && weft::test::open_fds() != before; ++i) usleep(1000);
  WEFT_ASSERT(weft::test::open_fds() == before);
  return 0;
}
