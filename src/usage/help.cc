#include "usage/help.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::usage {
namespace {

constexpr std::size_t kWidth = 80;
/// A heading that is longer has a line of its own.
constexpr std::size_t kMostIndent = 28;

/// From `column` on, in lines that begin there.
std::string wrapped(const std::string& text, std::size_t column) {
  std::string out;
  std::size_t at = column;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find(' ', from), text.size());
    const std::string word = text.substr(from, end - from);
    if (at > column && at + 1 + word.size() > kWidth) {
      out += "\n" + std::string(column, ' ');
      at = column;
    }
    if (at > column) out += ' ', ++at;
    out += word;
    at += word.size();
    from = end + 1;
  }
  return out;
}

std::string table(const std::string& title, const std::vector<Meaning>& rows) {
  if (rows.empty()) return {};
  std::size_t column = 0;
  for (const Meaning& row : rows) {
    if (row.thing.size() + 4 <= kMostIndent) column = std::max(column, row.thing.size() + 4);
  }
  if (column == 0) column = kMostIndent;
  std::string out = fmt::format("\n{}:\n", title);
  for (const Meaning& row : rows) {
    std::string line = "  " + row.thing;
    line += line.size() + 2 <= column ? std::string(column - line.size(), ' ')
                                      : "\n" + std::string(column, ' ');
    out += line + wrapped(row.meaning, column) + "\n";
  }
  return out;
}

std::string examples(const CommandText& command) {
  if (command.examples.empty()) return {};
  std::string out = "\nExamples:\n";
  for (const Meaning& example : command.examples) {
    out += fmt::format("  {}\n", example.thing);
    if (!example.meaning.empty()) out += "      " + wrapped(example.meaning, 6) + "\n";
  }
  return out;
}

}  // namespace

std::string help_text(const CommandText& command) {
  std::string out = wrapped(fmt::format("{}: {}", command.path, command.summary), 0) + "\n\n";
  out += fmt::format("Usage: {} {}\n", command.path, command.usage);
  for (const std::string& paragraph : command.about) out += "\n" + wrapped(paragraph, 0) + "\n";
  std::vector<Meaning> rows;
  for (const CommandText& below : command.commands) rows.push_back({below.name, below.summary});
  out += table("Commands", rows);
  rows.clear();
  for (const OptionText& option : command.options) {
    rows.push_back({option.heading(), option.meaning});
  }
  out += table("Options", rows);
  out += examples(command);
  out += table("Environment", command.variables);
  out += table("Exit status", command.statuses);
  return out;
}

}  // namespace weft::usage
