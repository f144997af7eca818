// A disk's protocol: channel semantics for commands, memory semantics for data.
//
//   host                                   disk (an I/O adapter: initiates RDMA, serves none)
//    |-- send: command, address, key ------->|
//    |<------------ RDMA read (a write command) or RDMA write (a read command) --|   the data
//    |<------------ send: completion ---------|
//
// The host's processor takes no part in the data transfer: it sends a command and waits for the
// completion. The program stores blocks on the disk, reads them back and compares.
#include <weft/verbs.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

namespace {

namespace v = weft::verbs;
using weft::Access;
using namespace std::chrono_literals;

constexpr std::uint32_t kBlockBytes = 4096;
constexpr std::uint32_t kBlocks = 64;

enum class Order : std::uint32_t { kWrite, kRead, kStop };

/// What the host sends; the key travels with the address.
struct Command {
  Order order;
  std::uint32_t block;
  std::uint32_t count;
  weft::RemoteAddress data;
};

struct Reply {
  std::uint32_t blocks;
  bool ok;
};

template <class T>
T must(weft::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "disk: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

weft::Completion next(const v::CompletionQueue& cq) {
  const weft::Completion completion = must(cq.wait(10s));
  if (!completion.ok()) {
    std::fprintf(stderr, "disk: %s\n", weft::to_string(completion.status).data());
    std::exit(1);
  }
  return completion;
}

/// One side: a device, a message buffer each way, and a queue pair.
struct Side {
  explicit Side(v::NodeKind kind, const char* name)
      : device(must(v::Device::open({.name = name, .kind = kind}))),
        domain(must(device.allocate_pd())),
        cq(must(device.create_cq(32))),
        messages(2 * sizeof(Command)),
        region(must(domain.register_memory(messages, Access::kLocalWrite))),
        qp(must(domain.create_queue_pair(cq, cq))) {}

  weft::Sge inbox() const { return region.sge(0, sizeof(Command)); }
  void expect_message() { must(qp.post_receive(inbox())); }
  template <class T>
  T received() const {
    T message;
    std::memcpy(&message, messages.data(), sizeof message);
    return message;
  }
  template <class T>
  void send(const T& message) {
    std::memcpy(messages.data() + sizeof(Command), &message, sizeof message);
    must(qp.post_send(region.sge(sizeof(Command), sizeof message)));
  }

  v::Device device;
  v::ProtectionDomain domain;
  v::CompletionQueue cq;
  std::vector<std::byte> messages;
  v::MemoryRegion region;
  v::QueuePair qp;
};

/// Serves commands until it is told to stop.
void run_disk(Side& disk) {
  std::vector<std::byte> medium(kBlocks * kBlockBytes);
  const auto blocks = must(disk.domain.register_memory(medium, Access::kLocalWrite));
  for (;;) {
    while (next(disk.cq).op != weft::CompletionOp::kReceive)
      continue;  // our own sends complete too
    const auto command = disk.received<Command>();
    disk.expect_message();
    if (command.order == Order::kStop) return;
    if (command.block + command.count > kBlocks) {
      disk.send(Reply{0, false});
      continue;
    }
    const weft::Sge range = blocks.sge(command.block * kBlockBytes, command.count * kBlockBytes);
    if (command.order == Order::kWrite) {
      must(disk.qp.post_read(range, command.data));
      while (next(disk.cq).op != weft::CompletionOp::kRead) continue;
    } else {
      must(disk.qp.post_write(range, command.data));  // the reply is behind it in the queue
    }
    disk.send(Reply{command.count, true});
  }
}

Reply call(Side& host, const Command& command) {
  host.send(command);
  while (next(host.cq).op != weft::CompletionOp::kReceive) continue;
  const auto reply = host.received<Reply>();
  host.expect_message();
  return reply;
}

}  // namespace

int main() {
  Side host(v::NodeKind::kHost, "host0");
  Side disk(v::NodeKind::kIoAdapter, "disk0");
  const v::Endpoint host_end = host.qp.endpoint(), disk_end = disk.qp.endpoint();
  must(host.qp.connect(disk_end));
  must(disk.qp.connect(host_end));
  host.expect_message();
  disk.expect_message();
  std::thread disk_thread([&disk] { run_disk(disk); });

  // One buffer to write from, one to read back into; each key allows just what the disk needs.
  std::vector<std::uint32_t> out(kBlocks * kBlockBytes / 4), in(out.size());
  std::iota(out.begin(), out.end(), 1u);
  const auto source = must(host.domain.register_memory(out, Access::kRemoteRead));
  const auto target =
      must(host.domain.register_memory(in, Access::kLocalWrite | Access::kRemoteWrite));

  bool ok = true;
  for (std::uint32_t block = 0; block < kBlocks; block += 16) {
    const std::uint64_t at = std::uint64_t{block} * kBlockBytes;
    ok = ok && call(host, {Order::kWrite, block, 16, source.remote(at)}).ok;
    ok = ok && call(host, {Order::kRead, block, 16, target.remote(at)}).ok;
  }
  const bool refused = !call(host, {Order::kRead, kBlocks, 1, target.remote()}).ok;
  host.send(Command{Order::kStop, 0, 0, {}});
  disk_thread.join();

  const bool same = in == out;
  std::printf("%u blocks of %u bytes written to the disk and read back: %s\n", kBlocks, kBlockBytes,
              same ? "identical" : "DIFFERENT");
  std::printf("a command beyond the last block: %s\n", refused ? "refused" : "ACCEPTED");
  return ok && same && refused ? 0 : 1;
}
