// What `weft run` and `weft env` have in common: their options, and the environment in which a
// program sees weft's devices. Values; the process has one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "files/device_list.h"
#include "usage/command.h"
#include "weft/result.h"

namespace weft::cli {

struct PreloadOptions {
  std::vector<std::string> devices;  ///< "weft0", "weft1=10.0.0.1"
  std::string link_layer;
  std::string log;
  std::string pcap;
  std::string faults;
  std::optional<std::uint64_t> seed;  ///< of the faults
  bool explain = false;
};

/// Adds the options to a command.
void add_preload_options(usage::Command& command, PreloadOptions& options);
/// Says which variables it reads.
void add_preload_variables(usage::Command& command);

struct Preload {
  std::string library;                      ///< libweft-rdma.so
  std::vector<files::ShownDevice> devices;  ///< what the tree has to show
  /// To be set, all but WEFT_TREE.
  std::vector<std::pair<std::string, std::string>> variables;
};

/// Empty where there is none of that name.
std::string environment_variable(const char* name);

/// What the options and the environment ask for, checked; options come first.
Result<Preload> prepare_preload(const PreloadOptions& options);

/// An LD_PRELOAD with the library first and once, and what was there before.
std::string preload_list(const std::string& library, std::string_view before);
/// The same without the library.
std::string preload_list_without(const std::string& library, std::string_view before);

/// Writes the tree of the devices below `root`, an empty directory.
Result<void> write_tree_for(const Preload& preload, const std::string& root);

}  // namespace weft::cli
