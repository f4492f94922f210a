// What the decomposition methods of Crammer-Singer and Weston-Watkins share: they move the duals of a few examples at a
// time, and keep the scores of all examples up to date after every step (002, section IV; F of 003, Figure 4), on wish
// with windows (window_loops.hpp).
#pragma once

#include "lane_machine.hpp"

namespace mm {

template <class T> class ScoredMachine : public LaneMachine<T> {
public:
  Round advance() final;
  void state(State &) override;

protected:
  using Base = LaneMachine<T>;
  using Base::rows_, Base::n_, Base::lanes_, Base::stride_, Base::cap_, Base::curvature_, Base::alpha_, Base::scores_;
  using Tile = typename StoreView<T>::Tile;
  enum class Progress { more, settled, stuck }; // settled: by the method's own stopping rule

  ScoredMachine(StoreView<T> rows, Formulation formulation, Index lanes, std::vector<std::int32_t> label,
                std::vector<double> cap);
  virtual Progress step() = 0; // one step of the method, or of its preparations

  KernelExamples examples();
  Windows windows() { return {state_.data(), top_.data(), low_.data()}; }
  void open_windows();            // from now on steps keep them; the method sets and refreshes them
  void spend(double values) { work_ += kWorkOfValue * values; } // scores or duals read or written
  void fetch(const std::int32_t *which, Index count, Tile *tiles);
  // New duals (count x stride) of some examples, whose kernel rows are the tiles. Whether any dual is another.
  bool take(const std::int32_t *which, Index count, const Tile *tiles, const double *next);

  Formulation formulation_;
  std::vector<std::int32_t> label_;
  std::vector<double> top_, low_; // windows
  std::vector<signed char> state_;

private:
  static constexpr double kWorkOfValue = 12; // multiply-adds of a GEMM in the time of one value

  bool start();
  Round certified(bool stuck);

  std::vector<double> workspace_;
  // changes of a step (LaneChanges)
  std::vector<Index> first_;
  std::vector<const T *> changed_;
  std::vector<double> by_;
  bool started_ = false;
  Index scored_ = 0;                   // examples whose first duals are in the scores
  double work_ = 0, uncertified_ = 0;  // in this call, since the last certificate
  Index visited_ = 0;
};

} // namespace mm
