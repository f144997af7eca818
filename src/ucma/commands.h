// The commands that the device understands, by their numbers. Each gives 0 or an errno value; under
// the device's lock. GET_EVENT, which waits, is the file's own.
#pragma once

#include <cstdint>

#include "ucma/call.h"

namespace weft::ucma {

using Command = int (*)(const Call& call);

/// Null with ENOSYS: known but not there; null with EINVAL: unknown.
Command find_command(std::uint32_t number, int& error);

int create_id(const Call& call);
int destroy_id(const Call& call);
int migrate_id(const Call& call);
int set_option(const Call& call);

int bind_ip(const Call& call);
int bind_any(const Call& call);
int resolve_ip(const Call& call);
int resolve_address(const Call& call);
int resolve_route(const Call& call);
int listen(const Call& call);

int query_route(const Call& call);
int query(const Call& call);
int init_qp_attributes(const Call& call);

int connect(const Call& call);
int accept(const Call& call);
int reject(const Call& call);
int disconnect(const Call& call);
int notify(const Call& call);

int join_ip_group(const Call& call);
int join_group(const Call& call);
int leave_group(const Call& call);

}  // namespace weft::ucma
