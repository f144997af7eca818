// The tables of a hostile neighbour: any bytes in its key entries, blocks and permutation. An
// initiator that checks a key there never crashes, and what it is allowed to touch in a mapped
// arena lies inside that arena, all of it.
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "host/handshake.h"
#include "path/neighbour_target.h"
#include "support/byte_feed.h"

namespace weft::test {
namespace {

using host::PublicKey;
using host::PublicLayout;
using Peers = host::SharedMemory::Peers;

constexpr std::uint32_t kArena = 5;
constexpr std::size_t kArenaBytes = 8192;

/// A target that has sent its tables and one arena, and then writes into the tables what it likes.
struct Target {
  Target() {
    const std::string name = "weft-fuzz-tables-" + std::to_string(getpid());
    const auto listener = host::LocalSocket::listen(name).value();
    auto there = host::LocalSocket::connect(name).value();
    link = std::make_unique<host::Outbound>(listener.accept().value(),
                                            host::RingProducer::create().value(), getpid());
    host::Handshake note;
    note.note = host::Note::kArena;
    note.arena = kArena;
    note.arena_bytes = kArenaBytes;
    WEFT_ASSERT(there.send(std::as_bytes(std::span(&note, 1)), std::array{arena.fd()}).has_value());
    link->receive(0);
    WEFT_ASSERT(link->arena(kArena).size() == kArenaBytes);
    layout().magic = PublicLayout::kMagic;
    link->tables = host::PublicView::receive(dup(tables.fd())).value();
    socket = std::move(there);
  }
  PublicLayout& layout() const { return *reinterpret_cast<PublicLayout*>(tables.data()); }
  PublicKey& key(std::uint32_t slot) const {
    return reinterpret_cast<PublicKey*>(tables.data() + PublicLayout::kKeysAt)[slot];
  }

  host::SharedMemory tables =
      host::SharedMemory::create("weft-fuzz", PublicLayout::kBytes, 4096, Peers::kRead).value();
  host::SharedMemory arena =
      host::SharedMemory::create("weft-fuzz", kArenaBytes, kArenaBytes, Peers::kWrite).value();
  std::unique_ptr<host::Outbound> link;
  host::LocalSocket socket;
};

class Drill {
 public:
  Drill(ByteFeed& feed, Target& target) : feed_(feed), target_(target) {
    peer_.pd = PdId(1);
    peer_.qpn = Qpn(0x33);
    peer_.access = Access::kRemoteRead | Access::kRemoteWrite | Access::kRemoteAtomic;
    PublicLayout& layout = target.layout();
    layout.block_count.store(0);
    layout.key_count.store(PublicLayout::kMaxKeys);
  }

  void run() {
    for (int i = 0; i < 60 && !feed_.empty(); ++i) {
      switch (feed_.below(5)) {
        case 0:
          spoil_layout();
          break;
        case 1:
          look_up_queue_pair();
          break;
        default:
          check_key();
      }
    }
  }

 private:
  void spoil_layout() {
    PublicLayout& layout = target_.layout();
    const std::uint32_t counts[] = {0, 1, host::kMaxBlocks, host::kMaxBlocks + 1, 0xFFFFFFFF};
    switch (feed_.below(5)) {
      case 0:
        layout.block_count.store(feed_.pick(counts));
        break;
      case 1:
        layout.blocks[feed_.byte()] = static_cast<std::uint16_t>(feed_.word());
        break;
      case 2:
        layout.hidden[feed_.below(4)][feed_.below(4)] =
            std::uint64_t{feed_.word()} << 32 | feed_.word();
        break;
      case 3:
        layout.tag = feed_.word();
        break;
      default: {
        const std::uint32_t keys[] = {0, 1024, PublicLayout::kMaxKeys, 0xFFFFFFFF};
        layout.key_count.store(feed_.pick(keys));
      }
    }
  }

  void look_up_queue_pair() {
    const std::uint32_t index = feed_.byte();
    const std::uint32_t block = target_.layout().blocks[index];
    const Qpn qpn(feed_.below(4) == 0 ? feed_.word() : (block & 0xFFF) << host::kBlockBits | 7);
    const host::PublicQueuePair* found = target_.link->tables.queue_pair(qpn);
    if (found != nullptr) static_cast<void>(found->ready());
  }

  std::uint64_t any_number() {
    const std::uint64_t numbers[] = {0,
                                     1,
                                     8,
                                     64,
                                     4096,
                                     kArenaBytes,
                                     kArenaBytes - 8,
                                     kArenaBytes + 1,
                                     ~std::uint64_t{0},
                                     std::uint64_t{1} << 63,
                                     ~std::uint64_t{0} - 4096,
                                     feed_.word()};
    return feed_.pick(numbers);
  }

  void check_key() {
    const RemoteKey rkey(feed_.below(2) == 0 ? feed_.below(16) << 8 | 1 : feed_.word());
    std::uint32_t slot = 0;
    if (target_.link->tables.key(rkey, &slot) == nullptr) return;
    WEFT_ASSERT(slot < PublicLayout::kMaxKeys);
    PublicKey& entry = target_.key(slot);
    if (feed_.below(4) != 0) fill(entry, rkey);
    const Access needs[] = {Access::kRemoteRead, Access::kRemoteWrite, Access::kRemoteAtomic};
    const auto request = peer_.request(any_number(), any_number(), feed_.pick(needs));
    const auto place = path::check_target(*target_.link, peer_, slot_, rkey, request);
    using Verdict = path::TargetPlace::Verdict;
    WEFT_ASSERT(place.verdict == Verdict::kAllowed || place.mapped == nullptr);
    if (place.verdict == Verdict::kAllowed) {
      WEFT_ASSERT(has(entry.access, request.need) && entry.pd == peer_.pd);
      if (place.mapped != nullptr) must_be_inside(place.mapped, request.length);
    }
    const auto grant = path::grant_target(*target_.link, peer_, rkey, request.need);
    if (grant.covers(rkey, request.address, request.length)) {
      const std::uint64_t offset = request.address - grant.base;
      WEFT_ASSERT(grant.holds());
      WEFT_ASSERT(place.verdict == path::TargetPlace::Verdict::kAllowed);
      if (grant.mapped != nullptr) {
        must_be_inside(grant.mapped + offset, request.length);
      } else {
        WEFT_ASSERT(grant.target + offset == place.address);
      }
    }
    slot_.clear();
  }

  void fill(PublicKey& entry, RemoteKey rkey) {
    using Keys = memory::KeyEntry;
    const std::uint32_t live = Keys::kRemoteLive | Keys::kTaken | (rkey.value & Keys::kTagMask);
    entry.control.store(feed_.below(8) == 0 ? feed_.word() : live);
    entry.pd = PdId(feed_.below(8) == 0 ? feed_.word() : 1);
    entry.access = feed_.below(4) == 0 ? Access(feed_.word()) : peer_.access;
    entry.base = any_number();
    entry.length = any_number();
    entry.target = any_number();
    entry.qpn = feed_.below(4) == 0 ? Qpn(0x33) : Keys::kAnyQueuePair;
    entry.arena = feed_.below(4) == 0 ? feed_.byte() : kArena;
    entry.arena_offset = any_number();
  }

  void must_be_inside(const std::byte* mapped, std::uint64_t length) {
    const auto arena = target_.link->arena(kArena);
    WEFT_ASSERT(mapped >= arena.data() && mapped <= arena.data() + arena.size());
    WEFT_ASSERT(length <= static_cast<std::uint64_t>(arena.data() + arena.size() - mapped));
  }

  ByteFeed& feed_;
  Target& target_;
  path::TargetPeer peer_;
  host::FlightSlot slot_{};
};

}  // namespace
}  // namespace weft::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static weft::test::Target target;
  weft::test::ByteFeed feed({data, size});
  weft::test::Drill(feed, target).run();
  return 0;
}
