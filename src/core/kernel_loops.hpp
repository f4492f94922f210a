// The hot loops of the kernel machines, which keep the scores of all examples instead of W.
//
// Conventions
//   scores   class-major: score of lane m and example i at scores[m * ld + i]; float64
//   alpha    example-major, `stride` doubles apart, padded with zeros; signed so that scores = K alpha
//   K        values of the working set against itself, q x q, or tiles of kernel rows (see row_store.hpp)
#pragma once

#include "binary.hpp"
#include "kernels.hpp"
#include "subproblem_crammer_singer.hpp"
#include "subproblem_weston_watkins.hpp"

namespace mm::MM_ISA {

// Eight floats or doubles as two vectors of doubles.
struct Eight {
  Double4 low, high;
};
inline Eight load_eight(const double *p) { return {load<Double4>(p), load<Double4>(p + 4)}; }
inline Eight load_eight(const float *p) {
  using Float4 = float __attribute__((vector_size(16)));
  Float4 low, high;
  __builtin_memcpy(&low, p, sizeof low);
  __builtin_memcpy(&high, p + 4, sizeof high);
  return {__builtin_convertvector(low, Double4), __builtin_convertvector(high, Double4)};
}

// out[0..n) += factor * row[0..n)
template <class T> inline void add_multiple(double factor, const T *row, Index n, double *out) {
  Index j = 0;
  for (; j + 8 <= n; j += 8) {
    const Eight v = load_eight(row + j);
    store(out + j, load<Double4>(out + j) + factor * v.low);
    store(out + j + 4, load<Double4>(out + j + 4) + factor * v.high);
  }
  for (; j < n; ++j) out[j] += factor * static_cast<double>(row[j]);
}

// out[j] += sum_p factor[p] * tile[p][j] for j in [begin, end). The sum is taken in the precision of the tiles, in
// registers: its rounding is that of the kernel values themselves.
template <class T>
void add_tiles(const T *const *tile, const double *factor, Index count, Index begin, Index end, double *out) {
  using V = typename VectorOf<T>::type;
  constexpr Index width = VectorOf<T>::width, together = 8;
  Index j = begin;
  for (; j + together * width <= end; j += together * width) {
    V sum[together] = {};
    for (Index p = 0; p < count; ++p) {
      const T *row = tile[p] + j;
      const T c = static_cast<T>(factor[p]);
      for (int v = 0; v < together; ++v) sum[v] += c * load<V>(row + v * width);
    }
    T sums[together * width];
    for (int v = 0; v < together; ++v) store(sums + v * width, sum[v]);
    for (Index t = 0; t < together * width; t += 8) {
      const Eight e = load_eight(sums + t);
      store(out + j + t, load<Double4>(out + j + t) + e.low);
      store(out + j + t + 4, load<Double4>(out + j + t + 4) + e.high);
    }
  }
  for (; j < end; ++j) {
    T sum = 0;
    for (Index p = 0; p < count; ++p) sum += static_cast<T>(factor[p]) * tile[p][j];
    out[j] += static_cast<double>(sum);
  }
}

// Violations, and the terms of both objectives, of examples [begin, end).
template <class Policy> void scan(const KernelExamples &x, const double *scores, Index begin, Index end, Scanned &out) {
  constexpr Index together = 8; // examples whose scores are gathered at once
  const Index stride = padded(x.lanes, 4);
  const Double4 unit = splat<Double4>(1);
  double *const gathered = x.workspace, *const next = gathered + together * stride;
  for (Index from = begin; from < end; from += together) {
    const Index count = end - from < together ? end - from : together;
    for (Index m = 0; m < x.lanes; ++m)
      for (Index t = 0; t < count; ++t) gathered[t * stride + m] = scores[m * x.ld + from + t];
    for (Index t = 0; t < count; ++t) {
      const Index i = from + t;
      double *const s = gathered + t * stride;
      for (Index m = x.lanes; m < stride; ++m) s[m] = -kInfinity;
      const double *const a = x.alpha + i * x.stride;
      const Example e{x.curvature[i], x.cap[i], x.label[i], stride};
      if constexpr (Policy::separable) {
        for (Index m = 0; m < x.lanes; ++m) out.quadratic[m] += a[m] * s[m];
        Policy::loss(s, e, 1, out.loss);
      } else {
        double sum = 0;
        for (Index m = 0; m < x.lanes; ++m) sum += a[m] * s[m];
        out.quadratic[0] += sum;
        out.loss[0] += Policy::losses(s, e, unit)[0];
      }
      Policy::dual(a, e, out.dual);
      out.violation[i] = Policy::solve(s, a, next, e, kInfinity).violation;
    }
  }
}

// One pass over a working set: the step for every example of `order`, and its effect, scaled, on the scores of all q.
template <class Policy, class T>
void sweep(const KernelExamples &x, const T *K, double *scores, const std::int32_t *order, Index count, double scale,
           double threshold, Swept &out) {
  const Index stride = padded(x.lanes, 4);
  double *const s = x.workspace, *const next = s + stride;
  for (Index t = 0; t < count; ++t) {
    const Index i = order[t];
    for (Index m = 0; m < x.lanes; ++m) s[m] = scores[m * x.ld + i];
    for (Index m = x.lanes; m < stride; ++m) s[m] = -kInfinity;
    double *const a = x.alpha + i * x.stride;
    const Solved step = Policy::solve(s, a, next, {scale * x.curvature[i], x.cap[i], x.label[i], stride}, threshold);
    out.violation[i] = step.violation;
    out.largest = larger(out.largest, step.violation);
    if (!step.changed) continue;
    ++out.updates;
    for (Index m = 0; m < x.lanes; ++m) {
      const double change = next[m] - a[m];
      if (change == 0) continue;
      a[m] = next[m];
      add_multiple(scale * change, K + i * x.ld, x.n, scores + m * x.ld);
    }
  }
}

// Binary SMO on a working set (second-order selection: Fan, Chen, Lin 2005), with duals signed by their label:
//   min_a 1/2 a'Ka - y'a   s.t. sum a = const, lower <= a <= upper;   v = y - score is minus the gradient.
// i = argmax v over {a < upper}; j minimises the quadratic decrease over {a > lower, v_j < v_i}. Stops when
// max v - min v <= tolerance. Returns the number of steps.
template <class T>
Index smo(const T *K, Index q, const double *curvature, const double *upper, const double *lower, double *a, double *v,
          double tolerance, Index most) {
  Index steps = 0;
  for (; steps < most; ++steps) {
    Index i = -1;
    double best = -kInfinity;
    for (Index t = 0; t < q; ++t)
      if (a[t] < upper[t] && v[t] > best) {
        best = v[t];
        i = t;
      }
    if (i < 0) break;
    const T *const Ki = K + i * q;
    Index j = -1;
    double lowest = kInfinity, most_gain = -kInfinity;
    for (Index t = 0; t < q; ++t) {
      const bool falls = a[t] > lower[t];
      lowest = falls && v[t] < lowest ? v[t] : lowest;
      const double apart = best - v[t];
      double curved = curvature[i] + curvature[t] - 2 * static_cast<double>(Ki[t]);
      curved = curved > 1e-12 ? curved : 1e-12;
      const double gain = apart * apart / curved;
      if (falls && apart > 0 && gain > most_gain) {
        most_gain = gain;
        j = t;
      }
    }
    if (j < 0 || best - lowest <= tolerance) break;
    double curved = curvature[i] + curvature[j] - 2 * static_cast<double>(Ki[j]);
    curved = curved > 1e-12 ? curved : 1e-12;
    const double room_i = upper[i] - a[i], room_j = a[j] - lower[j];
    double change = (best - v[j]) / curved;
    // A dual that meets its bound is set to it exactly: it then counts as bound.
    if (change >= room_i || change >= room_j) change = room_i < room_j ? room_i : room_j;
    a[i] = change == room_i ? upper[i] : a[i] + change;
    a[j] = change == room_j ? lower[j] : a[j] - change;
    const T *const Kj = K + j * q;
    for (Index t = 0; t < q; ++t) v[t] -= change * (static_cast<double>(Ki[t]) - static_cast<double>(Kj[t]));
  }
  return steps;
}

} // namespace mm::MM_ISA
