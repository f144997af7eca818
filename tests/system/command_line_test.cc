// What people type that is right, nearly right and wrong: help, version, suggestions, exit
// statuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/version.h"
#include "support/run_weft.h"
#include "unit/files/tree_kit.h"

namespace weft {
namespace {

using test::Ended;
using test::Folder;
using test::Started;

Ended shell(const std::string& script) { return Started({"sh", "-c", script}).wait(); }

constexpr const char* kWeft = WEFT_BIN_DIR "/weft";
constexpr const char* kChannel = WEFT_BIN_DIR "/weft-channel";

const std::vector<std::vector<std::string>> kCommands{{},
                                                      {"run"},
                                                      {"env"},
                                                      {"sim"},
                                                      {"fabric"},
                                                      {"fabric", "sim"},
                                                      {"fabric", "make"},
                                                      {"demo"},
                                                      {"bench"},
                                                      {"bench", "channel"},
                                                      {"help"}};

TEST(CommandLine, help_of_a_command_is_the_same_in_each_way_to_ask) {
  for (const auto& command : kCommands) {
    auto by_option = command, by_letter = command, by_help = command;
    by_option.push_back("--help");
    by_letter.push_back("-h");
    by_help.insert(by_help.begin(), "help");
    const Ended asked = test::weft(by_option);
    EXPECT_EQ(asked.exit_status(), 0);
    EXPECT_EQ(test::weft(by_letter).output, asked.output);
    EXPECT_EQ(test::weft(by_help).output, asked.output);
    std::string path = "weft";
    for (const std::string& word : command) path += " " + word;
    EXPECT_TRUE(asked.says("\nUsage: " + path + " ")) << asked.output;
  }
}

TEST(CommandLine, help_has_examples_and_exit_statuses_and_no_control_characters) {
  for (const char* command : {"run", "env", "sim", "fabric sim", "demo", "bench channel"}) {
    for (const char* environment : {"", "NO_COLOR=1", "TERM=dumb", "CLICOLOR_FORCE=1"}) {
      const Ended ended = shell(std::string(environment) + " " + kWeft + " " + command + " --help");
      EXPECT_EQ(ended.exit_status(), 0);
      EXPECT_TRUE(ended.says("\nExamples:\n  ")) << ended.output;
      EXPECT_TRUE(ended.says("\nExit status:\n  ")) << ended.output;
      EXPECT_TRUE(std::all_of(ended.output.begin(), ended.output.end(), [](char c) {
        return c == '\n' || (c >= ' ' && c < 127);
      })) << ended.output;
    }
  }
}

TEST(CommandLine, usage_of_run_shows_the_program) {
  EXPECT_TRUE(test::weft({"run", "--help"})
                  .says("Usage: weft run [OPTION...] [--] PROGRAM [ARGUMENT...]\n"));
}

TEST(CommandLine, version_is_the_one_that_is_stated) {
  for (const char* option : {"--version", "-V"}) {
    const Ended ended = test::weft({option});
    EXPECT_EQ(ended.exit_status(), 0);
    EXPECT_EQ(ended.output, std::string("weft ") + base::version() + "\n");
  }
  EXPECT_EQ(Started({kChannel, "--version"}).wait().output,
            std::string("weft-channel ") + base::version() + "\n");
}

struct Wrong {
  std::string arguments;
  const char* said;
};

void expect_refused(const char* program, const std::vector<Wrong>& all) {
  for (const Wrong& wrong : all) {
    const Ended ended = shell(std::string(program) + " " + wrong.arguments);
    EXPECT_EQ(ended.exit_status(), 2) << wrong.arguments << "\n" << ended.output;
    EXPECT_TRUE(ended.says(wrong.said)) << wrong.arguments << "\n" << ended.output;
    EXPECT_LT(ended.output.size(), 600U) << "not the whole help\n" << ended.output;
  }
}

TEST(CommandLine, what_is_nearly_right_is_answered_by_what_was_meant) {
  expect_refused(kWeft, {{"rnu -- true", "no command 'rnu'. Did you mean 'run'?"},
                         {"help rnu", "no command 'rnu'. Did you mean 'run'?"},
                         {"run --devcie weft0 -- true", "Did you mean '--device'?"},
                         {"run --link-layer=rose -- true", "Did you mean 'roce'?"},
                         {"env --unsett", "Did you mean '--unset'?"},
                         {"sim --seeed 7", "Did you mean '--seed"},
                         {"demo --chanels 3", "Did you mean '--channels'?"},
                         {"bench chanel", "Did you mean 'channel'?"},
                         {"bench channel --jsn", "Did you mean '--json'?"},
                         {"--pcap f run true", "'weft run' has it"}});
}

TEST(CommandLine, wrong_usage_of_any_kind_ends_with_2) {
  expect_refused(kWeft, {{"", "which command? There are run, env, sim, fabric, demo, bench, help"},
                         {"bench", "weft bench: which command? There are channel"},
                         {"run", "which program?"},
                         {"run --", "which program?"},
                         {"run --device", "--device"},
                         {"run --seed 7 -- true", "--faults"},
                         {"run --faults loss=1% --seed x -- true", "not a whole number"},
                         {"run --faults nonsense=1 -- true", "--faults"},
                         {"run --log loud -- true", "none of trace, debug"},
                         {"env extra", "what is 'extra' for?"},
                         {"sim --seeds 0", "not a whole number"},
                         {"sim --seeds many", "not a whole number"},
                         {"sim --nodes 1", "from 2 to 32"},
                         {"sim --weather fog", "none of calm, drawn, storm"},
                         {"sim --seed 1 --seeds 2", "exclude"},
                         {"demo --channels 0", "not a whole number"},
                         {"demo --seconds soon", "--seconds"},
                         {"demo --meet nowhere", "HOST:PORT"},
                         {"bench channel --in 3", "--side"}});
}

TEST(CommandLine, only_lists_its_names_on_a_wrong_one) {
  for (const char* program : {"/weft bench channel", "/weft-channel bench"}) {
    expect_refused((std::string(WEFT_BIN_DIR) + program).c_str(),
                   {{"--only latency_9",
                     "'latency_9' is none of latency_8, rate_8, stream, first_large, "
                     "while_growing, idle, many, shared_queue. Did you mean 'latency_8'?"}});
  }
}

TEST(CommandLine, the_program_of_channels_is_as_strict) {
  expect_refused(kChannel, {{"", "which command? There are demo, bench"},
                            {"dmeo", "Did you mean 'demo'?"},
                            {"demo --channels 1000000", "from 1 to 20000"},
                            {"bench --side up", "none of here, there"},
                            {"demo --meet 127.0.0.1:0", "HOST:PORT"}});
}

TEST(CommandLine, a_file_that_cannot_be_written_is_told_before_the_program_starts) {
  const Folder folder;
  const std::string here = folder.path(), proof = here + "/started";
  for (const std::string& file : {here + "/none/frames.pcap", here + "/none/%p.pcap", here}) {
    const Ended ended = test::weft({"run", "--pcap", file, "--", "touch", proof});
    EXPECT_EQ(ended.exit_status(), 2) << ended.output;
    EXPECT_TRUE(ended.says("--pcap: cannot write " + file)) << ended.output;
    EXPECT_FALSE(folder.has("started"));
    EXPECT_EQ(test::weft({"sim", "--seed", "7", "--pcap", file}).exit_status(), 2);
    const Ended env = test::weft({"env", "--pcap", file});
    EXPECT_EQ(env.exit_status(), 2);
    EXPECT_FALSE(env.says("export")) << env.output;
  }
  EXPECT_EQ(test::weft({"run", "--pcap", here + "/f.pcap", "--", "touch", proof}).exit_status(), 0);
  EXPECT_TRUE(folder.has("started"));
}

TEST(CommandLine, a_standard_output_that_is_full_is_an_error) {
  for (const char* arguments :
       {"--help", "--version", "help run", "env", "sim --seed 7 --json", "sim --seed 7"}) {
    const Ended ended = shell(std::string(kWeft) + " " + arguments + " >/dev/full");
    EXPECT_EQ(ended.exit_status(), 1) << arguments;
    EXPECT_TRUE(ended.says("cannot write standard output: No space left on device"))
        << arguments << ended.output;
  }
}

TEST(CommandLine, a_program_keeps_its_own_options) {
  EXPECT_EQ(test::weft({"run", "echo", "--help", "--device", "x"}).output, "--help --device x\n");
  EXPECT_EQ(test::weft({"run", "--", "sh", "-c", "exit 105"}).exit_status(), 105);
}

TEST(CommandLine, a_device_is_at_an_interface) {
  const Ended ended = test::weft(
      {"run", "--device", "a=lo", "--device", "b", "--", "sh", "-c", "echo $WEFT_DEVICES"});
  EXPECT_EQ(ended.output, "a=127.0.0.1,b=127.0.0.2\n");
}

TEST(CommandLine, a_place_that_is_not_there_is_told_with_those_that_are) {
  const Ended interface = test::weft({"run", "--device", "weft0=etth0", "--", "true"});
  EXPECT_EQ(interface.exit_status(), 2);
  EXPECT_TRUE(
      interface.says("device weft0: this machine has neither an interface nor an address "
                     "'etth0'; it has lo (127.0.0.1"))
      << interface.output;
  const Ended address = test::weft({"run", "--device", "weft0=192.0.2.1", "--", "true"});
  EXPECT_TRUE(address.says("no address 192.0.2.1; it has lo (127.0.0.1")) << address.output;
}

TEST(CommandLine, a_program_that_calls_another_host_is_told_how) {
  const Ended ended = test::weft({"run", "--", "rping", "-c", "-a", "192.0.2.1", "-C", "1"});
  if (ended.exit_status() == 127) GTEST_SKIP() << ended.output;
  EXPECT_NE(ended.exit_status(), 0);
  EXPECT_TRUE(
      ended.says("device weft0 is at 127.0.0.1, which other hosts do not reach; to reach "
                 "192.0.2.1 run: weft run --device weft0=auto -- ..."))
      << ended.output;
}

}  // namespace
}  // namespace weft
