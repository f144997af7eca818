#include "files/path_map.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace weft::files {
namespace {

// Before anybody has asked for it.
[[maybe_unused]] const int tree_is_set = setenv("WEFT_TREE", "/the/tree/", 1);

std::string shown(const char* path) { return ShownPath(path).get(); }

TEST(PathMap, the_places_of_rdma_devices_lie_in_the_tree) {
  EXPECT_EQ(shown("/sys/class/infiniband"), "/the/tree/sys/class/infiniband");
  EXPECT_EQ(shown("/sys/class/infiniband/"), "/the/tree/sys/class/infiniband/");
  EXPECT_EQ(shown("/sys/class/infiniband_verbs/uverbs0/dev"),
            "/the/tree/sys/class/infiniband_verbs/uverbs0/dev");
  EXPECT_EQ(shown("/sys/class/misc/rdma_cm/abi_version"),
            "/the/tree/sys/class/misc/rdma_cm/abi_version");
  EXPECT_EQ(shown("/dev/infiniband/uverbs0"), "/the/tree/dev/infiniband/uverbs0");
}

TEST(PathMap, detours_lead_to_the_same_place) {
  EXPECT_EQ(shown("//sys/class//infiniband/x"), "/the/tree/sys/class/infiniband/x");
  EXPECT_EQ(shown("/./dev/./infiniband"), "/the/tree/dev/infiniband");
}

TEST(PathMap, other_paths_are_the_programs_own_pointer) {
  for (const char* path :
       {"", "/", "/sys", "/sys/class", "/sys/class/net", "/sys/class/infinite", "/dev",
        "/dev/infinibandage", "/dev/null", "/sys/class/misc/rdma_cm2", "sys/class/infiniband",
        "/home/sys/class/infiniband", "/systematic", "infiniband", "/..", "//"}) {
    EXPECT_EQ(ShownPath(path).get(), path) << path;
  }
  EXPECT_EQ(ShownPath(nullptr).get(), nullptr);
}

TEST(PathMap, names_the_device_that_the_program_meant) {
  EXPECT_EQ(ShownPath("/dev//infiniband/rdma_cm").device(), "/dev/infiniband/rdma_cm");
  EXPECT_EQ(ShownPath("/dev/infiniband").device(), "");
  EXPECT_EQ(ShownPath("/dev/infiniband/").device(), "");
  EXPECT_EQ(ShownPath("/sys/class/infiniband/weft0").device(), "");
}

TEST(PathMap, a_path_without_its_first_slash_counts_from_the_open_root_directory) {
  const int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int other = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  EXPECT_STREQ(ShownPath(root, "sys/class/infiniband/x").get(), "/the/tree/sys/class/infiniband/x");
  EXPECT_STREQ(ShownPath(root, "dev/infiniband/rdma_cm").get(), "/the/tree/dev/infiniband/rdma_cm");
  EXPECT_STREQ(ShownPath(root, "sys/class/net").get(), "sys/class/net");
  EXPECT_STREQ(ShownPath(other, "sys/class/infiniband").get(), "sys/class/infiniband");
  EXPECT_STREQ(ShownPath(AT_FDCWD, "sys/class/infiniband").get(), "sys/class/infiniband");
  EXPECT_STREQ(ShownPath(other, "/dev/infiniband").get(), "/the/tree/dev/infiniband");
  close(root);
  close(other);
}

TEST(PathMap, a_path_that_would_be_too_long_stays_as_it_is) {
  std::string path = "/dev/infiniband/" + std::string(PATH_MAX, 'x');
  EXPECT_EQ(ShownPath(path.c_str()).get(), path.c_str());
  path.resize(PATH_MAX - 1 - std::strlen("/the/tree"));
  EXPECT_EQ(shown(path.c_str()), "/the/tree" + path);
}

TEST(PathMap, whoever_asks_for_true_paths_gets_them) {
  const TruePaths outer;
  {
    const TruePaths inner;
    EXPECT_EQ(shown("/dev/infiniband"), "/dev/infiniband");
  }
  EXPECT_EQ(shown("/dev/infiniband"), "/dev/infiniband");
}

TEST(PathMap, the_root_is_taken_from_what_the_system_tells) {
  const auto told = [](std::string path) {
    path.resize(without_root(path.data(), path.size()));
    return path;
  };
  EXPECT_EQ(told("/the/tree/sys/class/infiniband/weft0"), "/sys/class/infiniband/weft0");
  EXPECT_EQ(told("/the/tree"), "/the/tree");
  EXPECT_EQ(told("/the/treetop/x"), "/the/treetop/x");
  EXPECT_EQ(told("/usr"), "/usr");
  EXPECT_EQ(told(""), "");
}

}  // namespace
}  // namespace weft::files
