// --help, the manual pages and the completions say the same: each is read as its users read it, the
// completions by the shells themselves.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "support/run_weft.h"
#include "unit/files/tree_kit.h"

namespace weft {
namespace {

using test::Ended;
using test::Started;
using Names = std::set<std::string>;

const std::filesystem::path kBuild = std::filesystem::path(WEFT_BIN_DIR).parent_path();

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Names words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

bool there_is(const char* program) {
  return Started({"sh", "-c", std::string("command -v ") + program}).wait().exit_status() == 0;
}

/// The entries of one section of a help text; of an option, all names.
Names in_help(const std::string& help, const std::string& section) {
  Names names;
  bool here = false;
  for (const std::string& line : lines_of(help)) {
    if (!line.empty() && line[0] != ' ') here = line == section + ":";
    if (!here || line.size() < 3 || line[1] != ' ' || line[2] == ' ') continue;
    for (const std::string& word : words_of(line.substr(0, line.find("  ", 2)))) {
      const std::string name = word.substr(0, word.find(','));
      if (section != "Options" || name[0] == '-') names.insert(name);
    }
  }
  return names;
}

struct Place {
  std::string path;  ///< "weft run"
  Names commands, options;
};

/// All commands of a program, as its help leads to them.
std::vector<Place> places_of(const std::string& path) {
  std::istringstream in(path);
  std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  words[0] = std::string(WEFT_BIN_DIR) + "/" + words[0];
  words.push_back("--help");
  const std::string help = Started(words).wait().output;
  std::vector<Place> places{{path, in_help(help, "Commands"), in_help(help, "Options")}};
  for (const std::string& below : Names(places[0].commands)) {
    const auto more = places_of(path + " " + below);
    places.insert(places.end(), more.begin(), more.end());
  }
  return places;
}

std::vector<Place> all_places() {
  auto places = places_of("weft");
  const auto more = places_of("weft-channel");
  places.insert(places.end(), more.begin(), more.end());
  return places;
}

TEST(Reference, help_leads_to_all_commands) {
  const auto places = all_places();
  Names paths;
  for (const Place& place : places) {
    paths.insert(place.path);
    EXPECT_TRUE(place.options.count("--help")) << place.path;
  }
  EXPECT_EQ(paths, (Names{"weft", "weft run", "weft env", "weft sim", "weft fabric",
                          "weft fabric sim", "weft fabric check", "weft fabric make",
                          "weft fabric draw", "weft demo", "weft bench", "weft bench channel",
                          "weft help", "weft-channel", "weft-channel demo", "weft-channel bench"}));
}

// ---- manual pages -------------------------------------------------------------------------------

/// A page's source without the marks for fonts and characters.
std::string plain(const std::string& roff) {
  std::string out;
  for (std::size_t i = 0; i < roff.size(); ++i) {
    if (roff[i] != '\\') {
      out += roff[i];
    } else if (roff.compare(i, 2, "\\f") == 0) {
      i += 2;
    } else if (i + 1 < roff.size() && roff[i + 1] != '&') {
      out += roff[++i];
    } else {
      ++i;
    }
  }
  return out;
}

std::string section_of(const std::string& page, const std::string& title) {
  const std::size_t at = page.find("\n.SH " + title + "\n");
  if (at == std::string::npos) return {};
  return page.substr(at, page.find("\n.SH ", at + 1) - at);
}

/// The names at the beginning of the entries: "-V, --version" or "--pcap FILE".
Names options_of(const std::string& section) {
  Names names;
  for (const std::string& line : lines_of(section)) {
    if (line.empty() || line[0] != '-') continue;
    for (const std::string& word : words_of(line)) {
      if (word[0] == '-') names.insert(word.substr(0, word.find(',')));
    }
  }
  return names;
}

TEST(Reference, manual_pages_have_the_options_of_help_and_no_others) {
  if (!there_is("scdoc")) GTEST_SKIP() << "scdoc, which writes manual pages, is not installed";
  Names expected;
  for (const Place& place : all_places()) {
    std::string name = place.path;
    std::replace(name.begin(), name.end(), ' ', '-');
    expected.insert(name + ".1");
    const std::string page = plain(read(kBuild / "man" / (name + ".1")));
    EXPECT_EQ(options_of(section_of(page, "OPTIONS")), place.options) << page;
    for (const std::string& command : place.commands) {
      EXPECT_NE(section_of(page, "COMMANDS").find("\n" + command + "\n"), std::string::npos)
          << place.path << " " << command;
    }
    EXPECT_NE(section_of(page, "SYNOPSIS").find(place.path), std::string::npos) << page;
    const bool is_group = !place.commands.empty();
    const bool has_examples = !section_of(page, "EXAMPLES").empty();
    EXPECT_TRUE(has_examples || is_group) << place.path;
    EXPECT_NE(page.find("\n.TH \"" + name + "\" \"1\""), std::string::npos) << page;
  }
  Names there;
  for (const auto& entry : std::filesystem::directory_iterator(kBuild / "man")) {
    there.insert(entry.path().filename());
  }
  EXPECT_EQ(there, expected);
}

// ---- bash ---------------------------------------------------------------------------------------

/// What bash offers where the last word is.
Names offered_by_bash(const std::vector<std::string>& words) {
  const std::string script =
      "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); "
      "$(complete -p -- \"$1\" | sed 's/.*-F \\([^ ]*\\) .*/\\1/'); "
      "printf '%s\\n' \"${COMPREPLY[@]}\"";
  std::vector<std::string> command{"bash", "--norc", "-uc",
                                   script, "bash",   kBuild / "completions/bash" / words[0]};
  command.insert(command.end(), words.begin(), words.end());
  const Ended ended = Started(command).wait();
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  return words_of(ended.output);
}

std::vector<std::string> typed(const std::string& path, const std::string& last) {
  std::istringstream in(path);
  std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  words.push_back(last);
  return words;
}

TEST(Reference, bash_completes_the_options_and_commands_of_help) {
  for (const Place& place : all_places()) {
    EXPECT_EQ(offered_by_bash(typed(place.path, "-")), place.options) << place.path;
    if (place.commands.empty()) continue;
    EXPECT_EQ(offered_by_bash(typed(place.path, "")), place.commands) << place.path;
  }
}

TEST(Reference, bash_completes_values_where_they_stand) {
  const test::Folder folder;
  folder.write("frames.pcap", "");
  const std::string file = folder.path() + "/frames.pcap";
  EXPECT_EQ(offered_by_bash({"weft", "ru"}), Names{"run"});
  EXPECT_EQ(offered_by_bash({"weft", "run", "--dev"}), Names{"--device"});
  EXPECT_EQ(offered_by_bash({"weft", "run", "--link-layer", ""}), (Names{"roce", "ib"}));
  EXPECT_EQ(offered_by_bash({"weft", "run", "--link-layer", "="}), (Names{"roce", "ib"}));
  EXPECT_EQ(offered_by_bash({"weft", "run", "--link-layer", "=", "i"}), Names{"ib"});
  EXPECT_EQ(offered_by_bash({"weft", "run", "--pcap", folder.path() + "/fr"}), Names{file});
  EXPECT_EQ(offered_by_bash({"weft", "run", "--device", "weft0", "=", "au"}), Names{"auto"});
  EXPECT_TRUE(offered_by_bash({"weft", "run", "--device", "=", "weft0", "=", ""}).count("lo"));
  EXPECT_EQ(offered_by_bash({"weft", "run", "--device", "weft0", "=", "auto", "--pc"}),
            Names{"--pcap"});
  EXPECT_EQ(offered_by_bash({"weft", "run", "--device", "weft0", "--exp"}), Names{"--explain"});
  EXPECT_EQ(offered_by_bash({"weft", "sim", "--weather", "st"}), Names{"storm"});
  EXPECT_EQ(offered_by_bash({"weft", "bench", "channel", "--only", "lat"}), Names{"latency_8"});
  EXPECT_EQ(offered_by_bash({"weft", "help", "bench", ""}), Names{"channel"});
  EXPECT_EQ(offered_by_bash({"weft-channel", "bench", "--side", "h"}), Names{"here"});
}

TEST(Reference, bash_leaves_the_program_its_own_words) {
  const test::Folder folder;
  folder.write("input", "");
  EXPECT_TRUE(offered_by_bash({"weft", "run", "--", "bas"}).count("bash"));
  EXPECT_TRUE(offered_by_bash({"weft", "run", "bas"}).count("bash"));
  EXPECT_EQ(offered_by_bash({"weft", "run", "--", "cat", folder.path() + "/in"}),
            Names{folder.path() + "/input"});
  EXPECT_EQ(offered_by_bash({"weft", "run", "cat", "--pc"}), Names{});
}

// ---- zsh and fish -------------------------------------------------------------------------------

/// What the functions of zsh's completion hand to _arguments, one to a line.
std::string told_by_zsh(const std::string& path) {
  std::string function = "_" + path;
  for (char& c : function) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  const std::string program = path.substr(0, path.find(' '));
  const Ended ended = Started({"zsh", "-fc",
                               "_arguments() { print -rl -- \"$@\"; state=command }; "
                               "_describe() { print -rl -- \"@commands\" ${(P)2} }; "
                               "source \"$1\" >/dev/null && \"$2\"",
                               "zsh", kBuild / "completions/zsh" / ("_" + program), function})
                          .wait();
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  return ended.output;
}

TEST(Reference, zsh_completes_the_options_and_commands_of_help) {
  if (!there_is("zsh")) GTEST_SKIP() << "zsh is not installed";
  for (const Place& place : all_places()) {
    Names options, commands;
    bool listed = false;
    for (std::string line : lines_of(told_by_zsh(place.path))) {
      if (line == "@commands") listed = true;
      if (listed && line.find(':') != std::string::npos)
        commands.insert(line.substr(0, line.find(':')));
      if (listed || line.find('[') == std::string::npos) continue;
      line.resize(line.find('['));        // the description
      line.erase(0, line.find(')') + 1);  // what it excludes
      line.erase(0, std::min(line.find('-'), line.size()));
      if (!line.empty()) options.insert(line.substr(0, line.find_first_of("=+")));
    }
    EXPECT_EQ(options, place.options) << place.path;
    EXPECT_EQ(commands, place.path == "weft help" ? places_of("weft")[0].commands : place.commands)
        << place.path;
  }
}

/// What fish offers at the end of the line.
Names offered_by_fish(const std::string& line) {
  const std::string program = line.substr(0, line.find(' '));
  const Ended ended =
      Started({"fish", "--no-config", "-c",
               "source $argv[1]; complete -C $argv[2] | string replace -r '\\t.*' ''; true",
               kBuild / "completions/fish" / (program + ".fish"), line})
          .wait();
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  return words_of(ended.output);
}

TEST(Reference, fish_completes_the_options_and_commands_of_help) {
  if (!there_is("fish")) GTEST_SKIP() << "fish is not installed";
  for (const Place& place : all_places()) {
    EXPECT_EQ(offered_by_fish(place.path + " -"), place.options) << place.path;
    if (place.commands.empty()) continue;
    EXPECT_EQ(offered_by_fish(place.path + " "), place.commands) << place.path;
  }
}

TEST(Reference, fish_completes_values_where_they_stand) {
  if (!there_is("fish")) GTEST_SKIP() << "fish is not installed";
  EXPECT_EQ(offered_by_fish("weft run --link-layer "), (Names{"roce", "ib"}));
  EXPECT_EQ(offered_by_fish("weft run --device weft0 --exp"), Names{"--explain"});
  EXPECT_TRUE(offered_by_fish("weft run --device weft0=a").count("weft0=auto"));
  EXPECT_TRUE(offered_by_fish("weft run -- bas").count("bash"));
  EXPECT_EQ(offered_by_fish("weft help bench "), Names{"channel"});
  EXPECT_EQ(offered_by_fish("weft run -- cat --pca").count("--pcap"), 0U);
}

}  // namespace
}  // namespace weft
