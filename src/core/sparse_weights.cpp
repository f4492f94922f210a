#include "sparse_weights.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace mm {

SparseWeights::SparseWeights(Index n_rows, Index lanes, bool single_precision, bool intercept)
    : n_features_(n_rows - intercept), lanes_(lanes), single_(single_precision), intercept_(intercept),
      of_float_(static_cast<std::size_t>(single_precision ? n_features_ : 0)),
      of_double_(static_cast<std::size_t>(single_precision ? 0 : n_features_)), ranking_(lanes) {}

Index SparseWeights::n_entries() const {
  Index sum = 0;
  with_tables([&](const auto &tables) {
    for (const auto &table : tables) sum += table.used();
  });
  return sum;
}

void SparseWeights::add_to_intercept(std::int32_t lane, double change) {
  const double sum = ranking_[lane] + change;
  ranking_.set(lane, single_ ? static_cast<double>(static_cast<float>(sum)) : sum);
}

void SparseWeights::squared_norms(double *of_lane) const {
  with_tables([&](const auto &tables) {
    for (const auto &table : tables) {
      const auto slots = table.slots();
      for (Index t = 0; t < slots.count; ++t) {
        const double w = static_cast<double>(slots.value(t));
        if (w != 0) of_lane[slots.lane(t)] += w * w;
      }
    }
  });
  for (Index m = 0; m < lanes_; ++m) of_lane[m] += ranking_[m] * ranking_[m];
}

void SparseWeights::to_csr(std::vector<std::int64_t> &indptr, std::vector<std::int32_t> &lane,
                           std::vector<double> &value, bool take) {
  indptr.assign(1, 0);
  Index most = 0;
  with_tables([&](const auto &tables) { // exactly as much room as is needed: these arrays are large
    for (const auto &table : tables) {
      const auto slots = table.slots();
      for (Index t = 0; t < slots.count; ++t) most += slots.value(t) != 0;
    }
  });
  for (Index m = 0; m < lanes_; ++m) most += ranking_[m] != 0;
  lane.reserve(static_cast<std::size_t>(most));
  value.reserve(static_cast<std::size_t>(most));
  std::vector<std::pair<std::int32_t, double>> row;
  const auto end_row = [&] {
    std::sort(row.begin(), row.end());
    for (const auto &[m, w] : row) {
      lane.push_back(m);
      value.push_back(w);
    }
    row.clear();
    indptr.push_back(static_cast<std::int64_t>(lane.size()));
  };
  const auto read = [&](auto &tables) {
    for (auto &table : tables) {
      const auto slots = table.slots();
      for (Index t = 0; t < slots.count; ++t)
        if (slots.value(t) != 0) row.emplace_back(slots.lane(t), static_cast<double>(slots.value(t)));
      if (take) table.clear();
      end_row();
    }
  };
  if (single_) read(of_float_);
  else read(of_double_);
  if (!intercept_) return;
  for (Index m = 0; m < lanes_; ++m)
    if (ranking_[m] != 0) row.emplace_back(static_cast<std::int32_t>(m), ranking_[m]);
  if (take) ranking_ = LaneRanking(lanes_);
  end_row();
}

// Slots as they stand, empty ones too: a table that is filled anew would grow at other moments.
void SparseWeights::state(State &state) {
  const auto of = [&]<class S>(std::vector<LaneTable<S>> &tables) {
    std::vector<std::int64_t> counts(tables.size());
    std::vector<std::int32_t> lane;
    std::vector<S> value;
    if (!state.loads())
      for (std::size_t j = 0; j < tables.size(); ++j) {
        const SlotList<S> slots = tables[j].slots();
        counts[j] = slots.count;
        for (Index t = 0; t < slots.count; ++t) {
          lane.push_back(std::min(slots.lane(t), static_cast<std::int32_t>(lanes_)));
          value.push_back(slots.value(t));
        }
      }
    constexpr std::int64_t most = std::int64_t{1} << 40;
    state.array("slots", counts);
    state.indices("slot_lanes", lane, most, lanes_ + 1);
    state.list("slot_values", value, most);
    if (!state.loads()) return;
    state.check(lane.size() == value.size(), "weights that differ in number");
    std::size_t at = 0;
    for (std::size_t j = 0; j < tables.size(); ++j) {
      state.check(counts[j] >= 0 && static_cast<std::size_t>(counts[j]) <= lane.size() - at,
                  "lists of weights that end elsewhere");
      const std::size_t count = static_cast<std::size_t>(counts[j]);
      state.check(tables[j].restore(lane.data() + at, value.data() + at, static_cast<Index>(count),
                                    static_cast<std::int32_t>(lanes_)),
                  "a list of weights that is none");
      at += count;
    }
    state.check(at == lane.size(), "lists of weights that end elsewhere");
  };
  if (single_) of(of_float_);
  else of(of_double_);
  std::vector<double> intercept(static_cast<std::size_t>(lanes_));
  for (Index m = 0; m < lanes_; ++m) intercept[static_cast<std::size_t>(m)] = ranking_[m];
  state.array("intercept", intercept);
  if (state.loads())
    for (Index m = 0; m < lanes_; ++m) ranking_.set(m, intercept[static_cast<std::size_t>(m)]);
}

} // namespace mm
