// What the device knows of one identifier beyond what the connection manager does
// (cm/identifier.h): the event channel that it belongs to, the program's name for it, and its
// multicast groups. The kernel calls it ucma_context. Owned by the device's table; touched only
// under its lock.
#pragma once

#include <cstdint>
#include <list>

#include "cm/identifier.h"
#include "weft/types.h"

namespace weft::ucma {

class File;

/// How programs name an identifier, or a membership in a group, to the device.
using cm::Handle;
/// What an event carries so that the program knows its object again; 0: none yet.
using UserTag = Strong<struct UserTagTag, std::uint64_t>;

struct Multicast {
  Handle handle;
  UserTag tag;
  Gid group;
  bool send_only = false;
  std::uint32_t events_reported = 0;
};

struct Context {
  cm::Identifier& id;
  File* file;
  UserTag tag;
  std::uint32_t events_reported = 0;
  std::list<Multicast> groups = {};
};

}  // namespace weft::ucma
