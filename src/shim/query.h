// What a device says of itself: shared by the functions of libibverbs and by the operations of a
// context. Stateless.
#pragma once

#include "shim/objects.h"

namespace weft::shim {

void describe_device(Context& context, ibv_device_attr& attr);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t size);
int query_rt_values(ibv_context* context, ibv_values_ex* values);
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr, std::size_t size);

}  // namespace weft::shim

// Public or used by librdmacm, and in no header of this version.
extern "C" {
int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned int index, int* type);
int ibv_query_port_speed(ibv_context* context, std::uint32_t port, std::uint64_t* speed);
}
