// "Did you mean": which of the words that there are is closest to one that there is not. Stateless;
// any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::usage {

/// How many letters have to be put in, left out, changed or swapped with the next one.
std::size_t distance(std::string_view a, std::string_view b);

/// The one that was probably meant; empty: none is close.
std::string closest(std::string_view word, const std::vector<std::string>& names);

/// " Did you mean 'run'?", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace weft::usage
