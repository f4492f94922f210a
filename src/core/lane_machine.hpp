// What a machine keeps whose examples have a dual and a score in each of its lanes.
#pragma once

#include "kernel_machine.hpp"

namespace mm {

// The certificate of examples at their scores (lanes x n, x.ld apart); `violation` receives one number an example.
inline Round lane_certificate(Formulation formulation, const KernelExamples &x, const double *scores,
                              double *violation) {
  const std::size_t room = static_cast<std::size_t>(parts_size(x.lanes));
  std::vector<double> loss(room), dual(room), quadratic(room);
  Scanned scanned{violation, loss.data(), dual.data(), quadratic.data()};
  kernels().scan[static_cast<int>(formulation)](x, scores, 0, x.n, scanned);
  Round round;
  round.complete = true;
  for (Index i = 0; i < x.n; ++i) round.violation = std::max(round.violation, violation[i]);
  const Index parts = formulation == Formulation::one_vs_rest ? x.lanes : 1;
  for (std::size_t p = 0; p < static_cast<std::size_t>(parts); ++p) {
    const double primal = 0.5 * quadratic[p] + loss[p], f = 0.5 * quadratic[p] + dual[p];
    round.primal += primal;
    round.dual -= f;
    round.judge(primal + f, primal);
  }
  return round;
}

template <class T> class LaneMachine : public KernelMachine {
public:
  Index n_examples() const final { return n_; }
  Index lanes() const final { return lanes_; }

  void duals(double *out) const final {
    for (Index i = 0; i < n_; ++i) std::copy_n(alpha_.data() + i * stride_, lanes_, out + i * lanes_);
  }
  void set_duals(const double *duals) final {
    for (Index i = 0; i < n_; ++i) std::copy_n(duals + i * lanes_, lanes_, alpha_.data() + i * stride_);
  }
  void scores(const Index *examples, Index count, double *out) const final {
    for (Index r = 0; r < count; ++r)
      for (Index m = 0; m < lanes_; ++m) out[r * lanes_ + m] = scores_[static_cast<std::size_t>(m * n_ + examples[r])];
  }

protected:
  LaneMachine(StoreView<T> rows, Index lanes, std::vector<double> cap)
      : rows_(std::move(rows)), n_(rows_.n()), lanes_(lanes), stride_(padded(lanes, 4)), cap_(std::move(cap)) {
    const std::size_t n = static_cast<std::size_t>(n_);
    for (Index i = 0; i < n_; ++i) curvature_.push_back(std::max(rows_.diagonal(i), kLeastCurvature));
    alpha_.resize(n * static_cast<std::size_t>(stride_));
    scores_.resize(n * static_cast<std::size_t>(lanes_));
  }

  void state_of_lanes(State &state) {
    state.part("rows", rows_);
    state.array("alpha", alpha_);
    state.array("scores", scores_);
  }

  // Whether a dual of example i is not zero.
  bool in_use(Index i) const {
    const double *const a = alpha_.data() + i * stride_;
    return std::any_of(a, a + lanes_, [](double v) { return v != 0; });
  }

  StoreView<T> rows_;
  Index n_, lanes_, stride_;
  std::vector<double> cap_, curvature_, alpha_; // alpha: n x stride
  std::vector<double> scores_;                  // lanes x n
};

} // namespace mm
