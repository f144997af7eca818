#include <array>
#include <chrono>

#include "support/verbs_kit.h"
#include "ucma_kit.h"

// The peer's disconnect is told behind the messages that it sent before.
namespace weft::ucma::test {
namespace {

using weft::test::must;

weft::test::Node shown_node() {
  const auto& shown = files::shown_devices().front();
  verbs::DeviceOptions options;
  options.name = shown.name;
  options.ports.push_back({.address = "127.0.0.1"});
  return weft::test::Node(must(verbs::Device::open(options)));
}

/// Two connected queue pairs with a connection between them, whose active end has sent one message.
struct Talk {
  Talk() {
    pair.establish(client.endpoint().qpn.value, server.endpoint().qpn.value);
    must(client.connect(server.endpoint()));
    must(server.connect(client.endpoint()));
    weft::test::post_receive(server, 1, {memory.sge()});
    weft::test::post(client, {.wr_id = 2, .op = SendOp::kSend}, {memory.sge()});
  }
  std::size_t fetch() {
    std::array<Completion, 4> done;
    return node.receives.poll(done);
  }

  weft::test::Node node = shown_node();
  weft::test::Memory memory{node, 64};
  verbs::QueuePair client = node.create(), server = node.create();
  Pair pair;
};

/// Far less than weft's patience. False: the machine was so slow that it may have run out.
bool nothing_comes(const Channel& channel) {
  const auto start = std::chrono::steady_clock::now();
  const bool came = channel.next(20).has_value();
  const bool in_time = std::chrono::steady_clock::now() - start < std::chrono::milliseconds(90);
  EXPECT_FALSE(came && in_time);
  return !came;
}

TEST(UcmaLastMessages, a_disconnect_waits_until_they_are_fetched) {
  Talk talk;
  ASSERT_EQ(talk.pair.active.disconnect(), 0);
  if (!nothing_comes(talk.pair.server)) GTEST_SKIP() << "the machine is too slow";
  EXPECT_EQ(talk.fetch(), 1U);
  EXPECT_EQ(talk.pair.server.next_code(), EventCode::kDisconnected);
}

TEST(UcmaLastMessages, nobody_waits_for_them_for_ever) {
  Talk talk;
  ASSERT_EQ(talk.pair.active.disconnect(), 0);
  EXPECT_EQ(talk.pair.server.next_code(), EventCode::kDisconnected);
  EXPECT_EQ(talk.fetch(), 1U);
}

TEST(UcmaLastMessages, who_disconnects_too_does_not_wait) {
  // On a busy machine the peer's message may be on its way for so long that the event cannot be
  // there at once; but not each time.
  constexpr int kAttempts = 20;
  int at_once = 0;
  for (int i = 0; i < kAttempts && at_once == 0; ++i) {
    Talk talk;
    ASSERT_EQ(talk.pair.active.disconnect(), 0);
    if (!nothing_comes(talk.pair.server)) continue;
    ASSERT_EQ(talk.pair.passive.disconnect(), 0);
    if (talk.pair.server.next_code(0) == EventCode::kDisconnected) ++at_once;
  }
  EXPECT_EQ(at_once, 1);
}

TEST(UcmaLastMessages, a_destroyed_identifier_takes_its_late_events_with_it) {
  Talk talk;
  ASSERT_EQ(talk.pair.active.disconnect(), 0);
  if (!nothing_comes(talk.pair.server)) GTEST_SKIP() << "the machine is too slow";
  EXPECT_EQ(talk.pair.passive.destroy(), 1);  // the one that told of the connection
  EXPECT_FALSE(talk.pair.server.next(300));
}

}  // namespace
}  // namespace weft::ucma::test
