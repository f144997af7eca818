// What an end does with its own memory, so that the peer may reach parts of it for a while.
#include <algorithm>
#include <utility>

#include "worlds/posting.h"

namespace weft::worlds {
namespace {

/// A part of the annex that no other key exposes: two keys for the same bytes would make it hard to
/// say which request changed them.
std::optional<std::pair<std::uint32_t, std::uint32_t>> free_part(End& end) {
  const std::uint32_t parts = 4, each = end.shelf_half / parts;
  const std::uint32_t part = static_cast<std::uint32_t>(end.stage.random.below(parts));
  const std::uint32_t begin = end.shelf_half + part * each;
  for (const auto& exposure : end.exposures) {
    if (exposure->offset < begin + each && begin < exposure->offset + exposure->length) return {};
  }
  const auto skip = static_cast<std::uint32_t>(end.stage.random.below(each / 2 + 1));
  const auto length = static_cast<std::uint32_t>(end.stage.between(1, each - skip));
  return std::pair(begin + skip, length);
}

Access rights_of(const Exposure& exposure) {
  return exposure.writable ? Access::kRemoteRead | Access::kRemoteWrite : Access::kRemoteRead;
}

std::shared_ptr<Exposure> expose(End& end, Exposure::Kind kind, std::uint32_t offset,
                                 std::uint32_t length) {
  auto exposure = std::make_shared<Exposure>();
  exposure->kind = kind;
  exposure->offset = offset;
  exposure->length = length;
  exposure->writable = !end.stage.one_in(4);
  if (exposure->writable) {
    exposure->grant = end.process().shadow.grant(end.shelf_ea + offset, length);
  }
  end.exposures.push_back(exposure);
  return exposure;
}

bool register_part(End& end, bool one_shot) {
  const auto part = free_part(end);
  if (!part) return false;
  const auto exposure = expose(end, one_shot ? Exposure::Kind::kOneShot : Exposure::Kind::kRegion,
                               part->first, part->second);
  const Access access =
      Access::kLocalWrite | rights_of(*exposure) | (one_shot ? Access::kOneShot : Access::kNone);
  exposure->region = std::make_unique<verbs::MemoryRegion>(
      end.process()
          .domains[end.where.card]
          .register_range(end.shelf_ea + part->first, part->second, access)
          .value());
  exposure->key = exposure->region->rkey();
  exposure->address = exposure->region->address();
  exposure->offered = true;
  return true;
}

/// Takes a region back while the peer may be writing to it. When this returns nobody may.
bool deregister_part(End& end) {
  const auto found = std::ranges::find_if(
      end.exposures, [](const auto& exposure) { return exposure->region != nullptr; });
  if (found == end.exposures.end()) return false;
  const std::shared_ptr<Exposure> exposure = *found;
  end.stage.trace.add(sim::What::kRevoked, end.node.number(), exposure->key.value);
  exposure->revoked = true;
  if (auto ok = exposure->region->deregister(); !ok) {
    end.stage.judge.violated(end.name() + ": deregister: " + ok.error().message);
  }
  end.process().shadow.revoke(exposure->grant);
  end.exposures.erase(found);
  return true;
}

bool bind_window(End& end) {
  const auto free = std::ranges::find_if(end.windows, [](const Window& w) { return !w.in_use; });
  if (free == end.windows.end()) return false;
  const auto part = free_part(end);
  if (!part) return false;
  free->in_use = true;
  const bool type2 = free->type == verbs::WindowType::kType2;
  const auto exposure = expose(end, type2 ? Exposure::Kind::kWindow2 : Exposure::Kind::kWindow1,
                               part->first, part->second);
  exposure->slot = static_cast<std::uint32_t>(free - end.windows.begin());
  const bool zero_based = end.stage.one_in(4);
  SendRequest request = free->window->bind_request(
      *end.annex_region, part->first - end.shelf_half, part->second,
      rights_of(*exposure) | (zero_based ? Access::kZeroBased : Access::kNone));
  exposure->key = free->window->rkey();
  exposure->address = zero_based ? 0 : request.bind.address;
  Work work;
  work.exposure = exposure;
  post(end, request, std::move(work));
  return true;
}

bool unbind_window(End& end) {
  const auto found = std::ranges::find_if(end.exposures, [](const auto& exposure) {
    return exposure->region == nullptr && exposure->offered && !exposure->revoked;
  });
  if (found == end.exposures.end()) return false;
  const std::shared_ptr<Exposure> exposure = *found;
  exposure->revoked = true;
  SendRequest request;
  if (exposure->kind == Exposure::Kind::kWindow2) {
    request.op = SendOp::kLocalInvalidate;
    request.invalidate_key = exposure->key;
  } else {
    request =
        end.windows[exposure->slot].window->bind_request(*end.annex_region, 0, 0, Access::kNone);
  }
  end.stage.trace.add(sim::What::kRevoked, end.node.number(), exposure->key.value);
  Work work;
  work.exposure = exposure;
  post(end, request, std::move(work));
  return true;
}

}  // namespace

bool do_owner_work(End& end) {
  switch (end.stage.random.below(8)) {
    case 0:
    case 1:
    case 2:
      return bind_window(end);
    case 3:
      return unbind_window(end);
    case 4:
    case 5:
      return register_part(end, false);
    case 6:
      return register_part(end, true);
    default:
      return deregister_part(end);
  }
}

}  // namespace weft::worlds
