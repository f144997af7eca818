#include "path/directory.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace weft::path {

void Directory::add(const Gid& gid, std::shared_ptr<QueuePairTable> table) {
  const std::lock_guard guard(lock_);
  rows_.push_back({gid, std::move(table)});
}

void Directory::remove(const QueuePairTable* table) {
  const std::lock_guard guard(lock_);
  std::erase_if(rows_, [table](const Row& row) { return row.table.get() == table; });
}

std::shared_ptr<QueuePairTable> Directory::find(const Gid& gid, Qpn qpn) {
  const std::lock_guard guard(lock_);
  const auto row = std::find_if(rows_.begin(), rows_.end(),
                                [&](const Row& r) { return r.gid == gid && r.table->owns(qpn); });
  return row == rows_.end() ? nullptr : row->table;
}

std::vector<std::shared_ptr<QueuePairTable>> Directory::tables() {
  const std::lock_guard guard(lock_);
  std::vector<std::shared_ptr<QueuePairTable>> all;
  for (const Row& row : rows_) {
    if (std::find(all.begin(), all.end(), row.table) == all.end()) all.push_back(row.table);
  }
  return all;
}

}  // namespace weft::path
