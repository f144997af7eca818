#include "ucma/install.h"

#include "cm/network_messages.h"
#include "files/char_device.h"
#include "files/char_numbers.h"
#include "ucma/file.h"
#include "verbs/process.h"

namespace weft::ucma {

void install() {
  files::emulate(files::kRdmaCmPath, files::rdma_cm_number(), File::open);
  cm::receive_from_network(verbs::process_agents());
}

}  // namespace weft::ucma
