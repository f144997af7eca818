#include "usage/command_line.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "unit/files/tree_kit.h"
#include "usage/description.h"
#include "usage/help.h"

namespace weft::usage {
namespace {

/// A program with everything that a command line can have.
struct Sample {
  Command program{"tool", "does things"};
  Command& paint = program.add_command("paint", "paints");
  Command& group = program.add_command("measure", "measures");
  Command& speed = group.add_command("speed", "how fast");
  std::string colour, file;
  std::uint64_t coats = 1;

  Sample() {
    program.set_version_flag("-V,--version", std::string("tool 1.2"), "print the version");
    program.require_subcommand(1);
    group.require_subcommand(1);
    paint.operands = "WALL...";
    paint.about = {"About painting."};
    one_of(paint.add_option("--colour", colour, "which"), {"red", "green"});
    whole_number(paint.add_option("--coats", coats, "how many"), 1, 3);
    writable_file(paint.add_option("--log", file, "where to"));
    paint.examples = {{"tool paint --colour red", "an example"}};
    paint.statuses = {{"0", "painted"}};
  }

  /// What parse() said, and returned.
  std::pair<std::string, std::optional<int>> parse(std::vector<std::string> arguments) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const auto status = usage::parse(program, std::move(arguments));
    std::fflush(stdout);
    std::string out = testing::internal::GetCapturedStdout();
    return {out + testing::internal::GetCapturedStderr(), status};
  }
  std::string refused(std::vector<std::string> arguments) {
    const auto [said, status] = parse(std::move(arguments));
    EXPECT_EQ(status, kWrongUsage) << said;
    return said;
  }
};

TEST(UsageParse, what_is_right_goes_on_with_its_values) {
  Sample sample;
  const auto [said, status] = sample.parse({"paint", "--colour=green", "--coats", "3"});
  EXPECT_EQ(status, std::nullopt) << said;
  EXPECT_EQ(said, "");
  EXPECT_EQ(sample.colour, "green");
  EXPECT_EQ(sample.coats, 3U);
  EXPECT_TRUE(sample.paint.parsed());
}

TEST(UsageParse, help_and_version_end_well) {
  for (const char* option : {"--help", "-h"}) {
    const auto [said, status] = Sample().parse({"paint", option});
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(said.starts_with("tool paint: paints\n\nUsage: tool paint [OPTION...] WALL...\n"))
        << said;
  }
  EXPECT_EQ(Sample().parse({"--version"}).first, "tool 1.2\n");
  EXPECT_EQ(Sample().parse({"-V"}).second, 0);
}

TEST(UsageParse, unknown_words_are_told_with_what_was_meant) {
  EXPECT_EQ(Sample().refused({"pianr"}),
            "tool: there is no command 'pianr'. There are paint, measure.\nTry 'tool --help'.\n");
  EXPECT_EQ(Sample().refused({"pain"}),
            "tool: there is no command 'pain'. Did you mean 'paint'?\nTry 'tool --help'.\n");
  EXPECT_EQ(Sample().refused({"paint", "--color", "red"}),
            "tool paint: there is no option '--color'. Did you mean '--colour'?\n"
            "Try 'tool paint --help'.\n");
  EXPECT_EQ(Sample().refused({"measure", "speeed"}),
            "tool measure: there is no command 'speeed'. Did you mean 'speed'?\n"
            "Try 'tool measure --help'.\n");
}

TEST(UsageParse, an_option_in_the_wrong_place_is_sent_to_the_right_one) {
  EXPECT_NE(Sample().refused({"--coats", "2", "paint"}).find("'tool paint' has it"),
            std::string::npos);
}

TEST(UsageParse, wrong_values_are_told_by_name) {
  EXPECT_NE(Sample()
                .refused({"paint", "--colour", "gren"})
                .find("--colour: 'gren' is none of red, green. Did you mean 'green'?"),
            std::string::npos);
  for (const char* number : {"0", "4", "x", "-1", "2x", "99999999999999999999999", "1.5", " 1"}) {
    EXPECT_NE(Sample().refused({"paint", "--coats", number}).find("is not a whole number from 1"),
              std::string::npos)
        << number;
  }
}

TEST(UsageParse, what_is_missing_or_too_much_is_told) {
  EXPECT_NE(Sample().refused({}).find("which command? There are paint, measure"),
            std::string::npos);
  EXPECT_NE(Sample().refused({"measure"}).find("tool measure: which command? There are speed"),
            std::string::npos);
  EXPECT_NE(Sample().refused({"paint", "wall"}).find("what is 'wall' for?"), std::string::npos);
  EXPECT_NE(Sample().refused({"paint", "--colour"}).find("--colour"), std::string::npos);
}

TEST(UsageHelp, says_everything_and_has_no_control_characters) {
  const Sample sample;
  const std::string text = help_text(describe(sample.paint));
  for (const char* part : {"--colour red|green", "--coats N", "--log FILE", "About painting.",
                           "tool paint --colour red\n      an example", "0  painted"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c < 127)) << int{c};
}

TEST(UsageHelp, no_line_is_longer_than_a_terminal) {
  Sample sample;
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word ";
  words += "end";
  bool flag = false;
  sample.paint.about = {words};
  sample.paint.add_flag("--a-name-that-is-longer-than-its-column", flag, words);
  const std::string text = help_text(describe(sample.paint));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 80U) << text.substr(at, end - at);
    at = end + 1;
  }
}

TEST(UsageOutput, a_file_can_be_written_or_is_told_why_not) {
  const test::Folder folder;
  folder.write("file", "kept");
  const std::string here = folder.path();
  EXPECT_EQ(obstacle_to_writing(here + "/new"), "");
  EXPECT_EQ(obstacle_to_writing(here + "/file"), "");
  EXPECT_EQ(obstacle_to_writing(here + "/frames-%p.pcap"), "");
  EXPECT_EQ(obstacle_to_writing("new"), "");
  EXPECT_EQ(obstacle_to_writing("/dev/null"), "");
  EXPECT_NE(obstacle_to_writing(here + "/none/new").find("No such file"), std::string::npos);
  EXPECT_NE(obstacle_to_writing(here + "/file/new").find("cannot write"), std::string::npos);
  EXPECT_NE(obstacle_to_writing(here + "/none/%p").find("No such file"), std::string::npos);
  EXPECT_NE(obstacle_to_writing(here).find("directory"), std::string::npos);
  EXPECT_NE(obstacle_to_writing(""), "");
  EXPECT_EQ(folder.read("file"), "kept");
  EXPECT_FALSE(folder.has("new")) << "nothing is made by asking";
}

TEST(UsageOutput, an_option_that_names_such_a_file_is_wrong_usage) {
  EXPECT_NE(Sample().refused({"paint", "--log", "/nowhere/at/all"}).find("--log: cannot write"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::usage
