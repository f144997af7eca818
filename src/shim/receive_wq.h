// Receive work queues (ibv_create_wq), and tables of them over which a raw queue pair spreads what
// it receives (ibv_create_rwq_ind_table). Any thread.
#pragma once

#include <memory>

#include "shim/objects.h"
#include "verbs/fanout.h"

namespace weft::shim {

ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* attr);
int modify_wq(ibv_wq* wq, ibv_wq_attr* attr);
int destroy_wq(ibv_wq* wq);
ibv_rwq_ind_table* create_rwq_ind_table(ibv_context* context, ibv_rwq_ind_table_init_attr* attr);
int destroy_rwq_ind_table(ibv_rwq_ind_table* table);

/// What a queue pair over such a table receives by. Null: the hash is not one that weft has.
std::shared_ptr<const verbs::FanoutObject> fanout_of(ibv_rwq_ind_table* table,
                                                     const ibv_rx_hash_conf& hash);
/// Of one of its queues.
const verbs::CompletionQueue& any_cq_of(ibv_rwq_ind_table* table);
/// A queue pair uses the table, or does not any more.
void count_table_users(ibv_rwq_ind_table* table, int more);

inline constexpr std::uint32_t kMostTableBits = 10;
inline constexpr std::uint64_t kHashedFields = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 |
                                               IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6 |
                                               IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP |
                                               IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP;

}  // namespace weft::shim
