// What the kernel solvers share: the examples of a machine as rows of a store, and what they tell after a round.
#pragma once

#include <algorithm>
#include <memory>
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
  virtual double bias() const { return 0; }      // the free bias, where there is one
};

// Multiply-adds of a GEMM that one call may spend on kernel values.
inline constexpr double kWorkOfCall = 2e9;

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
  Index store_row(Index i) const {
    const std::size_t s = segment(i);
    return store_->group_begin(groups_[s]) + i - offset_[s];
  }
  double diagonal(Index i) const { return store_->source().diagonal()[static_cast<std::size_t>(store_row(i))]; }

  // How many rows one call may compute, and how many fit into half of the store.
  Index rows_of_call() const {
    const double cost = static_cast<double>(n()) * store_->source().cost_of_value();
    return std::max<Index>(16, static_cast<Index>(kWorkOfCall / std::max(cost, 1.0)));
  }
  Index rows_of_store() const {
    return std::max<Index>(2, static_cast<Index>(store_->budget() / 2 / (sizeof(T) * static_cast<std::size_t>(std::max<Index>(n(), 1)))));
  }

  bool stored(Index i) const {
    const Index row = store_row(i);
    return std::all_of(groups_.begin(), groups_.end(), [&](Index g) { return store_->holds(row, g); });
  }

  // tiles[s * stride + r] <- part s of the kernel row of local example i[r].
  void fetch(const std::int32_t *i, Index count, Tile *tiles, Index stride) {
    std::vector<Index> rows(static_cast<std::size_t>(count));
    for (Index r = 0; r < count; ++r) rows[static_cast<std::size_t>(r)] = store_row(i[r]);
    for (std::size_t s = 0; s < groups_.size(); ++s)
      store_->fetch(rows.data(), count, groups_[s], tiles + static_cast<Index>(s) * stride);
  }

  // K of examples i against themselves, from their tiles, count x count.
  void square(const std::int32_t *i, Index count, const Tile *tiles, Index stride, T *out) const {
    std::vector<Index> at(static_cast<std::size_t>(count));
    std::vector<std::size_t> part(at.size());
    for (std::size_t c = 0; c < at.size(); ++c) {
      part[c] = segment(i[c]);
      at[c] = i[c] - offset_[part[c]];
    }
    for (Index r = 0; r < count; ++r) { // K is symmetric: half of the values are looked up
      const T *const row[2] = {tiles[r].get(), tiles[(n_segments() - 1) * stride + r].get()};
      for (Index c = r; c < count; ++c)
        out[r * count + c] = row[part[static_cast<std::size_t>(c)]][at[static_cast<std::size_t>(c)]];
    }
    for (Index r = 0; r < count; ++r)
      for (Index c = 0; c < r; ++c) out[r * count + c] = out[c * count + r];
  }

  // scores += sum_r factor[r] * kernel row r, for the rows of `which`.
  void add(const std::vector<std::vector<Index>> &which, const std::vector<std::vector<double>> &factor,
           const Tile *tiles, Index stride, double *scores, Index ld) const {
    constexpr Index panel = 128; // columns at a time, so that all lanes find the tiles in cache
    constexpr Index line = 64 / sizeof(T);
    const Index lanes = static_cast<Index>(which.size());
    std::vector<const T *> pointers;
    for (std::size_t s = 0; s < groups_.size(); ++s) {
      pointers.clear();
      std::vector<std::size_t> begin{0};
      for (const std::vector<Index> &rows : which) {
        for (const Index r : rows) pointers.push_back(tiles[static_cast<Index>(s) * stride + r].get());
        begin.push_back(pointers.size());
      }
      const Index size = offset_[s + 1] - offset_[s];
      for (Index at = 0; at < size; at += panel)
        for (std::size_t m = 0; m < which.size(); ++m) {
          // Between the lanes, the next panel is called for, a share of the tiles at a time.
          const Index share = static_cast<Index>(m) * stride;
          for (Index r = share / lanes; r < (share + stride) / lanes; ++r)
            if (const T *const row = tiles[static_cast<Index>(s) * stride + r].get(); at + 2 * panel <= size)
              for (Index j = at + panel; j < at + 2 * panel; j += line) __builtin_prefetch(row + j, 0, 2);
          if (!which[m].empty())
            kernels().loops<T>().add_tiles(pointers.data() + begin[m], factor[m].data(),
                                           static_cast<Index>(which[m].size()), at, std::min(size, at + panel),
                                           scores + static_cast<Index>(m) * ld + offset_[s]);
        }
    }
  }

private:
  std::size_t segment(Index i) const { return offset_.size() > 2 && i >= offset_[1] ? 1 : 0; }

  std::shared_ptr<RowStore<T>> store_;
  std::vector<Index> groups_;
  std::vector<Index> offset_{0}; // of the groups among the local examples
};

} // namespace mm
