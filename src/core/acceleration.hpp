// How strongly the passes are accelerated (Catalyst: they minimise the objective plus kappa/2 ||W - Z||^2, and Z is
// extrapolated after every stage of passes).
//
// The gap splits into the gap of the inner problem, which passes close, and kappa^2/2 ||W - Z||^2, which only the
// extrapolations do. For a given kappa the ratio
//   chi = (kappa^2/2 ||W - Z||^2 / P) / (gap / P)^2
// hardly changes from the first stages to the last, and grows as kappa^2: kappa can be steered by it. The best chi was
// found by experiment: small where the regulariser is most of the objective (classes that are nearly separable), a
// hundred times larger where the loss is. Too large a chi stalls, which a smaller one remedies.
#pragma once

#include <algorithm>
#include <cmath>

#include "state.hpp"

namespace mm {

struct Objectives { // estimates of a full pass
  double primal, dual;
  double regulariser; // 1/2 ||W||^2
  double distance;    // ||W - Z||^2
};

class Acceleration {
public:
  static double momentum(double kappa) {
    const double q = std::sqrt(1 / (1 + kappa));
    return (1 - q) / (1 + q);
  }

  // Else the estimates are far off, or there are none.
  static bool says_something(double primal, double dual) { return primal > dual && primal > 0; }

  // After a full pass: the kappa of the next stage.
  double steer(double kappa, const Objectives &seen) {
    if (!says_something(seen.primal, seen.dual)) return kappa;
    const double gap = std::min((seen.primal - seen.dual) / seen.primal, 1.0);
    watch_for_stall(gap);
    if (++stages_ <= kFirstStages) return kappa;
    const double chi = 0.5 * kappa * kappa * seen.distance / seen.primal / (gap * gap);
    const double loss_share = seen.dual > seen.regulariser ? 1 - seen.regulariser / seen.dual : 0.0;
    const double target = patience_factor_ * (0.04 + 2 * std::pow(loss_share, 4));
    const double change = std::pow(target / std::max(chi, 1e-12), 0.15);
    return std::clamp(kappa * std::clamp(change, 0.8, 1.25), 1e-6, 1e6);
  }

  void state(State &state) {
    state.number("stages", stages_);
    state.number("stalled", stalled_);
    state.number("gap_to_halve", gap_to_halve_);
    state.number("patience_factor", patience_factor_);
    state.check(stages_ < 1 << 30 && stalled_ <= kPatience, "an acceleration without end");
  }

private:
  void watch_for_stall(double gap) {
    if (gap <= 0.5 * gap_to_halve_) {
      gap_to_halve_ = gap;
      stalled_ = 0;
    } else if (++stalled_ >= kPatience) {
      patience_factor_ /= 3;
      gap_to_halve_ = gap;
      stalled_ = 0;
    }
  }

  static constexpr int kFirstStages = 2; // of W and Z on their way from zero, which say nothing
  static constexpr int kPatience = 80;   // stages in which the gap should halve
  int stages_ = 0, stalled_ = 0;
  double gap_to_halve_ = INFINITY;
  double patience_factor_ = 1;
};

} // namespace mm
