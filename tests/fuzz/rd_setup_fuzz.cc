// Any bytes as a setup message of an end-to-end context: what is accepted is emitted and accepted
// again as the same.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "wire/rd_setup.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using weft::wire::RdSetup;
  const auto setup = RdSetup::parse(std::as_bytes(std::span(data, size)));
  if (!setup) {
    WEFT_ASSERT(setup.error() < weft::wire::ParseError::kCount);
    return 0;
  }
  WEFT_ASSERT(size == RdSetup::kSize && setup->reads >= 1);
  const auto bytes = setup->bytes();
  const auto again = RdSetup::parse(bytes);
  WEFT_ASSERT(again.has_value() && *again == *setup);
  return 0;
}
