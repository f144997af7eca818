// What files of a topology and of its settings can say. Nobody crashes; what is refused is refused
// with a line of the file; what is taken can be written, read again, drawn, routed and walked.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "fabric/installation.h"
#include "fabric/picture.h"
#include "fabric/study.h"
#include "fabric/topology_reader.h"
#include "fabric/topology_writer.h"

namespace weft::test {
namespace {

constexpr std::size_t kMostRouted = 60;

void check_error(const fabric::TextError& error, std::string_view text) {
  const auto lines = static_cast<std::uint32_t>(std::ranges::count(text, '\n')) + 2;
  WEFT_ASSERT(error.line >= 1 && error.line <= lines && error.column >= 1);
  WEFT_ASSERT(!error.message.empty());
}

void use(const fabric::Topology& topology, fabric::Settings settings) {
  static_cast<void>(fabric::complaints_about(topology));
  if (topology.nodes.size() > kMostRouted) return;
  static_cast<void>(fabric::draw_topology(topology));
  for (auto& cable : settings.cables) cable.second.latency = cable.second.latency % 1000 + 1;
  for (auto& pipeline : settings.pipelines) pipeline.second %= 1000;
  settings.link.latency = settings.link.latency % 1000 + 1;
  settings.pipeline %= 1000;
  for (const auto routing : {fabric::Routing::kUpDown, fabric::Routing::kDimension}) {
    const auto made = fabric::Installation::create(topology, settings, {routing, 0});
    if (!made) continue;
    const auto cycle = (*made)->find_cycle();
    WEFT_ASSERT(routing == fabric::Routing::kDimension || cycle.empty());
    static_cast<void>((*made)->unreachable());
  }
}

}  // namespace
}  // namespace weft::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  // The settings stand behind a form feed.
  const std::size_t feed = std::min(all.find('\f'), all.size());
  const std::string_view text = all.substr(0, feed);
  auto topology = fabric::read_topology(text);
  if (!topology) {
    test::check_error(topology.error(), text);
    return 0;
  }
  const std::string written = fabric::write_topology(*topology);
  const auto again = fabric::read_topology(written);
  WEFT_ASSERT(again.has_value() && again->nodes.size() == topology->nodes.size());
  const std::string_view lines = all.substr(std::min(feed + 1, all.size()));
  const auto settings = fabric::read_settings(lines, *topology);
  if (!settings) {
    test::check_error(settings.error(), lines);
    return 0;
  }
  test::use(*topology, *settings);
  return 0;
}
