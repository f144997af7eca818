#include "sim/controller_tables.h"

#include <algorithm>

#include "base/assert.h"

namespace weft::sim {

ControllerTables::Context* ControllerTables::open(const SegmentTable& table,
                                                  const QueuePairNote& note) {
  const auto known = std::ranges::find(contexts_, &table, [](auto& c) { return c->source_; });
  Context* context = known == contexts_.end() ? nullptr : known->get();
  if (context == nullptr) {
    context = contexts_.emplace_back(std::make_unique<Context>()).get();
    context->source_ = &table;
    context->table_ = &table;
    if (segment_tables_ == SegmentTables::kCopied) {
      context->copy_ = table;
      context->table_ = &context->copy_;
    }
    if (page_tables_ == PageTables::kPrivate) context->pages_.resize(Context::kPrivatePages);
    ++counters_.tables_taken;
  }
  context->queue_pairs_.push_back(note);
  return context;
}

ControllerTables::Context* ControllerTables::close(Context* context, Qpn qpn) {
  WEFT_ASSERT(context != nullptr);
  std::erase_if(context->queue_pairs_, [=](const QueuePairNote& note) { return note.qpn == qpn; });
  if (!context->queue_pairs_.empty()) return context;
  std::erase_if(contexts_, [=](const auto& c) { return c.get() == context; });
  return nullptr;
}

void ControllerTables::segment_update(const SegmentTable& table, std::uint32_t id) {
  for (auto& context : contexts_) {
    if (context->source_ != &table) continue;
    ++counters_.segment_updates;
    if (context->table_ != &context->copy_) continue;
    const SegmentEntry* entry = table.find(id);
    context->copy_.set(id, entry == nullptr ? SegmentEntry{} : *entry);
  }
}

void ControllerTables::page_update(std::uint64_t page) {
  if (page_tables_ == PageTables::kSystem) return;
  for (auto& context : contexts_) {
    auto& kept = context->pages_[page % Context::kPrivatePages];
    if (kept.page != page) continue;
    kept = {};
    ++counters_.page_updates;
  }
}

std::int64_t ControllerTables::find_private(Context& context, std::uint64_t page,
                                            memory::Intent intent) {
  if (page_tables_ == PageTables::kSystem) return -1;
  const auto& kept = context.pages_[page % Context::kPrivatePages];
  if (kept.page != page || (intent == memory::Intent::kWrite && !kept.writable)) return -1;
  ++counters_.private_hits;
  return kept.frame;
}

void ControllerTables::keep_private(Context& context, std::uint64_t page, std::uint32_t frame,
                                    bool writable) {
  if (page_tables_ == PageTables::kSystem) return;
  context.pages_[page % Context::kPrivatePages] = {page, frame, writable};
}

}  // namespace weft::sim
