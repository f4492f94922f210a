// Weston-Watkins (paper 000, eq. (14)-(21), with the signs of its gradient (17)).
//
//   primal loss   C sum_{m != y} xi_m   or C sum xi_m^2,   xi_m = max(0, 1 - s_y + s_m)
//   dual          sum_{m != y} (-alpha_m [+ alpha_m^2 / (4 C)]),   0 <= alpha_m <= C (hinge only)
//   stored        a_m = -alpha_m, a_y = sum alpha: then w_m = sum a_m x, and the a sum to zero
//   step          alpha'_m = clip(r (v_m - gamma), 0, C),   gamma = sum alpha',
//                 v_m = (1 - s_y + s_m)/A + alpha_m + sum alpha,   r = A / (A + 1/(2C)) (hinge: 1)
// gamma is the root of a decreasing piecewise linear function, neither convex nor concave: Newton's
// method inside strict brackets, bisection where it would leave them, warm-started at the old sum.
#pragma once

#include "subproblem.hpp"

namespace mm::MM_ISA {

template <bool Squared> struct WestonWatkins {
  static constexpr bool separable = false;

  static Double4 losses(double *s, const Example &e, Double4 scales) {
    const double own = s[e.label];
    s[e.label] = -kInfinity;
    Double4 sum = {};
    for (Index m = 0; m < e.lanes; ++m) {
      const Double4 slack = larger(scales * (s[m] - own) + 1 + e.doubt, Double4{});
      sum += Squared ? slack * slack : slack;
    }
    s[e.label] = own;
    return e.cap * sum;
  }

  static void dual(const double *a, const Example &e, double *parts) {
    parts[0] -= a[e.label];
    if (!Squared) return;
    const double inverse = 1 / (4 * e.cap); // by which a dual is divided before it is squared: its square may be zero
    Double4 sum = {};
    for (Index m = 0; m < e.lanes; m += 4) {
      const Double4 v = load<Double4>(a + m);
      sum += v * (v * inverse);
    }
    const double own = a[e.label];
    parts[0] += horizontal_sum(sum) - own * (own * inverse);
  }

  static Solved solve(double *s, const double *a, double *next, const Example &e, double threshold) {
    const Index y = e.label;
    const double diagonal = Squared ? 1 / (2 * e.cap) : 0;
    const double cap = Squared ? kInfinity : e.cap;
    const double own = s[y];
    const Double4 zero = {}, one = splat<Double4>(1);

    // Violation (18), with -g = 1 - s_y + s_m - diagonal alpha_m.
    s[y] = -kInfinity;
    Double4 worst = zero;
    for (Index m = 0; m < e.lanes; m += 4) {
      const Double4 alpha = -load<Double4>(a + m);
      const Double4 down = load<Double4>(s + m) + (1 - own) - diagonal * alpha; // -g
      const Double4 up_room = alpha < cap ? down : zero;
      const Double4 down_room = alpha > 0 ? -down : zero;
      worst = larger(worst, larger(up_room, down_room));
    }
    const double violation = horizontal_max(worst); // the lane of y: alpha < 0 there, and down = -infinity
    if (!(violation > threshold)) return {violation, false, false};

    const double A = e.curvature;
    const double inverse = 1 / A;
    const double ratio = A / (A + diagonal);
    const double old_sum = a[y];
    for (Index m = 0; m < e.lanes; m += 4) {
      const Double4 v = (load<Double4>(s + m) + (1 - own)) * inverse - load<Double4>(a + m) + old_sum;
      store(s + m, v);
    }
    s[y] = -kInfinity;

    double gamma = old_sum, lower = 0, upper = kInfinity;
    double free_before = -1, clipped_before = -1;
    for (int pass = 0; pass < 200; ++pass) {
      Double4 sum = zero, free = zero, clipped = zero;
      for (Index m = 0; m < e.lanes; m += 4) {
        const Double4 value = ratio * (load<Double4>(s + m) - gamma);
        const Double4 inside = smaller(larger(value, zero), splat<Double4>(cap));
        sum += inside;
        free += inside == value ? one : zero;
        clipped += value > cap ? one : zero;
      }
      const double excess = horizontal_sum(sum) - gamma;
      const double n_free = horizontal_sum(free), n_clipped = horizontal_sum(clipped);
      if (excess == 0) break;
      if (excess > 0) lower = larger(lower, gamma);
      else upper = smaller(upper, gamma);
      double proposal = gamma + excess / (1 + ratio * n_free);
      const bool settled = n_free == free_before && n_clipped == clipped_before;
      free_before = n_free;
      clipped_before = n_clipped;
      if (settled && __builtin_fabs(excess) <= 1e-15 * (gamma + 1e-300) * (1 + n_free)) break;
      if (!(proposal > lower && proposal < upper)) {
        if (upper == kInfinity) upper = 2 * gamma + __builtin_fabs(excess);
        proposal = 0.5 * (lower + upper);
        if (proposal == lower || proposal == upper) break; // the bracket is one rounding wide
      }
      gamma = proposal;
    }

    Double4 sum = zero, free = zero;
    for (Index m = 0; m < e.lanes; m += 4) {
      const Double4 value = smaller(larger(ratio * (load<Double4>(s + m) - gamma), zero), splat<Double4>(cap));
      store(next + m, -value);
      sum += value;
      free += value > 0 && value < cap ? one : zero;
    }
    next[y] = horizontal_sum(sum);
    return {violation, true, horizontal_sum(free) == 0};
  }
};

} // namespace mm::MM_ISA
