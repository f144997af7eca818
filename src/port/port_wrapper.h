// A port around a port: passes everything on, so that a wrapper states only what it changes. Owns
// the port inside and goes together with it; threads as port.h says.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "port/port.h"

namespace weft::port {

class PortWrapper : public Port {
 public:
  explicit PortWrapper(std::unique_ptr<Port> inner) : inner_(std::move(inner)) {}

  Gid address() const override { return inner_->address(); }
  Mtu max_mtu() const override { return inner_->max_mtu(); }
  SendOutcome send(std::span<const Outgoing> frames) override { return inner_->send(frames); }
  std::size_t receive(Receiver& receiver, std::size_t max) override {
    return inner_->receive(receiver, max);
  }
  Nanoseconds next_deadline() const override { return inner_->next_deadline(); }
  void add_wait_fds(std::vector<int>& fds) const override { inner_->add_wait_fds(fds); }
  PortControl* control() override { return inner_->control(); }

 protected:
  Port& inner() { return *inner_; }
  const Port& inner() const { return *inner_; }

 private:
  const std::unique_ptr<Port> inner_;
};

}  // namespace weft::port
