// One example of Crammer-Singer at a time: how much a step on it is worth, and the steps of the papers.
//
// In the notation of subproblem.hpp, with g = s + e (less a constant) the gradient of f, and room_m = C [m = y] - a_m:
//   violation  max g - min of g over {room > 0}       psi of 003 eq. (32), the selection (20) of 002
//   V(nu)      2 nu (g_r2 - g_r1 - A nu)              004 eq. (8): what moving nu from r2 to r1 adds to -2 f
// A move is feasible while nu <= room_r1 (004 eq. (10), (11)), and best at nu = (g_r2 - g_r1) / (2 A) (eq. (9)).
#pragma once

#include "kernel_loops.hpp"

namespace mm::MM_ISA {

// An example with its scores gathered, as the policies want it.
struct Gathered {
  double *s, *next, *scratch;
  const double *a;
  Example e;
  Index lanes; // not padded
};

inline Gathered gather(const KernelExamples &x, const double *scores, Index i) {
  const Index stride = padded(x.lanes, 4);
  double *const s = x.workspace;
  for (Index m = 0; m < x.lanes; ++m) s[m] = scores[m * x.ld + i];
  for (Index m = x.lanes; m < stride; ++m) s[m] = -kInfinity;
  return {s,       s + stride, s + 2 * stride, x.alpha + i * x.stride, {x.curvature[i], x.cap[i], x.label[i], stride},
          x.lanes};
}

inline double room(const Gathered &x, const double *a, Index m) { return (m == x.e.label ? x.e.cap : 0) - a[m]; }

// V of a step from x.a to x.next, g being the gradient before it.
inline double gain(const Gathered &x, const double *g) {
  double sum = 0;
  for (Index m = 0; m < x.lanes; ++m) {
    const double change = x.next[m] - x.a[m];
    if (change != 0) sum -= change * (2 * g[m] + x.e.curvature * change);
  }
  return sum;
}

// The two duals that gain most, 004 eq. (8): whichever one rises, the best one to fall has the largest g.
struct Pair {
  Index up, down;
  double nu, gain;
};

inline Pair best_pair(const Gathered &x, const double *g) {
  Index top = 0;
  for (Index m = 1; m < x.lanes; ++m)
    if (g[m] > g[top]) top = m;
  Pair best{top, top, 0, 0};
  for (Index m = 0; m < x.lanes; ++m) {
    const double most = room(x, x.a, m);
    if (!(most > 0)) continue;
    const double apart = g[top] - g[m];
    const double nu = smaller(apart / (2 * x.e.curvature), most);
    const double V = 2 * nu * (apart - x.e.curvature * nu);
    if (V > best.gain) best = {m, top, nu, V};
  }
  return best;
}

// Moves nu from r2 to r1. A dual that meets its bound is set to it exactly.
inline void move(const Gathered &x, double *a, Index r1, Index r2, double nu) {
  const bool first = nu == room(x, a, r1), second = -nu == room(x, a, r2);
  const auto bound = [&](Index m) { return m == x.e.label ? x.e.cap : 0; };
  a[r1] = first ? bound(r1) : a[r1] + nu;
  a[r2] = second ? bound(r2) : a[r2] - nu;
}

// The dual of y is minus the sum of the others, to the last bit, unless it is at its cap.
inline void settle(const Gathered &x) {
  const Index y = x.e.label;
  double others = 0;
  for (Index m = 0; m < x.lanes; ++m) others += m == y ? 0 : x.next[m];
  if (x.next[y] != x.e.cap) x.next[y] = smaller(0 - others, x.e.cap);
}

// What selection goes by.

inline Worth kkt(const Gathered &x) {
  CrammerSinger<false>::margins(x.s, x.e);
  const auto g = CrammerSinger<false>::range(x.s, x.a, x.e);
  return {larger(g.top - g.low, 0.0), g.top, g.low};
}

// Approximate maximal gain, 004: what the best pair would gain.
inline Worth amg(const Gathered &x) {
  const Worth g = kkt(x);
  return {best_pair(x, x.s).gain, g.top, g.low};
}

// The subproblem (18) of 002 solved exactly, as everywhere in this library. Returns V.
inline double exact(const Gathered &x, double) {
  for (Index m = 0; m < x.e.lanes; ++m) x.scratch[m] = x.s[m];
  CrammerSinger<false>::margins(x.scratch, x.e);
  const bool changed = CrammerSinger<false>::solve(x.s, x.a, x.next, x.e, 0).changed;
  return changed ? gain(x, x.scratch) : 0;
}

// True (best) maximal gain, 004: what the whole step would gain.
inline Worth bmg(const Gathered &x) {
  for (Index m = 0; m < x.e.lanes; ++m) x.scratch[m] = x.s[m];
  CrammerSinger<false>::margins(x.scratch, x.e);
  const auto g = CrammerSinger<false>::range(x.scratch, x.a, x.e);
  return {exact(x, 0), g.top, g.low};
}

// The other steps: new duals in x.next. Each returns V, or nothing gained: then x.next is of no use.

// 003 Figure 3, in our scale: alpha = C tau. theta grows towards the solution of (37), so that stopped early it leaves
// sum tau < 0: the other classes have taken too much, more than the cap perhaps. Then they give back in proportion. A
// step that gains nothing goes on to a tenth of the accuracy, or the methods that select this example might not end.
inline double fixed_point(const Gathered &x, double accuracy) {
  const double A = x.e.curvature, C = x.e.cap, count = static_cast<double>(x.lanes);
  const Index y = x.e.label;
  double *const g = x.s, *const D = x.scratch;
  CrammerSinger<false>::margins(g, x.e);
  double theta = -C;
  for (Index m = 0; m < x.lanes; ++m) {
    D[m] = g[m] / A - x.a[m] + (m == y ? C : 0);
    theta += D[m];
  }
  theta /= count; // the start of Figure 4
  for (Index last = 40 * x.lanes, l = 0; l <= last; ++l) { // enough for all bits at the rate 1 - 1/k of Theorem 2
    double sum = -C;
    for (Index m = 0; m < x.lanes; ++m) sum += larger(theta, D[m]);
    const double next = sum / count, apart = __builtin_fabs(theta - next);
    theta = next;
    if (apart > accuracy * __builtin_fabs(theta) && l < last) continue;
    double others = 0;
    for (Index m = 0; m < x.lanes; ++m) {
      x.next[m] = m == y ? 0 : smaller(theta - D[m], 0.0);
      others -= x.next[m];
    }
    if (others > C) {
      const double share = C / others;
      for (Index m = 0; m < x.lanes; ++m) x.next[m] *= share;
    }
    x.next[y] = smaller(others, C);
    if (const double V = gain(x, g); V > 0) return V;
    if (apart == 0) break;
    accuracy *= 0.1;
  }
  return 0;
}

// 004 Figure 2: the basic step on every pair of duals of the example, until a sweep adds little to what the sweeps
// gained. V accumulates over the sweeps, and scores move by +- nu A (papers' README).
inline double smo_like(const Gathered &x, double accuracy) {
  const double A = x.e.curvature;
  double *const g = x.s, *const a = x.next;
  CrammerSinger<false>::margins(g, x.e);
  for (Index m = 0; m < x.lanes; ++m) a[m] = x.a[m];
  double V = 0;
  for (Index sweep = 0; sweep < 1000; ++sweep) {
    const double before = V;
    for (Index r1 = 0; r1 < x.lanes; ++r1)
      for (Index r2 = r1 + 1; r2 < x.lanes; ++r2) {
        const double apart = g[r2] - g[r1];
        double nu = apart / (2 * A);
        nu = smaller(nu, room(x, a, r1));
        nu = larger(nu, -room(x, a, r2));
        if (nu == 0) continue;
        V += 2 * nu * (apart - A * nu);
        move(x, a, r1, r2, nu);
        g[r1] += A * nu;
        g[r2] -= A * nu;
      }
    if (!(V - before > accuracy * V)) break;
  }
  settle(x);
  return V;
}

// 004 Figure 1: one pair, the one with the largest V.
inline double basic_smo(const Gathered &x, double) {
  CrammerSinger<false>::margins(x.s, x.e);
  const Pair best = best_pair(x, x.s);
  if (!(best.gain > 0)) return 0;
  for (Index m = 0; m < x.lanes; ++m) x.next[m] = x.a[m];
  move(x, x.next, best.up, best.down, best.nu);
  settle(x);
  return best.gain;
}

template <Worth (*Of)(const Gathered &)> Worth worth(const KernelExamples &x, const double *scores, Index i) {
  return Of(gather(x, scores, i));
}

// The new duals lie in the workspace, after the scores.
template <double (*Of)(const Gathered &, double)>
Stepped step(const KernelExamples &x, const double *scores, Index i, double accuracy) {
  const Gathered example = gather(x, scores, i);
  return {Of(example, accuracy), example.next};
}

} // namespace mm::MM_ISA
