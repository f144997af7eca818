// A module that uses weft's own interface (loading_test.cc): two queue pairs and a write.
#include <weft/verbs.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>

namespace v = weft::verbs;

int main(int, char**) {
  const auto device = v::Device::open().value();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(16).value();
  std::array<std::uint64_t, 2> words{7, 0};
  const auto region =
      pd.register_memory(words, weft::Access::kLocalWrite | weft::Access::kRemoteWrite).value();
  auto [here, there] = pd.create_connected_pair(cq).value();
  if (!here.post_write(region.sge(0, 8), region.remote(8))) return 1;
  std::optional<weft::Completion> done;
  while (!(done = cq.poll())) continue;
  if (!done->ok() || words[1] != 7) return 1;
  std::printf("did write\n");
  return 0;
}
