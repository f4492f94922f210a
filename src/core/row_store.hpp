// Kernel rows once computed, within a memory budget: least recently used ones leave (paper 003, section 6).
//
// Columns come in groups (the classes, for machines of pairs; else one group of all): what is stored is the part of a
// row in one group, a tile, so that a machine of two classes neither computes nor keeps the values that it never
// reads, while the machines of one class share theirs. A tile that somebody holds outlives its place in the store.
// One store serves all machines of a reduction, from several threads.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernel_source.hpp"

namespace mm {

struct StoreCounts {
  Index hits = 0, misses = 0; // tiles asked for
  Index evaluations = 0;      // kernel values computed
};

template <class T> class RowStore {
public:
  using Tile = std::shared_ptr<const T[]>;

  // group_begin: first column of every group, and the number of columns at last.
  RowStore(std::unique_ptr<KernelSource<T>> source, std::vector<Index> group_begin, std::size_t budget_bytes)
      : source_(std::move(source)), group_begin_(std::move(group_begin)), budget_(budget_bytes) {}

  const KernelSource<T> &source() const { return *source_; }
  Index n() const { return source_->n(); }
  Index n_groups() const { return static_cast<Index>(group_begin_.size()) - 1; }
  Index group_begin(Index group) const { return group_begin_[static_cast<std::size_t>(group)]; }
  Index group_size(Index group) const { return group_begin(group + 1) - group_begin(group); }
  std::size_t budget() const { return budget_; }

  StoreCounts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

  // The tiles of rows (examples of the source, each at most once) in a group; those that are missing are computed in
  // one block, or each on its own. All machines of a store do it in one way.
  void fetch(const Index *rows, Index count, Index group, Tile *out, bool alone = false) {
    std::vector<Index> missing, where;
    {
      const std::lock_guard lock(mutex_);
      for (Index r = 0; r < count; ++r) {
        const auto found = tiles_.find(key(rows[r], group));
        if (found == tiles_.end()) {
          missing.push_back(rows[r]);
          where.push_back(r);
        } else {
          recent_.splice(recent_.begin(), recent_, found->second);
          out[r] = found->second->tile;
        }
      }
      counts_.hits += count - static_cast<Index>(missing.size());
      counts_.misses += static_cast<Index>(missing.size());
    }
    if (missing.empty()) return;
    const std::size_t size = static_cast<std::size_t>(group_size(group));
    std::vector<std::shared_ptr<T[]>> fresh;
    std::vector<T *> pointers;
    for (std::size_t m = 0; m < missing.size(); ++m) {
      fresh.push_back(std::make_shared_for_overwrite<T[]>(size));
      pointers.push_back(fresh.back().get());
    }
    const Index begin = group_begin(group), end = group_begin(group + 1);
    if (alone)
      for (std::size_t m = 0; m < missing.size(); ++m) source_->row(missing[m], begin, end, pointers[m]);
    else source_->block(missing.data(), static_cast<Index>(missing.size()), begin, end, pointers.data());
    const std::lock_guard lock(mutex_);
    counts_.evaluations += static_cast<Index>(missing.size() * size);
    for (std::size_t m = 0; m < missing.size(); ++m) {
      const Key at = key(missing[m], group);
      const auto found = tiles_.find(at);
      if (found != tiles_.end()) { // another thread was faster
        out[where[m]] = found->second->tile;
        continue;
      }
      out[where[m]] = fresh[m];
      recent_.push_front({at, size * sizeof(T), std::move(fresh[m])});
      tiles_.emplace(at, recent_.begin());
      bytes_ += recent_.front().bytes;
    }
    while (bytes_ > budget_ && !recent_.empty()) {
      bytes_ -= recent_.back().bytes;
      tiles_.erase(recent_.back().key);
      recent_.pop_back();
    }
  }

  bool holds(Index row, Index group) const {
    const std::lock_guard lock(mutex_);
    return tiles_.contains(key(row, group));
  }

  // A whole row, where there is but one group.
  Tile row(Index i) {
    Tile tile;
    fetch(&i, 1, 0, &tile);
    return tile;
  }

private:
  using Key = std::uint64_t;
  struct Entry {
    Key key;
    std::size_t bytes;
    Tile tile;
  };

  Key key(Index row, Index group) const {
    return static_cast<Key>(row) * static_cast<Key>(n_groups()) + static_cast<Key>(group);
  }

  std::unique_ptr<KernelSource<T>> source_;
  std::vector<Index> group_begin_;
  std::size_t budget_, bytes_ = 0;
  StoreCounts counts_;
  std::list<Entry> recent_; // most recently used first
  std::unordered_map<Key, typename std::list<Entry>::iterator> tiles_;
  mutable std::mutex mutex_;
};

} // namespace mm
