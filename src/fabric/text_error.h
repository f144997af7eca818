// Where and why a file could not be understood: the line, the column and what was expected there.
// Both count from 1. A value.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace weft::fabric {

struct TextError {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::string message;

  /// As compilers do: "ring.net:3:7: expected ...".
  std::string in(std::string_view file) const {
    return fmt::format("{}:{}:{}: {}", file, line, column, message);
  }
};

template <class T>
using Parsed = tl::expected<T, TextError>;

/// A line of a file, read from left to right.
class LineScanner {
 public:
  LineScanner(std::string_view line, std::uint32_t number) : line_(line), number_(number) {}

  void skip_blanks() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) {
      ++at_;
    }
  }
  /// Nothing but blanks and a comment is left.
  bool at_end() {
    skip_blanks();
    return at_ >= line_.size() || line_[at_] == '#';
  }
  bool accept(std::string_view token) {
    skip_blanks();
    if (line_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  /// Letters, digits and what names are made of.
  std::string_view word() {
    skip_blanks();
    const std::size_t begun = at_;
    while (at_ < line_.size() && is_word(line_[at_])) ++at_;
    return line_.substr(begun, at_ - begun);
  }
  Parsed<std::uint64_t> number(std::string_view what, std::uint64_t least, std::uint64_t most,
                               int base = 10);
  Parsed<std::string> quoted(std::string_view what);
  std::string_view rest() const { return line_.substr(at_); }
  /// What comes now is not what should.
  tl::unexpected<TextError> expected(std::string_view what) {
    skip_blanks();
    return refuse(
        at_, fmt::format("expected {}{}", what, at_ < line_.size() ? "" : ", and the line ends"));
  }
  /// Something at an earlier place is wrong.
  tl::unexpected<TextError> refuse(std::size_t at, std::string message) const {
    return tl::unexpected(
        TextError{number_, static_cast<std::uint32_t>(at + 1), std::move(message)});
  }
  std::size_t at() const { return at_; }
  std::uint32_t line_number() const { return number_; }

 private:
  static bool is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.' || c == '/' || c == ':' || c == '+' || c == '*';
  }

  std::string_view line_;
  std::uint32_t number_;
  std::size_t at_ = 0;
};

}  // namespace weft::fabric
