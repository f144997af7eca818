// Streams of weft: RDMA reads and writes of the same buffers again and again, in ordinary heap
// memory and in arenas. The target sleeps meanwhile: nothing of it is asked for.
#include <algorithm>
#include <string>

#include "contestants.h"
#include "laps.h"
#include "weft_node.h"

namespace weft::bench {
namespace {

/// What each side fills its memory with; afterwards both hold the same.
constexpr std::byte kOfFirst{1}, kOfSecond{2};

/// Gigabytes a second; the last request of a lap gives a completion.
double stream_gb_s(const Node& node, verbs::QueuePair& qp, SendRequest request) {
  const std::size_t bytes = request.sges[0].length, lap = stream_lap(bytes);
  Laps laps;
  do {
    for (std::size_t i = 1; i <= lap; ++i) {
      request.flags = i == lap ? SendFlags::kSignaled : SendFlags::kNone;
      must(qp.post_send(request), "post:");
    }
    take_completion(node.send_cq);
    laps.lap();
  } while (!laps.sample_complete());
  return static_cast<double>(lap * bytes) / laps.median_seconds() / 1e9;
}

void expect_filled(const Memory& memory, std::size_t bytes, std::byte with) {
  const auto wrong = [with](std::byte b) { return b != with; };
  if (std::any_of(memory.data(), memory.data() + bytes, wrong)) give_up("stream:", "wrong bytes");
}

void measure_stream(const Lane& lane, const Node& node, verbs::QueuePair& qp, Place place,
                    SendOp op, std::size_t bytes) {
  const Memory memory(node, place, bytes);
  std::fill_n(memory.data(), bytes, lane.first() ? kOfFirst : kOfSecond);
  const Sge local = memory.region().sge();
  SendRequest request;
  request.op = op;
  request.sges = {&local, 1};
  request.remote = lane.swap(memory.region().remote());

  const std::string name = std::string("weft/") + (op == SendOp::kRead ? "read" : "write") +
                           (place == Place::kHeap ? "_heap" : "_arena");
  lane.sample(name.c_str(), bytes, "GB/s",
              [&] { return lane.first() ? stream_gb_s(node, qp, request) : 0.0; });
  // Which pages a process gets makes more of a difference than weft does.
  if (place == Place::kHeap) {
    measure_cross_memory(lane, "limit/process_vm_readv_same_pages", process_vm_readv,
                         {memory.data(), bytes});
  }
  lane.meet();
  expect_filled(memory, bytes, op == SendOp::kRead ? kOfSecond : kOfFirst);
  lane.meet();  // nobody frees what the other still reads
}

}  // namespace

void measure_streams(const Lane& lane) {
  const Node node;
  auto qp = node.connect(lane, limits_for(128));
  for (const std::size_t bytes : kStreamBytes) {
    for (const Place place : {Place::kHeap, Place::kArena}) {
      for (const SendOp op : {SendOp::kRead, SendOp::kWrite}) {
        measure_stream(lane, node, qp, place, op, bytes);
      }
    }
  }
  lane.meet();
}

}  // namespace weft::bench
