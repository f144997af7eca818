// The data path inside one process, beside what the machine can do at best. A label names the row
// to compare with and the ratio to reach, for scripts/collect_bench.py: "limit=memcpy/65536
// bar=0.8".
#include <benchmark/benchmark.h>
#include <weft/verbs.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "wire/icrc.h"
#include "worlds/bench.h"

namespace {

namespace v = weft::verbs;
using weft::Access;

/// Two connected queue pairs and a buffer of `bytes` each.
struct Pair {
  explicit Pair(std::size_t bytes)
      : device(v::Device::open().value()),
        pd(device.allocate_pd().value()),
        cq(device.create_cq(64).value()),
        memory(2 * bytes),
        region(pd.register_memory(memory,
                                  Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead)
                   .value()),
        qps(pd.create_connected_pair(cq).value()),
        here(region.sge(0, static_cast<std::uint32_t>(bytes))),
        there(region.remote(bytes)) {}

  /// Polls until n requests are complete; false if one failed.
  bool finish(std::size_t n) {
    std::array<weft::Completion, 4> out;
    while (n > 0) {
      const std::size_t got = cq.poll(out);
      for (std::size_t i = 0; i < got; ++i) {
        if (!out[i].ok()) return false;
      }
      n -= got;
    }
    return true;
  }

  v::Device device;
  v::ProtectionDomain pd;
  v::CompletionQueue cq;
  std::vector<std::byte> memory;
  v::MemoryRegion region;
  std::pair<v::QueuePair, v::QueuePair> qps;
  weft::Sge here;
  weft::RemoteAddress there;
};

void describe(benchmark::State& state, const std::string& label = {}) {
  state.counters["size"] = static_cast<double>(state.range(0));
  state.SetBytesProcessed(state.iterations() * state.range(0));
  state.SetLabel(label);
}

std::string beside_memcpy(const benchmark::State& state, const char* bar) {
  return "limit=memcpy/" + std::to_string(state.range(0)) + " bar=" + bar;
}

void memcpy_limit(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> memory(2 * bytes);
  for (auto _ : state) {
    std::memcpy(memory.data() + bytes, memory.data(), bytes);
    benchmark::ClobberMemory();
  }
  describe(state);
}
BENCHMARK(memcpy_limit)->Name("memcpy")->Arg(8)->Arg(4096)->Arg(65536)->Arg(1 << 20);

void direct_write(benchmark::State& state) {
  Pair pair(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    if (!pair.qps.first.post_write(pair.here, pair.there) || !pair.finish(1)) {
      return state.SkipWithError("a write failed");
    }
  }
  describe(state, state.range(0) >= 65536 ? beside_memcpy(state, "0.8") : "");
}
BENCHMARK(direct_write)->Arg(8)->Arg(4096)->Arg(65536)->Arg(1 << 20);

void direct_read(benchmark::State& state) {
  Pair pair(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    if (!pair.qps.first.post_read(pair.here, pair.there) || !pair.finish(1)) {
      return state.SkipWithError("a read failed");
    }
  }
  describe(state, state.range(0) >= 65536 ? beside_memcpy(state, "0.8") : "");
}
BENCHMARK(direct_read)->Arg(8)->Arg(65536)->Arg(1 << 20);

void direct_send(benchmark::State& state) {
  Pair pair(static_cast<std::size_t>(state.range(0)));
  const weft::Sge to = pair.region.sge(static_cast<std::uint64_t>(state.range(0)),
                                       static_cast<std::uint32_t>(state.range(0)));
  for (auto _ : state) {
    if (!pair.qps.second.post_receive(to) || !pair.qps.first.post_send(pair.here) ||
        !pair.finish(2)) {
      return state.SkipWithError("a send failed");
    }
  }
  describe(state);
}
BENCHMARK(direct_send)->Arg(8)->Arg(65536);

void icrc(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> frame(weft::wire::Bth::kSize + bytes);
  std::array<std::byte, weft::wire::Ipv6::kSize> ip{};
  std::array<std::byte, weft::wire::Udp::kSize> udp{};
  for (auto _ : state) {
    benchmark::DoNotOptimize(weft::wire::Icrc::over_ipv6(ip, udp).add_first(frame).value());
  }
  describe(state);
}
BENCHMARK(icrc)->Arg(64)->Arg(4096);

/// Nanoseconds for one data frame of 4096 bytes through the whole simulation; the bar is a million
/// frames a second.
void sim_frame(benchmark::State& state) {
  for (auto _ : state) {
    const auto result =
        weft::worlds::run_bench(weft::Mtu::k4096, 0.5, weft::sim::Checksums::kOffload);
    state.SetIterationTime(1.0 / result.frames_per_second());
  }
  state.counters["size"] = 4096;
  state.SetLabel("limit=1000 bar=1.0");
}
BENCHMARK(sim_frame)->UseManualTime()->Iterations(1);

}  // namespace
