// Crammer-Singer, the duals of one example at a time: papers 003, 002 (section IV) and 004 as one method with three
// strategies.
//
//   selection   which value an example is selected by, and in which order
//     cyclic, random   in order, at random (003, section 4); value: the violation psi
//     kkt              psi, 003 eq. (32) and 002 eq. (20)
//     amg, bmg         approximate and true gain of a step, 004
//   threshold   a round takes the examples whose value exceeds rho
//     exponential, linear, logarithmic   rho = epsilon(t), which cools with the number t of rounds (003, section 7)
//     max, mean        rho = mu max V, rho = mean V at the begin of the round (004)
//   step        how the duals of the example move: see decomposition_loops.hpp
// A round goes through the examples and takes a step on every one whose value, at its turn, exceeds rho. Largest first:
// kkt with a cooling threshold takes the largest value again and again, until none exceeds rho (003 Figure 4); max with
// mu = 1 does so with any value (002 eq. (20)).
// With shrinking, a round looks mostly at the active set of 003, the examples with duals other than zero; among the
// rest, only when no active one exceeds rho.
//
// The largest value is found with the help of windows (window_loops.hpp) of the gradients: exactly, but few examples are
// looked at.
#pragma once

#include "random.hpp"
#include "scored_machine.hpp"

namespace mm {

struct Strategy {
  enum class Selection : int { cyclic, random, kkt, amg, bmg } selection;
  enum class Threshold : int { exponential, linear, logarithmic, max, mean } threshold;
  Step step;
  double factor;   // mu
  bool shrinking;
  bool cooling;    // else epsilon(t) is `tolerance` from the start
  double tolerance; // of the violation: epsilon of 003's psi < epsilon beta and of 002 eq. (21)
};

template <class T> class Decomposition final : public ScoredMachine<T> {
public:
  Decomposition(StoreView<T> rows, Index lanes, std::vector<std::int32_t> label, std::vector<double> cap,
                const Strategy &strategy, std::uint64_t seed);
  void state(State &) override;

private:
  using Base = ScoredMachine<T>;
  using typename Base::Progress;
  using typename Base::Tile;
  using Base::n_, Base::lanes_, Base::stride_, Base::scores_, Base::alpha_, Base::curvature_, Base::cap_,
      Base::label_, Base::top_, Base::low_, Base::state_;

  Progress step() override;
  Progress begin_round();
  double threshold(double largest, double mean);
  double cooled();
  Worth look(Index i);             // at the value of an example, by which its window becomes exact
  Index largest(const std::vector<signed char> &among, double above);
  Index next_in_order();
  Index next();                    // example to take a step on, or -1 when the round is over
  void begin_pass(bool whole);
  void shuffle(std::vector<std::int32_t> &order);
  void note_states(Index i);

  Strategy strategy_;
  bool largest_first_;
  Random random_;
  bool open_ = false;              // a round is going on
  int rounds_ = 0;                 // t
  double epsilon_;                 // logarithmic: the last epsilon(t)
  double rho_ = 0, accuracy_ = 0;
  Index moved_ = 0;                // steps of this round that changed duals
  double factor_ = 0;              // amg, bmg: their value is at most factor * violation^2
  std::vector<signed char> used_, every_; // the active set, and all; as masks, 0 or -1
  std::vector<std::int32_t> all_;  // in the order of the passes
  // passes of a round that is not largest first
  std::vector<std::int32_t> order_;
  std::size_t at_ = 0;
  Index moved_in_pass_ = 0;
  int passes_ = 0;
};

} // namespace mm
