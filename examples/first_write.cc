// The first RDMA write: two queue pairs of one program, eleven bytes.
#include <weft/verbs.h>

#include <array>
#include <cstdio>

int main() {
  using weft::Access;
  const auto device = weft::verbs::Device::open().value();
  const auto domain = device.allocate_pd().value();
  const auto completions = device.create_cq(16).value();
  std::array<char, 64> from{"hello, weft"}, to{};
  const auto source = domain.register_memory(from, Access::kNone).value();
  const auto target =
      domain.register_memory(to, Access::kLocalWrite | Access::kRemoteWrite).value();
  auto [here, there] = domain.create_connected_pair(completions).value();
  if (auto posted = here.post_write(source.sge(), target.remote()); !posted) {
    std::puts(posted.error().message.c_str());
    return 1;
  }
  const auto done = completions.wait(std::chrono::seconds(1)).value();
  std::printf("%s: %s\n", weft::to_string(done.status).data(), to.data());
  return done.ok() ? 0 : 1;
}
