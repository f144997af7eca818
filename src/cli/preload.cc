#include "cli/preload.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/version.h"
#include "cli/sanitizer_options.h"
#include "files/machine_addresses.h"
#include "files/tree.h"
#include "network/address.h"
#include "port/fault_spec.h"

namespace weft::cli {
namespace {

#if defined(__x86_64__)
constexpr const char* kFolders[] = {"../lib", "../lib/x86_64-linux-gnu", "../lib64", "."};
#else
constexpr const char* kFolders[] = {"../lib", "../lib/aarch64-linux-gnu", "../lib64", "."};
#endif

std::string absolute(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  char folder[PATH_MAX];
  return getcwd(folder, sizeof folder) == nullptr ? path : fmt::format("{}/{}", folder, path);
}

/// As programs that link it find it: with the first number of the version.
std::string library_name() {
  const std::string_view version = base::version();
  return fmt::format("libweft-rdma.so.{}", version.substr(0, version.find('.')));
}

Result<std::string> find_library() {
  if (const std::string given = environment_variable("WEFT_PRELOAD"); !given.empty()) {
    if (access(given.c_str(), R_OK) == 0) return absolute(given);
    return fail(Errc::kNotFound, fmt::format("WEFT_PRELOAD={}: {}", given, std::strerror(errno)));
  }
  char self[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self);
  if (length <= 0) return fail(Errc::kSystem, "/proc is not there: set WEFT_PRELOAD");
  const std::string_view whole(self, static_cast<std::size_t>(length));
  const std::string_view folder = whole.substr(0, whole.rfind('/'));
  const std::string name = library_name();
  for (const char* candidate : kFolders) {
    char resolved[PATH_MAX];
    if (realpath(fmt::format("{}/{}", folder, candidate).c_str(), resolved) == nullptr) continue;
    // The link stays as it is: it outlives an upgrade, and so does what `weft env` prints.
    const std::string path = fmt::format("{}/{}", resolved, name);
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return fail(Errc::kNotFound,
              fmt::format("{} is not where {} belongs: set WEFT_PRELOAD to its path", name, whole));
}

bool is_of_this_machine(const Gid& address) {
  sockaddr_storage storage{};
  socklen_t size = 0;
  if (address.is_ipv4()) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    std::memcpy(&in.sin_addr, address.raw.data() + 12, 4);
    std::memcpy(&storage, &in, size = sizeof in);
  } else {
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    std::memcpy(&in6.sin6_addr, address.raw.data(), address.raw.size());
    std::memcpy(&storage, &in6, size = sizeof in6);
  }
  const int fd = socket(storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return true;  // Not for us to say.
  sockaddr* const generic = reinterpret_cast<sockaddr*>(&storage);
  const bool refused = bind(fd, generic, size) != 0 && errno == EADDRNOTAVAIL;
  close(fd);
  return !refused;
}

template <class Each>
void for_each_entry(std::string_view list, Each each) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(": "), list.size());
    if (end > 0) each(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

/// Interfaces and "auto" are addresses from now on: all processes see the same devices.
std::string device_list(const std::vector<files::ShownDevice>& devices) {
  std::string list;
  for (const files::ShownDevice& device : devices) {
    list += fmt::format("{}{}={}", list.empty() ? "" : ",", device.name,
                        network::to_string(device.address));
  }
  return list;
}

files::Machine true_machine() {
  // Inside another `weft run` the usual paths would show its devices as the machine's.
  return {environment_variable("WEFT_TREE").empty() ? "/" : "/proc/self/root/"};
}

}  // namespace

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

void add_preload_options(usage::Command& command, PreloadOptions& options) {
  command
      .add_option("--device", options.devices,
                  "a device to show, and where it is: an address of this machine, an interface "
                  "that has one, or auto, the address by which this machine reaches others; may be "
                  "given several times (weft0 at 127.0.0.1)")
      ->type_name("NAME[=WHERE]")
      ->allow_extra_args(false);
  usage::one_of(
      command.add_option("--link-layer", options.link_layer, "what the ports seem to be (roce)"),
      {"roce", "ib"});
  usage::one_of(
      command.add_option("--log", options.log, "how much weft says on standard error (warn)"),
      {"trace", "debug", "info", "warn", "error", "off"});
  command.add_flag("--explain", options.explain,
                   "a paragraph for each work request that fails: what, why, and the likely cause");
  usage::writable_file(command.add_option(
      "--pcap", options.pcap, "record all frames, for Wireshark; %p becomes the process id"));
  CLI::Option* const faults =
      command
          .add_option("--faults", options.faults,
                      "faults on arriving frames, joined by commas: loss=1% dup=0.1% reorder=2% "
                      "corrupt=0.1% mark=5% delay=50us..200us rate=1Gbit")
          ->type_name("SPEC")
          ->check([](const std::string& text) {
            const auto parsed = port::parse_faults(text);
            return parsed ? std::string() : parsed.error().message;
          });
  usage::whole_number(command.add_option("--seed", options.seed,
                                         "the same faults again (a random one, which is told)"),
                      0, std::numeric_limits<std::uint64_t>::max())
      ->needs(faults);
}

void add_preload_variables(usage::Command& command) {
  command.variables = {{"WEFT_DEVICES", "the devices where no --device is given: weft0,weft1=auto"},
                       {"WEFT_LINK_LAYER", "roce or ib, where --link-layer is not given"},
                       {"WEFT_LOG", "how much is said, where --log is not given"},
                       {"WEFT_PRELOAD", "libweft-rdma.so, if it is not beside the command"},
                       {"XDG_RUNTIME_DIR",
                        "where the files lie that show the devices; else /dev/shm, TMPDIR, /tmp"}};
}

Result<Preload> prepare_preload(const PreloadOptions& options) {
  Preload preload;
  auto library = find_library();
  if (!library) return tl::unexpected(std::move(library.error()));
  if (library->find_first_of(": ") != std::string::npos) {
    return fail(Errc::kInvalidArgument,
                fmt::format("{}: LD_PRELOAD allows neither spaces nor colons in a path", *library));
  }
  preload.library = std::move(*library);

  std::string devices = environment_variable("WEFT_DEVICES");
  if (!options.devices.empty()) devices = fmt::format("{}", fmt::join(options.devices, ","));
  std::string link_layer =
      options.link_layer.empty() ? environment_variable("WEFT_LINK_LAYER") : options.link_layer;
  if (link_layer.empty()) link_layer = "roce";
  const auto layer = files::parse_link_layer(link_layer);
  if (!layer) {
    return fail(Errc::kInvalidArgument,
                fmt::format("WEFT_LINK_LAYER={}: it may be roce or ib", link_layer));
  }
  auto parsed = files::parse_devices(devices, *layer);
  if (!parsed) return tl::unexpected(std::move(parsed.error()));
  preload.devices = std::move(*parsed);
  const std::uint32_t first_uverbs = files::first_free_uverbs(true_machine());
  for (files::ShownDevice& device : preload.devices) {
    device.uverbs += first_uverbs;
    if (!is_of_this_machine(device.address)) {
      return fail(Errc::kNotFound,
                  fmt::format("device {}: this machine has no address {}; it has {}", device.name,
                              network::to_string(device.address),
                              files::to_string(files::machine_addresses())));
    }
  }
  auto set = [&](const char* name, std::string value) {
    preload.variables.emplace_back(name, std::move(value));
  };
  std::string list = preload_list(preload.library, environment_variable("LD_PRELOAD"));
  if (const std::string runtime = sanitizer_runtime(); !runtime.empty()) {
    list = preload_list(runtime, list);
  }
  set("LD_PRELOAD", list);
  for (const auto& [variable, options_of_ours] : sanitizer_options()) {
    set(variable, options_with(options_of_ours, environment_variable(variable)));
  }
  set("WEFT_DEVICES", device_list(preload.devices));
  set("WEFT_LINK_LAYER", link_layer);
  set("WEFT_FIRST_UVERBS", std::to_string(first_uverbs));
  if (!options.log.empty()) set("WEFT_LOG", options.log);
  if (options.explain) set("WEFT_EXPLAIN", "1");
  if (!options.pcap.empty()) set("WEFT_PCAP", absolute(options.pcap));
  if (!options.faults.empty()) set("WEFT_FAULTS", options.faults);
  if (options.seed) set("WEFT_FAULTS_SEED", std::to_string(*options.seed));
  return preload;
}

std::string preload_list_without(const std::string& library, std::string_view before) {
  std::string list;
  for_each_entry(before, [&](std::string_view entry) {
    if (entry != library) list += fmt::format("{}{}", list.empty() ? "" : ":", entry);
  });
  return list;
}

std::string preload_list(const std::string& library, std::string_view before) {
  const std::string others = preload_list_without(library, before);
  return others.empty() ? library : fmt::format("{}:{}", library, others);
}

Result<void> write_tree_for(const Preload& preload, const std::string& root) {
  return files::write_tree(root, preload.devices, true_machine());
}

}  // namespace weft::cli
