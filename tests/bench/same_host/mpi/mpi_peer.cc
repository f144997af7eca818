// What an MPI library does between two processes, for comparison: the same work as weft's rows.
// Compiled once with each MPI that is installed; run with two ranks. The ranks share the lines of
// the canary through a window.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <sched.h>

#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "../laps.h"

namespace {

namespace b = weft::bench;

struct Ranks {
  std::string library;
  b::Side side;
  b::TwoLines* lines;

  bool first() const { return side == b::Side::kFirst; }
  int other() const { return first() ? 1 : 0; }

  template <class Measure>
  void sample(const std::string& what, std::size_t size, const char* unit, Measure measure) const {
    MPI_Barrier(MPI_COMM_WORLD);
    const double before_ns = b::canary_ns(*lines, side);
    const double value = measure();
    MPI_Barrier(MPI_COMM_WORLD);
    const double after_ns = b::canary_ns(*lines, side);
    const std::string name = library + "/" + what;
    if (first()) b::print_sample(name.c_str(), size, unit, value, before_ns, after_ns);
  }
};

void pin_to_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

void measure_latency(const Ranks& ranks) {
  char out[8] = {}, in[8];
  ranks.sample("send_latency", sizeof out, "us", [&] {
    return b::ping_pong_us(
        ranks.side,
        [&](std::uint64_t) { MPI_Send(out, 8, MPI_CHAR, ranks.other(), 1, MPI_COMM_WORLD); },
        [&](std::uint64_t) {
          MPI_Recv(in, 8, MPI_CHAR, ranks.other(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        });
  });
}

/// Watches memory for a value. Some libraries finish a put only inside a call of the target.
void watch(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t> watched(word);
  for (int spins = 1; watched.load(std::memory_order_acquire) != value; ++spins) {
    b::relax();
    int flag = 0;
    if (spins % 64 == 0) {
      MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
  }
}

/// Puts into each other's window; the target watches its memory.
void measure_put_latency(const Ranks& ranks) {
  std::uint64_t* mine = nullptr;
  MPI_Win window;
  MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &window);
  *mine = 0;
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
  std::uint64_t value = 0;
  ranks.sample("put_latency", sizeof value, "us", [&] {
    return b::ping_pong_us(
        ranks.side,
        [&](std::uint64_t i) {
          value = i;
          MPI_Put(&value, 1, MPI_UINT64_T, ranks.other(), 0, 1, MPI_UINT64_T, window);
          MPI_Win_flush(ranks.other(), window);
        },
        [&](std::uint64_t i) { watch(*mine, i); });
  });
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
}

/// Messages a second: windows of messages to and from the same buffer, each window answered by a
/// short message. After a lap of windows the first rank says whether there is another.
double messages_per_second(const Ranks& ranks, std::vector<char>& buffer) {
  std::vector<MPI_Request> requests(b::stream_lap(buffer.size()));
  const int windows = buffer.size() > 8 ? 1 : 16;
  const int size = static_cast<int>(buffer.size()), count = static_cast<int>(requests.size());
  b::Laps laps;
  for (int more = 1; more != 0;) {
    for (int window = 0; window < windows; ++window) {
      for (MPI_Request& request : requests) {
        ranks.first() ? MPI_Isend(buffer.data(), size, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &request)
                      : MPI_Irecv(buffer.data(), size, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &request);
      }
      MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
      int answer = 0;
      ranks.first() ? MPI_Recv(&answer, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
                    : MPI_Send(&answer, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    }
    laps.lap();
    more = !laps.sample_complete();
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  return static_cast<double>(windows * count) / laps.median_seconds();
}

void measure_streams(const Ranks& ranks) {
  std::vector<char> small(8);
  ranks.sample("send_rate", small.size(), "M/s",
               [&] { return messages_per_second(ranks, small) / 1e6; });
  for (const std::size_t bytes : {std::size_t{64} << 10, std::size_t{1} << 20}) {
    std::vector<char> buffer(bytes, 1);
    ranks.sample("stream", bytes, "GB/s", [&] {
      return messages_per_second(ranks, buffer) * static_cast<double>(bytes) / 1e9;
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2 || argc != 2) return 2;
  pin_to_core(rank);

  void* base = nullptr;
  MPI_Win window;
  MPI_Win_allocate_shared(rank == 0 ? 2 * sizeof(b::TwoLines) : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                          &base, &window);
  MPI_Aint bytes = 0;
  int unit = 0;
  MPI_Win_shared_query(window, 0, &bytes, &unit, &base);
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const auto aligned = (address + alignof(b::TwoLines) - 1) & ~(alignof(b::TwoLines) - 1);
  auto* lines = reinterpret_cast<b::TwoLines*>(aligned);
  if (rank == 0) new (lines) b::TwoLines;
  MPI_Barrier(MPI_COMM_WORLD);

  const Ranks ranks{argv[1], rank == 0 ? b::Side::kFirst : b::Side::kSecond, lines};
  measure_latency(ranks);
  measure_put_latency(ranks);
  measure_streams(ranks);
  MPI_Win_free(&window);
  MPI_Finalize();
  return 0;
}
