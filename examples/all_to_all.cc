// All processes of several nodes talk to all others, each through one reliable datagram queue pair
// per worker: no connections are made, and what two processes need to be reliable to each other
// their workers share. Nodes are processes of this machine, with a loopback address each.
//
//   example_all_to_all [nodes] [workers of each]
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/verbs.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using weft::Completion;
using weft::verbs::Endpoint;

constexpr int kMostWorkers = 4096;
constexpr weft::QKey kKey{0x2a};

/// How the processes find each other: memory that they share since they were forked.
struct Board {
  std::atomic<int> ready, done;
  Endpoint workers[kMostWorkers];
};

struct Message {
  int from, to;
};

void wait_for(const std::atomic<int>& count, int wanted) {
  while (count.load() < wanted) usleep(1000);
}

weft::verbs::Device open_device(int node) {
  weft::verbs::DeviceOptions options;
  for (int attempt = 0;; ++attempt) {
    const int draw = static_cast<int>(getppid()) * 7 + attempt;
    options.ports = {{"127." + std::to_string(1 + draw / 250 % 250) + "." +
                          std::to_string(draw % 250) + "." + std::to_string(1 + node),
                      true}};
    if (auto device = weft::verbs::Device::open(options)) return std::move(*device);
    if (attempt == 100) std::exit(2);
  }
}

int run_node(Board& board, int node, int nodes, int workers) {
  const int all = nodes * workers;
  const auto device = open_device(node);
  const auto domain = device.allocate_pd().value();
  const auto sends = device.create_cq(static_cast<std::uint32_t>(workers * all)).value();
  const auto receives = device.create_cq(static_cast<std::uint32_t>(workers * all)).value();
  std::vector<Message> out(static_cast<std::size_t>(workers) * static_cast<std::size_t>(all)),
      in(out);
  const auto from = domain.register_memory(out, weft::Access::kNone).value();
  const auto into = domain.register_memory(in, weft::Access::kLocalWrite).value();

  weft::verbs::QueuePairOptions options;
  options.service = weft::Service::kReliableDatagram;
  options.limits.max_send_wr = options.limits.max_recv_wr = static_cast<std::uint32_t>(all);
  std::vector<weft::verbs::QueuePair> mine;
  for (int i = 0; i < workers; ++i) {
    auto& qp = mine.emplace_back(domain.create_queue_pair(sends, receives, options).value());
    if (!qp.activate(kKey)) return 3;
    for (int k = 0; k < all; ++k) {
      const std::size_t slot = static_cast<std::size_t>(i * all + k);
      if (!qp.post_receive(into.sge(slot * sizeof(Message), sizeof(Message)), slot)) return 3;
    }
    board.workers[node * workers + i] = qp.endpoint();
  }
  board.ready.fetch_add(1);
  wait_for(board.ready, nodes);

  for (int i = 0; i < workers; ++i) {
    for (int to = 0; to < all; ++to) {
      const std::size_t slot = static_cast<std::size_t>(i * all + to);
      out[slot] = {node * workers + i, to};
      const weft::Sge sge = from.sge(slot * sizeof(Message), sizeof(Message));
      weft::SendRequest request;
      request.sges = {&sge, 1};
      request.destination.gid = board.workers[to].gid;
      request.destination_qpn = board.workers[to].qpn;
      request.destination_qkey = kKey;
      if (!mine[static_cast<std::size_t>(i)].post_send(request)) return 4;
    }
  }
  std::vector<bool> heard(out.size());
  for (int left = 2 * workers * all; left > 0;) {
    while (const auto sent = sends.poll()) {
      if (!sent->ok()) return 5;
      --left;
    }
    while (const auto got = receives.poll()) {
      const Message& message = in[got->wr_id];
      const auto who = static_cast<std::size_t>((message.to - node * workers) * all + message.from);
      if (!got->ok() || got->byte_count != sizeof(Message) || heard[who]) return 6;
      heard[who] = true;
      --left;
    }
  }
  board.done.fetch_add(1);
  // Others may wait for an acknowledgement that was lost.
  while (board.done.load() < nodes) receives.poll();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int nodes = argc > 1 ? std::atoi(argv[1]) : 4, workers = argc > 2 ? std::atoi(argv[2]) : 4;
  if (nodes < 1 || nodes > 200 || workers < 1 || nodes * workers > kMostWorkers) {
    std::fprintf(stderr, "usage: %s [nodes] [workers of each]\n", argv[0]);
    return 1;
  }
  void* const memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto& board = *new (memory) Board{};
  std::vector<pid_t> children;
  for (int node = 0; node < nodes; ++node) {
    children.push_back(fork());
    if (children.back() == 0) _exit(run_node(board, node, nodes, workers));
  }
  for (int node = 0; node < nodes; ++node) {
    int status = 0;
    wait(&status);
    if (status == 0) continue;
    std::printf("a node failed\n");  // the others wait for it in vain
    for (const pid_t child : children) kill(child, SIGKILL);
    return 1;
  }
  const int all = nodes * workers;
  std::printf("%d workers heard once from each of %d, through %d queue pairs instead of %d\n", all,
              all, all, all * all);
  return 0;
}
