// Datagrams between processes of one host that have to wait: they carry what they were posted with,
// although the sender uses its buffer again before they have left, as it could on a device.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/neighbour_side.h"

namespace weft::test {
namespace {

constexpr QKey kDatagramKey{0x1234};
constexpr std::uint32_t kGrhBytes = 40;
constexpr std::uint32_t kMostDatagrams = 2048;

struct DatagramSide : Side {
  explicit DatagramSide(std::uint32_t bytes)
      : Side({.service = Service::kUnreliableDatagram,
              .limits = {.max_send_wr = kMostDatagrams, .max_recv_wr = kMostDatagrams}}),
        buffer(bytes),
        region(*pd.register_memory(buffer, Access::kLocalWrite)) {
    WEFT_REQUIRE(qp.activate(kDatagramKey));
  }
  std::vector<std::byte> buffer;
  verbs::MemoryRegion region;
};

/// Receives so many datagrams of `bytes` and tells how many, from the first on, were in order with
/// the right contents. Says where it is, and then waits: it is stopped there.
void run_receiver(const Wire& wire, std::uint32_t count, std::uint32_t bytes) {
  const std::uint32_t place = kGrhBytes + bytes;
  DatagramSide side(count * place);
  for (std::uint32_t i = 0; i < count; ++i) {
    WEFT_REQUIRE(side.qp.post_receive(side.region.sge(std::uint64_t{i} * place, place), i));
  }
  wire.put(side.qp.endpoint());
  std::uint32_t right = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto completion = side.cq.wait(30s);
    if (!completion || !completion->ok()) break;
    const std::span message(side.buffer.data() + completion->wr_id * place + kGrhBytes, bytes);
    if (right == i && is_filled(message, i)) ++right;
  }
  wire.put(right);
  wire.get<char>();
}

/// Sends them all from one buffer.
void send_all(DatagramSide& side, const verbs::Endpoint& to, std::uint32_t first,
              std::uint32_t count) {
  const Sge sge = side.region.sge();
  SendRequest request;
  request.sges = {&sge, 1};
  request.flags = SendFlags::kNone;
  request.destination.gid = to.gid;
  request.destination_qpn = to.qpn;
  request.destination_qkey = kDatagramKey;
  for (std::uint32_t i = first; i < first + count; ++i) {
    fill(side.buffer, i);
    WEFT_REQUIRE(side.qp.post_send(request));
  }
  fill(side.buffer, 99'999);
}

/// Brings a descriptor from one partner to the other.
class DescriptorCourier {
 public:
  DescriptorCourier() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends_), 0); }
  ~DescriptorCourier() {
    close(ends_[0]);
    close(ends_[1]);
  }
  DescriptorCourier(const DescriptorCourier&) = delete;
  DescriptorCourier& operator=(const DescriptorCourier&) = delete;

  void bring(int fd) const {
    Parcel parcel;
    cmsghdr* const header = CMSG_FIRSTHDR(&parcel.message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    WEFT_REQUIRE(sendmsg(ends_[0], &parcel.message, MSG_NOSIGNAL) == 1);
  }
  int take() const {
    pollfd wait{ends_[1], POLLIN, 0};
    WEFT_REQUIRE(::poll(&wait, 1, kPartnerWait_ms) == 1);
    Parcel parcel;
    WEFT_REQUIRE(recvmsg(ends_[1], &parcel.message, 0) == 1);
    WEFT_REQUIRE(CMSG_FIRSTHDR(&parcel.message) != nullptr);
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&parcel.message)), sizeof fd);
    return fd;
  }

 private:
  struct Parcel {
    Parcel() {
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
    }
    Parcel(const Parcel&) = delete;
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
    msghdr message{};
  };
  int ends_[2]{-1, -1};
};

bool wire_is_silent(const Wire& wire) {
  pollfd said{wire.fd(), POLLIN, 0};
  return ::poll(&said, 1, 0) == 0;
}

void stop_receiver(const Partner& partner) {
  partner.signal(SIGSTOP);
  const std::string stat = "/proc/" + std::to_string(partner.pid()) + "/stat";
  for (int i = 0; i < 10'000; ++i) {
    std::string line;
    std::getline(std::ifstream(stat), line);
    const auto at = line.rfind(')');
    if (at != std::string::npos && line.substr(at, 3) == ") T") return;
    std::this_thread::sleep_for(1ms);
  }
  FAIL() << "it does not stop";
}

void expect_all_right(Partner& receiver, Partner& sender, std::uint32_t count) {
  std::uint32_t right = 0;
  EXPECT_TRUE(receiver.wire().get(&right));
  EXPECT_EQ(right, count);
  receiver.wire().put('d');
  sender.wire().put('d');
  EXPECT_EQ(receiver.join(), 0);
  EXPECT_EQ(sender.join(), 0);
}

TEST(NeighbourDatagrams, to_one_that_has_not_answered_yet_keep_their_payload) {
  constexpr std::uint32_t kCount = 20, kBytes = 1500;
  Partner receiver([](const Wire& wire) { run_receiver(wire, kCount, kBytes); });
  const auto there = receiver.wire().get<verbs::Endpoint>();
  stop_receiver(receiver);
  Partner sender([](const Wire& wire) {
    DatagramSide side(kBytes);
    send_all(side, wire.get<verbs::Endpoint>(), 0, kCount);
    wire.put('s');
    wire.get<char>();
  });
  sender.wire().put(there);
  char said = 0;
  EXPECT_TRUE(sender.wire().get(&said));
  receiver.signal(SIGCONT);
  expect_all_right(receiver, sender, kCount);
}

TEST(NeighbourDatagrams, that_find_the_ring_full_keep_their_payload) {
  constexpr std::uint32_t kCount = 1400, kBytes = 1000;
  static_assert(kCount * kBytes > 1'048'576 && kCount < kMostDatagrams);
  Partner receiver([](const Wire& wire) { run_receiver(wire, kCount, kBytes); });
  const auto there = receiver.wire().get<verbs::Endpoint>();
  Partner sender([](const Wire& wire) {
    DatagramSide side(kBytes);
    const auto to = wire.get<verbs::Endpoint>();
    send_all(side, to, 0, 1);
    wire.sync();  // now it stands still
    send_all(side, to, 1, kCount - 1);
    wire.put('s');
    wire.get<char>();
  });
  sender.wire().put(there);
  sender.wire().get<char>();
  stop_receiver(receiver);
  sender.wire().put('x');
  char said = 0;
  EXPECT_TRUE(sender.wire().get(&said));
  receiver.signal(SIGCONT);
  expect_all_right(receiver, sender, kCount);
}

// perftest's clients wait on one channel for the events of both of their queues, and take the first
// one for that of their send.
TEST(NeighbourDatagrams, are_complete_before_the_receiver_sees_them) {
  constexpr std::uint32_t kCount = 2000, kPlace = kGrhBytes + 8;
  const DescriptorCourier courier;
  Partner receiver([&](const Wire& wire) {
    DatagramSide side(kPlace);
    wire.put(side.qp.endpoint());
    const int events_of_sender = courier.take();
    std::uint32_t too_early = 0;
    for (std::uint32_t i = 0; i < kCount; ++i) {
      WEFT_REQUIRE(side.qp.post_receive(side.region.sge(0, kPlace)));
      wire.put('r');
      WEFT_REQUIRE(side.cq.wait(30s));
      pollfd event{events_of_sender, POLLIN, 0};
      if (::poll(&event, 1, 0) != 1) ++too_early;
      wire.put('g');
    }
    wire.put(too_early);
  });
  Partner sender([&](const Wire& wire) {
    DatagramSide side(8);
    const auto channel = side.device.create_channel();
    WEFT_REQUIRE(channel);
    const auto done = side.device.create_cq(16, *channel);
    WEFT_REQUIRE(done);
    auto qp = side.pd.create_queue_pair(*done, side.cq, {.service = Service::kUnreliableDatagram});
    WEFT_REQUIRE(qp && qp->activate(kDatagramKey));
    const auto to = wire.get<verbs::Endpoint>();
    courier.bring(channel->fd());
    const Sge sge = side.region.sge(0, 8);
    SendRequest request;
    request.sges = {&sge, 1};
    request.destination.gid = to.gid;
    request.destination_qpn = to.qpn;
    request.destination_qkey = kDatagramKey;
    for (std::uint32_t i = 0; i < kCount; ++i) {
      wire.get<char>();
      done->request_notify();
      WEFT_REQUIRE(qp->post_send(request));
      while (wire_is_silent(wire)) side.cq.poll();
      wire.get<char>();
      WEFT_REQUIRE(channel->wait(30s));
      WEFT_REQUIRE(done->poll());
    }
  });
  sender.wire().put(receiver.wire().get<verbs::Endpoint>());
  for (std::uint32_t i = 0; i < 2 * kCount; ++i) sender.wire().put(receiver.wire().get<char>());
  EXPECT_EQ(receiver.wire().get<std::uint32_t>(), 0u);
  EXPECT_EQ(receiver.join(), 0);
  EXPECT_EQ(sender.join(), 0);
}

}  // namespace
}  // namespace weft::test
