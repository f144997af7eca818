// Protection domains, regions and windows.
#include <sys/mman.h>

#include <cstring>
#include <new>

#include "shim/errors.h"
#include "shim/memory.h"
#include "shim/objects.h"
#include "shim/real.h"

namespace weft::shim {
namespace {

constexpr unsigned kKnownRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                  IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED;
/// Memory is never pinned here, and pages are what they are: these two change nothing.
constexpr unsigned kNoDifference = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;
constexpr unsigned kOptional = IBV_ACCESS_OPTIONAL_RANGE;

std::atomic<std::uint32_t> last_handle{0};

Pd& domain_of(Pd& pd) { return pd.original != nullptr ? *pd.original : pd; }

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
  const bool moved = iova != reinterpret_cast<std::uint64_t>(address);
  const bool zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
  return pd.pd.register_range(
      reinterpret_cast<std::uint64_t>(address), length, static_cast<Access>(access & kKnownRights),
      moved && !zero_based ? std::optional<std::uint64_t>(iova) : std::nullopt);
}

}  // namespace

ibv_mr* register_region(ibv_pd* shown, void* address, std::size_t length, std::uint64_t iova,
                        unsigned access, const void* caller) {
  Pd& pd = domain_of(Pd::of(shown));
  auto region = register_memory(pd, address, length, iova, access);
  if (!region) {
    if (explaining()) explain_call("ibv_reg_mr", shown->context->device->name, region.error());
    return refuse(region.error());
  }
  auto* mr = new (std::nothrow) Mr(std::move(*region));
  if (mr == nullptr) return refuse(ENOMEM);
  mr->shown.handle = ++last_handle;
  mr->access = static_cast<Access>(access & kKnownRights);
  show(*mr, shown, address, length);
  ++Pd::of(shown).users;
  if (explaining()) note_region(&mr->shown, access, caller);
  return &mr->shown;
}

ibv_mw* alloc_mw(ibv_pd* shown, ibv_mw_type type) {
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) return refuse(EINVAL);
  auto window = domain_of(Pd::of(shown))
                    .pd.allocate_window(type == IBV_MW_TYPE_1 ? verbs::WindowType::kType1
                                                              : verbs::WindowType::kType2);
  if (!window) return refuse(window.error());
  auto* mw = new (std::nothrow) Mw;
  if (mw == nullptr) return refuse(ENOMEM);
  mw->window.emplace(std::move(*window));
  mw->shown.context = shown->context;
  mw->shown.pd = shown;
  mw->shown.rkey = mw->window->rkey().value;
  mw->shown.handle = ++last_handle;
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
  Pd& original = domain_of(Pd::of(attr->pd));
  auto* pd = new (std::nothrow) Pd(original.pd);
  if (pd == nullptr) return refuse(ENOMEM);
  pd->original = &original;
  pd->shown.context = context;
  pd->shown.handle = ++last_handle;
  ++original.users;
  return &pd->shown;
}

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) {
  if (attr->comp_mask != 0 || attr->log_align_req > 20) return refuse(EINVAL);
  if (attr->length == 0 || attr->length > kDeviceMemoryBytes) return refuse(EINVAL);
  auto* dm = new (std::nothrow) Dm;
  if (dm == nullptr) return refuse(ENOMEM);
  // A device's memory is the process's own: whole pages, so that nobody shares them.
  dm->length = attr->length;
  dm->mapped = (attr->length + 4095) & ~std::size_t{4095};
  void* memory =
      mmap(nullptr, dm->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    delete dm;
    return refuse(ENOMEM);
  }
  dm->bytes = static_cast<std::byte*>(memory);
  dm->shown.context = context;
  dm->shown.handle = ++last_handle;
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
  return &dm->shown;
}

int free_dm(ibv_dm* shown) {
  Dm& dm = Dm::of(shown);
  if (dm.users.load() != 0) return EBUSY;
  munmap(dm.bytes, dm.mapped);
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
  Mr::of(mr).dm = &dm;
  mr->addr = nullptr;
  mr->length = length;
  ++dm.users;
  return mr;
}

int advise_mr(ibv_pd*, ibv_advise_mr_advice advice, std::uint32_t, ibv_sge* list,
              std::uint32_t count) {
  if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || list == nullptr || count == 0) {
    return EINVAL;
  }
  return 0;  // the pages are the process's own, there when they are wanted
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
  auto* pd = new (std::nothrow) Pd(std::move(*domain));
  if (pd == nullptr) return refuse(ENOMEM);
  pd->shown.context = context;
  pd->shown.handle = ++weft::shim::last_handle;
  return &pd->shown;
}

int ibv_dealloc_pd(ibv_pd* shown) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_dealloc_pd, ENOSYS, shown);
  Pd& pd = Pd::of(shown);
  if (pd.users.load() != 0) return EBUSY;
  if (pd.original != nullptr) --pd.original->users;
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
  if (const auto done = mr.region.deregister(); !done) return weft::shim::errno_of(done.error());
  if (weft::shim::explaining()) weft::shim::forget_region(shown);
  --Pd::of(shown->pd).users;
  if (mr.dm != nullptr) --mr.dm->users;
  delete &mr;
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
  const auto done =
      weft::shim::domain_of(Pd::of(new_pd))
          .pd.reregister(mr.region, reinterpret_cast<std::uint64_t>(new_address), new_length,
                         static_cast<weft::Access>(rights & weft::shim::kKnownRights));
  if (!done) {
    errno = weft::shim::errno_of(done.error());
    return IBV_REREG_MR_ERR_CMD;
  }
  mr.access = static_cast<weft::Access>(rights & weft::shim::kKnownRights);
  --Pd::of(shown->pd).users;
  ++Pd::of(new_pd).users;
  weft::shim::show(mr, new_pd, new_address, new_length);
  if (weft::shim::explaining()) {
    weft::shim::note_region(shown, rights, __builtin_return_address(0));
  }
  return 0;
}

}  // extern "C"
