// W with very many lanes, of which a feature knows few: W_jm is not zero only where an example with feature j has a dual
// of class m. A list of (lane, value) a feature, as a table with open addressing: additions come at random lanes, and
// scores run over whole tables.
//
// Conventions
//   slots  an empty one has the lane `lanes`, which is none, and the value 0: loops over slots need no branch
//   ranking  the row of the intercept (see lane_ranking.hpp); zeros without one
//
// Values of zero stay until a table grows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lane_ranking.hpp"
#include "rows.hpp"
#include "state.hpp"

namespace mm {

// The slots of a table. (A row of a CSR matrix has the same members.)
template <class S> struct LaneList {
  const S *value;
  const std::int32_t *index; // lanes
  Index count;
};

// The table of one feature.
template <class S> class LaneTable {
public:
  LaneList<S> slots() const { return {value_.data(), lane_.data(), static_cast<Index>(lane_.size())}; }
  Index used() const { return used_; }

  void prefetch(std::int32_t lane) const {
    if (lane_.empty()) return;
    __builtin_prefetch(lane_.data() + home(lane));
    __builtin_prefetch(value_.data() + home(lane));
  }

  S get(std::int32_t lane, std::int32_t none) const {
    if (lane_.empty()) return 0;
    const std::size_t slot = find(lane, none);
    return lane_[slot] == none ? 0 : value_[slot];
  }

  void add(std::int32_t lane, S change, std::int32_t none) {
    if (lane_.empty()) resize(2, none);
    std::size_t slot = find(lane, none);
    if (lane_[slot] == none) {
      if (8 * static_cast<std::size_t>(used_ + 1) > 7 * lane_.size()) { // the longest that linear probing bears
        grow(none);
        slot = find(lane, none);
      }
      lane_[slot] = lane;
      ++used_;
    }
    value_[slot] += change;
  }

  void clear() { *this = LaneTable(); }

  // The table with these slots; false if there is none.
  bool restore(const LaneList<S> &slots, std::int32_t none) {
    clear();
    if (slots.count == 0) return true;
    int log = 2;
    while ((Index{1} << log) < slots.count) ++log;
    if (slots.count != Index{1} << log || log > 31) return false;
    resize(log, none);
    std::copy_n(slots.index, slots.count, lane_.begin());
    std::copy_n(slots.value, slots.count, value_.begin());
    for (const std::int32_t lane : lane_) used_ += lane != none;
    if (8 * used_ > 7 * slots.count) return false;
    for (std::size_t s = 0; s < lane_.size(); ++s) // every lane where it is looked for, and once
      if (lane_[s] == none ? value_[s] != 0 : find(lane_[s], none) != s) return false;
    return true;
  }

private:
  // Fibonacci hashing: the high bits of a product with 2^32 over the golden ratio.
  std::size_t home(std::int32_t lane) const {
    return static_cast<std::size_t>((static_cast<std::uint32_t>(lane) * 2654435769u) >> shift_);
  }
  std::size_t find(std::int32_t lane, std::int32_t none) const {
    const std::size_t mask = lane_.size() - 1;
    std::size_t slot = home(lane);
    while (lane_[slot] != lane && lane_[slot] != none) slot = (slot + 1) & mask;
    return slot;
  }
  void resize(int log, std::int32_t none) {
    shift_ = 32 - log;
    lane_.assign(std::size_t{1} << log, none);
    value_.assign(std::size_t{1} << log, S{0});
  }
  void grow(std::int32_t none) {
    const std::vector<std::int32_t> lane = std::move(lane_);
    const std::vector<S> value = std::move(value_);
    std::size_t kept = 0;
    for (const S v : value) kept += v != 0;
    int log = 2;
    while (5 * (kept + 1) > 4 * (std::size_t{1} << log)) ++log;
    resize(log, none);
    used_ = static_cast<Index>(kept);
    for (std::size_t s = 0; s < lane.size(); ++s)
      if (value[s] != 0) { // empty slots have no value
        const std::size_t slot = find(lane[s], none);
        lane_[slot] = lane[s];
        value_[slot] = value[s];
      }
  }

  std::vector<std::int32_t> lane_;
  std::vector<S> value_;
  Index used_ = 0;
  int shift_ = 32;
};

class SparseWeights {
public:
  // The last of the rows is the intercept's, if there is one.
  SparseWeights(Index n_rows, Index lanes, bool single_precision, bool intercept);

  Index lanes() const { return lanes_; }
  bool single_precision() const { return single_; }
  bool intercept() const { return intercept_; }
  Index n_entries() const; // of the features

  template <class S> std::vector<LaneTable<S>> &tables() {
    if constexpr (sizeof(S) == 4) return of_float_;
    else return of_double_;
  }
  const LaneRanking &ranking() const { return ranking_; }
  void add_to_intercept(std::int32_t lane, double change);

  void squared_norms(double *of_lane) const; // added to

  // The non-zeros of all rows as CSR, lanes in order. `take`: the tables are emptied on the way, so that there are never
  // two copies of all of it.
  void to_csr(std::vector<std::int64_t> &indptr, std::vector<std::int32_t> &lane, std::vector<double> &value, bool take);
  void state(State &);

private:
  template <class F> void with_tables(F f) const {
    if (single_) f(of_float_);
    else f(of_double_);
  }

  Index n_features_, lanes_;
  bool single_, intercept_;
  std::vector<LaneTable<float>> of_float_;
  std::vector<LaneTable<double>> of_double_;
  LaneRanking ranking_;
};

} // namespace mm
