#include "reference/manual_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/version.h"

namespace weft::reference {
namespace {

using usage::CommandText;
using usage::Meaning;

/// What scdoc would take for a mark-up, at the beginning of a line or anywhere.
std::string plain(const std::string& text) {
  constexpr std::string_view kAnywhere = "\\*_", kFirst = "#-.`[|]:+ ";
  std::string out;
  for (const char c : text) {
    if (kAnywhere.find(c) != std::string_view::npos ||
        (out.empty() && kFirst.find(c) != std::string_view::npos)) {
      out += '\\';
    }
    out += c;
  }
  return out;
}

std::string bold(const std::string& text) { return fmt::format("*{}*", plain(text)); }

std::string heading(const usage::OptionText& option) {
  std::string out;
  for (const std::string& name : option.names) out += (out.empty() ? "" : ", ") + bold(name);
  return option.value.empty() ? out : fmt::format("{} _{}_", out, plain(option.value));
}

std::string section(const std::string& title, const std::string& text) {
  return text.empty() ? text : fmt::format("\n# {}\n\n{}", title, text);
}

std::string listed(const std::vector<Meaning>& rows) {
  std::string out;
  for (const Meaning& row : rows) {
    out +=
        fmt::format("{}{}\n\t{}\n", out.empty() ? "" : "\n", bold(row.thing), plain(row.meaning));
  }
  return out;
}

std::string options(const CommandText& command) {
  std::string out;
  for (const usage::OptionText& option : command.options) {
    out += fmt::format("{}{}\n\t{}\n", out.empty() ? "" : "\n", heading(option),
                       plain(option.meaning));
  }
  return out;
}

std::string commands(const CommandText& command) {
  std::vector<Meaning> rows;
  for (const CommandText& below : command.commands) rows.push_back({below.name, below.summary});
  return listed(rows);
}

/// The pages of the program, less the one that is read.
std::string see_also(const CommandText& command, const CommandText& root) {
  std::string out;
  for (const CommandText* other : usage::all_of(root)) {
    if (other->path == command.path) continue;
    out += fmt::format("{}{}(1)", out.empty() ? "" : ", ", bold(page_name(*other)));
  }
  return out + "\n";
}

}  // namespace

std::string page_name(const CommandText& command) {
  std::string name = command.path;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string manual_page(const CommandText& command, const CommandText& root) {
  std::string about;
  for (const std::string& paragraph : command.about) {
    about += fmt::format("{}{}\n", about.empty() ? "" : "\n", plain(paragraph));
  }
  if (about.empty()) about = fmt::format("{} {}.\n", bold(command.path), plain(command.summary));
  const std::string name = page_name(command);
  return fmt::format("{}(1) \"weft {}\" \"weft\"\n", name, base::version()) +
         section("NAME", fmt::format("{} - {}\n", name, plain(command.summary))) +
         section("SYNOPSIS", fmt::format("{} {}\n", bold(command.path), plain(command.usage))) +
         section("DESCRIPTION", about) + section("COMMANDS", commands(command)) +
         section("OPTIONS", options(command)) + section("EXAMPLES", listed(command.examples)) +
         section("ENVIRONMENT", listed(command.variables)) +
         section("EXIT STATUS", listed(command.statuses)) +
         section("SEE ALSO", see_also(command, root));
}

}  // namespace weft::reference
