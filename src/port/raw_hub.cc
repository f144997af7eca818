#include "port/raw_hub.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <new>
#include <utility>

#include "host/system_error.h"
#include "wire/ethernet.h"
#include "wire/raw_packet.h"

namespace weft::port {
namespace {

/// In front of a packet that has no frame yet: to all, since the hub brings it to all.
std::vector<std::byte> frame_of(RawBytes packet, const LinkAddress& source) {
  wire::Ethernet header;
  header.destination.fill(std::byte{0xFF});
  for (std::size_t i = 0; i < source.size(); ++i) header.source[i] = std::byte{source[i]};
  const bool ipv6 = !packet.empty() && std::to_integer<unsigned>(packet[0]) >> 4 == 6;
  header.type = ipv6 ? wire::kEtherTypeIpv6 : wire::kEtherTypeIpv4;
  std::vector<std::byte> frame(wire::Ethernet::kSize + packet.size());
  header.emit(frame);
  std::ranges::copy(packet, frame.begin() + wire::Ethernet::kSize);
  return frame;
}

}  // namespace

Result<std::unique_ptr<RawPort>> RawHubPort::open(RawHub& hub, LinkAddress address) {
  const host::ForkHold hold;
  host::Fd signal(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (signal.get() < 0) return host::system_error("raw queue pair: making an event", errno);
  std::unique_ptr<RawHubPort> port(new RawHubPort(hub, address, std::move(signal)));
  const std::lock_guard guard(hub.lock_);
  hub.ports_.push_back(port.get());
  return port;
}

RawHubPort::~RawHubPort() {
  const std::lock_guard guard(hub_.lock_);
  std::erase(hub_.ports_, this);
}

SendOutcome RawHubPort::send(std::span<const RawBytes> frames) {
  for (const RawBytes bytes : frames) {
    hub_.spread(std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end()));
  }
  return {SendStatus::kTaken, frames.size()};
}

SendOutcome RawHubPort::send_packets(std::span<const RawBytes> packets) {
  for (const RawBytes packet : packets) {
    hub_.spread(std::make_shared<const std::vector<std::byte>>(frame_of(packet, address_)));
  }
  return {SendStatus::kTaken, packets.size()};
}

void RawHub::spread(const RawHubPort::Frame& frame) {
  const std::lock_guard guard(lock_);
  for (RawHubPort* port : ports_) port->take(frame);
}

void RawHubPort::take(const Frame& frame) {
  if (!listens_.load(std::memory_order_acquire)) return;
  const std::lock_guard guard(lock_);
  if (inbox_.size() == kMostWaiting) return;
  if (inbox_.empty()) eventfd_write(signal_.get(), 1);
  inbox_.push_back(frame);
  waiting_.store(inbox_.size(), std::memory_order_release);
}

std::size_t RawHubPort::receive(RawReceiver& receiver, std::size_t max) {
  std::size_t n = 0;
  for (; n < max && waiting_.load(std::memory_order_acquire) != 0; ++n) {
    Frame frame;
    {
      const std::lock_guard guard(lock_);
      if (inbox_.empty()) break;
      frame = std::move(inbox_.front());
      inbox_.pop_front();
      eventfd_t raised = 0;
      if (inbox_.empty()) eventfd_read(signal_.get(), &raised);
      waiting_.store(inbox_.size(), std::memory_order_release);
    }
    receiver.on_raw_frame(*frame, false);
  }
  return n;
}

}  // namespace weft::port
