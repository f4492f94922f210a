// The passes of SMO over its examples (see plain_smo.hpp for the names), and all of SMO on a working set.
#pragma once

#include "window_loops.hpp"

namespace mm::MM_ISA {

// The place of the largest of many values, four at a time; of equal ones the first.
struct Largest {
  Double4 value = splat<Double4>(-kInfinity), at = splat<Double4>(-1), here = {0, 1, 2, 3};

  void see(Double4 candidate) {
    const Long4 better = candidate > value;
    value = better ? candidate : value;
    at = better ? here : at;
    here += 4;
  }
  Index place() const {
    const double best = horizontal_max(value);
    double first = kInfinity;
    for (int t = 0; t < 4; ++t)
      if (value[t] == best && at[t] >= 0) first = smaller(first, at[t]);
    return first == kInfinity ? -1 : static_cast<Index>(first);
  }
};

// j of the pair (i, j): of the duals that may fall, the one whose pair with i gains most (Fan, Chen, Lin 2005). Arrays
// have room for a multiple of four; what is beyond n has no state.
template <class T>
SmoChoice second(const T *Ki, Index n, const double *curvature, double own, double top, const double *v,
                 const signed char *state) {
  Largest gain;
  Double4 low = splat<Double4>(kInfinity);
  for (Index t = 0; t < n; t += 4) {
    const Double4 value = load<Double4>(v + t), apart = top - value;
    const Long4 falls = (load_bits(state + t) & SmoChoice::falls) != 0;
    low = falls && value < low ? value : low;
    const Double4 curved = larger(own + load<Double4>(curvature + t) - 2 * load_four(Ki + t), splat<Double4>(kLeastCurvature));
    gain.see(falls && apart > 0 ? apart * apart / curved : splat<Double4>(-kInfinity));
  }
  return {gain.place(), 0, horizontal_min(low)};
}

// v -= change (Ki - Kj), and the next i: of the duals that may rise, the one with the largest v.
template <class T>
SmoChoice pull(const T *Ki, const T *Kj, Index n, double change, double *v, const signed char *state) {
  Largest top;
  for (Index t = 0; t < n; t += 4) {
    const Double4 value = load<Double4>(v + t) - change * (load_four(Ki + t) - load_four(Kj + t));
    store(v + t, value);
    const Long4 rises = (load_bits(state + t) & SmoChoice::rises) != 0;
    top.see(rises ? value : splat<Double4>(-kInfinity));
  }
  return {top.place(), horizontal_max(top.value), 0};
}

// Without a bias there is no constraint: v -= change Ki, and the next i is the dual that gains most on its own.
template <class T>
SmoChoice pull_one(const T *Ki, Index n, double change, const double *curvature, double *v, const signed char *state) {
  Largest gain;
  Double4 high = {}, low = {};
  const Double4 zero = {};
  for (Index t = 0; t < n; t += 4) {
    const Double4 value = load<Double4>(v + t) - change * load_four(Ki + t);
    store(v + t, value);
    const Long4 bits = load_bits(state + t);
    const Double4 up = (bits & SmoChoice::rises) != 0 && value > 0 ? value : zero;
    const Double4 down = (bits & SmoChoice::falls) != 0 && value < 0 ? value : zero;
    high = larger(high, up);
    low = smaller(low, down);
    const Double4 worth = (up + down) * (up + down) / load<Double4>(curvature + t);
    gain.see(worth > 0 ? worth : splat<Double4>(-kInfinity));
  }
  return {gain.place(), horizontal_max(high), horizontal_min(low)};
}

// SMO on a working set, until max v - min v <= tolerance or `most` steps are done. K and all arrays have room for a
// multiple of four, the rows of K are ld apart. Returns the number of steps.
template <class T>
Index smo(const T *K, Index ld, Index q, const double *curvature, const double *upper, const double *lower, double *a,
          double *v, signed char *state, double tolerance, Index most) {
  const auto note = [&](Index t) {
    state[t] = static_cast<signed char>((a[t] < upper[t] ? SmoChoice::rises : 0) | (a[t] > lower[t] ? SmoChoice::falls : 0));
  };
  for (Index t = 0; t < q; ++t) note(t);
  for (Index t = q; t < ld; ++t) state[t] = 0;
  Index steps = 0;
  Index i = pull(K, K, ld, 0, v, state).at; // nothing moves: this is for the choice of i
  for (; steps < most && i >= 0; ++steps) {
    const T *const Ki = K + i * ld;
    const SmoChoice choice = second(Ki, ld, curvature, curvature[i], v[i], v, state);
    const Index j = choice.at;
    if (j < 0 || v[i] - choice.low <= tolerance) break;
    const double curved = larger(curvature[i] + curvature[j] - 2 * static_cast<double>(Ki[j]), kLeastCurvature);
    const double room_i = upper[i] - a[i], room_j = a[j] - lower[j];
    const double change = smaller((v[i] - v[j]) / curved, smaller(room_i, room_j));
    // A dual that meets its bound is set to it exactly: it then counts as bound.
    a[i] = change == room_i ? upper[i] : a[i] + change;
    a[j] = change == room_j ? lower[j] : a[j] - change;
    note(i);
    note(j);
    i = pull(Ki, K + j * ld, ld, change, v, state).at;
  }
  return steps;
}

} // namespace mm::MM_ISA
