// A binary machine by SMO, as LIBSVM has it: two duals at a time, of all examples. The problem is that of smo.hpp.
//
// i has the largest v of the duals that may rise; j, of those that may fall, makes the largest gain with it (Fan, Chen,
// Lin 2005); stop when max v - min v <= tolerance (002 eq. (22)). Without a bias there is no constraint, and one dual
// moves at a time, the one that gains most.
// With shrinking, examples at a bound that are held there by more than any violation are left out. Now and then the
// scores of all are made up for, all are certified, and those that came into play return.
#pragma once

#include "binary_certificate.hpp"

namespace mm {

template <class T> class PlainSmo final : public KernelMachine {
public:
  // sign: +1 or -1 for every local example.
  PlainSmo(StoreView<T> rows, const std::vector<std::int32_t> &sign, std::vector<double> cap, bool free_bias,
           bool shrinking, double tolerance);

  Round advance() override;
  Index n_examples() const override { return n_; }
  Index lanes() const override { return 1; }
  // Duals and scores are those of the last certificate, if there was one: in between, scores lag behind.
  void duals(double *out) const override {
    const std::vector<double> &duals = told_duals_.empty() ? a_ : told_duals_;
    std::copy(duals.begin(), duals.end(), out);
  }
  void set_duals(const double *duals) override { std::copy_n(duals, n_, a_.begin()); }
  void scores(const Index *examples, Index count, double *out) const override;
  void state(State &) override;

private:
  using Tile = typename StoreView<T>::Tile;

  bool score();                // whether the scores of all examples are those of a_ now
  Round certified();
  void leave_out();            // what is held at its bound
  void play(std::vector<std::int32_t> examples, std::vector<double> level);
  bool step();                 // false: the violation of the examples in play is within the tolerance
  const T *row(Index t, std::vector<T> &buffer);
  void charge(Index i);        // the work of a row that is not stored
  SmoChoice pull(const T *Ki, const T *Kj, double change);
  void move(Index t, double change);
  void note_state(Index t);
  double violation() const { return free_bias_ ? levels_.top - levels_.low : std::max(levels_.top, -levels_.low); }

  StoreView<T> rows_;
  Index n_;
  std::vector<double> cap_;
  BinaryBounds bounds_;
  bool free_bias_, shrinking_;
  double tolerance_;
  std::vector<double> a_, scores_, v_, scored_; // scored: the duals that the scores are of
  std::vector<double> told_duals_, told_scores_;
  bool stepping_ = false, tried_ = false;
  // The examples in play, in order, and what the steps need of them.
  std::vector<std::int32_t> play_;
  std::vector<double> curvature_, level_; // level: v
  std::vector<signed char> state_;
  std::vector<T> first_row_, second_row_;
  Index next_ = -1;                       // place of i
  BinaryLevels levels_{0, 0};
  Index steps_ = 0, visited_ = 0, n_changed_ = 0;
  double work_ = 0, uncertified_ = 0;
};

} // namespace mm
