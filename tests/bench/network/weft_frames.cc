// weft as frames over UDP: a ping-pong of 64 bytes, a stream of writes and one of sends, and the
// rate of 8-byte sends of which 64 are outstanding.
#include <array>
#include <vector>

#include "laps.h"
#include "places.h"
#include "weft_node.h"

namespace weft::bench {
namespace {

constexpr std::uint32_t kPingBytes = 64;
constexpr std::uint32_t kRateBytes = 8;
constexpr std::size_t kOutstanding = 64;
constexpr std::size_t kStreamDepth = 8;

verbs::DeviceOptions options(const Lane& lane) {
  enter_place(lane);
  verbs::DeviceOptions out;
  out.path = verbs::PathPolicy::kFramed;
  out.ports.push_back({places().of(lane.side()).address, true});
  out.faults = places().faults;
  return out;
}

void post_receive(verbs::QueuePair& qp, const Memory& memory, std::size_t slot,
                  std::uint32_t bytes) {
  must(qp.post_receive(memory.region().sge(slot * bytes, bytes), slot), "post a receive:");
}

/// A received message; when the queue pair has failed, the reason is in the other queue.
Completion take_completion(const Node& node) {
  for (;;) {
    const auto got = node.receive_cq.poll();
    if (!got) continue;
    if (!got->ok()) {
      while (const auto sent = node.send_cq.poll()) expect_good(*sent);
    }
    expect_good(*got);
    return *got;
  }
}

/// Puts a buffer back for each message that has come.
void echo_receives(const Node& node, verbs::QueuePair& qp, const Memory& memory,
                   std::uint32_t bytes, std::uint64_t count) {
  std::array<Completion, 32> got;
  while (count > 0) {
    const std::size_t n = node.receive_cq.poll(got);
    for (std::size_t i = 0; i < n; ++i) {
      expect_good(got[i]);
      post_receive(qp, memory, got[i].wr_id, bytes);
    }
    count -= std::min<std::uint64_t>(n, count);
  }
}

/// Keeps `depth` requests under way; messages in each lap. Messages per second: what is usual, or,
/// with faults, what comes of it in the end.
double keep_posting(const Node& node, verbs::QueuePair& qp, const SendRequest& request,
                    std::size_t depth, std::size_t lap_messages, std::uint64_t total) {
  Laps laps;
  const auto begun = Clock::now();
  std::array<Completion, 32> done;
  std::uint64_t posted = 0, completed = 0, next_lap = lap_messages;
  while (completed < total) {
    for (; posted < total && posted - completed < depth; ++posted) {
      must(qp.post_send(request), "post:");
    }
    const std::size_t n = node.send_cq.poll(done);
    for (std::size_t i = 0; i < n; ++i) expect_good(done[i]);
    completed += n;
    for (; completed >= next_lap; next_lap += lap_messages) laps.lap();
  }
  if (!places().faults.empty()) return static_cast<double>(total) / seconds_since(begun);
  return static_cast<double>(lap_messages) / laps.median_seconds();
}

}  // namespace

void measure_framed_latency(const Lane& lane) {
  const Node node(options(lane));
  const Memory memory(node, Place::kHeap, 1 << 16);
  auto qp = node.connect(lane, {.max_send_wr = 128, .max_recv_wr = 128, .max_inline_bytes = 64});
  for (std::size_t i = 0; i < 64; ++i) post_receive(qp, memory, i, kPingBytes);
  lane.meet();
  const Sge from = memory.region().sge(1 << 15, kPingBytes);
  SendRequest request;
  request.sges = {&from, 1};
  lane.sample("weft/latency", kPingBytes, "us", [&] {
    return ping_pong_us(
        lane.side(),
        [&](std::uint64_t i) {
          request.flags = signalled_each(i);
          must(qp.post_send(request), "post:");
          if (i % kSignalEach == 0) take_completion(node.send_cq);
        },
        [&](std::uint64_t) { post_receive(qp, memory, take_completion(node).wr_id, kPingBytes); });
  });
  lane.meet();
}

void measure_framed_stream(const Lane& lane) {
  const Node node(options(lane));
  const std::uint32_t bytes = places().stream_bytes;
  const Memory memory(node, Place::kHeap, bytes);
  auto qp = node.connect(lane, limits_for(128));
  const Sge local = memory.region().sge();
  SendRequest request;
  request.op = SendOp::kWrite;
  request.sges = {&local, 1};
  request.flags = SendFlags::kSignaled;
  request.remote = lane.swap(memory.region().remote());
  std::atomic<std::uint64_t>& over = lane.shared().credit.value;
  lane.sample("weft/write_stream", bytes, "GB/s", [&] {
    if (!lane.first()) {
      while (over.load(std::memory_order_acquire) == 0) node.receive_cq.poll();
      return 0.0;
    }
    const double rate = keep_posting(node, qp, request, kStreamDepth, 8, 600);
    over.store(1, std::memory_order_release);
    return rate * static_cast<double>(bytes) / 1e9;
  });
  lane.meet();
}

void measure_framed_sends(const Lane& lane) {
  const Node node(options(lane));
  const std::uint32_t bytes = places().stream_bytes;
  const Memory memory(node, Place::kHeap, 16ull * bytes);
  auto qp = node.connect(lane, limits_for(128));
  for (std::size_t i = 0; i < 16; ++i) post_receive(qp, memory, i, bytes);
  const Sge local = memory.region().sge(0, bytes);
  SendRequest request;
  request.sges = {&local, 1};
  request.flags = SendFlags::kSignaled;
  lane.meet();
  constexpr std::uint64_t kMessages = 600;
  lane.sample("weft/send_stream", bytes, "GB/s", [&] {
    if (!lane.first()) {
      echo_receives(node, qp, memory, bytes, kMessages);
      return 0.0;
    }
    return keep_posting(node, qp, request, kStreamDepth, 8, kMessages) *
           static_cast<double>(bytes) / 1e9;
  });
  // The last acknowledgements may still be owed.
  if (!lane.first()) {
    const auto start = Clock::now();
    while (seconds_since(start) < 0.01) node.receive_cq.poll();
  }
  lane.meet();
}

void measure_framed_share(const Lane& lane) {
  constexpr std::uint32_t kBytes = 128 << 10;
  constexpr std::size_t kStreams = 2;
  constexpr double kApart = 0.3, kSettle = 1.3, kSeconds = 4;
  const Node node(options(lane));
  const Memory memory(node, Place::kHeap, kBytes);
  const QueuePairLimits limits = limits_for(128);
  std::vector<verbs::QueuePair> streams;
  for (std::size_t i = 0; i < kStreams; ++i) streams.push_back(node.connect(lane, limits));
  const Sge local = memory.region().sge();
  SendRequest request;
  request.op = SendOp::kWrite;
  request.sges = {&local, 1};
  request.flags = SendFlags::kSignaled;
  request.remote = lane.swap(memory.region().remote());
  std::atomic<std::uint64_t>& over = lane.shared().credit.value;
  lane.sample("weft/share", kBytes, "ratio", [&] {
    if (!lane.first()) {
      while (over.load(std::memory_order_acquire) == 0) node.receive_cq.poll();
      return 0.0;
    }
    std::array<std::uint64_t, kStreams> posted{}, done{}, settled{};
    const auto start = Clock::now();
    for (double t = 0; t < kSeconds; t = seconds_since(start)) {
      for (std::size_t i = 0; i < kStreams; ++i) {
        // The second stream finds the link taken.
        while (t >= kApart * static_cast<double>(i) && posted[i] - done[i] < kStreamDepth) {
          request.wr_id = i;
          must(streams[i].post_send(request), "post:");
          ++posted[i];
        }
      }
      std::array<Completion, 32> got;
      const std::size_t n = node.send_cq.poll(got);
      for (std::size_t i = 0; i < n; ++i) {
        expect_good(got[i]);
        ++done[got[i].wr_id];
      }
      if (t < kSettle) settled = done;
    }
    over.store(1, std::memory_order_release);
    const auto a = static_cast<double>(done[0] - settled[0]);
    const auto b = static_cast<double>(done[1] - settled[1]);
    std::printf("# %.1f and %.1f MB/s\n", a * kBytes / 1e6 / (kSeconds - kSettle),
                b * kBytes / 1e6 / (kSeconds - kSettle));
    return std::min(a, b) / std::max(a, b);
  });
  lane.meet();
}

void measure_framed_rate(const Lane& lane) {
  const Node node(options(lane));
  constexpr std::size_t kBuffers = 512;
  const Memory memory(node, Place::kHeap, kBuffers * kRateBytes);
  auto qp = node.connect(lane, limits_for(1024));
  for (std::size_t i = 0; i < kBuffers; ++i) post_receive(qp, memory, i, kRateBytes);
  const Sge from = memory.region().sge(0, kRateBytes);
  SendRequest request;
  request.sges = {&from, 1};
  request.flags = SendFlags::kInline | SendFlags::kSignaled;
  lane.meet();
  constexpr std::uint64_t kMessages = 400'000;
  lane.sample("weft/rate", kRateBytes, "M/s", [&] {
    if (!lane.first()) {
      echo_receives(node, qp, memory, kRateBytes, kMessages);
      return 0.0;
    }
    return keep_posting(node, qp, request, kOutstanding, 4096, kMessages) / 1e6;
  });
  if (!lane.first()) {
    const auto start = Clock::now();
    while (seconds_since(start) < 0.01) node.receive_cq.poll();
  }
  lane.meet();
}

}  // namespace weft::bench
