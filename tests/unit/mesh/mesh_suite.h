// The fixture of meshes: some in one process, over each way that carries reliable datagrams. One
// thread, which runs all of them; what does not come within kPatience fails the test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/rd_suite.h"
#include "weft/mesh.h"

namespace weft::test {

inline constexpr std::chrono::seconds kMeshPatience{60};

class MeshSuite : public RdSuite {
 protected:
  struct Side {
    mesh::Mesh mesh;
    std::deque<std::pair<mesh::Peer, std::string>> got;
    std::vector<mesh::Closed> closed;
    /// Takes what there is.
    void take() {
      mesh.poll();
      while (auto message = mesh.try_receive()) {
        got.emplace_back(message->from(), std::string(message->text()));
      }
      for (mesh::Closed& one : mesh.take_closed()) closed.push_back(std::move(one));
    }
  };

  Side& open_mesh(const Device& device, const mesh::Options& options = {}) {
    auto opened = mesh::Mesh::open(device, options);
    if (!opened) throw std::runtime_error(opened.error().message);
    sides.push_back(std::make_unique<Side>(Side{std::move(*opened), {}, {}}));
    return *sides.back();
  }
  Side& open_mesh(const mesh::Options& options = {}) {
    const bool first = sides.size() % 2 == 0;
    return open_mesh(first ? a.device : b.device, options);
  }
  mesh::Peer peer(Side& of, const Side& other) { return must(of.mesh.peer(other.mesh.address())); }

  /// Runs all of them, or these, until it is so.
  testing::AssertionResult comes(const std::function<bool()>& so, std::vector<Side*> which = {}) {
    if (which.empty()) {
      for (const auto& side : sides) which.push_back(side.get());
    }
    const auto until = std::chrono::steady_clock::now() + kMeshPatience;
    while (!so()) {
      if (std::chrono::steady_clock::now() > until) {
        return testing::AssertionFailure() << "it did not come to that in time";
      }
      for (Side* side : which) side->take();
    }
    return testing::AssertionSuccess();
  }
  testing::AssertionResult send(Side& from, mesh::Peer to, const std::string& text) {
    std::span<const std::byte> left = std::as_bytes(std::span(text.data(), text.size()));
    std::string why;
    const auto result = comes([&] {
      auto taken = from.mesh.try_send(to, left);
      if (!taken) {
        why = taken.error().message;
        return true;
      }
      left = left.subspan(*taken);
      return left.empty();
    });
    if (!why.empty()) return testing::AssertionFailure() << why;
    return result;
  }

  std::vector<std::unique_ptr<Side>> sides;
};

}  // namespace weft::test
