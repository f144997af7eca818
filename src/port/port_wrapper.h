// A port around a port: passes everything on, so that a wrapper states only what it changes. Owns
// the port inside and goes together with it; threads as port.h says.
#pragma once

#include <memory>
#include <utility>

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
  int wait_fd() const override { return inner_->wait_fd(); }
  std::array<int, 2> other_wait_fds() const override { return inner_->other_wait_fds(); }
  Nanoseconds next_deadline() const override { return inner_->next_deadline(); }
  std::optional<unsigned> number_slot() const override { return inner_->number_slot(); }
  Result<void> join(const Gid& group) override { return inner_->join(group); }
  Outlet look_at_outlet() const override { return inner_->look_at_outlet(); }
  void leave(const Gid& group) override { inner_->leave(group); }
  void tell_all_qualities() override { inner_->tell_all_qualities(); }
  network::Flow flow_on_wire(const network::Flow& flow) override {
    return inner_->flow_on_wire(flow);
  }

 protected:
  Port& inner() { return *inner_; }
  const Port& inner() const { return *inner_; }

 private:
  const std::unique_ptr<Port> inner_;
};

}  // namespace weft::port
