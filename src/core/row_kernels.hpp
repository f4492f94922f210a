// The two operations on a row that training is made of,
//   scores:  s = W' x    (all lanes at once, the accumulators stay in registers over the row)
//   add:     W += x c'   (all lanes, or only some)
// written once for every storage of X and both precisions of W.
#pragma once

#include "rows.hpp"
#include "vec.hpp"

namespace mm::MM_ISA {

template <class X, class I> struct SparseRow {
  const X *value;
  const I *index;
  Index count;
  static constexpr bool prefetches = true;
  Index feature(Index t) const { return static_cast<Index>(index[t]); }
};

template <class X> struct DenseRow {
  const X *value;
  Index count;
  static constexpr bool prefetches = false; // consecutive rows of W: the hardware sees it coming
  Index feature(Index t) const { return t; }
};

// One accessor type a storage. `get` gives a row view; `peek` the view of the row that comes next, if it costs
// nothing (it may be empty).
template <class X, class I> struct CsrMatrix {
  using Row = SparseRow<X, I>;
  static Row get(const Rows &rows, Index i) {
    const I *indptr = static_cast<const I *>(rows.indptr);
    const Index begin = static_cast<Index>(indptr[i]);
    return {static_cast<const X *>(rows.values) + begin, static_cast<const I *>(rows.indices) + begin,
            static_cast<Index>(indptr[i + 1]) - begin};
  }
  static Row peek(const Rows &rows, Index i) { return get(rows, i); }
  // A whole row: rows are visited in random order, so the hardware would only see it coming after some misses.
  MM_PREFETCH static void prefetch(const Rows &rows, Index i) {
    const Row row = get(rows, i);
    for (Index t = 0; t < row.count; t += 64 / static_cast<Index>(sizeof(I)))
      __builtin_prefetch(row.index + t, 0, 2);
    for (Index t = 0; t < row.count; t += 64 / static_cast<Index>(sizeof(X)))
      __builtin_prefetch(row.value + t, 0, 2);
  }
};

template <class X> struct DenseMatrix {
  using Row = DenseRow<X>;
  static Row get(const Rows &rows, Index i) {
    return {static_cast<const X *>(rows.values) + i * rows.row_stride, rows.n_features};
  }
  static Row peek(const Rows &, Index) { return {nullptr, 0}; }
  MM_PREFETCH static void prefetch(const Rows &rows, Index i) {
    const X *row = static_cast<const X *>(rows.values) + i * rows.row_stride;
    __builtin_prefetch(row);
    __builtin_prefetch(row + 64 / sizeof(X));
  }
};

// What follows the features of a row: the intercept's, and the coordinates along directions.
struct Tail {
  double bias;
  Index bias_row; // of W; the coordinates' follow
  const double *along, *held;
  Index n_along;
  Index along_row() const { return bias_row + (bias != 0); }
};
inline Tail tail_of(const Rows &rows, Index i) {
  return {rows.intercept, rows.n_features, rows.along + i * rows.along_stride, rows.held, rows.n_along};
}

// A row that will be visited, and what follows it.
template <class Matrix> MM_PREFETCH inline void prefetch_row(const Rows &rows, Index i) {
  Matrix::prefetch(rows, i);
  if (rows.n_along > 0) __builtin_prefetch(rows.along + i * rows.along_stride);
}

// How many non-zeros ahead the rows of W are fetched: about as many lines as a processor has under way. Near its end a
// row fetches for the row that is visited next, so that the stream of fetches never stops.
inline constexpr Index kAhead = 12;
template <int B> inline constexpr Index kAheadOf = B <= 4 ? kAhead : B <= 8 ? kAhead / 2 : kAhead / 3;

template <class S> MM_PREFETCH inline void prefetch_lanes(const S *w, Index n_lanes) {
  for (Index b = 0; b < n_lanes * static_cast<Index>(sizeof(S)); b += 64)
    __builtin_prefetch(reinterpret_cast<const char *>(w) + b);
}

// Scores of `B` vectors of lanes; `U` interleaved accumulators hide the latency of the addition.
template <int B, int U, class Row, class S, class Out>
inline void scores_block(const Row row, const Row next, const S *W, Index stride, const Tail &tail, Out *out) {
  using V = typename VectorOf<S>::type;
  constexpr int width = VectorOf<S>::width;
  V acc[U][B];
  for (int u = 0; u < U; ++u)
    for (int b = 0; b < B; ++b) acc[u][b] = V{};
  const auto accumulate = [&](Index t, int u) __attribute__((always_inline)) {
    const S x = static_cast<S>(row.value[t]);
    const S *w = W + row.feature(t) * stride;
    for (int b = 0; b < B; ++b) acc[u][b] += x * load<V>(w + b * width);
  };
  Index t = 0;
  if constexpr (Row::prefetches) {
    constexpr Index ahead = kAheadOf<B>;
    for (; t + ahead + U <= row.count; t += U)
      for (int u = 0; u < U; ++u) {
        prefetch_lanes(W + row.feature(t + u + ahead) * stride, B * width);
        accumulate(t + u, u);
      }
    const Index n_next = next.count < ahead + U ? next.count : ahead + U;
    for (Index n = 0; n < n_next; ++n) prefetch_lanes(W + next.feature(n) * stride, B * width);
  }
  for (; t + U <= row.count; t += U)
    for (int u = 0; u < U; ++u) accumulate(t + u, u);
  for (; t < row.count; ++t) accumulate(t, 0);
  for (int b = 0; b < B; ++b) {
    V sum = acc[0][b];
    for (int u = 1; u < U; ++u) sum += acc[u][b];
    if (tail.bias != 0) sum += static_cast<S>(tail.bias) * load<V>(W + tail.bias_row * stride + b * width);
    for (Index t = 0; t < tail.n_along; ++t)
      sum += static_cast<S>(tail.along[t]) * load<V>(W + (tail.along_row() + t) * stride + b * width);
    store_as(out + b * width, sum);
  }
}

// One lane: W is a plain vector.
template <class Row, class S> inline double score_one(const Row row, const S *W, const Tail &tail) {
  S acc[4] = {0, 0, 0, 0};
  Index t = 0;
  for (; t + 4 <= row.count; t += 4)
    for (int u = 0; u < 4; ++u) acc[u] += static_cast<S>(row.value[t + u]) * W[row.feature(t + u)];
  for (; t < row.count; ++t) acc[0] += static_cast<S>(row.value[t]) * W[row.feature(t)];
  S sum = (acc[0] + acc[2]) + (acc[1] + acc[3]);
  if (tail.bias != 0) sum += static_cast<S>(tail.bias) * W[tail.bias_row];
  for (Index t = 0; t < tail.n_along; ++t) sum += static_cast<S>(tail.along[t]) * W[tail.along_row() + t];
  return static_cast<double>(sum);
}

template <class Row, class S, class Out>
inline void scores_of_row(const Row row, const Row next, const S *W, Index stride, const Tail &tail, Out *out) {
  if (stride == 1) {
    out[0] = static_cast<Out>(score_one(row, W, tail));
    return;
  }
  constexpr int width = VectorOf<S>::width;
  constexpr int most = 12; // accumulators: sixteen registers less the operands
  const Index vectors = stride / width;
  const Index blocks = (vectors + most - 1) / most;
  for (Index done = 0, b = 0; b < blocks; ++b) {
    const Index size = (vectors - done + (blocks - b) - 1) / (blocks - b);
    const S *w = W + done * width;
    Out *o = out + done * width;
    switch (size) {
#define MM_CASE(B, U)                                                                                        \
  case B:                                                                                                    \
    scores_block<B, U>(row, next, w, stride, tail, o);                                                             \
    break;
      MM_CASE(1, 4)
      MM_CASE(2, 4)
      MM_CASE(3, 2)
      MM_CASE(4, 2)
      MM_CASE(5, 2)
      MM_CASE(6, 2)
      MM_CASE(7, 1)
      MM_CASE(8, 1)
      MM_CASE(9, 1)
      MM_CASE(10, 1)
      MM_CASE(11, 1)
      MM_CASE(12, 1)
#undef MM_CASE
    }
    done += size;
  }
}

// W += x c' over the vectors of lanes listed in `changed`; all of them when there are many. Far: the rows of W were not
// touched by the scores just before, and are fetched ahead.
template <bool Far = false, class Row, class S>
inline void add_row(const Row row, const S *coef, const Index *changed, Index n_changed, S *W, Index stride,
                    const Tail &tail) {
  using V = typename VectorOf<S>::type;
  constexpr int width = VectorOf<S>::width;
  if (stride == 1) {
    const S c = coef[0];
    for (Index t = 0; t < row.count; ++t) W[row.feature(t)] += static_cast<S>(row.value[t]) * c;
    if (tail.bias != 0) W[tail.bias_row] += static_cast<S>(tail.bias) * c;
    for (Index t = 0; t < tail.n_along; ++t)
      W[tail.along_row() + t] -= static_cast<S>(tail.held[t] * tail.along[t]) * c;
    return;
  }
  const auto fetch = [&](Index t) __attribute__((always_inline)) {
    if constexpr (Far && Row::prefetches)
      if (t + kAhead < row.count) prefetch_lanes(W + row.feature(t + kAhead) * stride, stride);
  };
  const auto update_by = [&](const auto &update) __attribute__((always_inline)) {
    for (Index t = 0; t < row.count; ++t) {
      fetch(t);
      update(static_cast<S>(row.value[t]), W + row.feature(t) * stride);
    }
    if (tail.bias != 0) update(static_cast<S>(tail.bias), W + tail.bias_row * stride);
    for (Index t = 0; t < tail.n_along; ++t)
      update(static_cast<S>(-tail.held[t] * tail.along[t]), W + (tail.along_row() + t) * stride);
  };
  // A few vectors stay in registers.
  const auto update_few = [&]<int B>(const Index(&at)[B]) __attribute__((always_inline)) {
    V c[B];
    for (int b = 0; b < B; ++b) c[b] = load<V>(coef + at[b]);
    update_by([&](S x, S *w) __attribute__((always_inline)) {
      for (int b = 0; b < B; ++b) store(w + at[b], load<V>(w + at[b]) + x * c[b]);
    });
  };
  if (n_changed == 1) update_few({changed[0]});
  else if (stride == 2 * width) update_few({0, width});
  else if (stride == 3 * width) update_few({0, width, 2 * width});
  else if (n_changed == 2) update_few({changed[0], changed[1]});
  else if (stride == 4 * width) update_few({0, width, 2 * width, 3 * width});
  else if (n_changed == 3) update_few({changed[0], changed[1], changed[2]});
  else if (n_changed == 4) update_few({changed[0], changed[1], changed[2], changed[3]});
  else if (2 * n_changed * width >= stride)
    update_by([&](S x, S *w) __attribute__((always_inline)) {
      for (Index m = 0; m < stride; m += width) store(w + m, load<V>(w + m) + x * load<V>(coef + m));
    });
  else
    update_by([&](S x, S *w) __attribute__((always_inline)) {
      for (Index b = 0; b < n_changed; ++b) {
        S *p = w + changed[b];
        store(p, load<V>(p) + x * load<V>(coef + changed[b]));
      }
    });
}

// Scores of a few single lanes (very many classes, of which an example knows only a handful).
template <class Row, class S>
inline void scores_of_lanes(const Row row, const S *W, Index stride, const Tail &tail,
                            const std::int32_t *lanes, Index n_lanes, double *out) {
  for (Index m = 0; m < n_lanes; ++m) out[m] = 0;
  for (Index t = 0; t < row.count; ++t) {
    const double x = static_cast<double>(row.value[t]);
    const S *w = W + row.feature(t) * stride;
    if (t + 2 < row.count) {
      const S *next = W + row.feature(t + 2) * stride;
      for (Index m = 0; m < n_lanes; ++m) __builtin_prefetch(next + lanes[m]);
    }
    for (Index m = 0; m < n_lanes; ++m) out[m] += x * static_cast<double>(w[lanes[m]]);
  }
  const auto follow = [&](double x, const S *w) {
    for (Index m = 0; m < n_lanes; ++m) out[m] += x * static_cast<double>(w[lanes[m]]);
  };
  if (tail.bias != 0) follow(tail.bias, W + tail.bias_row * stride);
  for (Index t = 0; t < tail.n_along; ++t)
    follow(tail.along[t], W + (tail.along_row() + t) * stride);
}

template <class Row, class S>
inline void add_to_lanes(const Row row, const double *coef, const std::int32_t *lanes, Index n_lanes, S *W,
                         Index stride, const Tail &tail) {
  for (Index t = 0; t < row.count; ++t) {
    const double x = static_cast<double>(row.value[t]);
    S *w = W + row.feature(t) * stride;
    if (t + kAhead < row.count) {
      const S *later = W + row.feature(t + kAhead) * stride;
      for (Index m = 0; m < n_lanes; ++m) __builtin_prefetch(later + lanes[m], 1);
    }
    for (Index m = 0; m < n_lanes; ++m) w[lanes[m]] += static_cast<S>(x * coef[m]);
  }
  const auto follow = [&](double x, S *w) {
    for (Index m = 0; m < n_lanes; ++m) w[lanes[m]] += static_cast<S>(x * coef[m]);
  };
  if (tail.bias != 0) follow(tail.bias, W + tail.bias_row * stride);
  for (Index t = 0; t < tail.n_along; ++t)
    follow(-tail.held[t] * tail.along[t], W + (tail.along_row() + t) * stride);
}

} // namespace mm::MM_ISA
