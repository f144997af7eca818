#include "worlds/work.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::worlds {

std::vector<Work> WorkLedger::completed(std::uint64_t wr_id, std::string* violation) {
  const auto at = std::find_if(outstanding_.begin(), outstanding_.end(),
                               [wr_id](const Work& work) { return work.wr_id == wr_id; });
  if (at == outstanding_.end()) {
    *violation = fmt::format(
        "request #{} completes, but it is not outstanding: it was never posted here, or it has "
        "completed before",
        wr_id);
    return {};
  }
  const auto skipped =
      std::find_if(outstanding_.begin(), at, [](const Work& work) { return work.signaled; });
  if (skipped != at) {
    *violation =
        fmt::format("request #{} completes before the signaled request #{}", wr_id, skipped->wr_id);
    return {};
  }
  std::vector<Work> done;
  const std::size_t n = static_cast<std::size_t>(at - outstanding_.begin()) + 1;
  for (std::size_t i = 0; i < n; ++i) {
    done.push_back(std::move(outstanding_.front()));
    outstanding_.pop_front();
  }
  return done;
}

}  // namespace weft::worlds
