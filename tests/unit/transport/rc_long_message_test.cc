// Messages of 2^31 bytes at the smallest MTU: 2^23 frames, half of all sequence numbers.
#include <sys/mman.h>
#include <unistd.h>

#include "unit/transport/requester_fixture.h"

namespace weft::test {
namespace {

constexpr std::uint64_t kBytes = kMaxMessageBytes;
constexpr std::uint32_t kFramesOfLongest = 1u << 23;
constexpr std::size_t kPieceBytes = std::size_t{32} << 20;

/// 2^31 addresses over 32 MiB of memory, again and again.
class Repeated {
 public:
  Repeated() : fd_(memfd_create("repeated", 0)) {
    void* at = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    WEFT_ASSERT(at != MAP_FAILED && ftruncate(fd_, kPieceBytes) == 0);
    data_ = static_cast<std::byte*>(at);
    for (std::size_t i = 0; i < kBytes; i += kPieceBytes) {
      WEFT_ASSERT(mmap(data_ + i, kPieceBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_,
                       0) == data_ + i);
    }
  }
  ~Repeated() {
    munmap(data_, kBytes);
    close(fd_);
  }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(data_); }

 private:
  int fd_;
  std::byte* data_ = nullptr;
};

class LongMessage : public Requester {
 protected:
  void post_long(SendOp op) {
    const auto region = end.keys.register_region(
        {&end.vmm, kPd, memory.address(), kBytes, Access::kLocalWrite, std::nullopt});
    ASSERT_TRUE(region.has_value());
    const Sge one{memory.address(), static_cast<std::uint32_t>(kBytes), region->lkey};
    SendRequest request{.wr_id = 1, .op = op, .sges = {&one, 1}};
    request.remote = {0x1000, RemoteKey(0x77)};
    ASSERT_TRUE(end.post_send(request));
    post(2, SendOp::kSend, 10);
  }
  Repeated memory;
};

TEST_F(LongMessage, of_2_31_bytes_is_written_frame_by_frame) {
  post_long(SendOp::kWrite);
  network::OutFrame out;
  bool went_back = false;
  std::uint32_t frames = 0;
  while (transport::next_request(end.requester, end.qp, end.now(), out)) {
    if (frames == kFramesOfLongest) break;  // the message behind it
    ASSERT_EQ(out.headers.bth.psn, kSendPsn + frames);
    ASSERT_EQ(out.payload_bytes(), kMtu);
    ASSERT_EQ(reinterpret_cast<std::uint64_t>(out.pieces()[0].data),
              memory.address() + std::uint64_t{frames} * kMtu);
    ASSERT_EQ(out.headers.info().position, frames == 0 ? wire::Position::kFirst
                                           : frames == kFramesOfLongest - 1
                                               ? wire::Position::kLast
                                               : wire::Position::kMiddle);
    ++frames;
    if (out.headers.bth.ack_request) {
      ASSERT_TRUE(completed().empty());
      if (!went_back && frames > kFramesOfLongest - 1000) {
        went_back = true;  // one loss, where the numbers are furthest from the first
        nak(frames - 20, NakCode::kPsnSequence);
        frames -= 20;
      } else {
        ack(frames - 1);
      }
    }
    out.release();
  }
  out.release();
  EXPECT_TRUE(went_back);
  EXPECT_EQ(frames, kFramesOfLongest);
  EXPECT_EQ(completed(), Ids{1});
  ack(kFramesOfLongest);
  EXPECT_EQ(completed(), Ids{2});
}

TEST_F(LongMessage, of_2_31_bytes_is_read_piece_by_piece) {
  post_long(SendOp::kRead);
  ASSERT_TRUE(end.next_request());
  const auto done = [&](std::uint32_t n) {
    end.requester.stream.on_sent(kSendPsn + n, {}, end.now());
    end.requester.stream.on_progress(kSendPsn + n, {}, end.now());
    end.requester.offset = n * kMtu;
    end.requester.reads_outstanding = 0;
  };
  for (const std::uint32_t n :
       {1u << 20, kFramesOfLongest / 2, kFramesOfLongest - 2 * transport::kReadChunkFrames}) {
    done(n);
    const auto requests = end.requests();
    ASSERT_GE(requests.size(), 2u);
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::uint32_t at = n + i * transport::kReadChunkFrames;
      EXPECT_EQ(requests[i].psn(), kSendPsn + at);
      EXPECT_EQ(requests[i].packet().reth.address, 0x1000 + std::uint64_t{at} * kMtu);
      EXPECT_EQ(requests[i].packet().reth.length, transport::kReadChunkFrames * kMtu);
    }
  }
  // The last pieces, with a gap between them.
  read_data(kFramesOfLongest - 128, kMtu);
  read_data(kFramesOfLongest - 64, kMtu);
  EXPECT_EQ(end.next_request()->packet().reth.length, 63 * kMtu);
  end.requests();
  for (std::uint32_t at = kFramesOfLongest - 127; at < kFramesOfLongest; ++at) {
    ASSERT_TRUE(completed().empty());
    read_data(at, kMtu, at);
  }
  const auto all = end.take_sends();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].byte_count, kBytes);
  std::vector<std::byte> last(kMtu);
  fill_pattern(last, kFramesOfLongest - 1);
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(memory.address() + kBytes - kMtu),
                        last.data(), kMtu),
            0);
  ack(kFramesOfLongest);
  EXPECT_EQ(completed(), Ids{2});
}

/// Every phase once with the wrap of the sequence numbers at every place in it.
TEST(SequenceNumbers, wrap_at_any_place_of_a_conversation) {
  for (std::uint32_t back = 0; back < 24; ++back) {
    EndSetup setup = requester_setup();
    setup.attributes.send_psn = setup.attributes.receive_psn = Psn(0) - back;
    RcEnd a(setup, Qpn(1), Qpn(2)), b(setup, Qpn(2), Qpn(1));
    fill_pattern(b.exposed_memory(), back);
    b.post_receive(1, 0, 4096);
    const Sge big = a.sge(0, 3 * kMtu), word = a.sge(4096, 8), far = a.sge(8192, 4 * kMtu);
    const auto exchange_all = [&] { exchange(a, b); };
    SendRequest send{.wr_id = 1, .sges = {&big, 1}};
    SendRequest write{.wr_id = 2, .op = SendOp::kWrite, .sges = {&big, 1}};
    SendRequest add{.wr_id = 3, .op = SendOp::kFetchAdd, .sges = {&word, 1}};
    SendRequest read{.wr_id = 4, .op = SendOp::kRead, .sges = {&far, 1}};
    write.remote = b.remote(32768), add.remote = b.remote(), read.remote = b.remote(64);
    for (const SendRequest& request : {send, write, add, read, write}) {
      ASSERT_TRUE(a.post_send(request));
    }
    // The first half of the frames is lost and asked for; later comes a copy of everything.
    auto frames = a.requests();
    for (std::size_t i = frames.size() / 2; i < frames.size(); ++i) b.deliver(frames[i]);
    a.deliver(b.answers());
    exchange_all();
    b.deliver(frames);
    exchange_all();
    const auto done = a.take_sends();
    ASSERT_EQ(done.size(), 5u) << "wrap after " << back;
    for (const Completion& one : done) EXPECT_TRUE(one.ok()) << to_string(one.status);
    EXPECT_EQ(a.copy_of(8192, 4 * kMtu), b.copy_of(b.exposed_at() + 64, 4 * kMtu));
    EXPECT_EQ(b.take_receives().size(), 1u);
    EXPECT_EQ(b.responder.stream.expected(), setup.attributes.send_psn + 14);
  }
}

}  // namespace
}  // namespace weft::test
