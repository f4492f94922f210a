// What a machine keeps whose examples have a dual and a score in each of its lanes.
#pragma once

#include "kernel_machine.hpp"

namespace mm {

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
