// A program of somebody else that uses the C++ API as it is installed, and has another
// tl::expected.
#include <cstddef>

// What another version may have in its place: the same names, and nothing in common.
#define TL_EXPECTED_HPP
namespace tl {
template <class T, class E>
class expected;
struct unexpected {};
}  // namespace tl

#include <weft/verbs.h>

#include <array>
#include <cstdio>
#include <cstring>

int main() {
  using weft::Access;
  auto device = weft::verbs::Device::open();
  if (!device) return std::puts(device.error().message.c_str()), 1;
  const auto domain = device->allocate_pd().value();
  const auto completions = device->create_cq(16).value();
  std::array<char, 64> from{"hello"}, to{};
  const auto source = domain.register_memory(from, Access::kNone).value();
  const auto target =
      domain.register_memory(to, Access::kLocalWrite | Access::kRemoteWrite).value();
  auto [here, there] = domain.create_connected_pair(completions).value();
  if (!here.post_write(source.sge(), target.remote())) return 2;
  const auto done = completions.wait(std::chrono::seconds(10)).value();
  if (!done.ok() || std::strcmp(to.data(), "hello") != 0) return 3;
  // An error of the library's crosses over whole, and so does its exception.
  const auto refused = device->create_cq(0);
  if (refused || refused.error().message.empty()) return 4;
  try {
    (void)refused.value();
  } catch (const std::exception& error) {
    return std::puts(("wrote; refused: " + std::string(error.what())).c_str()) < 0 ? 5 : 0;
  }
  return 6;
}
