// Protection domains, regions and windows.
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <span>

#include "shim/errors.h"
#include "shim/memory.h"
#include "shim/objects.h"
#include "shim/real.h"

namespace weft::shim {
namespace {

constexpr unsigned kKnownRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                  IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED;
/// Memory is never pinned here, and pages are what they are: these two change nothing, but that
/// only the first allows a region of the whole address space.
constexpr unsigned kNoDifference = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;
constexpr unsigned kOptional = IBV_ACCESS_OPTIONAL_RANGE;

void show(Mr& mr, ibv_pd* pd, void* address, std::size_t length) {
  mr.shown.context = pd->context;
  mr.shown.pd = pd;
  mr.shown.addr = address;
  mr.shown.length = length;
  mr.shown.lkey = mr.region.lkey().value;
  mr.shown.rkey = mr.region.rkey().value;
}

Result<verbs::MemoryRegion> register_memory(Pd& pd, void* address, std::size_t length,
                                            std::uint64_t iova, unsigned access) {
  if ((access & ~(kKnownRights | kNoDifference | kOptional)) != 0) {
    return fail(Errc::kNotSupported, "access: a right that weft does not know");
  }
  if (address == nullptr && length == SIZE_MAX) {
    if ((access & IBV_ACCESS_ON_DEMAND) == 0 || iova != 0) {
      return fail(Errc::kInvalidArgument,
                  "access: the whole address space needs IBV_ACCESS_ON_DEMAND, and no other iova");
    }
    return pd.pd.register_address_space(static_cast<Access>(access & kKnownRights));
  }
  const bool moved = iova != reinterpret_cast<std::uint64_t>(address);
  const bool zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
  return pd.pd.register_range(
      reinterpret_cast<std::uint64_t>(address), length, static_cast<Access>(access & kKnownRights),
      moved && !zero_based ? std::optional<std::uint64_t>(iova) : std::nullopt);
}

/// Null: there is no memory for it.
Mr* make_mr(Pd& pd, verbs::MemoryRegion region) {
  auto* mr = new (std::nothrow) Mr(std::move(region));
  if (mr == nullptr) return nullptr;
  mr->shown.handle = next_handle();
  mr->domain = pd.state.get();
  ++pd.users;
  Context::of(pd.shown.context).file->mrs.add(mr->shown.handle, mr);
  return mr;
}

}  // namespace

ibv_mr* register_region(ibv_pd* shown, void* address, std::size_t length, std::uint64_t iova,
                        unsigned access, const void* caller) {
  Pd& pd = Pd::of(shown);
  auto region = register_memory(pd, address, length, iova, access);
  if (!region) {
    if (explaining()) explain_call("ibv_reg_mr", shown->context->device->name, region.error());
    return refuse(region.error());
  }
  Mr* const mr = make_mr(pd, std::move(*region));
  if (mr == nullptr) return refuse(ENOMEM);
  mr->access = static_cast<Access>(access & kKnownRights);
  show(*mr, shown, address, length);
  if (explaining()) note_region(&mr->shown, access, caller);
  return &mr->shown;
}

ibv_mw* alloc_mw(ibv_pd* shown, ibv_mw_type type) {
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) return refuse(EINVAL);
  auto window = Pd::of(shown).pd.allocate_window(type == IBV_MW_TYPE_1 ? verbs::WindowType::kType1
                                                                       : verbs::WindowType::kType2);
  if (!window) return refuse(window.error());
  auto* mw = new (std::nothrow) Mw;
  if (mw == nullptr) return refuse(ENOMEM);
  mw->window.emplace(std::move(*window));
  mw->shown.context = shown->context;
  mw->shown.pd = shown;
  mw->shown.rkey = mw->window->rkey().value;
  mw->shown.handle = next_handle();
  mw->shown.type = type;
  ++Pd::of(shown).users;
  return &mw->shown;
}

int dealloc_mw(ibv_mw* shown) {
  --Pd::of(shown->pd).users;
  delete &Mw::of(shown);
  return 0;
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) {
  if (attr->comp_mask != 0) return refuse(EINVAL);
  auto* td = new (std::nothrow) ibv_td{};
  if (td == nullptr) return refuse(ENOMEM);
  td->context = context;
  return td;
}

int dealloc_td(ibv_td* td) {
  delete td;
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) {
  constexpr std::uint32_t kKnown =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  if (attr->pd == nullptr || (attr->comp_mask & ~kKnown) != 0) return refuse(EINVAL);
  // Its allocators would be asked for memory that devices read; weft's is nobody else's business.
  const Pd& given = Pd::of(attr->pd);
  const auto& original = given.original != nullptr ? given.original : given.state;
  auto state = allocate_shared<PdState>(original->pd);
  auto* pd = state != nullptr ? new (std::nothrow) Pd(std::move(state), original) : nullptr;
  if (pd == nullptr) return refuse(ENOMEM);
  pd->shown.context = context;
  pd->shown.handle = attr->pd->handle;  // to the kernel they are one
  ++original->users;
  return &pd->shown;
}

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) {
  if (attr->comp_mask != 0 || attr->log_align_req > 20) return refuse(EINVAL);
  if (attr->length == 0 || attr->length > kDeviceMemoryBytes) return refuse(EINVAL);
  auto state = allocate_shared<DmState>();
  if (state == nullptr) return refuse(ENOMEM);
  // A device's memory is the process's own: whole pages, so that nobody shares them.
  state->length = attr->length;
  state->mapped = (attr->length + 4095) & ~std::size_t{4095};
  void* memory =
      mmap(nullptr, state->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return refuse(ENOMEM);
  state->bytes = static_cast<std::byte*>(memory);
  Dm* const dm = make_dm(context, std::move(state), next_handle());
  if (dm == nullptr) return refuse(ENOMEM);
  Context::of(context).file->dms.add(dm->shown.handle, dm->state.get());
  return &dm->shown;
}

Dm* make_dm(ibv_context* context, std::shared_ptr<DmState> state, std::uint32_t handle) {
  auto* const dm = new (std::nothrow) Dm(std::move(state));
  if (dm == nullptr) return nullptr;
  dm->shown.context = context;
  dm->shown.handle = handle;
  dm->shown.memcpy_to_dm = [](ibv_dm* to, std::uint64_t offset, const void* from,
                              std::size_t length) {
    const Dm& at = Dm::of(to);
    if (!at.covers(offset, length) || !Dm::is_aligned(offset, length)) return EINVAL;
    std::memcpy(at.bytes + offset, from, length);
    return 0;
  };
  dm->shown.memcpy_from_dm = [](void* to, ibv_dm* from, std::uint64_t offset, std::size_t length) {
    const Dm& at = Dm::of(from);
    if (!at.covers(offset, length) || !Dm::is_aligned(offset, length)) return EINVAL;
    std::memcpy(to, at.bytes + offset, length);
    return 0;
  };
  return dm;
}

int free_dm(ibv_dm* shown) {
  Dm& dm = Dm::of(shown);
  if (dm.users.load() != 0) return fail(EBUSY);
  Context::of(shown->context).file->dms.remove(shown->handle);
  delete &dm;
  return 0;
}

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* shown, std::uint64_t offset, std::size_t length,
                  unsigned access) {
  Dm& dm = Dm::of(shown);
  const void* const caller = __builtin_return_address(0);
  if ((access & IBV_ACCESS_ZERO_BASED) == 0 || !dm.covers(offset, length)) return refuse(EINVAL);
  // A region of nothing: a key that opens nothing.
  ibv_mr* mr = length != 0 ? register_region(pd, dm.bytes + offset, length, 0, access, caller)
                           : register_region(pd, dm.bytes, 1, 0, IBV_ACCESS_ZERO_BASED, caller);
  if (mr == nullptr) return nullptr;
  Mr::of(mr).dm = dm.state;
  mr->addr = nullptr;
  mr->length = length;
  ++dm.users;
  return mr;
}

int advise_mr(ibv_pd* shown, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count) {
  if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || list == nullptr || count == 0 ||
      (flags & ~std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0) {
    return fail(EINVAL);
  }
  // There is no table of translations to fill, so what is there already is all there can be.
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return 0;
  const bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  const verbs::ProtectionDomain& pd = Pd::of(shown).pd;
  for (const ibv_sge& sge : std::span(list, count)) {
    const auto done = pd.prefetch({sge.addr, sge.length, LocalKey(sge.lkey)}, write);
    if (!done) return fail(done.error());
  }
  return 0;
}

}  // namespace weft::shim

using weft::shim::Context;
using weft::shim::is_ours;
using weft::shim::Mr;
using weft::shim::Pd;
using weft::shim::refuse;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  if (!is_ours(context)) WEFT_PASS_ON(ibv_alloc_pd, nullptr, context);
  auto domain = Context::of(context).device.allocate_pd();
  if (!domain) return refuse(domain.error());
  auto state = weft::shim::allocate_shared<weft::shim::PdState>(std::move(*domain));
  auto* pd = state != nullptr ? new (std::nothrow) Pd(std::move(state)) : nullptr;
  if (pd == nullptr) return refuse(ENOMEM);
  pd->shown.context = context;
  pd->shown.handle = weft::shim::next_handle();
  Context::of(context).file->pds.add(pd->shown.handle, pd->state.get());
  return &pd->shown;
}

int ibv_dealloc_pd(ibv_pd* shown) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_dealloc_pd, ENOSYS, shown);
  Pd& pd = Pd::of(shown);
  if (pd.users.load() != 0) return weft::shim::fail(EBUSY);
  if (pd.original != nullptr) {
    --pd.original->users;
  } else {
    Context::of(shown->context).file->pds.remove(shown->handle);
  }
  delete &pd;
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  if (!is_ours(pd)) WEFT_PASS_ON(ibv_reg_mr, nullptr, pd, address, length, access);
  return weft::shim::register_region(pd, address, length, reinterpret_cast<std::uint64_t>(address),
                                     static_cast<unsigned>(access), __builtin_return_address(0));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        int access) {
  if (!is_ours(pd)) WEFT_PASS_ON(ibv_reg_mr_iova, nullptr, pd, address, length, iova, access);
  return weft::shim::register_region(pd, address, length, iova, static_cast<unsigned>(access),
                                     __builtin_return_address(0));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                         unsigned int access) {
  if (!is_ours(pd)) WEFT_PASS_ON(ibv_reg_mr_iova2, nullptr, pd, address, length, iova, access);
  return weft::shim::register_region(pd, address, length, iova, access,
                                     __builtin_return_address(0));
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                          int fd, int access) {
  if (!is_ours(pd)) WEFT_PASS_ON(ibv_reg_dmabuf_mr, nullptr, pd, offset, length, iova, fd, access);
  return refuse(EOPNOTSUPP);
}

int ibv_dereg_mr(ibv_mr* shown) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_dereg_mr, ENOSYS, shown);
  Mr& mr = Mr::of(shown);
  if (const auto done = mr.region.deregister(); !done) return weft::shim::fail(done.error());
  if (weft::shim::explaining()) weft::shim::forget_region(shown);
  Context::of(shown->context).file->mrs.remove(shown->handle);
  --mr.owner.domain->users;
  if (mr.owner.dm != nullptr) --mr.owner.dm->users;
  Mr::release(mr);
  return 0;
}

int ibv_rereg_mr(ibv_mr* shown, int flags, ibv_pd* pd, void* address, std::size_t length,
                 int access) {
  if (!is_ours(shown))
    WEFT_PASS_ON(ibv_rereg_mr, ENOSYS, shown, flags, pd, address, length, access);
  constexpr int kKnown =
      IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
  if (flags == 0 || (flags & ~kKnown) != 0) {
    errno = EINVAL;
    return IBV_REREG_MR_ERR_INPUT;
  }
  Mr& mr = Mr::of(shown);
  if (mr.imported()) {
    errno = EINVAL;
    return IBV_REREG_MR_ERR_INPUT;
  }
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  ibv_pd* new_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? pd : shown->pd;
  void* new_address = moves ? address : shown->addr;
  const std::size_t new_length = moves ? length : shown->length;
  const auto rights = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? static_cast<unsigned>(access)
                                                                : static_cast<unsigned>(mr.access);
  if (new_pd == nullptr || (moves && (address == nullptr || length == 0))) {
    errno = EINVAL;
    return IBV_REREG_MR_ERR_INPUT;
  }
  const auto done = Pd::of(new_pd).pd.reregister(
      mr.region, reinterpret_cast<std::uint64_t>(new_address), new_length,
      static_cast<weft::Access>(rights & weft::shim::kKnownRights));
  if (!done) {
    errno = weft::shim::errno_of(done.error());
    return IBV_REREG_MR_ERR_CMD;
  }
  mr.access = static_cast<weft::Access>(rights & weft::shim::kKnownRights);
  --mr.domain->users;
  mr.domain = Pd::of(new_pd).state.get();
  ++mr.domain->users;
  weft::shim::show(mr, new_pd, new_address, new_length);
  if (weft::shim::explaining()) {
    weft::shim::note_region(shown, rights, __builtin_return_address(0));
  }
  return 0;
}

}  // extern "C"
