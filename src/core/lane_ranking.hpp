// Lanes in the order of a value that each one has, the largest first: a tournament in a binary tree. A value changes in
// as many steps as the tree has levels, and the first few lanes are found without looking at the others.
//
// With sparse weights this is the row of the intercept, which every example has: a lane that none of an example's other
// features knows has the score that is ranked here (zero without an intercept).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace mm {

class LaneRanking {
public:
  explicit LaneRanking(std::int64_t lanes) : lanes_(static_cast<std::size_t>(lanes)) {
    while (width_ < lanes_) width_ *= 2;
    tree_.assign(2 * width_, -std::numeric_limits<double>::infinity());
    std::fill_n(tree_.begin() + static_cast<std::ptrdiff_t>(width_), lanes_, 0.0);
    for (std::size_t node = width_ - 1; node > 0; --node) tree_[node] = std::max(tree_[2 * node], tree_[2 * node + 1]);
  }

  const double *values() const { return tree_.data() + width_; }
  double operator[](std::int64_t lane) const { return tree_[width_ + static_cast<std::size_t>(lane)]; }

  void set(std::int64_t lane, double value) {
    std::size_t node = width_ + static_cast<std::size_t>(lane);
    tree_[node] = value;
    for (node /= 2; node > 0; node /= 2) {
      const double larger = std::max(tree_[2 * node], tree_[2 * node + 1]);
      if (tree_[node] == larger) break;
      tree_[node] = larger;
    }
  }

  // The first lanes in the order of (value, then number), those left out that `skips` says; `take` says whether to go on.
  // `open` is room for the nodes that are still to be looked at.
  template <class Skips, class Take> void visit(std::vector<std::size_t> &open, Skips skips, Take take) const {
    const auto after = [this](std::size_t a, std::size_t b) {
      return tree_[a] != tree_[b] ? tree_[a] < tree_[b] : first_leaf(a) > first_leaf(b);
    };
    open.assign(1, 1);
    while (!open.empty()) {
      std::pop_heap(open.begin(), open.end(), after);
      std::size_t node = open.back();
      open.pop_back();
      while (node < width_) { // down to the winner; the losers wait
        const std::size_t left = 2 * node, right = left + 1;
        const bool goes_left = tree_[left] >= tree_[right];
        open.push_back(goes_left ? right : left);
        std::push_heap(open.begin(), open.end(), after);
        node = goes_left ? left : right;
      }
      const std::size_t lane = node - width_;
      if (lane >= lanes_) return; // padding is ranked last
      if (!skips(static_cast<std::int64_t>(lane)) && !take(static_cast<std::int64_t>(lane))) return;
    }
  }

private:
  std::size_t first_leaf(std::size_t node) const {
    while (node < width_) node *= 2;
    return node;
  }

  std::size_t lanes_, width_ = 1;
  std::vector<double> tree_; // node n has the children 2 n and 2 n + 1; leaves begin at width_
};

} // namespace mm
