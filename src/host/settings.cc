#include "host/settings.h"

#include <cstdlib>
#include <string_view>

namespace weft::host {
namespace {

bool is_set_to(const char* name, std::string_view value) {
  const char* const found = std::getenv(name);
  return found != nullptr && found == value;
}

}  // namespace

bool owner_checks() { return is_set_to("WEFT_OWNER_CHECKS", "on"); }

bool gives_way() { return !is_set_to("WEFT_GIVE_WAY", "off"); }

bool waits_busily() { return !is_set_to("WEFT_BUSY_WAIT", "off"); }

bool filters_addresses() { return !is_set_to("WEFT_ADDRESS_FILTER", "off"); }

bool lets_others_trace() { return !is_set_to("WEFT_PTRACER", "off") && !owner_checks(); }

}  // namespace weft::host
