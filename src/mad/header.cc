#include "mad/header.h"

#include "base/big_endian.h"

namespace weft::mad {

std::optional<Header> Header::parse(std::span<const std::byte> in) {
  if (in.size() < kSize || in[0] != std::byte{kBaseVersion}) return {};
  Header header;
  header.management_class = static_cast<Class>(in[1]);
  header.class_version = std::to_integer<std::uint8_t>(in[2]);
  header.method = static_cast<Method>(in[3]);
  header.status = base::load_be<std::uint16_t>(&in[4]);
  header.class_specific = base::load_be<std::uint16_t>(&in[6]);
  header.transaction = TransactionId(base::load_be<std::uint64_t>(&in[8]));
  header.attribute = base::load_be<std::uint16_t>(&in[16]);
  header.modifier = base::load_be<std::uint32_t>(&in[20]);
  return header;
}

void Header::emit(std::span<std::byte, kSize> out) const {
  out[0] = std::byte{kBaseVersion};
  out[1] = static_cast<std::byte>(management_class);
  out[2] = static_cast<std::byte>(class_version);
  out[3] = static_cast<std::byte>(method);
  base::store_be(&out[4], status);
  base::store_be(&out[6], class_specific);
  base::store_be(&out[8], transaction.value);
  base::store_be(&out[16], attribute);
  base::store_be(&out[18], std::uint16_t{0});
  base::store_be(&out[20], modifier);
}

}  // namespace weft::mad
