// Hostile frames against the receivers of the unreliable services: they write only where they may,
// complete each receive at most once, and live on.
#include <cstdint>

#include "support/byte_feed.h"
#include "support/guarded_end.h"
#include "support/transport_end.h"

namespace weft::test {
namespace {

constexpr std::uint32_t kMtu = 256;
constexpr std::size_t kOwnBytes = 2048;
constexpr QKey kQKey{0x1234};

EndSetup setup_of(Service service) {
  EndSetup setup;
  setup.service = service;
  setup.limits = {4, 16, 1, 1, 0};
  setup.completions = 64;
  setup.memory_bytes = 16 * 1024;
  setup.attributes.path_mtu = Mtu::k256;
  setup.attributes.receive_psn = Psn(0xFFFFFE);
  setup.attributes.qkey = kQKey;
  return setup;
}

class Drill {
 public:
  Drill(ByteFeed& feed, Service service)
      : feed_(feed), end_(setup_of(service)), watch_(end_, kOwnBytes) {
    transport::start(responder_, end_.qp);
    fill_pattern(data_, 3);
    once_ = end_.expose(Access::kLocalWrite | kAllRemote | Access::kOneShot);
  }

  void run() {
    while (!feed_.empty()) {
      if (feed_.below(4) == 0) {
        watch_.post_receive(feed_.below(6) * 200);
      } else if (end_.qp.service == Service::kUnreliableConnection) {
        hear_connected();
      } else {
        hear_datagram();
      }
      watch_.check();
      WEFT_ASSERT(end_.state() == QpState::kReadyToSend);
    }
    end_.qp.state = QpState::kError;
    transport::stop(responder_, end_.qp);
    queue::flush(end_.qp);
    watch_.check_flushed();
  }

 private:
  std::span<const std::byte> any_payload() {
    const std::uint32_t sizes[] = {kMtu, kMtu, kMtu, 5, 1, 8, 0, kMtu - 1, kMtu + 4};
    return std::span(data_).first(feed_.pick(sizes));
  }
  void hear_connected() {
    const auto opcode = wire::Opcode{static_cast<std::uint8_t>(0x20 + feed_.below(0x0C))};
    wire::Packet packet;
    packet.bth.opcode = opcode;
    const std::int32_t shift = feed_.below(4) != 0 ? 0 : feed_.offset();
    packet.bth.psn = Psn(responder_.expected.value() + static_cast<std::uint32_t>(shift));
    const std::uint32_t lengths[] = {0, 8, kMtu, kMtu + 5, 3 * kMtu, 1u << 31, 0xFFFFFFFF};
    const RemoteKey keys[] = {end_.exposed.rkey, once_.rkey, RemoteKey(feed_.word())};
    const std::uint64_t places[] = {0, 0, end_.exposed_bytes() - kMtu, end_.exposed_bytes()};
    const std::uint64_t at = feed_.pick(places) + static_cast<std::uint64_t>(feed_.offset() / 16);
    packet.reth = {end_.remote().address + at, feed_.pick(keys), feed_.pick(lengths)};
    const Frame frame = forge(packet, any_payload());
    transport::on_request(responder_, end_.qp, frame.packet(), now_ns_ += feed_.below(4) << 22);
  }
  void hear_datagram() {
    wire::Packet packet;
    packet.bth.opcode =
        feed_.below(2) == 0 ? wire::Opcode::kUdSendOnly : wire::Opcode::kUdSendOnlyWithImmediate;
    packet.deth = {QKey(kQKey.value ^ (feed_.below(4) == 0 ? feed_.word() : 0)), Qpn(5)};
    const Frame frame = forge(packet, any_payload());
    transport::on_datagram(end_.qp, frame.packet(), wire::GrhBytes{});
  }

  ByteFeed& feed_;
  QueueEnd end_;
  Watch watch_;
  transport::UcResponder responder_;
  Nanoseconds now_ns_ = 0;
  memory::RegionKeys once_;
  std::vector<std::byte> data_ = std::vector<std::byte>(kMtu + 4);
};

}  // namespace
}  // namespace weft::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using weft::Service;
  weft::test::ByteFeed feed({data, size});
  const bool connected = feed.below(2) == 0;
  weft::test::Drill(feed, connected ? Service::kUnreliableConnection : Service::kUnreliableDatagram)
      .run();
  return 0;
}
