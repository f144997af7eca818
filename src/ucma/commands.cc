#include "ucma/commands.h"

#include <cstddef>
#include <iterator>

#include "files/fd_table.h"

namespace weft::ucma {
namespace {

// By the kernel's numbers. GET_EVENT is the file's own; GET_OPTION nobody ever had.
constexpr Command kCommands[] = {
    create_id,  destroy_id, bind_ip,    resolve_ip,      resolve_route, query_route,
    connect,    listen,     accept,     reject,          disconnect,    init_qp_attributes,
    nullptr,    nullptr,    set_option, notify,          join_ip_group, leave_group,
    migrate_id, query,      bind_any,   resolve_address, join_group,
};
static_assert(std::size(kCommands) == RDMA_USER_CM_CMD_JOIN_MCAST + 1);

cm::QpType type_for(cm::PortSpace space, std::uint8_t asked) {
  if (space == cm::kTcpSpace) return cm::QpType::kReliable;
  if (space == cm::kUdpSpace || space == cm::kIpoibSpace) return cm::QpType::kDatagram;
  if (space != cm::kIbSpace) return cm::QpType::kUnknown;
  switch (const auto type = static_cast<cm::QpType>(asked)) {
    case cm::QpType::kReliable:
    case cm::QpType::kUnreliable:
    case cm::QpType::kDatagram:
    case cm::QpType::kExtendedSend:
    case cm::QpType::kExtendedReceive:
      return type;
    case cm::QpType::kUnknown:
      break;
  }
  return cm::QpType::kUnknown;
}

/// Programs give the smallest type that holds the value, or a larger one.
template <class Value>
bool read_option(const rdma_ucm_set_option& option, Value& value) {
  if (option.optlen != sizeof value || option.optval == 0) return false;
  std::memcpy(&value, reinterpret_cast<const void*>(option.optval), sizeof value);
  return true;
}

int set_id_option(const Call& call, cm::Identifier& id, const rdma_ucm_set_option& option) {
  std::uint8_t small = 0;
  int number = 0;
  switch (option.optname) {
    case RDMA_OPTION_ID_TOS:
      if (!read_option(option, small)) return EINVAL;
      id.traffic_class = small;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      if (!read_option(option, number)) return EINVAL;
      if (number == 0 && id.state != cm::Identifier::State::kIdle) return EINVAL;
      id.reuse_address = number != 0;
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      if (!read_option(option, number)) return EINVAL;
      return call.device.run([&](cm::Manager& manager, Nanoseconds now, cm::Actions&) {
        return manager.restrict_family(id, number != 0, now);
      });
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (!read_option(option, small) || small > 31) return EINVAL;
      id.ack_timeout = small;
      return 0;
    default:
      return ENOSYS;
  }
}

/// The program found the path itself: any that leads both ways will do.
int set_ib_path(const Call& call, cm::Identifier& id, const rdma_ucm_set_option& option) {
  constexpr std::uint32_t kWanted = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  if (option.optname != RDMA_OPTION_IB_PATH) return ENOSYS;
  ib_path_rec_data path;
  if (option.optval == 0 || option.optlen == 0 || option.optlen % sizeof path != 0) return EINVAL;
  const auto* const bytes = reinterpret_cast<const std::byte*>(option.optval);
  for (std::size_t at = 0; at < option.optlen; at += sizeof path) {
    std::memcpy(&path, bytes + at, sizeof path);
    if ((path.flags & kWanted) != kWanted) continue;
    return call.device.run([&](cm::Manager& manager, Nanoseconds, cm::Actions& out) {
      return manager.resolve_route(id, out);
    });
  }
  return EINVAL;
}

}  // namespace

Command find_command(std::uint32_t number, int& error) {
  if (number >= std::size(kCommands)) {
    error = EINVAL;
    return nullptr;
  }
  if (kCommands[number] == nullptr) error = ENOSYS;
  return kCommands[number];
}

int create_id(const Call& call) {
  const auto command = call.read<rdma_ucm_create_id>();
  if (call.out_bytes < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  const cm::QpType type = type_for(cm::PortSpace(command.ps), command.qp_type);
  if (type == cm::QpType::kUnknown) return EINVAL;
  Context* const context =
      call.device.create(call.file, cm::PortSpace(command.ps), type, UserTag(command.uid));
  if (context == nullptr) return ENOMEM;
  const int error =
      call.respond(command.response, rdma_ucm_create_id_resp{.id = context->id.handle.value});
  if (error != 0) call.device.destroy(*context);
  return error;
}

int destroy_id(const Call& call) {
  const auto command = call.read<rdma_ucm_destroy_id>();
  if (call.out_bytes < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  int error = 0;
  Context* const context = call.find(command.id, error);
  if (context == nullptr) return error;
  const rdma_ucm_destroy_id_resp answer{.events_reported = context->events_reported};
  call.device.destroy(*context);
  return call.respond(command.response, answer);
}

int migrate_id(const Call& call) {
  const auto command = call.read<rdma_ucm_migrate_id>();
  if (call.out_bytes < sizeof(rdma_ucm_migrate_resp)) return ENOSPC;
  if (auto other = files::find_char_file(static_cast<int>(command.fd))) {
    call.other = std::move(other->file);
  }
  const auto* const from = dynamic_cast<File*>(call.other.get());
  if (from == nullptr || !call.device.has(*from)) return EINVAL;
  Context* const context = call.device.find(Handle(command.id));
  if (context == nullptr) return ENOENT;
  if (context->file != from) return EINVAL;
  const rdma_ucm_migrate_resp answer{.events_reported = context->events_reported};
  if (from != &call.file) call.device.migrate(*context, call.file);
  return call.respond(command.response, answer);
}

int set_option(const Call& call) {
  const auto option = call.read<rdma_ucm_set_option>();
  int error = 0;
  Context* const context = call.find(option.id, error);
  if (context == nullptr) return error;
  switch (option.level) {
    case RDMA_OPTION_ID:
      return set_id_option(call, context->id, option);
    case RDMA_OPTION_IB:
      return set_ib_path(call, context->id, option);
    default:
      return ENOSYS;
  }
}

}  // namespace weft::ucma
