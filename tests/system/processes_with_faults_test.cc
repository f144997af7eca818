// Two processes whose environment alone asks for faults and a capture: everything arrives, and
// tshark reads the capture.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/verbs.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/capture_reader.h"
#include "wire/datagram.h"

namespace {

namespace v = weft::verbs;
using weft::Access;
using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr auto kPatience = 60s;
constexpr std::uint32_t kMessages = 300;
constexpr std::uint32_t kMessageBytes = 6000;
constexpr std::uint32_t kBulkBytes = 256 * 1024;
constexpr std::uint64_t kAdds = 50;
constexpr Access kAll =
    Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;

struct Introduction {
  v::Endpoint connection;
  weft::RemoteAddress memory;
};

bool exchange(int fd, const void* mine, void* theirs, std::size_t size) {
  pollfd wait{fd, POLLIN, 0};
  return write(fd, mine, size) == static_cast<ssize_t>(size) && poll(&wait, 1, 60'000) == 1 &&
         read(fd, theirs, size) == static_cast<ssize_t>(size);
}

/// Message `number` of `sender`: every word tells where it belongs.
std::uint32_t word_of(std::uint32_t sender, std::uint32_t number, std::uint32_t at) {
  return sender << 30 | number << 16 | (at & 0xFFFF);
}

/// One process. Steps give the number of the first that failed, which is its exit status.
class Peer {
 public:
  Peer(int fd, std::uint32_t own)
      : fd_(fd),
        own_(own),
        device_(v::Device::open().value()),
        pd_(device_.allocate_pd().value()),
        cq_(device_.create_cq(4096).value()),
        out_(kBulkBytes / 4),
        in_(kMessages * kMessageBytes / 4),
        served_(kBulkBytes / 4),
        out_region_(pd_.register_memory(out_, kAll).value()),
        in_region_(pd_.register_memory(in_, kAll).value()),
        served_region_(pd_.register_memory(served_, kAll).value()),
        qp_(pd_.create_queue_pair(cq_, cq_, {.limits = {.max_recv_wr = kMessages}}).value()) {}

  int run() {
    const Introduction mine{qp_.endpoint(), served_region_.remote()};
    if (!exchange(fd_, &mine, &peer_, sizeof mine)) return 1;
    weft::QueuePairAttributes attributes;
    attributes.timeout = 12;  // 17 ms
    if (!qp_.connect(peer_.connection, attributes)) return 2;
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      if (!qp_.post_receive(in_region_.sge(i * kMessageBytes, kMessageBytes), kReceive + i))
        return 3;
    }
    if (!meet()) return 4;
    if (!send_messages()) return 5;
    while (received_ < kMessages) {
      if (!take()) return 6;
    }
    if (!messages_are_whole()) return 7;
    if (!write_and_read_back()) return 8;
    if (!add()) return 9;
    if (!meet()) return 10;
    if (served_.back() != 0 || served_[kCounterAt / 4] != kAdds) return 11;
    return 0;
  }

 private:
  static constexpr std::uint64_t kReceive = 1'000'000;
  static constexpr std::uint32_t kCounterAt = kBulkBytes - 16;

  bool meet() {
    char mine = 1, theirs = 0;
    return exchange(fd_, &mine, &theirs, 1);
  }
  /// One completion of either kind; receives must come in order.
  bool take() {
    const auto c = cq_.wait(kPatience);
    if (!c || !c->ok()) {
      std::fprintf(stderr, "peer %u: %s\n", own_,
                   c ? weft::to_string(c->status).data() : "no completion");
      return false;
    }
    if (c->wr_id < kReceive) {
      ++sent_;
      return true;
    }
    return c->wr_id == kReceive + received_++ && c->byte_count == kMessageBytes;
  }
  bool complete_own() {
    const std::uint32_t before = sent_;
    while (sent_ == before) {
      if (!take()) return false;
    }
    return true;
  }
  bool send_messages() {
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      for (std::uint32_t at = 0; at < kMessageBytes / 4; ++at) out_[at] = word_of(own_, i, at);
      if (!qp_.post_send(out_region_.sge(0, kMessageBytes), 1) || !complete_own()) return false;
    }
    return true;
  }
  bool messages_are_whole() const {
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      for (std::uint32_t at = 0; at < kMessageBytes / 4; ++at) {
        if (in_[i * kMessageBytes / 4 + at] != word_of(1 - own_, i, at)) return false;
      }
    }
    return true;
  }
  bool write_and_read_back() {
    constexpr std::uint32_t kPart = kBulkBytes - 4096;
    for (std::uint32_t at = 0; at < kPart / 4; ++at) out_[at] = at * 2'654'435'761u + own_;
    if (!qp_.post_write(out_region_.sge(0, kPart), peer_.memory, 2) || !complete_own())
      return false;
    if (!qp_.post_read(in_region_.sge(0, kPart), peer_.memory, 3) || !complete_own()) return false;
    return std::memcmp(out_.data(), in_.data(), kPart) == 0;
  }
  /// Adds that were lost, or repeated and executed twice, show in the sum.
  bool add() {
    const weft::Sge old = out_region_.sge(0, 8);
    weft::SendRequest request;
    request.op = weft::SendOp::kFetchAdd;
    request.sges = {&old, 1};
    request.remote = peer_.memory;
    request.remote.address += kCounterAt;
    request.operand = 1;
    for (std::uint64_t i = 0; i < kAdds; ++i) {
      if (!qp_.post_send(request) || !complete_own()) return false;
      std::uint64_t before = 0;
      std::memcpy(&before, out_.data(), sizeof before);
      if (before != i) return false;
    }
    return true;
  }

  const int fd_;
  const std::uint32_t own_;
  v::Device device_;
  v::ProtectionDomain pd_;
  v::CompletionQueue cq_;
  std::vector<std::uint32_t> out_, in_, served_;
  v::MemoryRegion out_region_, in_region_, served_region_;
  v::QueuePair qp_;
  Introduction peer_;
  std::uint32_t sent_ = 0, received_ = 0;
};

/// Without the other end, so that the death of one is seen by the other.
int take_part(int fd, int other_fd, std::uint32_t own) {
  close(other_fd);
  return Peer(fd, own).run();
}

/// Ends its process whatever happens to the test.
class Child {
 public:
  explicit Child(const std::function<int()>& body) : pid_(fork()) {
    if (pid_ == 0) _exit(body());
  }
  ~Child() {
    if (running_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  pid_t pid() const { return pid_; }
  /// Its exit status; -1 when it did not end by itself in time.
  int wait() {
    const auto deadline = Steady::now() + 2 * kPatience;
    int status = 0;
    while (Steady::now() < deadline) {
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        running_ = false;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      }
      std::this_thread::sleep_for(5ms);
    }
    return -1;
  }

 private:
  const pid_t pid_;
  bool running_ = true;
};

/// What a command prints, line by line; its errors too, which then spoil the comparison.
std::vector<std::string> lines_of(const std::string& command) {
  std::vector<std::string> lines;
  FILE* pipe = popen(("timeout 120 " + command).c_str(), "r");
  if (pipe == nullptr) return {"popen failed"};
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
    lines.emplace_back(buffer.data());
    if (lines.back().back() == '\n') lines.back().pop_back();
  }
  if (pclose(pipe) != 0) lines.emplace_back("the command failed: " + command);
  return lines;
}

/// The last four bytes as tshark writes them.
std::string check_code(const weft::test::Frame& frame) {
  std::uint32_t value = 0;
  for (std::size_t i = frame.size() - 4; i < frame.size(); ++i) {
    value = value << 8 | std::to_integer<std::uint32_t>(frame[i]);
  }
  std::array<char, 16> text;
  std::snprintf(text.data(), text.size(), "0x%08x", value);
  return text.data();
}

class ProcessesWithFaults : public testing::Test {
 protected:
  ProcessesWithFaults() {
    std::string name = testing::TempDir() + "weft_faults_XXXXXX";
    folder = mkdtemp(name.data());
  }
  ~ProcessesWithFaults() override { std::filesystem::remove_all(folder); }

  std::string folder;
};

TEST_F(ProcessesWithFaults, exchange_everything_and_tshark_reads_what_they_said) {
  std::array<int, 2> fds;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()), 0);
  setenv("WEFT_FAULTS", "loss=1%,dup=1%,reorder=2%,corrupt=1%,delay=5us..50us,rate=10Gbit", 1);
  setenv("WEFT_PCAP", (folder + "/%p.pcap").c_str(), 1);
  std::vector<std::string> files;
  {
    // Both are children, so that this process stays without threads and can fork again.
    Child first([&] { return take_part(fds[0], fds[1], 0); });
    setenv("WEFT_FAULTS_SEED", "5", 1);
    Child second([&] { return take_part(fds[1], fds[0], 1); });
    close(fds[0]);
    close(fds[1]);
    EXPECT_EQ(first.wait(), 0);
    EXPECT_EQ(second.wait(), 0);
    for (const Child* child : {&first, &second}) {
      files.push_back(folder + "/" + std::to_string(child->pid()) + ".pcap");
    }
  }
  unsetenv("WEFT_FAULTS");
  unsetenv("WEFT_FAULTS_SEED");
  unsetenv("WEFT_PCAP");
  for (const std::string& file : files) {
    const auto frames = weft::test::read_capture(file);
    EXPECT_GT(frames.size(), 2 * 2 * std::size_t{kMessages});
    // tshark does not check the ICRC, so it says only which one it sees.
    const auto seen = lines_of("tshark -n -r " + file +
                               " -T fields -E separator=, -e infiniband.invariant.crc"
                               " -e infiniband.bth.opcode -e _ws.malformed 2>" +
                               folder + "/errors");
    ASSERT_EQ(seen.size(), frames.size()) << seen.back();
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const auto datagram = weft::wire::check_datagram(frames[i]);
      ASSERT_TRUE(datagram.has_value()) << "frame " << i + 1 << " of " << file;
      const auto opcode = std::to_integer<int>(datagram->packet[0]);
      ASSERT_EQ(seen[i], check_code(frames[i]) + "," + std::to_string(opcode) + ",")
          << "frame " << i + 1 << " of " << file;
    }
  }
}

TEST_F(ProcessesWithFaults, may_share_one_capture_file) {
  std::array<int, 2> fds;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()), 0);
  const std::string file = folder + "/both.pcap";
  setenv("WEFT_PCAP", file.c_str(), 1);
  {
    Child first([&] { return take_part(fds[0], fds[1], 0); });
    Child second([&] { return take_part(fds[1], fds[0], 1); });
    close(fds[0]);
    close(fds[1]);
    EXPECT_EQ(first.wait(), 0);
    EXPECT_EQ(second.wait(), 0);
  }
  unsetenv("WEFT_PCAP");
  const auto frames = weft::test::read_capture(file);
  EXPECT_GT(frames.size(), 2 * 2 * 2 * std::size_t{kMessages});
  for (const auto& frame : frames) ASSERT_TRUE(weft::wire::check_datagram(frame).has_value());
}

TEST_F(ProcessesWithFaults, refuse_a_wrong_environment) {
  setenv("WEFT_PATH", "quick", 1);
  const auto device = v::Device::open();
  unsetenv("WEFT_PATH");
  ASSERT_FALSE(device.has_value());
  EXPECT_EQ(device.error().message, "WEFT_PATH=quick: it may be framed or auto");
}

}  // namespace
