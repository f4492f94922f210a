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

// out[0..n) += factor * row[0..n)
template <class T> inline void add_multiple(double factor, const T *row, Index n, double *out) {
  Index j = 0;
  for (; j + 8 <= n; j += 8) {
    store(out + j, load<Double4>(out + j) + factor * load_four(row + j));
    store(out + j + 4, load<Double4>(out + j + 4) + factor * load_four(row + j + 4));
  }
  for (; j < n; ++j) out[j] += factor * static_cast<double>(row[j]);
}

// scores += K' change for a few kernel rows, in panels of columns: long enough that the memory is read in long pieces,
// short enough that the sums of all lanes stay in the first-level cache. They are taken in the precision of the tiles,
// whose rounding they share.
template <class T> void add_tiles(const TileChanges<T> &c, Index columns, Index lanes, double *scores, Index ld) {
  using V = typename VectorOf<T>::type;
  constexpr Index width = VectorOf<T>::width, together = 8, piece = width * together;
  constexpr Index ahead = 4, line = 64 / sizeof(T); // rows that are called for early
  for (Index begin = 0; begin < columns; begin += kTilePanel) {
    const Index size = columns - begin < kTilePanel ? columns - begin : kTilePanel, whole = size / piece * piece;
    for (Index t = 0; t < lanes * kTilePanel; ++t) c.workspace[t] = 0;
    for (Index p = 0; p < c.count; ++p) {
      const T *const tile = c.tile[p] + begin;
      if (p + ahead < c.count)
        for (Index t = 0; t < size; t += line) __builtin_prefetch(c.tile[p + ahead] + begin + t);
      for (Index j = 0; j < whole; j += piece) {
        V row[together];
        for (int v = 0; v < together; ++v) row[v] = load<V>(tile + j + v * width);
        for (Index t = c.first[p]; t < c.first[p + 1]; ++t) {
          T *const sums = c.workspace + c.lane[t] * kTilePanel + j;
          const T factor = c.change[t];
          for (int v = 0; v < together; ++v) store(sums + v * width, load<V>(sums + v * width) + factor * row[v]);
        }
      }
      for (Index t = c.first[p]; t < c.first[p + 1]; ++t)
        for (Index j = whole; j < size; ++j) c.workspace[c.lane[t] * kTilePanel + j] += c.change[t] * tile[j];
    }
    for (Index m = 0; m < lanes; ++m)
      for (Index j = 0; j < size; ++j)
        scores[m * ld + begin + j] += static_cast<double>(c.workspace[m * kTilePanel + j]);
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
        const double loss = Policy::losses(s, e, unit)[0];
        double sum = 0, size = 0;
        for (Index m = 0; m < x.lanes; ++m) {
          sum += a[m] * s[m];
          size = larger(size, a[m] * a[m]);
        }
        out.quadratic[0] += sum;
        out.loss[0] += loss;
        if (loss == 0 && size == 0) { // no loss and no duals: it is at rest
          out.violation[i] = 0;
          continue;
        }
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

} // namespace mm::MM_ISA
