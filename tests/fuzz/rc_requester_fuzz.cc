// A hostile responder against the requester: near-valid answers to what was asked and to what was
// not. Whatever comes, it does not crash, writes only into the buffers of its reads, completes each
// request at most once and in order, and none successfully before its last frame was sent.
#include <cstdint>

#include "support/byte_feed.h"
#include "support/guarded_end.h"
#include "support/transport_end.h"
#include "transport/message.h"

namespace weft::test {
namespace {

constexpr std::uint32_t kMtu = 256;
constexpr std::size_t kOwnBytes = 70 * kMtu;  // a read longer than one request

EndSetup setup_from(ByteFeed& feed) {
  EndSetup setup;
  setup.limits = {16, 4, 2, 1, 64};
  setup.completions = 64;
  setup.memory_bytes = 64 * 1024;
  setup.attributes.path_mtu = Mtu::k256;
  setup.attributes.send_psn = Psn(0xFFFFF0 + feed.below(32));
  setup.attributes.max_rd_atomic = static_cast<std::uint8_t>(1 + feed.below(4));
  setup.attributes.retry_count = static_cast<std::uint8_t>(feed.below(8));
  setup.attributes.rnr_retry = static_cast<std::uint8_t>(feed.below(8));
  return setup;
}

class Drill {
 public:
  explicit Drill(ByteFeed& feed) : feed_(feed), end_(setup_from(feed)), watch_(end_, kOwnBytes) {
    start_ = end_.qp.attributes.send_psn;
  }

  void run() {
    while (!feed_.empty() && end_.state() != QpState::kError) {
      step();
      watch_.check();
      for (; counted_ < watch_.last_success; ++counted_) {
        WEFT_ASSERT(ends_[counted_] <= sent_ && "completed before it was sent");
      }
    }
    queue::fail_queue_pair(end_.qp);
    end_.scheduler.soon = 1;
    end_.settle();
    watch_.check_flushed();
    WEFT_ASSERT(transport::next_deadline(end_.requester) == kNever);
  }

 private:
  void step() {
    switch (feed_.below(8)) {
      case 0:
        return post();
      case 1:
      case 2:
        return say(1 + feed_.below(16));
      case 3:
        if (feed_.below(8) == 0) {
          end_.qp.state = end_.state() == QpState::kReadyToSend ? QpState::kSendQueueDrained
                                                                : QpState::kReadyToSend;
        }
        return pass_time();
      default:
        return hear();
    }
  }
  void post() {
    constexpr SendOp kOps[] = {SendOp::kSend,        SendOp::kWrite,           SendOp::kRead,
                               SendOp::kCompareSwap, SendOp::kDelay,           SendOp::kFetchAdd,
                               SendOp::kRead,        SendOp::kLocalInvalidate, SendOp::kBind,
                               SendOp::kAtomicWrite};
    const std::uint32_t lengths[] = {0, 1, 8, kMtu, kMtu + 1, 5 * kMtu, 70 * kMtu};
    const SendOp op = feed_.pick(kOps);
    const bool atomic = transport::is_atomic(op);
    const std::uint32_t length =
        op == SendOp::kAtomicWrite ? 0 : (atomic ? 8 : feed_.pick(lengths));
    const bool broken = feed_.below(16) == 0;
    const Sge one{end_.address(), length, broken ? LocalKey(0x999) : end_.own.lkey};
    SendRequest request{.wr_id = watch_.sends_posted, .op = op, .sges = {&one, 1}};
    if (feed_.below(4) == 0) request.flags = request.flags | SendFlags::kFence;
    request.remote = {0x1000, RemoteKey(1)};
    request.delay_ns = feed_.byte();
    if (!end_.post_send(request)) return;
    ++watch_.sends_posted;
    if (!transport::is_local(op)) numbers_ += atomic ? 1 : transport::frames_of(length, kMtu);
    ends_.push_back(numbers_);
  }
  void say(std::uint32_t most) {
    for (std::uint32_t i = 0; i < most; ++i) {
      const auto frame = end_.next_request();
      if (!frame) return;
      const wire::Packet packet = frame->packet();
      WEFT_ASSERT(!is_response(packet) && packet.payload.size() <= kMtu);
      const bool read = packet.info().operation == wire::Operation::kReadRequest;
      const std::uint32_t frames = read ? transport::frames_of(packet.reth.length, kMtu) : 1;
      sent_ = std::max<std::uint64_t>(sent_, packet.bth.psn.distance_from(start_) + frames);
      WEFT_ASSERT(sent_ <= numbers_);
    }
  }
  void hear() {
    constexpr wire::Opcode kAnswers[] = {
        wire::Opcode::kRcAcknowledge,        wire::Opcode::kRcReadResponseFirst,
        wire::Opcode::kRcReadResponseMiddle, wire::Opcode::kRcReadResponseLast,
        wire::Opcode::kRcReadResponseOnly,   wire::Opcode::kRcAtomicAcknowledge,
        wire::Opcode::kRcAcknowledge,        wire::Opcode::kRcReadResponseMiddle};
    constexpr std::uint8_t kSyndromes[] = {0x1F, 0x1F, 0x00, 0x20, 0x2E, 0x60, 0x60,
                                           0x61, 0x62, 0x63, 0x64, 0x65, 0x9F};
    const std::uint32_t sizes[] = {kMtu, kMtu, kMtu, 1, 8, 0, kMtu + 1, kMtu - 1};
    wire::Packet packet;
    packet.bth.opcode = feed_.pick(kAnswers);
    const std::int32_t shift = feed_.below(3) != 0 ? 0 : feed_.offset();
    packet.bth.psn =
        Psn(end_.requester.stream.unacked().value() + static_cast<std::uint32_t>(shift));
    packet.aeth.syndrome = feed_.pick(kSyndromes);
    const std::uint32_t n = packet.info().has_payload ? feed_.pick(sizes) : 0;
    const Frame frame = forge(packet, std::span(data_).first(n));
    transport::on_response(end_.requester, end_.qp, frame.packet(), end_.now());
  }
  void pass_time() {
    const Nanoseconds due = transport::next_deadline(end_.requester);
    if (due == kNever) return;
    end_.advance_to(due);
    say(1);
    // A deadline that stays behind the clock would make the progress engine spin.
    WEFT_ASSERT(end_.state() == QpState::kError ||
                transport::next_deadline(end_.requester) > end_.now());
  }

  ByteFeed& feed_;
  RcEnd end_;
  Watch watch_;
  Psn start_;
  std::uint64_t numbers_ = 0, sent_ = 0, counted_ = 0;
  std::vector<std::uint64_t> ends_;  ///< of each request: its last number, plus one
  std::vector<std::byte> data_ = std::vector<std::byte>(kMtu + 1);
};

}  // namespace
}  // namespace weft::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return 0;
  weft::test::ByteFeed feed({data, size});
  weft::test::Drill(feed).run();
  return 0;
}
