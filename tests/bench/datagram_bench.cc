// Reliable datagrams beside reliable connections, on the same path: UDP over loopback, both ends in
// this process and polled by one thread. rd:0 is the connection, rd:1 the datagram.
#include <benchmark/benchmark.h>
#include <weft/verbs.h>

#include <array>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "base/random.h"
#include "network/address.h"

namespace {

namespace v = weft::verbs;
using weft::Service;

constexpr weft::QKey kKey{1};
constexpr std::uint32_t kDepth = 16;

void must(const weft::Result<void>& result) {
  if (!result) std::abort();
}

v::Device open_device() {
  for (;;) {
    const auto draw = weft::base::system_random().draw<std::uint32_t>();
    const weft::Gid address = weft::Gid::ipv4(127, static_cast<std::uint8_t>(1 + draw % 250),
                                              static_cast<std::uint8_t>(draw >> 8),
                                              static_cast<std::uint8_t>(draw >> 16));
    v::DeviceOptions options;
    options.path = v::PathPolicy::kFramed;
    options.ports = {{weft::network::to_string(address), true}};
    if (auto device = v::Device::open(options)) return std::move(*device);
  }
}

/// A process of its own, as far as contexts and sockets go.
struct Side {
  explicit Side(std::size_t bytes)
      : device(open_device()),
        pd(device.allocate_pd().value()),
        sends(device.create_cq(1024).value()),
        receives(device.create_cq(1024).value()),
        memory(bytes),
        region(pd.register_memory(memory, weft::Access::kLocalWrite | weft::Access::kRemoteWrite)
                   .value()) {}

  v::QueuePair make(Service service) {
    v::QueuePairOptions options;
    options.service = service;
    auto qp = pd.create_queue_pair(sends, receives, options).value();
    if (service == Service::kReliableDatagram) must(qp.activate(kKey));
    return qp;
  }
  void receive(v::QueuePair& qp, std::uint64_t id, std::uint32_t bytes) {
    must(qp.post_receive(region.sge(0, bytes), id));
  }

  v::Device device;
  v::ProtectionDomain pd;
  v::CompletionQueue sends, receives;
  std::vector<std::byte> memory;
  v::MemoryRegion region;
};

/// Pairs of queue pairs: those of one side in one process, the others in `peers` of them.
struct Group {
  Group(Service service, std::size_t pairs, std::size_t peers, std::size_t bytes) : here(bytes) {
    for (std::size_t i = 0; i < peers; ++i) there.emplace_back(bytes);
    for (std::size_t i = 0; i < pairs; ++i) {
      near.push_back(here.make(service));
      far.push_back(there[i % peers].make(service));
      if (service != Service::kReliableConnection) continue;
      must(near[i].connect(far[i].endpoint()));
      must(far[i].connect(near[i].endpoint()));
    }
  }
  Side& side_of(std::size_t i) { return there[i % there.size()]; }
  static void post(v::QueuePair& from, const v::QueuePair& to, Side& side, std::uint32_t bytes,
                   weft::SendRequest request) {
    const weft::Sge sge = side.region.sge(0, bytes);
    const v::Endpoint end = to.endpoint();
    request.sges = {&sge, 1};
    request.destination.gid = end.gid;
    request.destination_qpn = end.qpn;
    request.destination_qkey = kKey;
    must(from.post_send(request));
  }

  Side here;
  std::deque<Side> there;
  std::vector<v::QueuePair> near, far;
};

Service service_of(const benchmark::State& state) {
  return state.range(0) == 0 ? Service::kReliableConnection : Service::kReliableDatagram;
}

/// Polls until `cq` has one.
weft::Completion next(const v::CompletionQueue& cq, const v::CompletionQueue& other) {
  for (;;) {
    if (auto done = cq.poll()) return *done;
    other.poll();
  }
}

void latency(benchmark::State& state) {
  Group group(service_of(state), 1, 1, 4096);
  Side &a = group.here, &b = group.side_of(0);
  for (auto _ : state) {
    a.receive(group.near[0], 0, 64);
    b.receive(group.far[0], 0, 64);
    Group::post(group.near[0], group.far[0], a, 64, {});
    next(b.receives, a.receives);
    Group::post(group.far[0], group.near[0], b, 64, {});
    next(a.receives, b.receives);
    next(a.sends, b.receives);
    next(b.sends, a.receives);
  }
}

void rate(benchmark::State& state) {
  constexpr std::size_t kPairs = 16, kPeers = 8;
  Group group(service_of(state), kPairs, kPeers, 4096);
  std::vector<std::uint32_t> under_way(kPairs);
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < kPairs; ++i) {
    for (std::uint32_t k = 0; k < kDepth; ++k) group.side_of(i).receive(group.far[i], i, 64);
  }
  std::array<weft::Completion, 64> out;
  for (auto _ : state) {
    for (std::size_t i = 0; i < kPairs; ++i) {
      while (under_way[i] < kDepth / 2) {
        Group::post(group.near[i], group.far[i], group.here, 64, {.wr_id = i});
        ++under_way[i];
      }
    }
    for (Side& side : group.there) {
      const std::size_t n = side.receives.poll(out);
      for (std::size_t k = 0; k < n; ++k) side.receive(group.far[out[k].wr_id], out[k].wr_id, 64);
    }
    const std::size_t n = group.here.sends.poll(out);
    for (std::size_t k = 0; k < n; ++k) --under_way[out[k].wr_id];
    done += n;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(done));
}

void stream(benchmark::State& state) {
  constexpr std::uint32_t kBytes = 1 << 20;
  Group group(service_of(state), 1, 1, kBytes);
  const weft::RemoteAddress to = group.side_of(0).region.remote();
  std::uint32_t under_way = 0;
  for (auto _ : state) {
    while (under_way < 4) {
      Group::post(group.near[0], group.far[0], group.here, kBytes,
                  {.op = weft::SendOp::kWrite, .remote = to});
      ++under_way;
    }
    next(group.here.sends, group.side_of(0).receives);
    --under_way;
  }
  state.SetBytesProcessed(state.iterations() * kBytes);
}

BENCHMARK(latency)->Name("datagram/latency_64B")->ArgName("rd")->Arg(0)->Arg(1)->UseRealTime();
BENCHMARK(rate)->Name("datagram/rate_16_over_8")->ArgName("rd")->Arg(0)->Arg(1)->UseRealTime();
BENCHMARK(stream)->Name("datagram/stream_1MiB")->ArgName("rd")->Arg(0)->Arg(1)->UseRealTime();

}  // namespace
