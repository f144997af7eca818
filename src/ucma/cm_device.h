// The emulated rdma_cm device of this process: the connection manager that it runs, and what the
// device adds to it: contexts, event channels, memberships in multicast groups. Made at the first
// open, lives for ever; a child after fork gets another one. Whoever calls holds the lock (Guard),
// except where said.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "cm/driver.h"
#include "ucma/context.h"
#include "ucma/errors.h"
#include "ucma/events.h"
#include "ucma/shown_devices.h"

namespace weft::ucma {

class CmDevice final : private cm::Owner {
 public:
  /// This process's; null: errno tells why. Without the lock.
  static CmDevice* mine();

  class Guard {
   public:
    explicit Guard(CmDevice& device) : guard_(*device.driver_) {}

   private:
    cm::Driver::Guard guard_;
  };

  /// Opens the shown devices that reach other hosts, once. Without the lock: it may wait.
  void join_network() { devices_.join_network(*driver_); }
  /// Does the connection manager's work for a program that asks again and again (cm/driver.h).
  void poll() { driver_->poll(); }

  /// 0, or why the thread cannot be started.
  int add(File& file);
  /// With everything of it.
  void remove(File& file);
  bool has(const File& file) const { return files_.contains(const_cast<File*>(&file)); }

  /// Null: too many.
  Context* create(File& file, cm::PortSpace space, cm::QpType type, UserTag tag);
  Context* find(Handle handle);
  void destroy(Context& context);
  void migrate(Context& context, File& to);

  /// Calls the connection manager: 0 or an errno value.
  template <class Call>
  int run(Call call) {
    return errno_of(driver_->run(call));
  }

  Multicast& join(Context& context, const Gid& group, UserTag tag);
  std::pair<Context*, Multicast*> find_group(Handle handle);
  /// How many of its events were reported.
  std::uint32_t leave(Context& context, Handle group);

  /// To the program, if it knows the identifier.
  static void post(Context& context, const QueuedEvent& event);
  /// The program has got it.
  void reported(const QueuedEvent& event);

 private:
  // cm::Owner
  void on_event(Handle identifier, const cm::Event& event) override;
  void send_to_network(const cm::Packet& packet) override { devices_.send_to_network(packet); }
  void count_refused(const cm::CountRefused& refused) override;

  ShownDevices devices_;
  std::unique_ptr<cm::Driver> driver_;
  std::set<File*> files_;
  std::map<Handle, Context> contexts_;
  std::uint32_t last_group_ = 0;
};

}  // namespace weft::ucma
