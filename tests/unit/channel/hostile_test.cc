// What a liar can write into this end's memory: frames, records, control messages, status words.
#include <gtest/gtest.h>

#include <random>

#include "unit/channel/simulated_pair.h"

namespace weft::channel::test {
namespace {

/// Writes frames into the receiver's ring by hand, as a peer that keeps to no rule.
class Liar {
 public:
  explicit Liar(SimulatedPair& pair) : pair_(pair), ring_(pair.there.endpoint.grant()) {}

  std::byte* slot_end(std::uint32_t frame) const {
    return reinterpret_cast<std::byte*>(ring_.address) +
           std::size_t{(frame - base_) % ring_.slots + 1} * ring_.slot_bytes;
  }
  void raw_frame(std::uint32_t head, std::uint32_t length, std::uint32_t tail,
                 const std::vector<std::byte>& records) {
    if (!writable()) move();
    if (!writable()) return;  // the device refuses the write
    std::byte* end = slot_end(next_);
    if (length <= ring_.slot_bytes && length >= 16) {
      store(end - length, head);
      store(end - length + 4, std::uint32_t{0});
      std::copy(records.begin(), records.end(), end - length + 8);
    }
    store(end - 8, length);
    store(end - 4, tail);
    ++next_;
  }
  void frame(const std::vector<std::byte>& records) {
    raw_frame(tag_of(next_), static_cast<std::uint32_t>(records.size()) + 16, tag_of(next_),
              records);
  }
  /// From now on into the ring that the receiver looks at.
  void move() {
    const RemoteRing ring = pair_.there.endpoint.grant();
    if (ring.key.value == ring_.key.value) return;
    ring_ = ring;
    base_ = next_;
  }
  std::uint32_t slots() const { return ring_.slots; }
  bool writable() const { return pair_.keys.live.contains(ring_.key.value); }
  std::string error() {
    pair_.there.endpoint.progress(pair_.now);
    while (pair_.there.endpoint.look()) {
    }
    return std::string(pair_.there.endpoint.error());
  }

 private:
  SimulatedPair& pair_;
  RemoteRing ring_;
  std::uint32_t next_ = 0, base_ = 0;
};

template <class T>
std::vector<std::byte> record(Kind kind, const T& payload) {
  std::vector<std::byte> bytes(kRecordBytes + round_up_8(sizeof payload));
  store(bytes.data(), RecordHead{kind, sizeof payload});
  store(bytes.data() + kRecordBytes, payload);
  return bytes;
}
std::vector<std::byte> empty_record(Kind kind, std::uint32_t length = 0) {
  std::vector<std::byte> bytes(kRecordBytes);
  store(bytes.data(), RecordHead{kind, length});
  return bytes;
}
std::vector<std::byte> operator+(std::vector<std::byte> a, const std::vector<std::byte>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string error_of(const std::vector<std::byte>& records) {
  SimulatedPair pair{Settings{}};
  Liar liar(pair);
  liar.frame(records);
  return liar.error();
}

TEST(Hostile, frames_with_impossible_lengths_or_flags_end_the_channel) {
  for (const std::uint32_t length : {0u, 8u, 17u, 12345672u, 0xFFFFFFF8u}) {
    SimulatedPair pair{Settings{}};
    Liar liar(pair);
    liar.raw_frame(tag_of(0), length, tag_of(0), {});
    EXPECT_NE(liar.error(), "") << length;
  }
  SimulatedPair pair{Settings{}};
  Liar liar(pair);
  liar.raw_frame(tag_of(5), 16, tag_of(0), {});
  EXPECT_NE(liar.error(), "");
}

TEST(Hostile, a_frame_of_another_sequence_is_not_there) {
  SimulatedPair pair{Settings{}};
  Liar liar(pair);
  liar.raw_frame(tag_of(3), 16, tag_of(3), {});
  EXPECT_EQ(liar.error(), "");
  EXPECT_EQ(pair.there.endpoint.receive().figures().frames, 0u);
}

TEST(Hostile, records_that_make_no_sense_end_the_channel) {
  EXPECT_NE(error_of(empty_record(Kind{0})), "");
  EXPECT_NE(error_of(empty_record(Kind{99})), "");
  EXPECT_NE(error_of(empty_record(Kind::kWhole, 1000)), "");
  EXPECT_NE(error_of(empty_record(Kind::kWhole, 0xFFFFFFFF)), "");
  EXPECT_NE(error_of(empty_record(Kind::kBegin, 0)), "");
  EXPECT_NE(error_of(record(Kind::kBegin, std::uint64_t{1} << 60)), "");
  EXPECT_NE(error_of(record(Kind::kBegin, std::uint64_t{0})), "");
  EXPECT_NE(error_of(record(Kind::kMore, std::uint64_t{0})), "");
  EXPECT_NE(error_of(empty_record(Kind::kMove)), "");
  EXPECT_NE(error_of(empty_record(Kind::kAbandon)), "");
  EXPECT_NE(error_of(empty_record(Kind::kOffer)), "");
  EXPECT_NE(error_of(empty_record(Kind::kClose) + empty_record(Kind::kClose)), "");
  EXPECT_EQ(error_of(empty_record(Kind::kWhole)), "");
}

TEST(Hostile, a_message_that_begins_inside_another_ends_the_channel) {
  const auto begin = record(Kind::kBegin, std::uint64_t{100});
  EXPECT_EQ(error_of(begin), "");
  EXPECT_NE(error_of(begin + begin), "");
}

TEST(Hostile, a_piece_longer_than_the_rest_ends_the_channel) {
  EXPECT_NE(error_of(record(Kind::kBegin, std::uint64_t{4}) +
                     record(Kind::kMore, std::array<std::byte, 5>{})),
            "");
}

TEST(Hostile, control_messages_with_impossible_sizes_end_the_channel) {
  const Move good{1, 1, slot_bytes_of(16384), 4, 1, 0};
  EXPECT_EQ(error_of(record(Kind::kMove, good)), "");
  const auto bad = [&](auto change) {
    Move move = good;
    change(move);
    return error_of(record(Kind::kMove, move));
  };
  EXPECT_NE(bad([](Move& m) { m.slots = 0; }), "");
  EXPECT_NE(bad([](Move& m) { m.slots = 1u << 30; }), "");
  EXPECT_NE(bad([](Move& m) { m.slot_bytes = 0; }), "");
  EXPECT_NE(bad([](Move& m) { m.slot_bytes = 0xFFFFFFF8; }), "");
  EXPECT_NE(bad([](Move& m) { m.slot_bytes += 1; }), "");
}

TEST(Hostile, a_control_message_for_another_channel_ends_this_one) {
  // A6: it names the channel, and the receiver heeds that; nothing is provisioned.
  for (const Kind kind : {Kind::kMove, Kind::kAbandon}) {
    SimulatedPair pair{Settings{}};
    const int before = pair.there.wires.provisions;
    Liar liar(pair);
    Move move{pair.here.endpoint.channel(), 1, slot_bytes_of(16384), 4, 1 << 16, 0};
    liar.frame(record(kind, move));
    EXPECT_EQ(liar.error(), "");
    move.channel = pair.there.endpoint.channel();
    ASSERT_NE(move.channel, pair.here.endpoint.channel());
    liar.frame(record(kind, move));
    EXPECT_EQ(liar.error(), "a control message is for another channel");
    pair.there.endpoint.progress(pair.now);
    EXPECT_EQ(pair.there.wires.provisions, before + (kind == Kind::kMove ? 1 : 0));
  }
}

TEST(Hostile, moving_to_a_ring_that_was_not_granted_ends_the_channel) {
  EXPECT_NE(error_of(empty_record(Kind::kLast)), "");
  const Move move{1, 1, slot_bytes_of(16384), 4, 1, 0};
  EXPECT_NE(
      error_of(record(Kind::kMove, move) + empty_record(Kind::kLast) + empty_record(Kind::kWhole)),
      "");
}

TEST(Hostile, asking_for_growth_again_and_again_provisions_once) {
  // A6: repeats never provision twice.
  SimulatedPair pair{Settings{}};
  Liar liar(pair);
  const int before = pair.there.wires.provisions;
  for (std::uint32_t i = 1; i < 4; ++i) {
    liar.frame(record(Kind::kMove, Move{1, 1, slot_bytes_of(16384), 4, i, 0}));
  }
  EXPECT_EQ(liar.error(), "");
  EXPECT_EQ(pair.there.wires.provisions, before + 1);
}

TEST(Hostile, offers_out_of_turn_empty_or_huge_end_the_channel) {
  const Offer good{0x1000, 100, 100, 7, 1};
  const auto bad = [&](auto change) {
    Offer offer = good;
    change(offer);
    return error_of(record(Kind::kOffer, offer));
  };
  EXPECT_EQ(bad([](Offer&) {}), "");
  EXPECT_NE(bad([](Offer& o) { o.number = 2; }), "");
  EXPECT_NE(bad([](Offer& o) { o.length = 0; }), "");
  EXPECT_NE(bad([](Offer& o) { o.length = o.total = std::uint64_t{1} << 40; }), "");
  EXPECT_NE(bad([](Offer& o) { o.total = 50; }), "");
  EXPECT_NE(bad([](Offer& o) { o.total = 0; }), "");
}

TEST(Hostile, status_words_that_claim_too_much_end_the_channel) {
  SimulatedPair pair{Settings{}};
  store(pair.here.control + kStatusOffset, Status{.consumed = 5});
  pair.here.endpoint.progress(pair.now);
  EXPECT_NE(pair.here.endpoint.error(), "");
  SimulatedPair other{Settings{}};
  store(other.here.control + kStatusOffset, Status{.pulled = 1});
  other.here.endpoint.progress(other.now);
  EXPECT_NE(other.here.endpoint.error(), "");
}

TEST(Hostile, one_frame_more_than_there_are_slots_ends_the_channel) {
  SimulatedPair pair{Settings{}};
  Liar liar(pair);
  Endpoint& endpoint = pair.there.endpoint;
  const auto message = record(Kind::kWhole, std::uint64_t{1});
  liar.frame(message);
  auto view = endpoint.look();
  ASSERT_TRUE(view);
  for (std::uint32_t i = 1; i < liar.slots(); ++i) {
    liar.frame(message);
    auto next = endpoint.look();
    ASSERT_TRUE(next);
    endpoint.release(*next);
  }
  EXPECT_EQ(endpoint.error(), "");
  liar.frame(message);  // its slot is the one that the view holds
  EXPECT_FALSE(endpoint.look());
  EXPECT_EQ(endpoint.error(), "the peer writes more frames than it was given slots");
  EXPECT_TRUE(endpoint.failed());
  EXPECT_EQ(endpoint.receive().consumed(), 0u);
  endpoint.release(*view);
  EXPECT_EQ(endpoint.receive().consumed(), liar.slots());
}

TEST(Hostile, all_slots_may_be_full_at_one_time) {
  SimulatedPair pair{Settings{}};
  Liar liar(pair);
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t i = 0; i < liar.slots(); ++i) {
      liar.frame(record(Kind::kWhole, std::uint64_t{i}));
    }
    std::vector<Incoming> views;
    while (auto view = pair.there.endpoint.look()) views.push_back(*view);
    EXPECT_EQ(views.size(), liar.slots());
    for (Incoming& view : views) pair.there.endpoint.release(view);
  }
  EXPECT_EQ(liar.error(), "");
}

TEST(Hostile, a_ring_is_not_freed_under_a_view_whatever_frames_come_behind_it) {
  SimulatedPair pair{Settings{}};
  Liar liar(pair);
  Endpoint& endpoint = pair.there.endpoint;
  const auto message = record(Kind::kWhole, std::uint64_t{1});
  liar.frame(message);
  auto first = endpoint.look();
  ASSERT_TRUE(first);
  for (std::uint32_t i = 1; i < std::bit_ceil(liar.slots()); ++i) {
    liar.frame(message);
    if (auto next = endpoint.look()) endpoint.release(*next);
  }
  liar.frame(message);  // would take the entry of the first
  const auto second = endpoint.look();
  if (second) pair.there.wires.held.push_back(second->data);
  endpoint.release(*first);  // would count for the second
  liar.frame(record(Kind::kMove, Move{1, 1, slot_bytes_of(16384), 4, 1 << 16, 0}));
  endpoint.progress(pair.now);
  liar.frame(empty_record(Kind::kLast));
  endpoint.progress(pair.now);
  EXPECT_EQ(pair.there.wires.violation, "");
}

/// An application that keeps some views while a liar writes whatever is well formed, as often as it
/// likes. Gives what was wrong.
std::string torment(std::uint32_t seed) {
  std::mt19937 random(seed);
  Settings settings;
  settings.keep_small = random() % 2 == 0;
  SimulatedPair pair(settings);
  SimulatedSide& wires = pair.there.wires;
  Endpoint& endpoint = pair.there.endpoint;
  Liar liar(pair);
  std::vector<Incoming> views;
  const auto let_go = [&](std::size_t i) {
    std::erase(wires.held, views[i].data);
    endpoint.release(views[i]);
    views.erase(views.begin() + static_cast<std::ptrdiff_t>(i));
  };
  std::array<std::byte, 100> offered{};
  const std::uint32_t key = pair.keys.open(offered.data(), offered.size());
  std::uint32_t offers = 0;
  for (int step = 0; step < 200; ++step) {
    switch (random() % 12) {
      case 0: {
        const auto slots = static_cast<std::uint32_t>(2 + random() % 7);
        const auto bytes = static_cast<std::uint32_t>(100u << random() % 6);
        liar.frame(record(Kind::kMove,
                          Move{1, static_cast<std::uint32_t>(random() % 3), slot_bytes_of(bytes),
                               slots, static_cast<std::uint32_t>(step) << 16,
                               static_cast<std::uint32_t>(random() % 4 == 0)}));
        endpoint.progress(pair.now);
        liar.move();
        break;
      }
      case 1:
        if (endpoint.receive().growing()) liar.frame(empty_record(Kind::kLast));
        endpoint.progress(pair.now);
        liar.move();
        break;
      case 2:
        liar.frame(record(Kind::kAbandon, Move{.channel = 1}));
        break;
      case 3:
        liar.frame(record(Kind::kOffer, Offer{reinterpret_cast<std::uint64_t>(offered.data()),
                                              offered.size(), offered.size(), key, ++offers}));
        break;
      case 4:
        while (!views.empty()) let_go(random() % views.size());
        break;
      case 5:
      case 6:
        if (!views.empty()) let_go(random() % views.size());
        break;
      case 7:
        store(pair.there.control + kStatusOffset,
              Status{.repeat = static_cast<std::uint32_t>(random()),
                     .recalled = static_cast<std::uint32_t>(random())});
        endpoint.progress(pair.now);
        break;
      default:
        liar.frame(record(Kind::kWhole, std::uint64_t{1}) + record(Kind::kWhole, std::uint64_t{2}));
    }
    while (wires.execute()) {
    }
    SimulatedPair::complete(pair.there);
    while (auto view = endpoint.look()) {
      if (!view->region.exists()) wires.held.push_back(view->data);
      views.push_back(*view);
      if (random() % 2 == 0) let_go(random() % views.size());
    }
  }
  while (!views.empty()) let_go(0);
  return wires.violation;
}

TEST(Hostile, no_sequence_of_frames_frees_a_ring_under_a_view) {
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    ASSERT_EQ(torment(seed), "") << "seed " << seed;
  }
}

TEST(Hostile, rings_that_are_kept_are_no_more_than_there_are_phases) {
  Settings settings;
  settings.keep_small = true;
  SimulatedPair pair(settings);
  Liar liar(pair);
  Endpoint& endpoint = pair.there.endpoint;
  pair.there.wires.log = true;
  constexpr std::uint32_t kMoves = 20;
  for (std::uint32_t i = 1; i <= kMoves; ++i) {  // each larger than the one before
    liar.frame(record(Kind::kMove, Move{1, i, slot_bytes_of(100 + 8 * i), 4, i << 16, 0}));
    liar.frame(empty_record(Kind::kLast));
    ASSERT_EQ(liar.error(), "");
    liar.move();
    pair.settle(1);
  }
  EXPECT_EQ(endpoint.receive().figures().switches, kMoves);
  const auto& journal = pair.there.wires.journal;
  const auto freed = std::count(journal.begin(), journal.end(), "release");
  EXPECT_EQ(static_cast<std::size_t>(freed) + settings.phases.size(), kMoves);
}

TEST(Hostile, hellos_that_no_honest_peer_sends_are_refused) {
  SimulatedPair pair{Settings{}};
  const Hello good = SimulatedPair::hello(pair.here);
  std::array<std::byte, Hello::kBytes> bytes;
  good.emit(bytes);
  ASSERT_TRUE(Hello::parse(bytes));
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(Hello::parse(std::span(bytes).first(n)));
  }
  const auto refused = [&](auto change) {
    Hello hello = good;
    change(hello);
    hello.emit(bytes);
    return !Hello::parse(bytes);
  };
  EXPECT_TRUE(refused([](Hello& h) { h.control = 0; }));
  EXPECT_TRUE(refused([](Hello& h) { h.ring.address = 3; }));
  EXPECT_TRUE(refused([](Hello& h) { h.ring.slots = 1; }));
  EXPECT_TRUE(refused([](Hello& h) { h.ring.slot_bytes = 16; }));
  EXPECT_TRUE(refused([](Hello& h) { h.ring.slot_bytes = 1u << 31; }));
}

TEST(Hostile, random_bytes_in_ring_and_control_block_break_nothing) {
  // Nothing may be read or written outside; the sanitizers judge.
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    SimulatedPair pair{Settings{}};
    const RemoteRing ring = pair.there.endpoint.grant();
    auto* memory = reinterpret_cast<std::byte*>(ring.address);
    for (std::uint32_t frame = 0; frame < ring.slots; ++frame) {
      std::byte* end = memory + std::size_t{frame + 1} * ring.slot_bytes;
      for (std::byte* at = end - ring.slot_bytes; at < end; ++at) {
        *at = random() % 3 == 0 ? static_cast<std::byte>(random() % 9) : std::byte{0};
      }
      const auto length = static_cast<std::uint32_t>(16 + random() % 60 * 8);
      store(end - length, tag_of(frame));
      store(end - 8, length);
      store(end - 4, tag_of(frame));
    }
    for (int i = 0; i < 20; ++i) {
      pair.there.endpoint.progress(pair.now);
      while (pair.there.wires.execute()) {
      }
      SimulatedPair::complete(pair.there);
      while (auto message = pair.there.endpoint.look()) pair.there.endpoint.release(*message);
      pair.there.control[random() % kControlBytes] = static_cast<std::byte>(random());
    }
  }
}

}  // namespace
}  // namespace weft::channel::test
