// exec puts another program into a process whose number peers still use: one that has just checked
// a key would copy into the new program. So weft has the exec functions of the C library: they
// close this process to copies by number, wait for those that are under way, and then ask the
// kernel. When it refuses, everything is as before: meanwhile peers sent their data through the
// ring. A child after vfork or fork owns nothing, and goes straight to the kernel; nothing is
// allocated on the way. Any thread.
#pragma once

namespace weft::host {

/// Whoever serves neighbours. Listed from its making to its end.
class ExecListener {
 public:
  /// Returns when no neighbour copies any more that began before the process was closed.
  virtual void wait_for_copies() = 0;

 protected:
  ~ExecListener() = default;
};
void add_exec_listener(ExecListener& listener);
void remove_exec_listener(ExecListener& listener);

}  // namespace weft::host
