// What a program under `weft run` gets from the C library: each test starts itself again there, and
// the second one looks.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "support/run_weft.h"

// Names that programs have which were built elsewhere: hardened ones, and old ones.
extern "C" int __open_2(const char* path, int flags);
extern "C" int __xstat(int version, const char* path, struct stat* answer);
extern "C" int __fxstat(int version, int fd, struct stat* answer);

namespace weft {
namespace {

constexpr const char* kGuid = "/sys/class/infiniband/weft0/node_guid";
constexpr const char* kDevice = "/dev/infiniband/uverbs0";
const dev_t kNumber = makedev(231, 192);

class RunInside : public testing::Test {
 protected:
  /// True in the first process, after the second one has had its say.
  static bool second_one_looked() {
    if (std::getenv("WEFT_TEST_INSIDE") != nullptr) return false;
    setenv("WEFT_TEST_INSIDE", "1", 1);
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    const std::string filter = std::string("--gtest_filter=RunInside.") + test->name();
    const test::Ended ended =
        test::weft({"run", "--", std::filesystem::read_symlink("/proc/self/exe"), filter});
    unsetenv("WEFT_TEST_INSIDE");
    EXPECT_EQ(ended.exit_status(), 0) << ended.output;
    EXPECT_TRUE(ended.says("1 test from 1 test suite ran")) << ended.output;
    return true;
  }
};

bool is_device(const struct stat& status) {
  return S_ISCHR(status.st_mode) && status.st_rdev == kNumber;
}

std::string contents_of(int fd) {
  char text[64];
  const ssize_t got = read(fd, text, sizeof text);
  close(fd);
  return {text, static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

TEST_F(RunInside, every_way_to_open_leads_to_the_same_file) {
  if (second_one_looked()) return;
  const std::string guid = contents_of(open(kGuid, O_RDONLY));
  ASSERT_EQ(guid.size(), 20U);
  EXPECT_EQ(contents_of(openat(AT_FDCWD, kGuid, O_RDONLY)), guid);
  EXPECT_EQ(contents_of(open64(kGuid, O_RDONLY)), guid);
  EXPECT_EQ(contents_of(__open_2(kGuid, O_RDONLY)), guid);
  const int folder = open("/sys/class/infiniband", O_RDONLY | O_DIRECTORY);
  EXPECT_EQ(contents_of(openat(folder, "weft0/node_guid", O_RDONLY)), guid);
  close(folder);
  const int root = open("/", O_RDONLY | O_DIRECTORY);
  EXPECT_EQ(contents_of(openat(root, kGuid + 1, O_RDONLY)), guid);
  close(root);
  FILE* stream = fopen(kGuid, "r");
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(contents_of(dup(fileno(stream))), guid);
  fclose(stream);
}

TEST_F(RunInside, files_are_made_with_the_mode_that_was_asked_for) {
  if (second_one_looked()) return;
  umask(0);
  for (const int fd : {open("made", O_CREAT | O_EXCL | O_RDWR, 0641),
                       openat(AT_FDCWD, ".", O_TMPFILE | O_RDWR, 0641)}) {
    struct stat status {};
    ASSERT_EQ(fstat(fd, &status), 0);
    EXPECT_EQ(status.st_mode, S_IFREG | 0641U);
    close(fd);
    unlink("made");
  }
}

TEST_F(RunInside, every_way_to_look_at_a_device_file_sees_a_character_device) {
  if (second_one_looked()) return;
  struct stat status {};
  EXPECT_TRUE(stat(kDevice, &status) == 0 && is_device(status));
  EXPECT_TRUE(lstat(kDevice, &status) == 0 && is_device(status));
  EXPECT_TRUE(fstatat(AT_FDCWD, kDevice, &status, 0) == 0 && is_device(status));
  EXPECT_TRUE(__xstat(1, kDevice, &status) == 0 && is_device(status));
  struct statx extended {};
  EXPECT_EQ(statx(AT_FDCWD, kDevice, 0, STATX_BASIC_STATS, &extended), 0);
  EXPECT_TRUE(S_ISCHR(extended.stx_mode) && extended.stx_rdev_major == 231);
  const int fd = open(kDevice, O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(fstat(fd, &status) == 0 && is_device(status));
  EXPECT_TRUE(__fxstat(1, fd, &status) == 0 && is_device(status));
  EXPECT_TRUE(fstatat(fd, "", &status, AT_EMPTY_PATH) == 0 && is_device(status));
  EXPECT_EQ(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &extended), 0);
  EXPECT_TRUE(S_ISCHR(extended.stx_mode));
  EXPECT_EQ(access(kDevice, R_OK | W_OK), 0);
  EXPECT_EQ(faccessat(AT_FDCWD, kDevice, R_OK | W_OK, 0), 0);
  EXPECT_EQ(euidaccess(kDevice, R_OK | W_OK), 0);
  EXPECT_EQ(access("/dev/infiniband/uverbs9", F_OK), -1);
  EXPECT_EQ(errno, ENOENT);
  close(fd);
}

TEST_F(RunInside, the_kernels_commands_are_refused_on_every_duplicate) {
  if (second_one_looked()) return;
  const int fd = open(kDevice, O_RDWR | O_CLOEXEC);
  const int copies[] = {fd,
                        dup(fd),
                        dup2(fd, 200),
                        dup3(fd, 201, O_CLOEXEC),
                        fcntl(fd, F_DUPFD, 300),
                        fcntl(fd, F_DUPFD_CLOEXEC, 300)};
  char byte = 0;
  const iovec piece{&byte, 1};
  for (const int copy : copies) {
    ASSERT_GE(copy, 0);
    EXPECT_EQ(write(copy, &byte, 1), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(writev(copy, &piece, 1), -1);
    EXPECT_EQ(errno, EPERM);
  }
  for (const int copy : copies) EXPECT_EQ(close(copy), 0);
  const int plain = open("/dev/null", O_WRONLY);
  EXPECT_EQ(write(plain, &byte, 1), 1);
  EXPECT_EQ(writev(plain, &piece, 1), 1);
  close(plain);
}

TEST_F(RunInside, a_number_that_means_another_file_now_is_written_to) {
  if (second_one_looked()) return;
  const int plain = open("/dev/null", O_WRONLY);
  const int other = open(kDevice, O_RDWR);  // so that the table is never empty
  char byte = 0;
  for (int way = 0; way < 4; ++way) {
    const int fd = open(kDevice, O_RDWR);
    ASSERT_EQ(write(fd, &byte, 1), -1);
    if (way == 0) dup2(plain, fd);
    if (way == 1) dup3(plain, fd, O_CLOEXEC);
    if (way == 2) close_range(static_cast<unsigned>(fd), static_cast<unsigned>(fd), 0);
    if (way == 3) fclose(fdopen(fd, "r+"));
    int again = way < 2 ? fd : -1;
    while (again != fd) again = open("/dev/null", O_WRONLY);
    EXPECT_EQ(write(fd, &byte, 1), 1) << way;
    close(fd);
  }
  EXPECT_EQ(write(other, &byte, 1), -1);
  closefrom(plain);
  EXPECT_EQ(write(other, &byte, 1), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(RunInside, a_child_that_closes_everything_takes_nothing_from_its_parent) {
  if (second_one_looked()) return;
  const int fd = open(kDevice, O_RDWR);
  char byte = 0;
  const pid_t child = vfork();
  if (child == 0) {
    close(fd);
    close_range(3, ~0U, 0);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(write(fd, &byte, 1), -1);
  EXPECT_EQ(errno, EPERM);
  const pid_t forked = fork();
  if (forked == 0) _exit(write(fd, &byte, 1) == -1 && errno == EPERM && close(fd) == 0 ? 0 : 1);
  int status = 0;
  waitpid(forked, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(RunInside, directories_list_what_is_shown) {
  if (second_one_looked()) return;
  DIR* folder = opendir("/sys/class/infiniband");
  ASSERT_NE(folder, nullptr);
  bool seen = false;
  while (const dirent* entry = readdir(folder)) seen |= std::strcmp(entry->d_name, "weft0") == 0;
  EXPECT_TRUE(seen);
  closedir(folder);
  dirent** names = nullptr;
  const int count = scandir("/dev/infiniband", &names, nullptr, alphasort);
  ASSERT_GE(count, 4);  // with "." and ".."
  for (int i = 0; i < count; ++i) std::free(names[i]);
  std::free(names);
}

TEST_F(RunInside, resolved_paths_do_not_show_the_tree) {
  if (second_one_looked()) return;
  constexpr const char* kFolder = "/sys/class/infiniband/weft0/device";
  char resolved[PATH_MAX];
  EXPECT_STREQ(realpath(kFolder, resolved), kFolder);
  char* made = realpath("/sys/class/infiniband/../infiniband/weft0/device/.", nullptr);
  EXPECT_STREQ(made, kFolder);
  std::free(made);
  made = canonicalize_file_name(kFolder);
  EXPECT_STREQ(made, kFolder);
  std::free(made);
  const ssize_t size = readlink((std::string(kFolder) + "/net/lo").c_str(), resolved, PATH_MAX);
  EXPECT_EQ(std::string(resolved, static_cast<std::size_t>(std::max<ssize_t>(size, 0))),
            "/sys/class/net/lo");
  const int folder = open(kFolder, O_RDONLY | O_DIRECTORY);
  EXPECT_GT(readlinkat(folder, "net/lo", resolved, PATH_MAX), 0);
  const std::string self = "/proc/self/fd/" + std::to_string(folder);
  const ssize_t of_fd = readlink(self.c_str(), resolved, PATH_MAX);
  EXPECT_EQ(std::string(resolved, static_cast<std::size_t>(std::max<ssize_t>(of_fd, 0))), kFolder);
}

/// As a program would that does not keep to the headers.
[[gnu::no_sanitize_undefined]] bool is_refused_without_a_path() {
  const char* volatile nothing = nullptr;
  if (open(nothing, O_RDONLY) != -1 || errno != EFAULT) return false;
  errno = 0;
  if (access(nothing, F_OK) != -1 || errno != EFAULT) return false;
#if !defined(__SANITIZE_ADDRESS__)  // It measures the path itself.
  struct stat status {};
  errno = 0;
  if (stat(nothing, &status) != -1 || errno != EFAULT) return false;
#endif
  return true;
}

TEST_F(RunInside, what_has_no_path_is_the_kernels_to_refuse) {
  if (second_one_looked()) return;
  EXPECT_TRUE(is_refused_without_a_path());
}

TEST_F(RunInside, a_library_that_is_opened_by_hand_gives_wefts_functions) {
  if (second_one_looked()) return;
  void* const library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) GTEST_SKIP() << dlerror();
  void* const ours = dlsym(RTLD_DEFAULT, "ibv_get_device_list");  // the preloaded one
  ASSERT_NE(ours, nullptr);
  EXPECT_EQ(dlsym(library, "ibv_get_device_list"), ours);
  EXPECT_EQ(dlvsym(library, "ibv_get_device_list", "IBVERBS_1.1"), ours);
  void* const next = dlsym(RTLD_NEXT, "ibv_get_device_list");
  EXPECT_EQ(next, ours);  // after this program comes the preloaded library
  EXPECT_EQ(dlsym(library, "no_such_function"), nullptr);
  EXPECT_NE(dlerror(), nullptr);
  EXPECT_NE(dlsym(library, "verbs_init_cq"), ours);
  void* const mathematics = dlopen("libm.so.6", RTLD_NOW);
  ASSERT_NE(mathematics, nullptr);
  Dl_info info{};
  ASSERT_NE(dladdr(dlsym(mathematics, "cos"), &info), 0);
  EXPECT_NE(std::strstr(info.dli_fname, "libm"), nullptr);
}

}  // namespace
}  // namespace weft
