// Who is where: finds a queue pair by address and number, for the direct path and for frames that
// arrive. A controller registers each of its addresses. One directory per process (or per simulated
// node), made before the controllers and gone after them. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/lock.h"
#include "queue/queue_pair.h"
#include "weft/types.h"

namespace weft::network {
struct Flow;
}
namespace weft::wire {
struct Packet;
}

namespace weft::path {

/// The general services interface: management datagrams go there.
inline constexpr Qpn kGsiQpn{1};

/// The queue pairs of one controller, by number. Shared: a path that knows a peer keeps the memory
/// of the peer's table, also when the peer's controller has been closed.
class QueuePairTable {
 public:
  virtual ~QueuePairTable() = default;
  /// The queue pair, published under Hold::kPeer for the calling thread, or nullptr. The caller
  /// clears the word when it is done.
  virtual queue::QueuePair* find(Qpn qpn) = 0;
  /// The same, but not published: whoever takes one of its locks and looks at its state behind that
  /// needs no more.
  virtual queue::QueuePair* peek(Qpn) { return nullptr; }
  /// A frame for context 0 came, by this way: the setup of contexts. False: nobody here takes such
  /// frames.
  virtual bool on_context_setup(const wire::Packet&, const network::Flow&) { return false; }
  /// The number is one of this controller's: several may have the same address.
  virtual bool owns(Qpn) const { return true; }
  /// Messages have come for this queue pair that its owner has not fetched yet.
  virtual bool has_unfetched(Qpn) { return false; }
  /// Its queue pairs that are attached to a multicast group.
  virtual std::vector<Qpn> members(const Gid& /*group*/) { return {}; }
  /// A frame for kGsiQpn came, by this way. False: nobody here takes such frames.
  virtual bool on_management(const wire::Packet&, const network::Flow&) { return false; }
};

class Directory {
 public:
  void add(const Gid& gid, std::shared_ptr<QueuePairTable> table);
  void remove(const QueuePairTable* table);
  /// nullptr: no controller of this process has that address and number.
  std::shared_ptr<QueuePairTable> find(const Gid& gid, Qpn qpn);
  /// Each once.
  std::vector<std::shared_ptr<QueuePairTable>> tables();

 private:
  struct Row {
    Gid gid;
    std::shared_ptr<QueuePairTable> table;
  };
  base::Lock lock_;
  std::vector<Row> rows_;
};

}  // namespace weft::path
