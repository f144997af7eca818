// Objects of one context used through another that was imported from its descriptor. Destroying
// one ends it for both; unimporting gives back the structure alone.
#include <new>

#include "shim/errors.h"
#include "shim/memory.h"
#include "shim/objects.h"
#include "shim/real.h"

namespace weft::shim {
namespace {

/// What the handle names, shared; null: nothing, and errno says so.
template <class State>
std::shared_ptr<State> named(Numbered<State>& objects, std::uint32_t handle) {
  std::shared_ptr<State> state;
  objects.with(handle, [&](State& found) { state = found.shared_from_this(); });
  if (state == nullptr) errno = ENOENT;
  return state;
}

/// The structure goes. What it stood for goes by a destroy call, or with the file.
template <class Object, class State>
void unimport(Object& object, Numbered<State>& objects) {
  CommandFile& file = *Context::of(object.shown.context).file;
  const bool lives = objects.with(object.shown.handle, [](State&) {});
  if (lives && object.state.use_count() == 1) file.keep(object.state);
  delete &object;
}

}  // namespace
}  // namespace weft::shim

using weft::shim::CommandFile;
using weft::shim::Context;
using weft::shim::Dm;
using weft::shim::is_ours;
using weft::shim::Mr;
using weft::shim::Pd;
using weft::shim::refuse;

extern "C" {

ibv_pd* ibv_import_pd(ibv_context* context, std::uint32_t handle) {
  if (!is_ours(context)) WEFT_PASS_ON(ibv_import_pd, nullptr, context, handle);
  auto state = weft::shim::named(Context::of(context).file->pds, handle);
  if (state == nullptr) return nullptr;
  auto* pd = new (std::nothrow) Pd(std::move(state));
  if (pd == nullptr) return refuse(ENOMEM);
  pd->shown.context = context;
  pd->shown.handle = handle;
  return &pd->shown;
}

void ibv_unimport_pd(ibv_pd* pd) {
  if (!is_ours(pd)) WEFT_PASS_ON(ibv_unimport_pd, void(), pd);
  weft::shim::unimport(Pd::of(pd), Context::of(pd->context).file->pds);
}

ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t handle) {
  if (!is_ours(pd)) WEFT_PASS_ON(ibv_import_mr, nullptr, pd, handle);
  Mr* owner = nullptr;
  Context::of(pd->context).file->mrs.with(handle, [&](Mr& found) {
    ++found.holders;
    owner = &found;
  });
  if (owner == nullptr) return refuse(ENOENT);
  auto* mr = new (std::nothrow) Mr(Mr::Imported{*owner});
  if (mr == nullptr) {
    Mr::release(*owner);
    return refuse(ENOMEM);
  }
  mr->shown.context = pd->context;
  mr->shown.pd = pd;
  mr->shown.handle = handle;
  mr->shown.length = mr->region.length();  // the address is the owner's business
  mr->shown.lkey = mr->region.lkey().value;
  mr->shown.rkey = mr->region.rkey().value;
  return &mr->shown;
}

void ibv_unimport_mr(ibv_mr* shown) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_unimport_mr, void(), shown);
  Mr& mr = Mr::of(shown);
  CommandFile& file = *Context::of(shown->context).file;
  const bool lives = file.mrs.with(shown->handle, [](Mr&) {});
  // The first structure is what the handle names: it stays until somebody destroys the region.
  if (lives && !mr.imported()) {
    file.keep({&mr, [](Mr* kept) { Mr::release(*kept); }});
  } else {
    Mr::release(mr);
  }
}

ibv_dm* ibv_import_dm(ibv_context* context, std::uint32_t handle) {
  if (!is_ours(context)) WEFT_PASS_ON(ibv_import_dm, nullptr, context, handle);
  auto state = weft::shim::named(Context::of(context).file->dms, handle);
  if (state == nullptr) return nullptr;
  Dm* const dm = weft::shim::make_dm(context, std::move(state), handle);
  return dm != nullptr ? &dm->shown : refuse(ENOMEM);
}

void ibv_unimport_dm(ibv_dm* dm) {
  if (!is_ours(dm)) WEFT_PASS_ON(ibv_unimport_dm, void(), dm);
  weft::shim::unimport(Dm::of(dm), Context::of(dm->context).file->dms);
}

}  // extern "C"
