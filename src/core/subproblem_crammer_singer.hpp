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

  static Double4 losses(const double *s, const Example &e, Double4 scales) {
    const Double4 label = splat<Double4>(static_cast<double>(e.label));
    Double4 top = splat<Double4>(e.outside), lane = {0, 1, 2, 3};
    for (Index m = 0; m < e.lanes; m += 4, lane += 4)
      top = larger(top, lane == label ? splat<Double4>(-kInfinity) : load<Double4>(s + m));
    const Double4 slack = larger(scales * (horizontal_max(top) - s[e.label]) + 1 + e.doubt, Double4{});
    return e.cap * (Squared ? slack * slack : slack);
  }

  static void dual(const double *a, const Example &e, double *parts) {
    const double ay = a[e.label];
    parts[0] += Squared ? ay * (ay / (4 * e.cap) - 1) : -ay;
  }

  // The label's lane is set apart by masks: a value that was just written into the middle of a vector is slow to load.
  static Solved solve(double *s, const double *a, double *next, const Example &e, double threshold) {
    switch (e.lanes) {
    case 4: return solve_on<1>(s, a, next, e, threshold);
    case 8: return solve_on<2>(s, a, next, e, threshold);
    default: return solve_on<0>(s, a, next, e, threshold);
    }
  }

private:
  // N vectors of lanes, which stay in registers; 0: any number, kept in s.
  template <int N>
  static Solved solve_on(double *s, const double *a, double *next, const Example &e, double threshold) {
    const Index n = N > 0 ? N : e.lanes / 4;
    const double A = e.curvature, diagonal = Squared ? 1 / (2 * e.cap) : 0;
    const double ay = a[e.label], raw = s[e.label] - 1, gy = raw + diagonal * ay;
    const Double4 label = splat<Double4>(static_cast<double>(e.label)), none = splat<Double4>(-kInfinity);
    Double4 kept[N > 0 ? N : 1];
    const auto B = [&](Index v) { return N > 0 ? kept[v] : load<Double4>(s + 4 * v); };
    const auto keep = [&](Index v, Double4 value) {
      if constexpr (N > 0) kept[v] = value;
      else store(s + 4 * v, value);
    };

    // Violation (6), and B of the other classes, shifted so that the largest is zero: A C is not lost beside large scores.
    Double4 top = none, low = -none, high = none, lane = {0, 1, 2, 3};
    for (Index v = 0; v < n; ++v, lane += 4) {
      const Double4 dual = load<Double4>(a + 4 * v);
      const Double4 g = lane == label ? none : load<Double4>(s + 4 * v);
      top = larger(top, g);
      low = smaller(low, dual < 0 ? g : -none);
      const Double4 b = g - A * dual;
      high = larger(high, b);
      keep(v, b);
    }
    double lowest = horizontal_min(low);
    if (Squared || ay < e.cap) lowest = smaller(lowest, gy);
    const double highest = larger(larger(horizontal_max(top), e.outside), gy);
    const double violation = larger(highest - lowest, 0.0);
    if (!(violation > threshold)) return {violation, false, false};
    const double room = Squared ? kInfinity : A * e.cap;
    const double ratio = A / (A + diagonal);
    const double shift = horizontal_max(high);
    const double By = (raw - A * ay) - shift;
    for (Index v = 0; v < n; ++v) keep(v, B(v) - shift);

    const double beta = level(B, a, n, !Squared && ay >= e.cap, By, ratio, room);
    if (e.outside - shift > beta) return {violation, false, false, true};

    // a'_m for the other classes; a'_y is minus their sum, so that feasibility is exact.
    const double inverse = 1 / A;
    Double4 sum = {}, moved = {};
    for (Index v = 0; v < n; ++v) {
      const Double4 value = smaller((beta - B(v)) * inverse, Double4{});
      keep(v, value);
      sum += value;
      moved += value < 0 ? splat<Double4>(1) : Double4{};
    }
    double own = -horizontal_sum(sum);
    const double used = horizontal_sum(moved);
    bool bound = used == 0;
    const bool full = !Squared && own >= e.cap * (1 - 1e-14);
    if (full) own = e.cap;
    if (full && used == 1) { // y and one other class share the whole cap: exactly +-C
      bound = true;
      for (Index v = 0; v < n; ++v) keep(v, B(v) < 0 ? splat<Double4>(-e.cap) : Double4{});
    }
    lane = Double4{0, 1, 2, 3};
    for (Index v = 0; v < n; ++v, lane += 4) store(next + 4 * v, lane == label ? splat<Double4>(own) : B(v));
    return {violation, true, bound};
  }

  // beta as the solution for a set of lanes: it is right if the set at it, B > beta, is the same, else that set is the
  // next one (Newton's method). Mostly the lanes that had a dual still have one. After the first step the solutions come
  // from the left: each leaves out a lane or the slope of y, or is the last.
  template <class Vectors>
  static double level(const Vectors &B, const double *a, Index n, bool capped, double By, double ratio, double room) {
    const Double4 zero = {}, one = splat<Double4>(1);
    Double4 sum = zero, size = zero;
    const auto add = [&](Index v, Long4 in) {
      sum += in ? B(v) : zero;
      size += in ? one : zero;
    };
    for (Index v = 0; v < n; ++v) add(v, load<Double4>(a + 4 * v) < 0);
    const double first = horizontal_sum(size);
    double beta = larger(ratio * By / (1 + ratio), -room); // with the largest term alone, 0 - beta
    if (first == 0 && !(beta > By)) return By;             // no other class reaches this one: all duals are zero
    bool same = false;
    for (Index pass = 0; pass <= 4 * n + 1 && !same; ++pass) {
      const double before = beta, count = horizontal_sum(size), total = horizontal_sum(sum);
      if (count > 0) beta = capped ? (total - room) / count : (total + ratio * By) / (count + ratio);
      else if (pass > 0) return By;
      const bool was_capped = capped;
      capped = !(ratio * (beta - By) < room);
      Long4 differs = {};
      sum = size = zero;
      for (Index v = 0; v < n; ++v) {
        const Long4 in = B(v) > beta;
        differs |= in ^ (pass == 0 ? load<Double4>(a + 4 * v) < 0 : B(v) > before);
        add(v, in);
      }
      same = !any(differs) && capped == was_capped;
    }
    return beta;
  }
};

} // namespace mm::MM_ISA
