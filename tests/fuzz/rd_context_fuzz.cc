// A hostile endnode against one end of an end-to-end context: near-valid requests, RESYNCs and
// answers in any order. Whatever comes, it does not crash, writes only inside the granted range and
// its receive buffers, sends nothing from outside, and completes each request and each receive at
// most once.
#include <cstdint>
#include <set>

#include "support/byte_feed.h"
#include "support/guarded_end.h"
#include "support/rd_end.h"

namespace weft::test {
namespace {

constexpr std::uint32_t kFrame = 256;
constexpr std::size_t kOwn = 2048;

EndSetup context_from(ByteFeed& feed) {
  EndSetup setup;
  setup.limits = {4, 16, 1, 1, 0};
  setup.completions = 64;
  setup.memory_bytes = 16 * 1024;
  setup.attributes.path_mtu = Mtu::k256;
  setup.attributes.receive_psn = Psn(0xFFFFF0 + feed.below(32));
  setup.attributes.max_rd_atomic = 2;
  setup.attributes.max_dest_rd_atomic = static_cast<std::uint8_t>(feed.below(5));
  return setup;
}

class ContextDrill {
 public:
  explicit ContextDrill(ByteFeed& feed)
      : feed_(feed),
        end_(context_from(feed), kContextHere, kContextThere, feed.below(2) != 0),
        watch_(end_, kOwn) {
    fill_pattern(data_, 3);
    once_ = end_.expose(Access::kLocalWrite | kAllRemote | Access::kOneShot);
  }

  void run() {
    while (!feed_.empty() && end_.failures == 0) {
      step();
      watch_.check();
      for (const Outcome& one : end_.take_outcomes()) {
        WEFT_ASSERT(one.wr_id < posted_ && told_.insert(one.wr_id).second);
      }
    }
    say(1000);
  }

 private:
  void step() {
    switch (feed_.below(10)) {
      case 0:
        return watch_.post_receive(feed_.below(5) * 300);
      case 1:
        return say(1 + feed_.below(8));
      case 2:
        return post();
      case 3:
        end_.sources_gone = feed_.below(8) == 0;
        return end_.advance_to(end_.now() + feed_.below(200) * 1000);
      case 4:
      case 5:
        return answer();
      case 6:
        if (feed_.below(8) == 0) transport::stop(end_.target, end_.qp);
        return;
      default:
        return ask();
    }
  }
  void post() {
    if (posted_ > 40) return;
    constexpr SendOp kOps[] = {SendOp::kSend, SendOp::kWrite, SendOp::kRead, SendOp::kFetchAdd};
    SendRequest request{.wr_id = posted_++, .op = kOps[feed_.below(4)]};
    request.destination_qkey = kEndKey;
    request.remote = {0x1000, RemoteKey(7)};
    const std::uint32_t length = request.op == SendOp::kFetchAdd ? 8 : feed_.below(5) * 300;
    end_.post(1 + feed_.below(3), request, end_.sge(0, length));
  }
  void ask() {
    const auto opcode = wire::Opcode{static_cast<std::uint8_t>(0x40 + feed_.below(0x16))};
    if (!wire::info(opcode).known) return;
    wire::Packet packet = headers_of(opcode, near(end_.responder.stream.expected()));
    packet.bth.dest_qp = feed_.below(16) == 0 ? Qpn(0x99) : kReceiver;
    packet.deth = {feed_.below(16) == 0 ? QKey(1) : kEndKey, Qpn(1 + feed_.below(2))};
    packet.rdeth.context = EecNumber(kContextHere.value);
    packet.bth.ack_request = feed_.below(2) != 0;
    const RemoteKey keys[] = {end_.exposed.rkey, end_.exposed.rkey, once_.rkey,
                              RemoteKey(feed_.word())};
    const std::uint64_t at = end_.remote().address + static_cast<std::uint64_t>(feed_.offset());
    const std::uint32_t lengths[] = {0, 8, kFrame, 2 * kFrame, 3 * kFrame, 7000, 0xFFFFFFFF};
    packet.reth = {at, feed_.pick(keys), feed_.pick(lengths)};
    packet.atomic.address = at & ~7u;
    packet.atomic.key = packet.reth.key;
    const std::uint32_t sizes[] = {kFrame, kFrame, kFrame, 5, 8, 0, kFrame - 1};
    const std::uint32_t n = wire::info(opcode).has_payload ? feed_.pick(sizes) : 0;
    end_.deliver(forge(packet, std::span(data_).first(n)));
  }
  void answer() {
    const wire::Opcode opcodes[] = {wire::Opcode::kRdAcknowledge, wire::Opcode::kRdAcknowledge,
                                    wire::Opcode::kRdReadResponseOnly,
                                    wire::Opcode::kRdReadResponseMiddle,
                                    wire::Opcode::kRdAtomicAcknowledge};
    wire::Packet packet = headers_of(feed_.pick(opcodes), near(end_.requester.stream.unacked()));
    packet.aeth.syndrome = static_cast<std::uint8_t>(feed_.byte());
    packet.aeth.msn = (end_.requester.completed + feed_.below(4)) & kMask24;
    const std::uint32_t sizes[] = {kFrame, 300 - kFrame, 8, 0};
    const std::uint32_t n = packet.info().has_payload ? feed_.pick(sizes) : 0;
    end_.deliver(forge(packet, std::span(data_).first(n)));
  }
  Psn near(Psn psn) {
    const std::uint32_t where = feed_.below(8);
    if (where < 5) return psn;
    return where < 7 ? psn + feed_.below(4) : Psn(feed_.word());
  }
  void say(std::uint32_t most) {
    for (std::uint32_t i = 0; i < most; ++i) {
      auto frame = end_.next_answer();
      if (!frame) frame = end_.next_request();
      if (!frame) return;
      WEFT_ASSERT(frame->packet().payload.size() <= kFrame);
    }
  }

  ByteFeed& feed_;
  RdEnd end_;
  Watch watch_;
  memory::RegionKeys once_;
  std::uint64_t posted_ = 0;
  std::set<std::uint64_t> told_;
  std::vector<std::byte> data_ = std::vector<std::byte>(kFrame + 4);
};

}  // namespace
}  // namespace weft::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::test::ByteFeed feed({data, size});
  weft::test::ContextDrill(feed).run();
  return 0;
}
