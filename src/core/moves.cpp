#include "moves.hpp"

#include <cstring>

namespace mm {

namespace {
constexpr Index kDoubles = 4; // of the size of a vector
constexpr std::size_t kVector = kDoubles * sizeof(double);
std::size_t size_of_scalar(const WeightsView &weights) { return weights.single_precision ? 4 : 8; }
std::size_t offset(Index lane, const WeightsView &weights) {
  return static_cast<std::size_t>(lane) * size_of_scalar(weights);
}
} // namespace

void MoveLog::clear() {
  entries_.clear();
  changed_.clear();
  lanes_.clear();
  values_.clear();
}

void MoveLog::note(const Move &move, const WeightsView &weights) {
  const bool by_lanes = move.lanes != nullptr;
  const auto values = static_cast<Index>(values_.size());
  const auto where = static_cast<Index>(by_lanes ? lanes_.size() : changed_.size());
  if (by_lanes) {
    const double *change = static_cast<const double *>(move.change);
    lanes_.insert(lanes_.end(), move.lanes, move.lanes + move.n_changed);
    values_.insert(values_.end(), change, change + move.n_changed);
  } else {
    const char *change = static_cast<const char *>(move.change);
    changed_.insert(changed_.end(), move.changed, move.changed + move.n_changed);
    values_.resize(values_.size() + static_cast<std::size_t>(move.n_changed * kDoubles));
    for (Index b = 0; b < move.n_changed; ++b)
      std::memcpy(values_.data() + values + b * kDoubles, change + offset(move.changed[b], weights), kVector);
  }
  entries_.push_back({move.row, move.n_changed, by_lanes, where, values});
}

Move MoveLog::at(Index place, const WeightsView &weights, void *change) const {
  const Entry &entry = entries_[static_cast<std::size_t>(place)];
  const double *values = values_.data() + entry.values;
  if (entry.by_lanes) return {entry.row, values, nullptr, lanes_.data() + entry.where, entry.n_changed};
  const Index *changed = changed_.data() + entry.where;
  std::memset(change, 0, offset(weights.stride, weights));
  for (Index b = 0; b < entry.n_changed; ++b)
    std::memcpy(static_cast<char *>(change) + offset(changed[b], weights), values + b * kDoubles, kVector);
  return {entry.row, change, changed, nullptr, entry.n_changed};
}

} // namespace mm
