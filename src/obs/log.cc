#include "obs/log.h"

#include <spdlog/sinks/stdout_sinks.h>

#include <cstdlib>
#include <memory>

namespace weft::obs {

spdlog::logger& log() {
  static spdlog::logger* logger = [] {
    auto* made = new spdlog::logger("weft", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    const char* level = std::getenv("WEFT_LOG");
    made->set_level(level != nullptr ? spdlog::level::from_str(level) : spdlog::level::warn);
    made->set_pattern("%n: %l: %v");
    return made;
  }();
  return *logger;
}

}  // namespace weft::obs
