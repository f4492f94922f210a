// Weston-Watkins by decomposition in a box, paper 002 section III (BSVM).
//
//   min_alpha 1/2 alpha'Q alpha - e'alpha,   0 <= alpha_i^m <= C_i, m != y_i        (11), with margin 1 for its 2
// A working set B of q variables (i, m): up to half of them free ones (0 < alpha < C) whose gradient is closest to zero,
// the rest those that violate optimality most. The problem (12) in B is solved exactly. The gradient is read off the
// scores,
//   g_i^m = s_i^{y_i} - s_i^m - 1,
// and a column of Q is what one variable does to them, so no more of Q is formed than its part in B.
// The worst variables are found with the help of windows (window_loops.hpp) of the scores of the variables that may rise
// (from above) and fall (from below). Without shrinking, every variable is looked at in every step.
#pragma once

#include "box_qp.hpp"
#include "scored_machine.hpp"

namespace mm {

// Q of (i, m) and (j, s) in units of K_ij. Of the rules for a column of Q in 002, in their order: the same class m = s;
// m = y_j (where the paper prints y_i, and Q would not be symmetric); y_i = y_j; y_i = s.
inline double q_factor(std::int32_t y_i, std::int32_t m, std::int32_t y_j, std::int32_t s) {
  return (m == s ? 1 : 0) - (m == y_j ? 1 : 0) + (y_i == y_j ? 1 : 0) - (y_i == s ? 1 : 0);
}

template <class T> class BoxDecomposition final : public ScoredMachine<T> {
public:
  BoxDecomposition(StoreView<T> rows, Index lanes, std::vector<std::int32_t> label, std::vector<double> cap,
                   Index working_set, bool shrinking, double tolerance);
  void state(State &) override;

private:
  using Base = ScoredMachine<T>;
  using typename Base::Progress;
  using typename Base::Tile;
  using Base::n_, Base::lanes_, Base::stride_, Base::scores_, Base::alpha_, Base::cap_, Base::label_, Base::top_,
      Base::low_, Base::state_;

  struct Variable {
    std::int32_t i, m;
    bool operator==(const Variable &) const = default;
  };
  // The best few of many, best first.
  struct Best {
    std::vector<double> key;
    std::vector<Variable> what;
    std::size_t count = 0;
    double to_beat(std::size_t wanted) const; // to be among so many; -infinity while there is room
    void consider(double key, Variable);
  };

  Progress step() override;
  void look(Index i);             // at the variables of an example, by which its window becomes exact
  void choose();                  // the working set
  Progress solve();
  void note_states(Index i);
  std::size_t at(Variable v) const { return static_cast<std::size_t>(v.m * n_ + v.i); }
  double gradient(Variable v) const { return own_[static_cast<std::size_t>(v.i)] - scores_[at(v)] - 1; }

  static constexpr signed char listed = 8; // state of a free variable
  struct Free {
    std::uint32_t i, at;
  };

  std::size_t working_set_;
  bool shrinking_;
  double tolerance_;
  bool ready_ = false;
  Index steps_ = 0;
  std::vector<double> own_;       // scores of the examples' own classes
  std::vector<Free> free_;        // variables
  bool stale_ = false;            // some are not free any more
  Best nearest_, worst_;          // free ones by -|g|, the others by violation
  std::vector<Variable> set_;
  BoxQp qp_;
};

} // namespace mm
