// What peers cost that never spoke: an entry of a table, and nothing else.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "weft/mesh.h"

namespace weft::mesh {
namespace {

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST(MeshIdle, a_hundred_thousand_peers_can_be_addressed_in_less_than_64_mib) {
  const auto device = verbs::Device::open();
  ASSERT_TRUE(device);
  auto mesh = Mesh::open(*device);
  ASSERT_TRUE(mesh) << mesh.error().message;
  mesh->poll();
  const std::uint64_t before = resident_bytes();
  constexpr std::uint32_t kPeers = 100'000;
  for (std::uint32_t i = 1; i <= kPeers; ++i) {
    const auto byte = [i](int shift) { return static_cast<std::uint8_t>(i >> shift); };
    ASSERT_TRUE(mesh->peer({Gid::ipv4(10, byte(16), byte(8), byte(0)), Qpn(i)}));
  }
  mesh->poll();
  const std::uint64_t after = resident_bytes();
  EXPECT_EQ(mesh->figures().peers, kPeers);
  EXPECT_EQ(mesh->figures().registered_bytes, 0u);
  RecordProperty("process_bytes", std::to_string(after));
  RecordProperty("peers_bytes", std::to_string(after - before));
  EXPECT_LT(after - before, 6u << 20);
  EXPECT_LT(after, 64u << 20);
}

}  // namespace
}  // namespace weft::mesh
