// Kernel rows once computed, within a memory budget: least recently used ones leave (paper 003, section 6).
//
// Columns come in groups (the classes, for machines of pairs; else one group of all): what is stored is the part of a
// row in one group, a tile, so that a machine of two classes neither computes nor keeps the values that it never
// reads, while the machines of one class share theirs. A tile that somebody holds outlives its place in the store.
// One store serves all machines of a reduction, from several threads.
#pragma once

#include <algorithm>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernel_source.hpp"
#include "state.hpp"

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
  // What a working set may take: half of the budget, shared by the machines that run at once.
  std::size_t budget_of_set() const { return budget_ / 2 / sharers_; }
  void share(std::size_t machines) { sharers_ = machines; }

  StoreCounts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

  void set_counts(const StoreCounts &counts) {
    const std::lock_guard lock(mutex_);
    counts_ = counts;
  }

  // Tiles on their way: those of some rows in a group that the store does not have.
  struct Missing {
    Index group = 0;
    std::vector<Index> rows, where; // where: index among the tiles asked for
    std::vector<std::shared_ptr<T[]>> tiles;
    Index columns = 0;              // that are computed
    bool alone = false;             // each on its own, not as a block
  };

  // The tiles of rows (examples of the source, each at most once) in a group, as far as they are there.
  Missing find(const Index *rows, Index count, Index group, Tile *out) {
    Missing missing{group, {}, {}, {}, 0, false};
    const std::lock_guard lock(mutex_);
    for (Index r = 0; r < count; ++r) {
      const auto found = tiles_.find(key(rows[r], group));
      if (found == tiles_.end()) {
        missing.rows.push_back(rows[r]);
        missing.where.push_back(r);
      } else {
        recent_.splice(recent_.begin(), recent_, found->second);
        out[r] = found->second->tile;
      }
    }
    counts_.hits += count - static_cast<Index>(missing.rows.size());
    counts_.misses += static_cast<Index>(missing.rows.size());
    return missing;
  }

  // The next columns of missing tiles, all rows in one block or each on its own: all machines of a store do it in one
  // way. Once the tiles are whole they join the store, and `out` of `find`.
  void compute(Missing &missing, Index columns, Tile *out, bool alone = false) {
    const std::size_t size = static_cast<std::size_t>(group_size(missing.group)), count = missing.rows.size();
    if (count == 0) return;
    for (std::size_t m = missing.tiles.size(); m < count; ++m)
      missing.tiles.push_back(std::make_shared_for_overwrite<T[]>(size));
    std::vector<T *> at;
    for (const auto &tile : missing.tiles) at.push_back(tile.get() + missing.columns);
    const Index begin = group_begin(missing.group) + missing.columns;
    const Index end = std::min(begin + columns, group_begin(missing.group + 1));
    if (alone)
      for (std::size_t m = 0; m < count; ++m) source_->row(missing.rows[m], begin, end, at[m]);
    else source_->block(missing.rows.data(), static_cast<Index>(count), begin, end, at.data());
    set_diagonal(missing.rows.data(), static_cast<Index>(count), begin, end, at.data());
    missing.columns = end - group_begin(missing.group);
    missing.alone = alone;
    if (missing.columns == group_size(missing.group)) keep(missing, out);
  }

  // Both at once. How many tiles were missing.
  Index fetch(const Index *rows, Index count, Index group, Tile *out, bool alone = false) {
    Missing missing = find(rows, count, group, out);
    compute(missing, group_size(group), out, alone);
    return static_cast<Index>(missing.rows.size());
  }

  // Tiles that are not to be stored.
  void compute_unstored(const Index *rows, Index count, Index group, T *const *out) {
    const Index begin = group_begin(group), end = group_begin(group + 1);
    source_->block(rows, count, begin, end, out);
    set_diagonal(rows, count, begin, end, out);
    const std::lock_guard lock(mutex_);
    counts_.misses += count;
    counts_.evaluations += count * (end - begin);
  }

  bool holds(Index row, Index group) const {
    const std::lock_guard lock(mutex_);
    return tiles_.contains(key(row, group));
  }

  // Which tiles it has, and what it counted. The last bits of a tile may depend on the rows that were computed with it (if
  // BLAS has several threads, or the kernel is Python's), so these are kept, too: restored tiles are computed again, in the
  // same blocks.
  void state(State &);
  void counts_state(State &state) {
    state.number("hits", counts_.hits);
    state.number("misses", counts_.misses);
    state.number("evaluations", counts_.evaluations);
  }

private:
  using Rows = std::shared_ptr<const std::vector<Index>>;
  using Key = std::uint64_t;
  struct Entry {
    Key key;
    std::size_t bytes;
    Tile tile;
    Rows with; // rows of its block; null: it was computed on its own
  };

  Key key(Index row, Index group) const {
    return static_cast<Key>(row) * static_cast<Key>(n_groups()) + static_cast<Key>(group);
  }

  // Exactly what the solvers take for K(x, x): norms and products differ by rounding, which a large gamma would show.
  void set_diagonal(const Index *rows, Index count, Index begin, Index end, T *const *out) const {
    for (Index r = 0; r < count; ++r)
      if (const Index i = rows[r]; i >= begin && i < end)
        out[r][i - begin] = static_cast<T>(source_->diagonal()[static_cast<std::size_t>(i)]);
  }

  void keep(Missing &missing, Tile *out) {
    const std::size_t size = static_cast<std::size_t>(group_size(missing.group));
    const std::lock_guard lock(mutex_);
    counts_.evaluations += static_cast<Index>(missing.rows.size() * size);
    const Rows with = missing.alone ? nullptr : std::make_shared<const std::vector<Index>>(missing.rows);
    for (std::size_t m = 0; m < missing.rows.size(); ++m) {
      const Key at = key(missing.rows[m], missing.group);
      Tile &wanted = out[missing.where[m]];
      const auto found = tiles_.find(at);
      if (found != tiles_.end()) { // another thread was faster
        wanted = found->second->tile;
        continue;
      }
      wanted = std::move(missing.tiles[m]);
      recent_.push_front({at, size * sizeof(T), wanted, with});
      tiles_.emplace(at, recent_.begin());
      bytes_ += recent_.front().bytes;
    }
    while (bytes_ > budget_ && !recent_.empty()) {
      bytes_ -= recent_.back().bytes;
      tiles_.erase(recent_.back().key);
      recent_.pop_back();
    }
  }

  std::unique_ptr<KernelSource<T>> source_;
  std::vector<Index> group_begin_;
  std::size_t budget_, bytes_ = 0, sharers_ = 1;
  StoreCounts counts_;
  std::list<Entry> recent_; // most recently used first
  std::unordered_map<Key, typename std::list<Entry>::iterator> tiles_;
  mutable std::mutex mutex_;
};

template <class T> void RowStore<T>::state(State &state) {
  std::vector<std::int64_t> keys, blocks, sizes, rows; // blocks: of every tile, from 1; 0: on its own
  std::unordered_map<const void *, std::int64_t> number;
  const Index n_keys = n() * n_groups();
  for (const Entry &entry : recent_) {
    if (state.loads()) break;
    keys.push_back(static_cast<std::int64_t>(entry.key));
    if (entry.with && number.emplace(entry.with.get(), static_cast<std::int64_t>(number.size()) + 1).second) {
      sizes.push_back(static_cast<std::int64_t>(entry.with->size()));
      rows.insert(rows.end(), entry.with->begin(), entry.with->end());
    }
    blocks.push_back(entry.with ? number[entry.with.get()] : 0);
  }
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  state.indices("tiles", keys, n_keys, n_keys);
  state.list("block_sizes", sizes, static_cast<std::int64_t>(keys.size()));
  state.indices("blocks", blocks, static_cast<std::int64_t>(keys.size()), static_cast<std::int64_t>(sizes.size()) + 1);
  state.indices("block_rows", rows, any, n());
  counts_state(state);
  if (!state.loads()) return;
  state.check(blocks.size() == keys.size(), "tiles without a block");
  std::vector<Rows> with{nullptr};
  auto from = rows.begin();
  for (const std::int64_t size : sizes) {
    state.check(size > 0 && size <= rows.end() - from, "blocks of tiles that end elsewhere");
    with.push_back(std::make_shared<const std::vector<Index>>(from, from + size));
    from += size;
  }
  std::list<Entry> recent;
  std::unordered_map<Key, typename std::list<Entry>::iterator> tiles;
  std::size_t bytes = 0;
  std::vector<std::vector<typename std::list<Entry>::iterator>> members(with.size());
  for (std::size_t t = 0; t < keys.size(); ++t) {
    const Key at = static_cast<Key>(keys[t]);
    const std::size_t size = sizeof(T) * static_cast<std::size_t>(group_size(static_cast<Index>(at) % n_groups()));
    state.check(!tiles.contains(at) && (bytes += size) <= budget_, "more tiles than there is room for");
    recent.push_back({at, size, nullptr, with[static_cast<std::size_t>(blocks[t])]});
    tiles.emplace(at, std::prev(recent.end()));
    members[static_cast<std::size_t>(blocks[t])].push_back(std::prev(recent.end()));
  }
  for (std::size_t b = 0; b < with.size(); ++b) {
    if (members[b].empty()) continue;
    const Index group = static_cast<Index>(members[b][0]->key) % n_groups();
    const std::size_t size = static_cast<std::size_t>(group_size(group));
    std::vector<std::shared_ptr<T[]>> whole;
    std::vector<T *> at;
    if (b > 0) {
      for (std::size_t r = 0; r < with[b]->size(); ++r) {
        whole.push_back(std::make_shared_for_overwrite<T[]>(size));
        at.push_back(whole.back().get());
      }
      compute_unstored(with[b]->data(), static_cast<Index>(at.size()), group, at.data());
    }
    for (const auto entry : members[b]) {
      const Index row = static_cast<Index>(entry->key) / n_groups();
      if (b == 0) { // each may be of another group
        const Index own = static_cast<Index>(entry->key) % n_groups();
        auto tile = std::make_shared_for_overwrite<T[]>(static_cast<std::size_t>(group_size(own)));
        T *const place = tile.get();
        source_->row(row, group_begin(own), group_begin(own + 1), place);
        set_diagonal(&row, 1, group_begin(own), group_begin(own + 1), &place);
        entry->tile = std::move(tile);
        continue;
      }
      const auto found = std::find(with[b]->begin(), with[b]->end(), row);
      state.check(found != with[b]->end() && static_cast<Index>(entry->key) % n_groups() == group,
                  "a tile that its block does not have");
      entry->tile = whole[static_cast<std::size_t>(found - with[b]->begin())];
    }
  }
  counts_state(state);
  recent_.swap(recent);
  tiles_.swap(tiles);
  bytes_ = bytes;
}

} // namespace mm
