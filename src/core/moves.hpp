// What the steps of some visits did to W, so that other copies of it can follow (side_by_side.hpp).
#pragma once

#include <vector>

#include "kernels.hpp"

namespace mm {

class MoveLog {
public:
  void clear();
  void note(const Move &move, const WeightsView &weights);

  Index size() const { return static_cast<Index>(entries_.size()); }
  // The move at a place. `change` has room for `stride` scalars, which a move by vectors needs.
  Move at(Index place, const WeightsView &weights, void *change) const;

private:
  struct Entry {
    Index row;
    Index n_changed;
    bool by_lanes;
    Index where, values; // the first of its lanes, or of its vectors, and of their values
  };
  std::vector<Entry> entries_;
  std::vector<Index> changed_;      // by vectors
  std::vector<std::int32_t> lanes_; // by lanes
  std::vector<double> values_;      // of vectors, which have the size of four, or one a lane
};

} // namespace mm
