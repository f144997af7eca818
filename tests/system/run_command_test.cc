// `weft run` and `weft env` with programs that everybody has.
#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "cli/env_command.h"
#include "cli/preload.h"
#include "cli/program_file.h"
#include "cli/sanitizer_options.h"
#include "support/run_weft.h"
#include "unit/files/tree_kit.h"

namespace weft {
namespace {

using test::Ended;
using test::Folder;
using test::Started;
using test::weft_command;

Ended run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "run");
  return test::weft(std::move(arguments));
}

Ended run_shell(const std::string& script) { return run({"--", "sh", "-c", script}); }

class RunCommand : public testing::Test {
 protected:
  void SetUp() override {
    // What shells and their kin leave for the kernel to free is no business of ours; and a test
    // preloads a library of its own into the command.
    test::add_asan_options("detect_leaks=0:verify_asan_link_order=0");
  }
};

TEST_F(RunCommand, a_program_and_its_children_see_the_device) {
  const Ended ended = run_shell("ls /sys/class/infiniband; cat /sys/class/infiniband/*/node_type");
  EXPECT_EQ(ended.exit_status(), 0);
  EXPECT_EQ(ended.output, "weft0\n1: CA\n");
}

TEST_F(RunCommand, shows_the_devices_that_were_asked_for) {
  const Ended ended = run({"--device", "b", "--device=a=::1", "--link-layer", "ib", "--", "sh",
                           "-c", "cd /sys/class/infiniband; echo *; cat a/ports/1/link_layer"});
  EXPECT_EQ(ended.output, "a b\nInfiniBand\n");
}

TEST_F(RunCommand, device_files_are_character_devices) {
  EXPECT_EQ(
      run_shell("test -c /dev/infiniband/uverbs0 && test -w /dev/infiniband/uverbs0").exit_status(),
      0);
  EXPECT_NE(run_shell("test -e /dev/infiniband/uverbs1").exit_status(), 0);
}

TEST_F(RunCommand, libibverbs_programs_find_the_devices) {
  const Ended ended = run({"--device", "one", "--device", "two", "--", "ibv_devices"});
  if (ended.exit_status() == 127) GTEST_SKIP() << ended.output;
  EXPECT_EQ(ended.exit_status(), 0);
  EXPECT_TRUE(ended.says(" one ") && ended.says(" two ")) << ended.output;
}

TEST_F(RunCommand, the_exit_status_is_the_programs) {
  EXPECT_EQ(run_shell("exit 7").exit_status(), 7);
  EXPECT_EQ(run({"true"}).exit_status(), 0);
}

TEST_F(RunCommand, death_by_a_signal_is_death_by_the_same_signal) {
  EXPECT_EQ(run_shell("kill -USR1 $$").signal(), SIGUSR1);
  EXPECT_EQ(run_shell("kill -KILL $$").signal(), SIGKILL);
}

TEST_F(RunCommand, signals_reach_the_program) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR2}) {
    Started started(weft_command({"run", "--", "sh", "-c",
                                  "trap 'echo caught; exit 5' TERM INT HUP USR2; echo ready; while "
                                  ":; do sleep 0.01; done"}));
    ASSERT_TRUE(started.wait_for("ready"));
    started.send(signal);
    const Ended ended = started.wait();
    EXPECT_TRUE(ended.says("caught")) << signal;
    EXPECT_EQ(ended.exit_status(), 5) << signal;
  }
}

TEST_F(RunCommand, a_program_outlives_no_command_that_was_killed) {
  Started started(weft_command({"run", "--", "sh", "-c", "echo $$; exec sleep 100"}));
  ASSERT_TRUE(started.wait_for("\n"));
  started.send(SIGKILL);
  // The end of its output is the end of the program.
  EXPECT_EQ(started.wait().signal(), SIGKILL);
}

TEST_F(RunCommand, a_stop_by_job_control_stops_the_command_until_it_goes_on) {
  Started started(
      weft_command({"run", "--", "sh", "-c", "echo ready; kill -TSTP $$; echo went on; exit 3"}));
  ASSERT_TRUE(started.wait_for("ready"));
  int status = 0;
  ASSERT_EQ(waitpid(started.pid(), &status, WUNTRACED), started.pid());
  ASSERT_TRUE(WIFSTOPPED(status));
  started.send(SIGCONT);
  const Ended ended = started.wait();
  EXPECT_TRUE(ended.says("went on"));
  EXPECT_EQ(ended.exit_status(), 3);
}

TEST_F(RunCommand, leaves_no_file_behind) {
  const Folder folder;
  setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  const Ended seen = run_shell("ls $XDG_RUNTIME_DIR; stat -c %a $WEFT_TREE; kill -TERM $$");
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(seen.signal(), SIGTERM);
  EXPECT_TRUE(seen.says("weft-run-")) << seen.output;
  EXPECT_TRUE(seen.says("700")) << seen.output;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(RunCommand, removes_what_a_killed_one_left_but_nothing_that_is_used) {
  const Folder folder;
  setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  {
    Started killed(weft_command({"run", "--", "sh", "-c", "echo $WEFT_TREE; exec sleep 100"}));
    ASSERT_TRUE(killed.wait_for("\n"));
    killed.send(SIGKILL);
  }
  Started used(weft_command({"run", "--", "sh", "-c", "echo $WEFT_TREE; exec sleep 100"}));
  ASSERT_TRUE(used.wait_for("\n"));
  folder.write("weft-run-not/x", "");  // a third: nobody's, but young
  int trees = 0;
  for (const auto& tree : std::filesystem::directory_iterator(folder.path())) {
    if (tree.path().filename() == "weft-run-not") continue;
    std::filesystem::last_write_time(
        tree, std::filesystem::file_time_type::clock::now() - std::chrono::minutes(2));
    ++trees;
  }
  EXPECT_EQ(trees, 2);
  EXPECT_EQ(run_shell("exit 0").exit_status(), 0);
  int left = 0;
  for ([[maybe_unused]] const auto& tree : std::filesystem::directory_iterator(folder.path()))
    ++left;
  EXPECT_EQ(left, 2);
  used.send(SIGTERM);
  const Ended ended = used.wait();
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(ended.signal(), SIGTERM);
  EXPECT_TRUE(folder.has("weft-run-not"));
}

TEST_F(RunCommand, keeps_what_was_preloaded_already) {
  setenv("LD_PRELOAD", "libm.so.6", 1);
  const Ended ended = run_shell("echo $LD_PRELOAD");
  unsetenv("LD_PRELOAD");
  EXPECT_TRUE(ended.output.ends_with("libweft-rdma.so.0:libm.so.6\n")) << ended.output;
}

TEST_F(RunCommand, one_inside_another_shows_its_own_devices_only) {
  const Ended ended =
      run_shell(WEFT_BIN_DIR "/weft run --device inner -- ls /sys/class/infiniband");
  EXPECT_EQ(ended.output, "inner\n");
}

TEST_F(RunCommand, the_shells_environment_does_the_same) {
  const Folder folder;
  setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  Started started({"sh", "-c",
                   "unset $(env | grep -o '^WEFT[A-Z_]*'); "  // what the tests were given
                   "weft=" WEFT_BIN_DIR "/weft; eval \"$($weft env --device x)\"; "
                   "ls /sys/class/infiniband; eval \"$($weft env --device x)\"; "
                   "cat /sys/class/infiniband/x/node_desc; eval \"$($weft env --unset)\"; "
                   "test -e /sys/class/infiniband/x || echo gone; env | grep -c WEFT"});
  const Ended ended = started.wait();
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(ended.output, "x\nx\ngone\n0\n");
  std::size_t left = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           folder.path(), std::filesystem::directory_options::none)) {
    left += entry.path().filename().string().starts_with("tree-");
  }
  EXPECT_EQ(left, 1U);
}

TEST_F(RunCommand, a_shared_directory_is_not_trusted) {
  const Folder folder;
  const std::string ours = folder.path() + "/weft-" + std::to_string(geteuid());
  std::filesystem::create_directory(ours);
  ASSERT_EQ(chmod(ours.c_str(), 0755), 0);
  setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  const Ended ended = test::weft({"env"});
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(ended.exit_status(), 2);
  EXPECT_TRUE(ended.says("not a directory of yours alone")) << ended.output;
}

TEST_F(RunCommand, passes_faults_and_capture_on_to_the_program) {
  const Ended ended = run({"--faults", "loss=1%,delay=5us", "--seed", "7", "--pcap", "/tmp/%p.pcap",
                           "--", "sh", "-c", "echo $WEFT_FAULTS $WEFT_FAULTS_SEED $WEFT_PCAP"});
  EXPECT_EQ(ended.exit_status(), 0);
  EXPECT_TRUE(ended.says("loss=1%,delay=5us 7 /tmp/%p.pcap")) << ended.output;
}

// Where frames are what arrives, the descriptor carries their sockets while it does not block.
TEST_F(RunCommand, a_channel_blocks_or_not_as_ioctl_says) {
  const Ended ended =
      run({"--faults", "delay=1us", "--", WEFT_BIN_DIR "/verbs_client", "flags_by_ioctl"});
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_TRUE(ended.says("did flags_by_ioctl")) << ended.output;
}

// ---- what is refused ----------------------------------------------------------------------------

TEST(RunRefusals, wrong_options_are_told) {
  EXPECT_EQ(run({}).exit_status(), 2);
  EXPECT_EQ(run({"--device", "a/b", "--", "true"}).exit_status(), 2);
  EXPECT_EQ(run({"--link-layer", "token-ring", "--", "true"}).exit_status(), 2);
  EXPECT_EQ(run({"--faults", "nonsense=1", "--", "true"}).exit_status(), 2);
  EXPECT_EQ(run({"--faults", "loss=1%", "--seed", "seven", "--", "true"}).exit_status(), 2);
  EXPECT_EQ(run({"--seed", "7", "--", "true"}).exit_status(), 2) << "a seed of no faults";
  EXPECT_EQ(run({"--log", "loud", "--", "true"}).exit_status(), 2);
  const Ended far = run({"--device", "a=192.0.2.1", "--", "true"});
  EXPECT_EQ(far.exit_status(), 2);
  EXPECT_TRUE(far.says("no address 192.0.2.1")) << far.output;
}

TEST(RunRefusals, a_program_that_is_not_there_or_none) {
  EXPECT_EQ(run({"--", "weft-no-such-program"}).exit_status(), 127);
  EXPECT_EQ(run({"--", "/nowhere/program"}).exit_status(), 127);
  EXPECT_EQ(run({"--", "/"}).exit_status(), 126);
  EXPECT_EQ(run({"--", "/etc/passwd"}).exit_status(), 126);
}

Elf64_Ehdr elf(Elf64_Half machine) {
  Elf64_Ehdr header{};
  std::copy(ELFMAG, ELFMAG + SELFMAG, header.e_ident);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = machine;
  return header;
}

std::string program(const Folder& folder, const std::string& name, const std::string& bytes,
                    mode_t mode = 0755) {
  folder.write(name, bytes);
  const std::string path = folder.path() + "/" + name;
  EXPECT_EQ(chmod(path.c_str(), mode), 0);
  return path;
}

std::string bytes_of(const Elf64_Ehdr& header) {
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

#if defined(__x86_64__)
constexpr Elf64_Half kOurs = EM_X86_64;
#else
constexpr Elf64_Half kOurs = EM_AARCH64;
#endif

TEST(RunRefusals, a_static_program_is_told_not_run) {
  const Folder folder;
  const Ended ended = run({"--", program(folder, "static", bytes_of(elf(kOurs)))});
  EXPECT_EQ(ended.exit_status(), 2);
  EXPECT_TRUE(ended.says("statically linked")) << ended.output;
}

TEST(RunRefusals, a_script_is_judged_by_its_interpreter) {
  const Folder folder;
  const std::string fixed = program(folder, "static", bytes_of(elf(kOurs)));
  const auto direct = cli::obstacle_to(program(folder, "script", "#! " + fixed + " -x\n"));
  ASSERT_TRUE(direct);
  EXPECT_EQ(direct->exit_status, 2);
  EXPECT_TRUE(cli::obstacle_to(program(folder, "env", "#!/usr/bin/env -S A=1 " + fixed + " -u\n")));
  EXPECT_FALSE(cli::obstacle_to(program(folder, "sh", "#!/bin/sh -e\n")));
  EXPECT_FALSE(cli::obstacle_to(program(folder, "plain", "echo no first line\n")));
  const std::string itself = folder.path() + "/itself";
  program(folder, "itself", "#!" + itself + "\n");
  EXPECT_FALSE(cli::obstacle_to(itself));  // the kernel's to refuse
}

TEST(RunRefusals, programs_of_other_architectures_are_told) {
  const Folder folder;
  Elf64_Ehdr narrow = elf(EM_386);
  narrow.e_ident[EI_CLASS] = ELFCLASS32;
  for (const Elf64_Ehdr& header : {elf(EM_PPC64), narrow}) {
    const auto obstacle = cli::obstacle_to(program(folder, "foreign", bytes_of(header)));
    ASSERT_TRUE(obstacle);
    EXPECT_NE(obstacle->message.find("another architecture"), std::string::npos);
  }
}

TEST(RunRefusals, broken_programs_do_no_harm) {
  const Folder folder;
  const std::string whole = bytes_of(elf(kOurs));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    cli::obstacle_to(program(folder, "cut", whole.substr(0, size)));
  }
  Elf64_Ehdr wild = elf(kOurs);
  wild.e_phoff = ~Elf64_Off{0};
  wild.e_phnum = 0xFFFF;
  const auto obstacle = cli::obstacle_to(program(folder, "wild", bytes_of(wild)));
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->exit_status, 2);
}

TEST(RunRefusals, a_set_user_id_program_of_somebody_else_is_told) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a file away";
  const Folder folder;
  std::ifstream shell("/bin/true", std::ios::binary);
  const std::string path = program(folder, "set-id", {std::istreambuf_iterator<char>(shell), {}});
  EXPECT_FALSE(cli::obstacle_to(path));
  ASSERT_EQ(chown(path.c_str(), 65'534, 65'534), 0);
  ASSERT_EQ(chmod(path.c_str(), 04755), 0);
  const auto obstacle = cli::obstacle_to(path);
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->exit_status, 2);
  EXPECT_NE(obstacle->message.find("set-user-ID"), std::string::npos);
}

// ---- parts --------------------------------------------------------------------------------------

TEST(RunParts, the_preload_list_has_the_library_first_and_once) {
  EXPECT_EQ(cli::preload_list("/l/w.so", ""), "/l/w.so");
  EXPECT_EQ(cli::preload_list("/l/w.so", "a.so b.so"), "/l/w.so:a.so:b.so");
  EXPECT_EQ(cli::preload_list("/l/w.so", "a.so:/l/w.so::b.so"), "/l/w.so:a.so:b.so");
  EXPECT_EQ(cli::preload_list_without("/l/w.so", "/l/w.so"), "");
}

TEST(RunParts, options_for_sanitizers_stand_before_the_users_and_go_again) {
  EXPECT_EQ(cli::options_with("a=1:b=0", ""), "a=1:b=0");
  EXPECT_EQ(cli::options_with("a=1:b=0", "a=0:log_path='x y'"), "a=1:b=0:a=0:log_path='x y'");
  EXPECT_EQ(cli::options_with("a=1", "a=1:b=2"), "a=1:b=2") << "one inside another";
  EXPECT_EQ(cli::options_without("a=1", "a=1:b=2"), "b=2");
  EXPECT_EQ(cli::options_without("a=1", "a=1"), "");
  EXPECT_EQ(cli::options_without("a=1", "b=2:a=1"), "b=2:a=1") << "the user's own";
}

TEST(RunParts, words_for_the_shell_survive_it) {
  EXPECT_EQ(cli::shell_word("a b"), "'a b'");
  EXPECT_EQ(cli::shell_word("it's $HOME"), "'it'\\''s $HOME'");
}

}  // namespace
}  // namespace weft
