// The block solver of the kernel machines without a free bias: Crammer-Singer, Weston-Watkins and separable lanes.
//
// The working set holds examples with all their duals: half of it those of the largest violation, half those with duals
// between their bounds, which the moves of the others concern first. Passes of
// the formulation's exact step over the set alone bring its violation to a tenth of where it began. Where plain passes
// do not get there soon, they are accelerated as those of the linear machines (Catalyst): they minimise the
// objective plus kappa/2 ||W - Z||^2 for a Z that is extrapolated after every stage. Scores are linear in W, so the
// scores of W and Z are all that is needed of them.
#pragma once

#include "random.hpp"
#include "working_set.hpp"

namespace mm {

template <class T> class KernelBlock final : public WorkingSetMachine<T> {
public:
  KernelBlock(StoreView<T> rows, Formulation formulation, Index lanes, std::vector<std::int32_t> label,
              std::vector<double> cap, Index working_set, bool shrinking, std::uint64_t seed);
  void state(State &) override;

private:
  void select() override;
  bool solve() override;
  Round certified() override;

  struct Working; // the working set's own copy of everything
  bool free(std::size_t i) const; // whether a dual of example i is strictly between its bounds
  void plain_passes(Working &);
  void accelerated_passes(Working &);

  Index n_parts() const { return formulation_ == Formulation::one_vs_rest ? this->lanes_ : 1; }

  Formulation formulation_;
  std::vector<std::int32_t> label_;
  std::vector<double> violation_, workspace_;
  Random random_;
  bool shrinking_; // whether passes over the set may leave out examples at rest
  int stages_;     // of accelerated passes, at most
  double kappa_;
};

} // namespace mm
