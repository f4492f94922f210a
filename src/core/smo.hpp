// The block solver of a binary machine with a free bias, as LIBSVM has it: SMO on a working set at a time.
//
//   primal   min_{w,b} 1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i (w.x_i + b))
//   dual     min_a f = 1/2 a'Ka - y'a,   sum a = 0,   a_i between 0 and y_i C_i     (a = y alpha, scores = K a)
// With v = y - scores: optimal when max v over {a < upper} <= min v over {a > lower}. The bias that minimises the
// primal at given scores is a weighted quantile of v, so every round ends with a certificate.
#pragma once

#include "kernel_machine.hpp"

namespace mm {

template <class T> class Smo final : public KernelMachine {
public:
  // sign: +1 or -1 for every local example.
  Smo(StoreView<T> rows, std::vector<std::int32_t> sign, std::vector<double> cap, Index working_set);

  Round advance() override;
  Index n_examples() const override { return n_; }
  Index lanes() const override { return 1; }
  void duals(double *out) const override { std::copy(a_.begin(), a_.end(), out); }
  void set_duals(const double *duals) override { std::copy_n(duals, n_, a_.begin()); }
  double bias() const override { return bias_; }

private:
  using Tile = typename StoreView<T>::Tile;
  enum class Phase { start, select, fetch, solve };

  void select();
  bool fetch();
  Index solve();
  void add(const std::vector<std::int32_t> &which, const std::vector<double> &change, Index stride);
  Round certified(Index visited, bool stuck);

  StoreView<T> rows_;
  Index n_, most_;
  std::vector<double> cap_, curvature_, upper_, lower_, a_, scores_, v_;
  Phase phase_ = Phase::start;
  double top_ = 0, low_ = 0; // max v over {a < upper}, min v over {a > lower}
  double bias_ = 0;
  std::vector<std::int32_t> set_;
  std::vector<char> in_set_;
  std::vector<Tile> tiles_;
  std::vector<T> square_;
  Index fetched_ = 0;
};

} // namespace mm
