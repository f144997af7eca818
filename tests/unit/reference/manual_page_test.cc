#include "reference/manual_page.h"

#include <gtest/gtest.h>

#include "reference/completion.h"

namespace weft::reference {
namespace {

usage::CommandText sample() {
  usage::CommandText text;
  text.path = "tool paint";
  text.name = "paint";
  text.summary = "paints";
  text.usage = "[OPTION...] WALL";
  text.about = {"# not a title, nor *bold* nor a_b"};
  text.options = {{{"-c", "--colour"}, "red|green", {"red", "green"}, "it's [one] of: these"},
                  {{"--log"}, "FILE", {}, "where to"}};
  text.examples = {{"tool paint --log a_b", "an example"}};
  text.statuses = {{"2", "wrong"}};
  return text;
}

usage::CommandText root() {
  usage::CommandText text;
  text.path = text.name = "tool";
  text.commands = {sample()};
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ManualPage, has_the_sections_that_readers_know) {
  const std::string page = manual_page(sample(), root());
  EXPECT_TRUE(page.starts_with("tool-paint(1) \"weft "));
  for (const char* title :
       {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "SEE ALSO"}) {
    EXPECT_TRUE(has(page, std::string("\n# ") + title + "\n")) << title;
  }
  EXPECT_FALSE(has(page, "# COMMANDS")) << "there are none";
  EXPECT_TRUE(has(page, "*-c*, *--colour* _red|green_\n\tit's [one] of: these\n") ||
              has(page, "*\\-c*, *\\--colour* _red|green_\n\tit's [one] of: these\n"))
      << page;
  EXPECT_TRUE(has(page, "*tool*(1)"));
}

TEST(ManualPage, marks_in_texts_are_only_text) {
  const std::string page = manual_page(sample(), root());
  EXPECT_TRUE(has(page, "\\# not a title, nor \\*bold\\* nor a\\_b")) << page;
  EXPECT_TRUE(has(page, "a\\_b*\n\tan example")) << page;
}

TEST(Completion, quotes_what_shells_would_read) {
  EXPECT_EQ(one_word("it's"), "'it'\\''s'");
  EXPECT_TRUE(has(zsh_completion(root()), "it'\\''s \\[one\\] of\\: these"));
  EXPECT_TRUE(has(fish_completion(root()), "-d 'it\\'s [one] of: these'"));
}

TEST(Completion, help_is_followed_by_what_it_explains) {
  usage::CommandText with_help = root();
  usage::CommandText help;
  help.name = "help", help.path = "tool help";
  with_help.commands.push_back(help);
  const auto words = with_help_words(with_help).commands[1].commands;
  ASSERT_EQ(words.size(), 2U);
  EXPECT_EQ(words[0].path, "tool help paint");
  EXPECT_TRUE(words[0].options.empty());
}

}  // namespace
}  // namespace weft::reference
