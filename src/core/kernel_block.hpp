// The block solver of the kernel machines without a free bias: Crammer-Singer, Weston-Watkins and separable lanes.
//
// A round takes a working set of examples with all their duals, those of the largest violation, half of them new; a
// block of kernel rows; passes of the exact step (section 3 of the formulations) over the working set alone, until its
// violation is a tenth of where it began; then one update of the scores of all examples, and the certificate, which
// the scores give for free.
#pragma once

#include "kernel_machine.hpp"
#include "random.hpp"

namespace mm {

template <class T> class KernelBlock final : public KernelMachine {
public:
  KernelBlock(StoreView<T> rows, Formulation formulation, Index lanes, std::vector<std::int32_t> label,
              std::vector<double> cap, Index working_set, std::uint64_t seed);

  Round advance() override;
  Index n_examples() const override { return n_; }
  Index lanes() const override { return lanes_; }
  void duals(double *out) const override;
  void set_duals(const double *) override;

private:
  using Tile = typename StoreView<T>::Tile;
  enum class Phase { start, select, fetch, solve };

  Index n_parts() const { return formulation_ == Formulation::one_vs_rest ? lanes_ : 1; }
  KernelExamples examples();
  void select();
  bool fetch(); // whether all rows of the working set are there
  Index solve();
  Round certified(Index visited, bool stuck);

  StoreView<T> rows_;
  Formulation formulation_;
  Index n_, lanes_, stride_, most_;
  std::vector<std::int32_t> label_;
  std::vector<double> cap_, curvature_, alpha_, scores_, violation_, workspace_;
  Random random_;
  Phase phase_ = Phase::start;
  double largest_ = 0; // violation
  std::vector<std::int32_t> set_, before_;
  std::vector<char> in_set_;
  std::vector<Tile> tiles_;
  std::vector<T> square_;
  Index fetched_ = 0;
};

} // namespace mm
