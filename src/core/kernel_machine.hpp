// What the kernel solvers share: the examples of a machine as rows of a store, and what they tell after a round.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "row_store.hpp"

namespace mm {

// The state after a round. Objectives are those of the problem that the core solves, dual = -f.
struct Round {
  bool complete = false;  // else there is more to do before anything can be said
  bool stuck = false;     // nothing moved: more rounds will not help
  double violation = 0;
  Index visited = 0;      // examples of the working set
  double primal = 0, dual = 0;
  double worst_gap = 0;   // relative, of the worst part
  double bias = 0;        // the free one with the smallest primal value at these scores; 0 where there is none

  // Take the gap of a part into account. Values that are not finite prove nothing, and never will.
  void judge(double gap, double of_primal) {
    if (!std::isfinite(gap) || !std::isfinite(of_primal)) {
      worst_gap = std::numeric_limits<double>::infinity();
      stuck = true;
    } else {
      worst_gap = std::max(worst_gap, gap / std::max(std::abs(of_primal), std::numeric_limits<double>::min()));
    }
  }
};

class KernelMachine {
public:
  virtual ~KernelMachine() = default;
  virtual Round advance() = 0;                   // at most about 50 ms of work
  virtual Index n_examples() const = 0;
  virtual Index lanes() const = 0;
  virtual void duals(double *out) const = 0;     // n_examples x lanes
  virtual void set_duals(const double *) = 0;    // before the first advance
  virtual void scores(const Index *examples, Index count, double *out) const = 0; // count x lanes, without the bias
  // The sum of |change| (4 + q / 2) over all changes of duals that the scores were moved by, q of a lane at once, of the lane
  // with the most: times eps and the largest kernel value it bounds the rounding of products and sums. Infinity where
  // nobody counts.
  virtual double travelled() const { return std::numeric_limits<double>::infinity(); }
  virtual void state(State &) = 0;               // all that it goes on from, but the store's
};

// Multiply-adds of a GEMM that one call may spend on kernel values.
inline constexpr double kWorkOfCall = 2e9;
inline constexpr Index kValuesOfSet = 100'000'000;

// The examples of a machine: the columns of one or two groups of a store. Local example i is a row of the store.
template <class T> class StoreView {
public:
  using Tile = typename RowStore<T>::Tile;

  StoreView(std::shared_ptr<RowStore<T>> store, std::vector<Index> groups)
      : store_(std::move(store)), groups_(std::move(groups)) {
    for (const Index g : groups_) offset_.push_back(offset_.back() + store_->group_size(g));
  }

  Index n() const { return offset_.back(); }
  Index n_segments() const { return static_cast<Index>(groups_.size()); }
  Index segment_begin(Index s) const { return offset_[static_cast<std::size_t>(s)]; } // and the end of the last
  Index store_row(Index i) const {
    const std::size_t s = segment(i);
    return store_->group_begin(groups_[s]) + i - offset_[s];
  }
  double diagonal(Index i) const { return store_->source().diagonal()[static_cast<std::size_t>(store_row(i))]; }

  double cost_of_value() const { return store_->source().cost_of_value(); }
  // Whole rows that one call may compute.
  Index rows_of_call() const {
    const double cost = static_cast<double>(n()) * cost_of_value();
    return std::max<Index>(16, static_cast<Index>(kWorkOfCall / std::max(cost, 1.0)));
  }
  // Rows of a working set: they must fit into its share of the store, and their effect on all scores into one call.
  Index rows_of_set() const {
    const Index size = std::max<Index>(n(), 1);
    const Index stored = static_cast<Index>(store_->budget_of_set() / (sizeof(T) * static_cast<std::size_t>(size)));
    return std::max<Index>(2, std::min(stored, std::max<Index>(32, kValuesOfSet / size)));
  }

  bool stored(Index i) const {
    const Index row = store_row(i);
    return std::all_of(groups_.begin(), groups_.end(), [&](Index g) { return store_->holds(row, g); });
  }

  // tiles[s * stride + r] <- part s of the kernel row of local example i[r]. How many had to be computed.
  Index fetch(const std::int32_t *i, Index count, Tile *tiles, Index stride, bool alone = false) {
    Index computed = 0;
    const std::vector<Index> rows = store_rows(i, count);
    for (std::size_t s = 0; s < groups_.size(); ++s)
      computed += store_->fetch(rows.data(), count, groups_[s], tiles + static_cast<Index>(s) * stride, alone);
    return computed;
  }

  // The same in calls of bounded work: `find`, then `compute` until it has everything. All rows that are missing are
  // computed together, some columns a call: a block of many rows reads the data less often.
  void find(const std::int32_t *i, Index count, Tile *tiles, Index stride) {
    missing_.assign(groups_.size(), {});
    if (tiny()) {
      if (own_.empty()) compute_own();
      for (Index s = 0; s < n_segments(); ++s)
        for (Index r = 0; r < count; ++r) tiles[s * stride + r] = own_[static_cast<std::size_t>(s * n() + i[r])];
      return;
    }
    const std::vector<Index> rows = store_rows(i, count);
    for (std::size_t s = 0; s < groups_.size(); ++s)
      missing_[s] = store_->find(rows.data(), count, groups_[s], tiles + static_cast<Index>(s) * stride);
  }
  bool compute(Tile *tiles, Index stride) {
    double work = kWorkOfCall;
    for (std::size_t s = 0; s < groups_.size(); ++s) {
      auto &missing = missing_[s];
      const Index size = store_->group_size(groups_[s]);
      while (!missing.rows.empty() && missing.columns < size) {
        if (work <= 0) return false;
        const double of_column = static_cast<double>(missing.rows.size()) * cost_of_value();
        const Index panels = static_cast<Index>(work / (of_column * static_cast<double>(kColumnsOfBlock)));
        const Index columns = std::min(size - missing.columns, std::max<Index>(panels, 1) * kColumnsOfBlock);
        store_->compute(missing, columns, tiles + static_cast<Index>(s) * stride);
        work -= of_column * static_cast<double>(columns);
      }
    }
    return true;
  }

  // K of examples i against themselves, from their tiles, rows ld apart.
  void square(const std::int32_t *i, Index count, const Tile *tiles, Index stride, T *out, Index ld) const {
    std::vector<Index> at(static_cast<std::size_t>(count));
    std::vector<std::size_t> part(at.size());
    for (std::size_t c = 0; c < at.size(); ++c) {
      part[c] = segment(i[c]);
      at[c] = i[c] - offset_[part[c]];
    }
    // K is symmetric: half of the values are looked up. The rest are copied in squares that stay in cache.
    constexpr Index side = 32;
    for (Index begin = 0; begin < count; begin += side) {
      const Index end = std::min(count, begin + side);
      for (Index r = begin; r < end; ++r) {
        const T *const row[2] = {tiles[r].get(), tiles[(n_segments() - 1) * stride + r].get()};
        for (Index c = begin; c < count; ++c)
          out[r * ld + c] = row[part[static_cast<std::size_t>(c)]][at[static_cast<std::size_t>(c)]];
      }
      for (Index from = end; from < count; from += side)
        for (Index c = from; c < std::min(count, from + side); ++c)
          for (Index r = begin; r < end; ++r) out[c * ld + r] = out[r * ld + c];
    }
  }

  // scores += K' change, `change` being the tiles' examples x lanes, change_stride apart.
  void add(const double *change, Index change_stride, Index lanes, const Tile *tiles, Index stride, double *scores,
           Index ld) const {
    std::vector<Index> first{0}, moved;
    std::vector<std::int32_t> lane;
    std::vector<T> changes, workspace(static_cast<std::size_t>(lanes * kTilePanel));
    for (Index r = 0; r < stride; ++r) {
      for (Index m = 0; m < lanes; ++m)
        if (const double c = change[r * change_stride + m]; c != 0) {
          lane.push_back(static_cast<std::int32_t>(m));
          changes.push_back(static_cast<T>(c));
        }
      if (static_cast<Index>(lane.size()) == first.back()) continue;
      moved.push_back(r);
      first.push_back(static_cast<Index>(lane.size()));
    }
    std::vector<const T *> pointers(moved.size());
    for (std::size_t s = 0; s < groups_.size(); ++s) {
      for (std::size_t p = 0; p < moved.size(); ++p) pointers[p] = tiles[static_cast<Index>(s) * stride + moved[p]].get();
      const TileChanges<T> work{pointers.data(), static_cast<Index>(moved.size()), first.data(), lane.data(),
                                changes.data(),  workspace.data()};
      kernels().loops<T>().add_tiles(work, offset_[s + 1] - offset_[s], lanes, scores + offset_[s], ld);
    }
  }

  void state(State &state) {
    bool computed = !own_.empty();
    state.number("computed", computed);
    if (state.loads() && computed && tiny() && own_.empty()) uncounted([&] { compute_own(); });
  }
  // What has been counted before a checkpoint.
  template <class Work> void uncounted(Work work) {
    const StoreCounts counts = store_->counts();
    work();
    store_->set_counts(counts);
  }

private:
  // Of a pair of few examples with cheap values all rows are computed at once and not stored: to look them up for the
  // next pair would cost more.
  static constexpr Index kTiny = 128;
  static constexpr double kCheap = 150;
  bool tiny() const { return n_segments() == 2 && n() <= kTiny && cost_of_value() <= kCheap; }
  void compute_own() {
    std::vector<std::int32_t> all(static_cast<std::size_t>(n()));
    std::iota(all.begin(), all.end(), 0);
    const std::vector<Index> rows = store_rows(all.data(), n());
    for (const Index g : groups_) {
      const auto block = std::make_shared_for_overwrite<T[]>(static_cast<std::size_t>(n() * store_->group_size(g)));
      std::vector<T *> at;
      for (Index r = 0; r < n(); ++r) {
        at.push_back(block.get() + r * store_->group_size(g));
        own_.push_back(Tile(block, at.back()));
      }
      store_->compute_unstored(rows.data(), n(), g, at.data());
    }
  }

  std::vector<Index> store_rows(const std::int32_t *i, Index count) const {
    std::vector<Index> rows(static_cast<std::size_t>(count));
    for (Index r = 0; r < count; ++r) rows[static_cast<std::size_t>(r)] = store_row(i[r]);
    return rows;
  }
  std::size_t segment(Index i) const { return offset_.size() > 2 && i >= offset_[1] ? 1 : 0; }

  std::shared_ptr<RowStore<T>> store_;
  std::vector<Index> groups_;
  std::vector<typename RowStore<T>::Missing> missing_;
  std::vector<Tile> own_;        // of a tiny pair
  std::vector<Index> offset_{0}; // of the groups among the local examples
};

} // namespace mm
