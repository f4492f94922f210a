// W with very many lanes, of which a feature knows few: W_jm is not zero only where an example with feature j has a dual
// of class m. A list of (lane, value) a feature, as a table with open addressing: additions come at random lanes, and
// scores run over whole tables.
//
// Conventions
//   slots  an empty one has the value 0 and a lane from `lanes` on, which is none: loops over slots need no branch, but
//          room for kNoLanes more; those are several, lest each empty slot waits for the sum of the one before
//   ranking  the row of the intercept (see lane_ranking.hpp); zeros without one
//
// Values of zero stay until a table grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lane_ranking.hpp"
#include "rows.hpp"
#include "state.hpp"

namespace mm {

inline constexpr std::int32_t kNoLanes = 8;

// A lane and its value side by side: additions and look-ups come at random, and then touch one line of the cache.
template <class S> struct __attribute__((packed, aligned(4))) LaneSlot {
  std::int32_t lane;
  S value;
};

// The slots of a table.
template <class S> struct SlotList {
  const LaneSlot<S> *slot;
  Index count;

  std::int32_t lane(Index t) const { return slot[t].lane; }
  S value(Index t) const { return slot[t].value; }
  // The slots from t on, about as many as there are in a round of LaneScores::add.
  void prefetch(Index t) const {
    if (t >= count) return;
    __builtin_prefetch(slot + t);
    __builtin_prefetch(slot + t + 8);
  }
};

// The table of one feature.
template <class S> class LaneTable {
public:
  SlotList<S> slots() const { return {slots_.data(), static_cast<Index>(slots_.size())}; }
  Index used() const { return used_; }

  void prefetch(std::int32_t lane) const {
    if (!slots_.empty()) __builtin_prefetch(slots_.data() + home(lane));
  }

  S get(std::int32_t lane, std::int32_t none) const {
    return slots_.empty() ? 0 : slots_[find(lane, none)].value; // an empty slot has the value 0
  }

  void add(std::int32_t lane, S change, std::int32_t none) {
    if (slots_.empty()) resize(2, none);
    std::size_t slot = find(lane, none);
    if (slots_[slot].lane >= none) {
      if (8 * static_cast<std::size_t>(used_ + 1) > 7 * slots_.size()) { // the longest that linear probing bears
        grow(none);
        slot = find(lane, none);
      }
      slots_[slot].lane = lane;
      ++used_;
    }
    slots_[slot].value += change;
  }

  void clear() { *this = LaneTable(); }

  // The table with these slots; false if there is none.
  bool restore(const std::int32_t *lane, const S *value, Index count, std::int32_t none) {
    clear();
    if (count == 0) return true;
    int log = 2;
    while ((Index{1} << log) < count) ++log;
    if (count != Index{1} << log || log > 31) return false;
    resize(log, none);
    for (Index t = 0; t < count; ++t) {
      LaneSlot<S> &slot = slots_[static_cast<std::size_t>(t)];
      if (lane[t] < none) slot.lane = lane[t], ++used_;
      slot.value = value[t];
    }
    if (8 * used_ > 7 * count) return false;
    for (std::size_t s = 0; s < slots_.size(); ++s) // every lane where it is looked for, and once
      if (slots_[s].lane >= none ? slots_[s].value != 0 : find(slots_[s].lane, none) != s) return false;
    return true;
  }

private:
  // Fibonacci hashing: the high bits of a product with 2^32 over the golden ratio.
  std::size_t home(std::int32_t lane) const {
    return static_cast<std::size_t>((static_cast<std::uint32_t>(lane) * 2654435769u) >> shift_);
  }
  std::size_t find(std::int32_t lane, std::int32_t none) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = home(lane);
    while (slots_[slot].lane != lane && slots_[slot].lane < none) slot = (slot + 1) & mask;
    return slot;
  }
  void resize(int log, std::int32_t none) {
    shift_ = 32 - log;
    slots_.resize(std::size_t{1} << log);
    for (std::size_t s = 0; s < slots_.size(); ++s) slots_[s] = {none + static_cast<std::int32_t>(s) % kNoLanes, S{0}};
  }
  void grow(std::int32_t none) {
    const std::vector<LaneSlot<S>> before = std::move(slots_);
    std::size_t kept = 0;
    for (const LaneSlot<S> &slot : before) kept += slot.value != 0;
    int log = 2;
    while (5 * (kept + 1) > 4 * (std::size_t{1} << log)) ++log;
    resize(log, none);
    used_ = static_cast<Index>(kept);
    for (const LaneSlot<S> &slot : before)
      if (slot.value != 0) slots_[find(slot.lane, none)] = slot; // empty slots have no value
  }

  std::vector<LaneSlot<S>> slots_;
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
