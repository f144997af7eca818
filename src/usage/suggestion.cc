#include "usage/suggestion.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::usage {
namespace {

/// Longer words that nobody meant are not worth the table.
constexpr std::size_t kLongestWord = 64;

std::string_view without_dashes(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  return word;
}

/// A third of the letters may be wrong, and a letter of a short word.
std::size_t most_mistakes(std::size_t letters) {
  return letters < 3 ? 0 : std::max<std::size_t>(1, letters / 3);
}

}  // namespace

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string closest(std::string_view word, const std::vector<std::string>& names) {
  const std::string_view letters = without_dashes(word);
  if (letters.empty() || letters.size() > kLongestWord) return {};
  const std::string* best = nullptr;
  std::size_t mistakes = most_mistakes(letters.size()) + 1;
  for (const std::string& name : names) {
    if (const std::size_t n = distance(letters, without_dashes(name)); n < mistakes) {
      mistakes = n;
      best = &name;
    }
  }
  if (best != nullptr) return *best;
  // The beginning of exactly one is as good.
  const auto begins = [&](const std::string& name) {
    return letters.size() > 1 && without_dashes(name).starts_with(letters);
  };
  const auto first = std::find_if(names.begin(), names.end(), begins);
  const bool one =
      first != names.end() && std::find_if(first + 1, names.end(), begins) == names.end();
  return one ? *first : std::string();
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  const std::string meant = closest(word, names);
  return meant.empty() ? meant : fmt::format(" Did you mean '{}'?", meant);
}

}  // namespace weft::usage
