// Looks at a program before it is started: a library can be preloaded only into a dynamically
// linked program of this architecture and C library that gains no rights by being started. The
// others would run without weft and say nothing. Reads the file's first page or two; no state.
#pragma once

#include <optional>
#include <string>

namespace weft::cli {

struct Obstacle {
  int exit_status = 0;  ///< 127: not found, 126: cannot be started, 2: would not see weft
  std::string message;
};

/// As a shell would find it: by path if there is a slash in it, else in PATH. Of a script it is the
/// interpreter that counts. nullopt: weft works with it.
std::optional<Obstacle> obstacle_to(const std::string& program);

}  // namespace weft::cli
