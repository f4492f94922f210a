// One-vs-rest: every lane is a binary machine of its own (paper 001: dual coordinate descent).
//
//   primal loss   C max(0, 1 - z s)  or its square C max(0, 1 - z s)^2,  z = +1 in the label's lane, else -1
//   dual          -alpha [+ alpha^2 / (4 C)],   0 <= alpha <= U,  U = C (hinge) or infinity (squared)
//   stored        a = z alpha, so that w = sum a x
//   step          alpha' = clip(alpha - G / (A + D), 0, U),  G = z s - 1 + D alpha,  D = 0 or 1/(2C)
//   implied       alpha = 2 C max(0, b),  b = 1 - z s: the dual that scores imply (squared; see primal_loops.hpp)
//
// The lane formulas are templates: four lanes at a time, or one plain double for the label's lane and
// for binary machines.
#pragma once

#include "subproblem.hpp"

namespace mm::MM_ISA {

template <bool Squared> struct OneVsRest {
  static constexpr bool separable = true;

  template <class T> static T lane_loss(T zs, double cap, double doubt = 0) {
    const T slack = larger(1 - zs + doubt, T{});
    return cap * (Squared ? slack * slack : slack);
  }

  template <class T> static T lane_dual(T alpha, double cap) {
    return Squared ? alpha * (alpha / (4 * cap) - 1) : -alpha;
  }

  template <class T> static T implied_dual(T residual, double cap)
    requires Squared
  {
    return 2 * cap * larger(residual, T{});
  }

  template <class T> struct LaneStep {
    T alpha, violation;
  };

  template <class T> static LaneStep<T> lane_step(T zs, T alpha, double curvature, double cap) {
    const double diagonal = Squared ? 1 / (2 * cap) : 0;
    const T gradient = zs - 1 + diagonal * alpha;
    T projected = alpha > 0 ? gradient : smaller(gradient, T{});
    T moved = larger(alpha - gradient * (1 / (curvature + diagonal)), T{});
    if (!Squared) {
      const T bound = splat<T>(cap);
      projected = alpha < bound ? projected : larger(projected, T{});
      moved = smaller(moved, bound);
    }
    return {moved, larger(projected, -projected)};
  }

  // Four lanes at a time, all taken for negatives; then the label's lane (or a lone lane) by itself.
  template <class Vector, class Scalar> static void each(const Example &e, Vector four, Scalar single) {
    if (e.lanes > 1)
      for (Index m = 0; m < e.lanes; m += 4) four(m);
    else if (e.label < 0) single(Index{0}, -1.0);
    if (e.label >= 0) single(e.label, 1.0);
  }

  static void loss(const double *s, const Example &e, double scale, double *parts) {
    const double kept = e.label >= 0 ? parts[e.label] : 0;
    each(
        e, [&](Index m) { store(parts + m, load<Double4>(parts + m) + lane_loss(-scale * load<Double4>(s + m), e.cap, e.doubt)); },
        [&](Index m, double z) { parts[m] = (z > 0 ? kept : parts[m]) + lane_loss(z * scale * s[m], e.cap, e.doubt); });
  }

  static void dual(const double *a, const Example &e, double *parts) {
    const double kept = e.label >= 0 ? parts[e.label] : 0;
    each(
        e, [&](Index m) { store(parts + m, load<Double4>(parts + m) + lane_dual(-load<Double4>(a + m), e.cap)); },
        [&](Index m, double z) { parts[m] = (z > 0 ? kept : parts[m]) + lane_dual(z * a[m], e.cap); });
  }

  static Solved solve(double *s, const double *a, double *next, const Example &e, double threshold) {
    const double cap = Squared ? kInfinity : e.cap;
    Double4 worst = {}, free = {};
    const Double4 one = splat<Double4>(1), zero = {};
    double worst_single = 0;
    bool free_single = false;
    const double own = e.label >= 0 ? s[e.label] : s[0];
    if (e.label >= 0) s[e.label] = -kInfinity; // as a negative it is at rest: the vector part passes it over
    each(
        e,
        [&](Index m) {
          const LaneStep<Double4> lane = lane_step(-load<Double4>(s + m), -load<Double4>(a + m), e.curvature, e.cap);
          worst = larger(worst, lane.violation);
          free += lane.alpha > 0 && lane.alpha < cap ? one : zero;
          store(next + m, -lane.alpha);
        },
        [&](Index m, double z) {
          const LaneStep<double> lane = lane_step(z * own, z * a[m], e.curvature, e.cap);
          worst_single = lane.violation;
          free_single = lane.alpha > 0 && lane.alpha < cap;
          next[m] = z * lane.alpha;
        });
    const double violation = larger(horizontal_max(worst), worst_single);
    return {violation, violation > threshold, horizontal_sum(free) == 0 && !free_single};
  }
};

} // namespace mm::MM_ISA
