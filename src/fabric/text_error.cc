#include "fabric/text_error.h"

#include <charconv>

namespace weft::fabric {

Parsed<std::uint64_t> LineScanner::number(std::string_view what, std::uint64_t least,
                                          std::uint64_t most, int base) {
  skip_blanks();
  std::size_t from = at_;
  if (base == 16 && line_.substr(from, 2) == "0x") from += 2;
  std::uint64_t value = 0;
  const char* const end = line_.data() + line_.size();
  const auto [stopped, error] = std::from_chars(line_.data() + from, end, value, base);
  if (stopped == line_.data() + from) return expected(what);
  if (error != std::errc{} || value < least || value > most) {
    return refuse(at_, fmt::format("expected {} from {} to {}", what, least, most));
  }
  at_ = static_cast<std::size_t>(stopped - line_.data());
  return value;
}

Parsed<std::string> LineScanner::quoted(std::string_view what) {
  skip_blanks();
  if (at_ >= line_.size() || line_[at_] != '"') return expected(fmt::format("{} in quotes", what));
  const std::size_t end = line_.find('"', at_ + 1);
  if (end == std::string_view::npos) return refuse(at_, "the quote is not closed");
  std::string text(line_.substr(at_ + 1, end - at_ - 1));
  at_ = end + 1;
  return text;
}

}  // namespace weft::fabric
