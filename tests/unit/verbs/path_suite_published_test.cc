// What a thread has published while it worked is gone when it is done, however the work ended: a
// queue pair that nobody works on goes away at once, also while that thread lives on and sleeps.
#include <array>
#include <functional>
#include <future>

#include "support/path_suite.h"
#include "verbs/internals.h"

namespace weft::test {
namespace {

class PublishedPath : public PathSuite {
 protected:
  /// Runs `work` in a thread that stays, and then takes the queue pair away from everybody. False:
  /// that had to wait until the thread ended.
  bool goes_while_the_thread_lives(const std::function<void()>& work, QueuePair& qp) {
    std::promise<void> worked, let_go;
    std::thread worker([&] {
      work();
      worked.set_value();
      let_go.get_future().wait();
    });
    worked.get_future().wait();
    auto gone = std::async(std::launch::async, [&] { must(qp.modify(QpState::kError)); });
    const bool at_once = gone.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    let_go.set_value();
    worker.join();
    gone.wait();
    return at_once;
  }
};

class PublishedFrames : public PublishedPath {
 protected:
  /// A frame with nothing but its header, for b, from a.
  PipeFrame header_only(wire::Opcode opcode, Qpn destination) {
    PipeFrame frame;
    frame.flow.source = a.device.address();
    frame.flow.destination = b.device.address();
    wire::Packet packet;
    packet.bth.opcode = opcode;
    packet.bth.dest_qp = destination;
    packet.bth.pkey = PKey(0xFFFF);
    frame.packet.resize(wire::Bth::kSize);
    packet.bth.emit(std::span(frame.packet).first<wire::Bth::kSize>());
    return frame;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, PublishedFrames, testing::Values(Way{Wire::kPipe, false}), way_name);

TEST_P(PublishedFrames, refused_ones_do_not_keep_their_queue_pair) {
  // B2.3: a frame from anybody must not stall the owner. Each kind comes alone, in a round of its
  // own: nothing that follows makes up for it.
  struct Kind {
    const char* name;
    wire::Opcode opcode;
    std::function<void(PipeFrame&)> spoil;
  };
  const std::array<Kind, 6> kinds{{
      {"version", wire::Opcode::kRcSendOnly,
       [](PipeFrame& f) { f.packet[1] |= std::byte{3}; }},  // transport version 3
      {"unknown opcode", wire::Opcode::kRcSendOnly,
       [](PipeFrame& f) { f.packet[0] = std::byte{0x1F}; }},
      {"cut off", wire::Opcode::kRcReadRequest, [](PipeFrame&) {}},
      {"service", wire::Opcode::kUcSendOnly, [](PipeFrame&) {}},
      {"partition", wire::Opcode::kRcSendOnly, [](PipeFrame& f) { f.packet[2] = std::byte{0x12}; }},
      {"source", wire::Opcode::kRcSendOnly, [](PipeFrame& f) { f.flow.source.raw[15] ^= 1; }},
  }};
  for (const Kind& kind : kinds) {
    Link link = connect();
    PipeFrame frame = header_only(kind.opcode, link.b.number());
    kind.spoil(frame);
    network.pipe().inject(frame);
    EXPECT_TRUE(goes_while_the_thread_lives([&] { b.device.controller()->poll(); }, link.b))
        << kind.name;
  }
}

class PublishedPeers : public PublishedPath {};
INSTANTIATE_TEST_SUITE_P(Over, PublishedPeers, testing::ValuesIn(all_ways()), way_name);

TEST_P(PublishedPeers, looking_at_one_does_not_keep_it) {
  Link link = connect();
  Memory memory(b, 64);
  EXPECT_TRUE(goes_while_the_thread_lives(
      [&] {
        queue::QueuePair& core = *verbs::Internals::of(link.a).core;
        core.path->look_at_peer(core, memory.remote().key);
      },
      link.b));
}

TEST_P(PublishedPeers, a_post_does_not_keep_one_that_is_connected_to_somebody_else) {
  Link link = connect();
  QueuePair stranger = a.create();
  must(stranger.connect(link.b.endpoint()));
  Memory from(a, 64), to(b, 64);
  EXPECT_TRUE(goes_while_the_thread_lives(
      [&] { post(stranger, {.op = SendOp::kWrite, .remote = to.remote()}, {from.sge()}); },
      link.b));
}

}  // namespace
}  // namespace weft::test
