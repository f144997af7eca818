// How fast the fabric moves flits: nanoseconds for one flit over one link, in whole topologies
// under load. The bar is ten million a second.
#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>

#include "fabric/generators.h"
#include "fabric/study.h"

namespace {

namespace f = weft::fabric;

void flit_hop(benchmark::State& state, const char* words, f::Routing routing, std::uint8_t lanes) {
  for (auto _ : state) {
    f::Settings settings;
    settings.links.lanes = lanes;
    const auto made =
        f::Installation::create(f::generate(words).value(), settings, {routing, 0}).value();
    f::StudyOptions options;
    options.load = 0.3;
    options.measured = 40'000;
    const auto begun = std::chrono::steady_clock::now();
    const f::StudyResult result = f::Study(*made, options).run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    state.SetIterationTime(took.count() / static_cast<double>(result.links.flit_hops));
  }
  state.SetLabel("limit=100 bar=1.0");
}
BENCHMARK_CAPTURE(flit_hop, mesh_8x8, "mesh 8x8 1", f::Routing::kDimension, 4)
    ->UseManualTime()
    ->Iterations(1);
BENCHMARK_CAPTURE(flit_hop, torus_8x8, "torus 8x8 1", f::Routing::kDimension, 4)
    ->UseManualTime()
    ->Iterations(1);
BENCHMARK_CAPTURE(flit_hop, fat_tree_8, "fat-tree 8", f::Routing::kUpDown, 1)
    ->UseManualTime()
    ->Iterations(1);

}  // namespace
