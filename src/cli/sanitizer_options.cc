#include "cli/sanitizer_options.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace weft::cli {
namespace {

// As the library's own words in shim/interpose_sanitizers.cc, which say why: a program that has
// such a function itself does not hear those.
constexpr SanitizerOptions kOptions[] = {
    {"ASAN_OPTIONS", "verify_asan_link_order=0"},
    {"TSAN_OPTIONS", "ignore_noninstrumented_modules=1:die_after_fork=0"},
};

}  // namespace

std::span<const SanitizerOptions> sanitizer_options() { return kOptions; }

std::string options_without(std::string_view ours, std::string_view with) {
  if (!with.starts_with(ours)) return std::string(with);
  with.remove_prefix(ours.size());
  if (with.starts_with(':')) with.remove_prefix(1);
  return std::string(with);
}

std::string options_with(std::string_view ours, std::string_view before) {
  const std::string theirs = options_without(ours, before);
  return theirs.empty() ? std::string(ours) : fmt::format("{}:{}", ours, theirs);
}

std::string sanitizer_runtime() {
  for (const char* name : {"__asan_init", "__tsan_init"}) {
    Dl_info info{};
    void* const symbol = dlsym(RTLD_DEFAULT, name);
    if (symbol != nullptr && dladdr(symbol, &info) != 0) return info.dli_fname;
  }
  return {};
}

}  // namespace weft::cli
