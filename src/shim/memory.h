// The operations of a context that concern memory. Called by the program, any thread.
#pragma once

#include "shim/objects.h"

namespace weft::shim {

/// `caller`: see note_region().
ibv_mr* register_region(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        unsigned access, const void* caller);
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr);
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr);
int free_dm(ibv_dm* dm);
/// A structure for the program; null: there is no memory for it.
Dm* make_dm(ibv_context* context, std::shared_ptr<DmState> state, std::uint32_t handle);
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length,
                  unsigned access);
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count);

}  // namespace weft::shim
