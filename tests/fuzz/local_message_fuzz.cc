// What any process of the host can send to a local socket: messages of any length with any
// descriptors. Each message of the input is four bytes (length, descriptors, their kind, seals) and
// goes through a real socket; what is accepted keeps to the limits, what claims to be shared memory
// is mapped and read to its end or refused, and no descriptor is left over.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/assert.h"
#include "host/local_socket.h"
#include "host/shared_memory.h"

namespace host = weft::host;

namespace {

constexpr std::size_t kMost = 200;
constexpr std::size_t kMessageBytes = 4;
constexpr std::size_t kMaxMessages = 16;
constexpr std::size_t kLeast = 4096, kLargest = 3 * 4096;

struct Sockets {
  std::string name = "weft-fuzz-" + std::to_string(getpid());
  host::LocalSocket listener = host::LocalSocket::listen(name).value();
  host::LocalSocket there = host::LocalSocket::connect(name).value();
  host::LocalSocket here = listener.accept().value();
};

/// The lowest free number: grows when a descriptor was left open.
int next_fd() {
  const int fd = dup(0);
  WEFT_ASSERT(fd >= 0);
  close(fd);
  return fd;
}

/// What may be slow to close is closed by another thread, soon.
void expect_no_more_than(int fds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (next_fd() > fds) {
    WEFT_ASSERT(std::chrono::steady_clock::now() < deadline);
    std::this_thread::yield();
  }
}

host::Fd make_fd(std::uint8_t kind, std::uint8_t seals) {
  std::array<int, 2> ends{};
  switch (kind % 4) {
    case 0:
      WEFT_ASSERT(pipe2(ends.data(), O_CLOEXEC) == 0);
      close(ends[1]);
      return host::Fd(ends[0]);
    case 1:
      return host::Fd(open("/dev/zero", O_RDWR | O_CLOEXEC));
    default: {
      host::Fd fd(memfd_create("weft-fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
      WEFT_ASSERT(ftruncate(fd.get(), (kind >> 2) * 512) == 0);
      fcntl(fd.get(), F_ADD_SEALS, seals & 0x1F);
      return fd;
    }
  }
}

void send(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  std::vector<std::byte> control(CMSG_SPACE(fds.size_bytes()));
  iovec vector{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
  }
  WEFT_ASSERT(sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0);
}

void check_memory(host::Fd fd, bool writable) {
  using Peers = host::SharedMemory::Peers;
  const auto memory = host::SharedMemory::receive(std::move(fd), kLeast, kLargest,
                                                  writable ? Peers::kWrite : Peers::kRead);
  if (!memory) return;
  WEFT_ASSERT(memory->size() >= kLeast && memory->size() <= kLargest);
  WEFT_ASSERT(ftruncate(memory->fd(), 0) != 0);
  for (const std::byte byte : memory->bytes()) WEFT_ASSERT(byte == std::byte{0});
  if (writable) memory->data()[memory->size() - 1] = std::byte{0};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Sockets sockets;
  static const std::vector<std::byte> payload(256);
  const int before = next_fd();
  for (std::size_t i = 0; i < kMaxMessages && size >= kMessageBytes; ++i) {
    {
      const std::size_t count = data[1] % 40;  // more than kMaxMessageFds in some
      const host::Fd fd = make_fd(data[2], data[3]);
      send(sockets.there.fd(), std::span(payload).first(data[0]),
           std::vector<int>(count, fd.get()));
      auto message = sockets.here.receive(kMost, 0);
      const bool good = data[0] > 0 && data[0] <= kMost && count <= host::kMaxMessageFds;
      WEFT_ASSERT(message.has_value() == good);
      if (good) {
        WEFT_ASSERT(message->bytes.size() == data[0] && message->fds.size() == count);
        for (host::StrangeFd& each : message->fds) {
          check_memory(each.claim(), (data[3] & 0x80) != 0);
        }
      }
    }
    expect_no_more_than(before);
    data += kMessageBytes;
    size -= kMessageBytes;
  }
  return 0;
}
