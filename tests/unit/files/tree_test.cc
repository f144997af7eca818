#include "files/tree.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "unit/files/tree_kit.h"

namespace weft::files {
namespace {

using test::Folder;

std::vector<ShownDevice> two(LinkLayer link_layer) {
  return parse_devices("weft0,weft1=::1", link_layer).value();
}

TEST(Tree, shows_a_device_as_sysfs_would) {
  const Folder root, machine;
  ASSERT_TRUE(write_tree(root.path(), two(LinkLayer::kEthernet), {machine.path() + "/"}));
  const std::string device = "sys/class/infiniband/weft0/";
  EXPECT_EQ(root.read(device + "node_type"), "1: CA\n");
  EXPECT_EQ(root.read(device + "ports/1/state"), "4: ACTIVE\n");
  EXPECT_EQ(root.read(device + "ports/1/link_layer"), "Ethernet\n");
  EXPECT_EQ(root.read(device + "ports/1/lid"), "0x0\n");
  EXPECT_EQ(root.read(device + "ports/1/gids/0"), "0000:0000:0000:0000:0000:ffff:7f00:0001\n");
  EXPECT_EQ(root.read(device + "ports/1/gid_attrs/ndevs/0"), "lo\n");
  EXPECT_EQ(root.read("sys/class/infiniband/weft1/ports/1/gids/0"),
            "0000:0000:0000:0000:0000:0000:0000:0001\n");
  EXPECT_EQ(root.read("sys/class/infiniband_verbs/uverbs1/ibdev"), "weft1\n");
  EXPECT_EQ(root.read("sys/class/infiniband_verbs/uverbs1/dev"), "231:193\n");
  EXPECT_EQ(root.read("sys/class/misc/rdma_cm/abi_version"), "4\n");
  EXPECT_TRUE(root.has("dev/infiniband/uverbs0"));
  EXPECT_TRUE(root.has("dev/infiniband/rdma_cm"));
}

TEST(Tree, shows_every_gid_with_its_type_and_the_rest_of_the_table_empty) {
  const Folder root, machine;
  ASSERT_TRUE(write_tree(root.path(), two(LinkLayer::kEthernet), {machine.path() + "/"}));
  const std::string port = "sys/class/infiniband/weft0/ports/1/";
  const char* const types[] = {"IB/RoCE v1\n", "RoCE v2\n", "IB/RoCE v1\n", "RoCE v2\n"};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(root.read(port + "gid_attrs/types/" + std::to_string(i)), types[i]) << i;
    EXPECT_EQ(root.read(port + "gid_attrs/ndevs/" + std::to_string(i)), "lo\n") << i;
  }
  EXPECT_EQ(root.read(port + "gids/1"), "fe80:0000:0000:0000:0000:5efe:7f00:0001\n");
  EXPECT_EQ(root.read(port + "gids/2"), root.read(port + "gids/1"));
  EXPECT_EQ(root.read(port + "gids/3"), root.read(port + "gids/0"));
  EXPECT_EQ(root.read(port + "gids/7"), "0000:0000:0000:0000:0000:0000:0000:0000\n");
  EXPECT_FALSE(root.has(port + "gid_attrs/types/4"));
  EXPECT_FALSE(root.has(port + "gids/8"));
}

TEST(Tree, the_guid_is_written_in_four_groups) {
  const Folder root, machine;
  auto devices = two(LinkLayer::kEthernet);
  devices[0].guid = 0x0200'1234'0000'00ab;
  ASSERT_TRUE(write_tree(root.path(), devices, {machine.path() + "/"}));
  EXPECT_EQ(root.read("sys/class/infiniband/weft0/node_guid"), "0200:1234:0000:00ab\n");
}

TEST(Tree, infiniband_ports_look_like_infiniband) {
  const Folder root, machine;
  ASSERT_TRUE(write_tree(root.path(), two(LinkLayer::kInfiniBand), {machine.path() + "/"}));
  const std::string port = "sys/class/infiniband/weft1/ports/1/";
  EXPECT_EQ(root.read(port + "link_layer"), "InfiniBand\n");
  EXPECT_EQ(root.read(port + "lid"), "0x2\n");
  EXPECT_EQ(root.read(port + "gid_attrs/types/0"), "IB/RoCE v1\n");
}

TEST(Tree, the_machines_own_devices_are_seen_beside) {
  const Folder root, machine;
  machine.write("sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
  machine.write("sys/class/infiniband/weft0/node_type", "another weft0\n");
  machine.write("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
  machine.write("sys/class/infiniband_verbs/uverbs7/ibdev", "mlx5_1\n");
  machine.write("sys/class/infiniband_mad/umad0/ibdev", "mlx5_0\n");
  machine.write("dev/infiniband/uverbs0", "real");
  machine.write("dev/infiniband/umad0", "real too");
  const Machine seen{machine.path() + "/"};
  EXPECT_EQ(first_free_uverbs(seen), 8U);
  auto devices = two(LinkLayer::kEthernet);
  for (ShownDevice& device : devices) device.uverbs += first_free_uverbs(seen);
  ASSERT_TRUE(write_tree(root.path(), devices, seen));
  EXPECT_EQ(root.read("sys/class/infiniband/mlx5_0/node_type"), "1: CA\n");
  EXPECT_EQ(root.read("sys/class/infiniband/weft0/node_type"), "1: CA\n");
  EXPECT_EQ(root.read("sys/class/infiniband_verbs/uverbs0/ibdev"), "mlx5_0\n");
  EXPECT_EQ(root.read("sys/class/infiniband_verbs/uverbs8/ibdev"), "weft0\n");
  EXPECT_EQ(root.read("sys/class/infiniband_mad/umad0/ibdev"), "mlx5_0\n");
  EXPECT_EQ(root.read("dev/infiniband/uverbs0"), "real");
  EXPECT_EQ(root.read("dev/infiniband/umad0"), "real too");
  EXPECT_EQ(root.read("dev/infiniband/uverbs8"), "");
}

TEST(Tree, a_machine_without_devices_leaves_the_numbers_to_weft) {
  const Folder machine;
  machine.write("dev/infiniband/uverbsX", "");
  machine.write("dev/infiniband/uverbs", "");
  EXPECT_EQ(first_free_uverbs({machine.path() + "/"}), 0U);
}

TEST(Tree, device_files_may_be_written_whatever_the_umask) {
  const Folder root, machine;
  const mode_t before = umask(0777);
  const auto written = write_tree(root.path(), {}, {machine.path() + "/"});
  umask(before);
  ASSERT_TRUE(written);
  struct stat status {};
  ASSERT_EQ(stat((root.path() + "/dev/infiniband/rdma_cm").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0666U);
}

TEST(Tree, a_directory_that_is_not_empty_or_not_there_is_refused) {
  const Folder root, machine;
  const Machine seen{machine.path() + "/"};
  ASSERT_TRUE(write_tree(root.path(), two(LinkLayer::kEthernet), seen));
  EXPECT_FALSE(write_tree(root.path(), two(LinkLayer::kEthernet), seen));
  EXPECT_FALSE(write_tree(root.path() + "/nowhere", two(LinkLayer::kEthernet), seen));
}

}  // namespace
}  // namespace weft::files
