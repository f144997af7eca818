// A hostile requester against the responder: near-valid requests in any order. Whatever comes, it
// does not crash, writes only inside the granted range and its receive buffers, sends nothing from
// outside, and completes each receive at most once.
#include <cstdint>

#include "support/byte_feed.h"
#include "support/guarded_end.h"
#include "support/transport_end.h"

namespace weft::test {
namespace {

constexpr std::uint32_t kMtu = 256;
constexpr std::size_t kOwnBytes = 2048;

EndSetup setup_from(ByteFeed& feed) {
  EndSetup setup;
  setup.limits = {4, 16, 1, 1, 0};
  setup.completions = 64;
  setup.memory_bytes = 16 * 1024;
  setup.state = QpState::kReadyToReceive;
  setup.attributes.path_mtu = Mtu::k256;
  setup.attributes.receive_psn = Psn(0xFFFFF0 + feed.below(32));
  setup.attributes.max_dest_rd_atomic = static_cast<std::uint8_t>(feed.below(5));
  setup.attributes.ack_policy = AckPolicy(feed.below(2));
  return setup;
}

class Drill {
 public:
  explicit Drill(ByteFeed& feed) : feed_(feed), end_(setup_from(feed)), watch_(end_, kOwnBytes) {
    fill_pattern(data_, 3);
    once_ = end_.expose(Access::kLocalWrite | kAllRemote | Access::kOneShot);
    reader_ = end_.expose(Access::kRemoteRead);
  }

  void run() {
    while (!feed_.empty() && end_.state() != QpState::kError) {
      step();
      watch_.check();
    }
    say(1000);
    queue::fail_queue_pair(end_.qp);
    end_.settle();
    watch_.check_flushed();
  }

 private:
  void step() {
    switch (feed_.below(8)) {
      case 0:
        return watch_.post_receive(feed_.below(5) * 300);
      case 1:
        return say(1 + feed_.below(8));
      case 2:
        if (reader_there_ && feed_.below(4) == 0) {
          WEFT_ASSERT(end_.keys.deregister_region(reader_.lkey).has_value());
          reader_there_ = false;
        }
        return;
      default:
        return hear();
    }
  }
  void hear() {
    // 0x00 to 0x17 are the opcodes of the reliable connection; one of them is reserved.
    const auto opcode = wire::Opcode{static_cast<std::uint8_t>(feed_.below(0x18))};
    if (!wire::info(opcode).known) return;
    wire::Packet packet;
    packet.bth.opcode = opcode;
    packet.bth.ack_request = feed_.below(2) != 0;
    const std::uint32_t where = feed_.below(8);
    const std::int32_t shift = where < 6 ? 0 : where == 6 ? feed_.offset() : -feed_.offset() * 999;
    packet.bth.psn =
        Psn(end_.responder.stream.expected().value() + static_cast<std::uint32_t>(shift));
    const RemoteAddress target = any_place();
    packet.reth = {target.address, target.key, any_length()};
    packet.atomic.address = target.address;
    packet.atomic.key = target.key;
    packet.atomic.swap_or_add = feed_.byte();
    packet.invalidate_key = target.key;
    const std::uint32_t n = wire::info(opcode).has_payload ? any_payload() : 0;
    const Frame frame = forge(packet, std::span(data_).first(n));
    transport::on_request(end_.responder, end_.qp, frame.packet());
  }
  RemoteAddress any_place() {
    const RemoteKey keys[] = {
        end_.exposed.rkey, end_.exposed.rkey,       once_.rkey,
        reader_.rkey,      RemoteKey(feed_.word()), RemoteKey(end_.own.lkey.value)};
    const std::uint64_t places[] = {0, 0, 8, end_.exposed_bytes() - 8, end_.exposed_bytes()};
    const std::uint64_t at = feed_.pick(places) + static_cast<std::uint64_t>(feed_.offset() / 16);
    return {end_.remote().address + at, feed_.pick(keys)};
  }
  std::uint32_t any_length() {
    const std::uint32_t lengths[] = {0,        1,    8,        kMtu,       kMtu + 5,
                                     3 * kMtu, 7000, 1u << 31, 0xFFFFFFFF, 2 * kMtu};
    return feed_.pick(lengths) + (feed_.below(4) == 0 ? 1 : 0);
  }
  std::uint32_t any_payload() {
    const std::uint32_t sizes[] = {kMtu, kMtu, kMtu, 5, 1, 8, 0, kMtu - 1, kMtu + 4};
    return feed_.pick(sizes);
  }
  void say(std::uint32_t most) {
    for (std::uint32_t i = 0; i < most; ++i) {
      const auto frame = end_.next_answer();
      if (!frame) return;
      const wire::Packet packet = frame->packet();
      WEFT_ASSERT(is_response(packet));
      WEFT_ASSERT(packet.payload.size() <= kMtu && !Watch::leaks(packet.payload));
    }
  }

  ByteFeed& feed_;
  RcEnd end_;
  Watch watch_;
  memory::RegionKeys once_, reader_;
  bool reader_there_ = true;
  std::vector<std::byte> data_ = std::vector<std::byte>(kMtu + 4);
};

}  // namespace
}  // namespace weft::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::test::ByteFeed feed({data, size});
  weft::test::Drill(feed).run();
  return 0;
}
