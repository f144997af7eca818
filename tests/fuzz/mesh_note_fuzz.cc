// Any bytes as a note of a mesh: what is accepted is emitted and accepted again as the same.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "mesh/note.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using weft::mesh::Note;
  const auto note = Note::parse(std::as_bytes(std::span(data, size)));
  if (!note) return 0;
  WEFT_ASSERT(size == Note::kBytes);
  const auto bytes = note->emit();
  const auto again = Note::parse(bytes);
  WEFT_ASSERT(again.has_value() && again->emit() == bytes);
  WEFT_ASSERT(again->address == note->address && again->lane == note->lane);
  return 0;
}
