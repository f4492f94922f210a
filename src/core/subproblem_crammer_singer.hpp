// Crammer-Singer (paper 000, eq. (1)-(10); squared hinge: Lee and Lin 2013).
//
//   primal loss   C xi        or C xi^2,   xi = max_m (s_m + e^m) - s_y
//   dual          -a_y [+ a_y^2 / (4 C)]   with a_m <= 0 (m != y), sum a = 0, a_y <= C (hinge only)
//   step          min_a' A/2 ||a' - a||^2 + g.(a' - a) [+ a'_y^2 / (4 C)],  g = s + e
//
// With B = g - A a the minimiser is a'_m = min(0, (beta - B_m) / A) for m != y, where beta solves
//   sum_{m != y} max(0, B_m - beta) = min(r (beta - B_y), R)
//   hinge          r = 1,                   R = A C
//   squared hinge  r = A / (A + 1/(2C)),    R infinite
// The difference of the two sides is convex and piecewise linear in beta, so Newton's method from the left is monotone
// and exact once the set of positive terms stands still: a few passes over the lanes, no sorting. For the hinge this
// is sum_m max(0, D_m - beta) = A C of the paper, D = B but D_y = B_y + A C, without the digits that B_y would lose
// beside a large A C.
#pragma once

#include "subproblem.hpp"

namespace mm::MM_ISA {

template <bool Squared> struct CrammerSinger {
  static constexpr bool separable = false;

  // g less the constant 1, in place of s: only differences of g matter.
  static void margins(double *s, const Example &e) { s[e.label] -= 1; }

  // The largest g, and the smallest one over the duals below their cap: their difference is the violation (6).
  struct Range {
    double top, low;
  };
  static Range range(const double *g, const double *a, const Example &e) {
    Double4 top = splat<Double4>(-kInfinity), low = splat<Double4>(kInfinity);
    for (Index m = 0; m < e.lanes; m += 4) {
      const Double4 v = load<Double4>(g + m);
      top = larger(top, v);
      low = smaller(low, load<Double4>(a + m) < 0 ? v : splat<Double4>(kInfinity));
    }
    double lowest = horizontal_min(low);
    if (Squared || a[e.label] < e.cap) lowest = smaller(lowest, g[e.label]);
    return {horizontal_max(top), lowest};
  }

  static Double4 losses(double *s, const Example &e, Double4 scales) {
    const double own = s[e.label];
    s[e.label] = -kInfinity;
    Double4 top = splat<Double4>(-kInfinity);
    for (Index m = 0; m < e.lanes; m += 4) top = larger(top, load<Double4>(s + m));
    s[e.label] = own;
    const Double4 slack = larger(scales * (horizontal_max(top) - own) + 1, Double4{});
    return e.cap * (Squared ? slack * slack : slack);
  }

  static void dual(const double *a, const Example &e, double *parts) {
    const double ay = a[e.label];
    parts[0] += Squared ? ay * (ay / (4 * e.cap) - 1) : -ay;
  }

  static Solved solve(double *s, const double *a, double *next, const Example &e, double threshold) {
    const Index y = e.label;
    const double diagonal = Squared ? 1 / (2 * e.cap) : 0;
    margins(s, e);
    const double raw = s[y];
    s[y] += diagonal * a[y];

    const Range g = range(s, a, e);
    const double violation = larger(g.top - g.low, 0.0);
    if (!(violation > threshold)) return {violation, false, false};

    // B of the other classes less the largest of them, so that A C is not lost beside large scores.
    const double A = e.curvature;
    const double room = Squared ? kInfinity : A * e.cap;
    const double ratio = A / (A + diagonal);
    s[y] = -kInfinity;
    Double4 high = splat<Double4>(-kInfinity);
    for (Index m = 0; m < e.lanes; m += 4) {
      const Double4 B = load<Double4>(s + m) - A * load<Double4>(a + m);
      store(s + m, B);
      high = larger(high, B);
    }
    const double shift = horizontal_max(high);
    const double By = (raw - A * a[y]) - shift;
    for (Index m = 0; m < e.lanes; m += 4) store(s + m, load<Double4>(s + m) - shift);

    // Left of the solution: there the largest term alone, 0 - beta, is as large as the right-hand side.
    double beta = larger(ratio * By / (1 + ratio), -room);
    if (!(beta > By)) beta = By; // no other class reaches this one: all duals are zero
    double before = -1;
    for (Index pass = 0; pass <= e.lanes; ++pass) { // each leaves out a lane or the slope of y, or is the last
      Double4 sum = {}, positive = {};
      const Double4 zero = {}, one = splat<Double4>(1);
      for (Index m = 0; m < e.lanes; m += 4) {
        const Double4 excess = load<Double4>(s + m) - beta;
        sum += excess > 0 ? excess : zero;
        positive += excess > 0 ? one : zero;
      }
      const double own = ratio * (beta - By);
      const double count = horizontal_sum(positive), slope = count + (own < room ? ratio : 0);
      if (slope == before || count == 0) break;
      before = slope;
      beta += (horizontal_sum(sum) - smaller(own, room)) / slope;
    }

    // a'_m for the other classes; a'_y is minus their sum, so that feasibility is exact.
    const double inverse = 1 / A;
    Double4 sum = {}, moved = {};
    s[y] = -kInfinity;
    for (Index m = 0; m < e.lanes; m += 4) {
      const Double4 value = smaller((beta - load<Double4>(s + m)) * inverse, Double4{});
      store(next + m, value);
      sum += value;
      moved += value < 0 ? splat<Double4>(1) : Double4{};
    }
    double ay = -horizontal_sum(sum);
    const double used = horizontal_sum(moved);
    bool bound = used == 0;
    if (!Squared && ay >= e.cap * (1 - 1e-14)) {
      ay = e.cap;
      if (used == 1) { // y and one other class share the whole cap: exactly +-C
        for (Index m = 0; m < e.lanes; ++m)
          if (next[m] < 0) next[m] = -e.cap;
        bound = true;
      }
    }
    next[y] = ay;
    return {violation, true, bound};
  }
};

} // namespace mm::MM_ISA
