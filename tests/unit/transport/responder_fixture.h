// A responder and a test that plays its peer, frame by frame. One thread.
#pragma once

#include <gtest/gtest.h>

#include <numeric>

#include "support/transport_end.h"
#include "unit/transport/small_mtu.h"

namespace weft::test {

inline constexpr Psn kFirstPsn{0xFFFFFE};  // every longer test wraps

inline EndSetup responder_setup() {
  EndSetup setup;
  setup.attributes.path_mtu = Mtu::k256;
  setup.attributes.receive_psn = kFirstPsn;
  setup.attributes.max_dest_rd_atomic = 4;
  setup.state = QpState::kReadyToReceive;
  return setup;
}

class Responder : public testing::Test {
 protected:
  using Opcode = wire::Opcode;
  using NakCode = wire::NakCode;

  std::span<const std::byte> data(std::size_t n) {
    if (data_.size() < n) {
      data_.resize(n);
      fill_pattern(data_, 1);
    }
    return std::span(data_).first(n);
  }

  Frame send_frame(Opcode opcode, std::uint32_t at, std::size_t n, bool ask = true) {
    wire::Packet packet = headers_of(opcode, kFirstPsn + at, ask);
    packet.immediate = 0xABCD;
    return forge(packet, data(n));
  }
  Frame write_frame(Opcode opcode, std::uint32_t at, std::size_t n, std::uint32_t length,
                    RemoteAddress to) {
    wire::Packet packet = headers_of(opcode, kFirstPsn + at);
    packet.reth = {to.address, to.key, length};
    packet.immediate = 0xABCD;
    return forge(packet, data(n));
  }
  Frame write_frame(Opcode opcode, std::uint32_t at, std::size_t n, std::uint32_t length) {
    return write_frame(opcode, at, n, length, end.remote());
  }
  Frame read_frame(std::uint32_t at, std::uint32_t length, RemoteAddress from) {
    wire::Packet packet = headers_of(Opcode::kRcReadRequest, kFirstPsn + at);
    packet.reth = {from.address, from.key, length};
    return forge(packet);
  }
  Frame read_frame(std::uint32_t at, std::uint32_t length) {
    return read_frame(at, length, end.remote());
  }
  Frame add_frame(std::uint32_t at, std::uint64_t add, RemoteAddress to) {
    wire::Packet packet = headers_of(Opcode::kRcFetchAdd, kFirstPsn + at);
    packet.atomic.address = to.address;
    packet.atomic.key = to.key;
    packet.atomic.swap_or_add = add;
    return forge(packet);
  }
  Frame add_frame(std::uint32_t at, std::uint64_t add) { return add_frame(at, add, end.remote()); }

  /// The one answer that there must be.
  wire::Packet answer() {
    frames_ = end.answers();
    EXPECT_EQ(frames_.size(), 1u);
    return frames_.empty() ? wire::Packet{} : frames_.back().packet();
  }
  void expect_ack(std::uint32_t at, std::uint32_t msn) {
    const wire::Packet packet = answer();
    EXPECT_EQ(packet.bth.opcode, Opcode::kRcAcknowledge);
    EXPECT_EQ(packet.aeth.kind(), wire::AethKind::kAck);
    EXPECT_EQ(packet.bth.psn, kFirstPsn + at);
    EXPECT_EQ(packet.aeth.msn, msn);
  }
  void expect_nak(std::uint32_t at, NakCode code) {
    const wire::Packet packet = answer();
    EXPECT_EQ(packet.bth.opcode, Opcode::kRcAcknowledge);
    ASSERT_EQ(packet.aeth.kind(), wire::AethKind::kNak);
    EXPECT_EQ(packet.aeth.nak_code(), code);
    EXPECT_EQ(packet.bth.psn, kFirstPsn + at);
  }
  /// The frame is refused with this code and the queue pair is lost; nothing was written.
  void expect_fatal(const Frame& frame, std::uint32_t at, NakCode code) {
    const auto before = end.copy_of(0, end.memory().size());
    end.deliver(frame);
    expect_nak(at, code);
    EXPECT_EQ(end.state(), QpState::kError);
    EXPECT_EQ(end.copy_of(0, before.size()), before);
    end.deliver(send_frame(Opcode::kRcSendOnly, at, 4));
    EXPECT_TRUE(end.answers().empty()) << "it still answers after the error";
  }
  std::vector<std::byte> exposed(std::size_t at, std::size_t n) {
    return end.copy_of(end.exposed_at() + at, n);
  }
  std::vector<std::byte> sent(std::size_t n) {
    const auto part = data(n);
    return {part.begin(), part.end()};
  }

  RcEnd end{responder_setup()};

 private:
  std::vector<std::byte> data_;
  std::vector<Frame> frames_;
};

}  // namespace weft::test
