// What a hostile process can say to the connection manager: any bytes as packets, any messages to a
// connection in any phase, and to a manager that listens for what they ask.
// Nobody crashes, what is read is written the same, a connection that has ended stays ended, and
// what a manager wants done is about what it has.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/assert.h"
#include "base/random.h"
#include "cm/connection.h"
#include "cm/manager.h"
#include "cm/packet.h"
#include "cm/service_id.h"
#include "cm/service_query.h"

namespace weft::test {
namespace {

using Phase = cm::Connection::Phase;

constexpr cm::CommId kLocal{0x11}, kRemote{0x22};
constexpr cm::TransactionId kTransaction{0};  // what chance reaches, too

/// Brings a connection into one of its phases, as honest peers would.
cm::Connection in_some_phase(std::uint32_t which, cm::Outcome& out) {
  cm::Connection connection(kLocal, Psn(7), kTransaction, {});
  const auto hear = [&](auto body) {
    if constexpr (requires { body.remote; }) body.remote = kLocal;
    body.local = kRemote;
    connection.on_message({kTransaction, body}, 0, out);
  };
  switch (which % 8) {
    case 1:
      connection.request({}, 0, out);
      break;
    case 2:
      hear(cm::Request{});
      break;
    case 3:
      hear(cm::Request{});
      connection.accept({}, 0, out);
      break;
    case 4:
      connection.request({}, 0, out);
      hear(cm::Reply{});
      break;
    case 5:
    case 6:
    case 7:
      connection.request({}, 0, out);
      hear(cm::Reply{});
      connection.confirm(out);
      if (which % 8 == 6) connection.disconnect(0, out);
      if (which % 8 == 7) hear(cm::DisconnectRequest{});
      break;
    default:
      break;
  }
  return connection;
}

/// One device, one port that is free, and nobody else.
class LonelyHost final : public cm::Devices, public cm::Links {
 public:
  const std::vector<const cm::Device*>& all() override { return all_; }
  const cm::Device* towards(const Gid&) override { return &device_; }
  std::vector<Gid> interface_addresses() override { return {}; }
  bool has_unfetched(const Gid&, Qpn) override { return false; }
  Result<cm::BindingId> bind(const cm::Place&, const std::vector<Gid>&) override {
    return cm::BindingId(1);
  }
  void unbind(cm::BindingId) override {}
  Result<cm::Route> reach(cm::PortSpace, cm::Port, const Gid&, bool) override {
    return fail(Errc::kNotFound, "nobody");
  }
  Result<cm::CommIdBlock> claim_block(base::Random&) override { return cm::CommIdBlock(1); }

 private:
  cm::Device device_{Gid::ipv4(10, 1, 2, 3), 1, 5, true};
  std::vector<const cm::Device*> all_{&device_};
};

void feed_manager(const cm::Packet& packet) {
  LonelyHost host;
  base::SeededRandom random(1);
  cm::Manager manager(host, host, random);
  cm::Actions out;
  const Gid here = host.all().front()->address;
  cm::Arrival arrival{cm::LinkId(1), packet, ""};
  const auto listen = [&](const auto& question, cm::QpType type) {
    // Whatever it asks for is there, so that chance reaches the rest.
    const auto space = cm::space_of(question.service);
    const auto port = cm::port_of(question.service);
    const auto header = cm::parse_ip_header(question.private_data);
    const Gid& asked = packet.from_network || !header ? packet.destination : header->destination;
    arrival.called_name = cm::names_at(space, port, asked).front();
    cm::Identifier& listener = *manager.create(space, type).value();
    if (manager.bind(listener, {cm::Family::kIpv4, here, port}, 0)) {
      listener.source.address = asked;
      WEFT_ASSERT(manager.listen(listener, 1, 0).has_value());
    }
  };
  if (const auto* request = std::get_if<cm::Request>(&packet.message.body)) {
    listen(*request, cm::QpType::kReliable);
  } else if (const auto* service = std::get_if<cm::ServiceRequest>(&packet.message.body)) {
    listen(*service, cm::QpType::kDatagram);
  }
  for (const Nanoseconds now : {1, 2}) manager.on_message(arrival, now, out);
  std::size_t requests = 0;
  for (const auto& action : out) {
    const auto* notify = std::get_if<cm::Notify>(&action);
    if (notify == nullptr) continue;
    WEFT_ASSERT(manager.find(notify->identifier) != nullptr);
    if (notify->event.kind != cm::Event::Kind::kConnectRequest) continue;
    WEFT_ASSERT(++requests == 1 && manager.find(notify->event.child) != nullptr);
    manager.destroy(*manager.find(notify->event.child), out);
    break;
  }
  manager.on_link_gone(cm::LinkId(1), 3, out);
  for (int i = 0; i < 100 && manager.next_deadline() != kNever; ++i) {
    manager.on_timer(manager.next_deadline(), out);
  }
  WEFT_ASSERT(manager.next_deadline() == kNever);
}

void feed(std::span<const std::byte> bytes) {
  const auto packet = cm::parse_packet(bytes);
  if (!packet) return;
  WEFT_ASSERT(cm::parse_packet(cm::emit_packet(*packet)) == packet);
  if (const auto* request = std::get_if<cm::Request>(&packet->message.body)) {
    cm::parse_ip_header(request->private_data);
  }
  for (std::uint32_t which = 0; which < 8; ++which) {
    cm::Outcome out;
    cm::Connection connection = in_some_phase(which, out);
    const Phase before = connection.phase();
    out = {};
    connection.on_message(packet->message, 1, out);
    WEFT_ASSERT(out.messages.size() <= 1 && out.events.size() <= 1);
    WEFT_ASSERT(before != Phase::kEnded || connection.phase() == Phase::kEnded);
    if (connection.deadline() != kNever) connection.on_timer(connection.deadline(), out);
    connection.close(out);
    WEFT_ASSERT(connection.phase() == Phase::kEnded && connection.deadline() == kNever);
  }
  feed_manager(*packet);
  cm::ServiceQuery query(kLocal, kTransaction, {});
  cm::Outcome out;
  query.ask({}, 0, out);
  query.on_message(packet->message, out);
}

}  // namespace
}  // namespace weft::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  weft::test::feed(bytes);
  // The head of a packet that fits, so that chance reaches the fields.
  if (size < 2) return 0;
  std::array<std::byte, weft::cm::kPacketBytes> whole{};
  std::memcpy(whole.data(), "wcm1", 4);
  const std::array<std::uint8_t, 4> head{1, 7, 2, 3};
  std::memcpy(&whole[36], head.data(), head.size());
  whole[36 + 17] = static_cast<std::byte>(0x10 + data[0] % 9);
  const auto body = bytes.subspan(1);
  std::memcpy(&whole[36 + 24], body.data(), std::min<std::size_t>(body.size(), 232));
  weft::test::feed(whole);
  return 0;
}
