// A program for instruction counts: posts and polls 8-byte RDMA writes between two queue pairs of
// this process. Counting is switched on around measured_writes() alone.
#include <weft/verbs.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace {

[[gnu::noinline]] int measured_writes(weft::verbs::QueuePair& here,
                                      const weft::verbs::CompletionQueue& completions,
                                      const weft::SendRequest& request, int count) {
  int done = 0;
  std::array<weft::Completion, 4> out;
  for (int i = 0; i < count; ++i) {
    if (!here.post_send(request)) return -1;
    done += static_cast<int>(completions.poll(out));
  }
  return done;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 1000;
  using weft::Access;
  const auto device = weft::verbs::Device::open().value();
  const auto domain = device.allocate_pd().value();
  const auto completions = device.create_cq(16).value();
  std::array<std::uint64_t, 8> from{}, to{};
  const auto source = domain.register_memory(from, Access::kNone).value();
  const auto target =
      domain.register_memory(to, Access::kLocalWrite | Access::kRemoteWrite).value();
  auto [here, there] = domain.create_connected_pair(completions).value();
  const weft::Sge sge = source.sge(0, 8);
  weft::SendRequest request;
  request.op = weft::SendOp::kWrite;
  request.sges = {&sge, 1};
  request.remote = target.remote();
  from[0] = 1;
  std::array<weft::Completion, 4> out;
  for (int i = 0; i < 100; ++i) {  // rings are made at the first use
    if (!here.post_send(request) || completions.poll(out) != 1) return 1;
  }
  const int done = measured_writes(here, completions, request, count);
  std::printf("%d writes\n", done);
  return done == count && to[0] == 1 ? 0 : 1;
}
