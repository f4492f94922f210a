// One pass over examples, for every formulation, storage and precision: score the row, let the policy
// solve for the example's duals, move W by the change.
#pragma once

#include "binary.hpp"
#include "kernels.hpp"
#include "lanes.hpp"
#include "moves.hpp"
#include "row_kernels.hpp"
#include "subproblem_crammer_singer.hpp"
#include "subproblem_weston_watkins.hpp"

namespace mm::MM_ISA {

// Calls f(matrix accessor) for the storage of X.
template <class F> inline void with_matrix(const Rows &rows, F f) {
  const auto typed = [&]<class X>(X) {
    switch (rows.layout) {
    case Layout::csr32: return f(CsrMatrix<X, std::int32_t>{});
    case Layout::csr64: return f(CsrMatrix<X, std::int64_t>{});
    case Layout::dense: return f(DenseMatrix<X>{});
    }
  };
  if (rows.single_precision) typed(float{});
  else typed(double{});
}

template <class F> inline void with_weights(const WeightsView &W, F f) {
  if (W.single_precision) f(static_cast<float *>(W.data));
  else f(static_cast<double *>(W.data));
}

// The row operations for one storage of X and one precision of W, called through pointers: a call costs
// nothing beside a row, and the formulations need not be compiled once for every storage.
template <class S> struct RowOperations {
  void (*scores)(const Rows &, Index, Index next, const S *, Index stride, double *);
  void (*own_scores)(const Rows &, Index, Index next, const S *, Index stride, S *); // in the precision of W
  void (*add)(const Rows &, const Move &, S *, Index stride);
  void (*add_far)(const Rows &, const Move &, S *, Index stride); // by vectors, to a W that was not scored just before
  void (*scores_of)(const Rows &, Index, const S *, Index stride, const std::int32_t *lanes, Index, double *);
  void (*prefetch)(const Rows &, Index);
};

template <class Matrix, class S> struct RowFunctions {
  template <class Out> static void scores(const Rows &r, Index i, Index next, const S *W, Index stride, Out *out) {
    scores_of_row(Matrix::get(r, i), Matrix::peek(r, next), W, stride, tail_of(r, i), out);
  }
  // W += x c', by whole vectors of lanes or lane by lane.
  static void add(const Rows &r, const Move &move, S *W, Index stride) {
    const auto row = Matrix::get(r, move.row);
    if (move.lanes)
      add_to_lanes(row, static_cast<const double *>(move.change), move.lanes, move.n_changed, W, stride,
                   tail_of(r, move.row));
    else
      add_row(row, static_cast<const S *>(move.change), move.changed, move.n_changed, W, stride,
              tail_of(r, move.row));
  }
  static void add_far(const Rows &r, const Move &move, S *W, Index stride) {
    add_row<true>(Matrix::get(r, move.row), static_cast<const S *>(move.change), move.changed, move.n_changed, W,
                  stride, tail_of(r, move.row));
  }
  static void prefetch(const Rows &r, Index i) { prefetch_row<Matrix>(r, i); }
  static void scores_of(const Rows &r, Index i, const S *W, Index stride, const std::int32_t *lanes, Index n,
                        double *out) {
    scores_of_lanes(Matrix::get(r, i), W, stride, tail_of(r, i), lanes, n, out);
  }
};

template <class S> inline RowOperations<S> row_operations(const Rows &rows) {
  RowOperations<S> operations{};
  with_matrix(rows, [&]<class Matrix>(Matrix) {
    using F = RowFunctions<Matrix, S>;
    operations = {F::template scores<double>, F::template scores<S>, F::add, F::add_far, F::scores_of, F::prefetch};
  });
  return operations;
}

inline Example example(const Examples &x, Index e, double scale, const Lanes &lanes) {
  return {scale * x.norm[e], x.cap[e], lanes.label, lanes.padded_count, nullptr, lanes.outside};
}

template <class Policy>
inline void add_losses(double *s, const Example &one, const Scales &scales, Index lanes, double *sums) {
  if constexpr (Policy::separable) {
    for (int j = 0; j < Scales::count; ++j) Policy::loss(s, one, scales.at[j], sums + j * parts_size(lanes));
  } else {
    const Double4 losses = Policy::losses(s, one, load<Double4>(scales.at));
    for (int j = 0; j < Scales::count; ++j) sums[j * parts_size(lanes)] += losses[j];
  }
}

// The move of W by x (next - a)': by whole vectors of lanes or, with very many of them, lane by lane.
template <class S>
inline Move move_of(Index row, const Lanes &lanes, const double *next, const double *a,
                    Index stride, const Buffers &buffer, double scale) {
  Move move;
  move.row = row;
  Index n = 0;
  if (stride >= kManyLanes && lanes.classes) {
    std::int32_t *moved = reinterpret_cast<std::int32_t *>(buffer.changed);
    for (Index c = 0; c < lanes.count; ++c) {
      buffer.change[n] = (next[c] - a[c]) * scale;
      moved[n] = lanes.classes[c];
      n += next[c] != a[c];
    }
    move.lanes = moved;
    move.change = buffer.change;
  } else {
    using V = typename VectorOf<S>::type;
    constexpr int width = VectorOf<S>::width;
    S *change = reinterpret_cast<S *>(buffer.change);
    if (stride == 1) {
      change[0] = static_cast<S>((next[0] - a[0]) * scale);
      n = change[0] != 0;
    } else if (!lanes.classes) {
      for (Index m = 0; m < stride; m += width) store(change + m, V{});
      for (Index m = 0; m < padded(lanes.count, 4); m += 4) {
        const Double4 moved = (load<Double4>(next + m) - load<Double4>(a + m)) * scale;
        if (!any(moved != 0)) continue;
        for (Index c = m; c < m + 4; ++c) change[c] = static_cast<S>(moved[c - m]);
        const Index first = m / width * width;
        if (n == 0 || buffer.changed[n - 1] != first) buffer.changed[n++] = first;
      }
      for (Index m = lanes.count; m < stride; ++m) change[m] = 0; // padding
    } else {
      for (Index m = 0; m < stride; m += width) store(change + m, V{});
      for (Index c = 0; c < lanes.count; ++c) {
        const S moved = static_cast<S>((next[c] - a[c]) * scale);
        if (moved == 0) continue;
        const Index m = lanes.classes[c], first = m / width * width;
        change[m] = moved;
        Index known = 0;
        while (known < n && buffer.changed[known] != first) ++known;
        if (known == n) buffer.changed[n++] = first;
      }
    }
    move.change = change;
    move.changed = buffer.changed;
  }
  move.n_changed = n;
  if (n == 0) move.row = -1;
  return move;
}

// The step of an example on its lanes, scores in s and duals in a: new duals in `next`, if they changed. Crammer-Singer's
// may need a lane that is outside: `admit` adds it.
template <class Policy, class Admit>
inline bool step_on_lanes(const Examples &x, Index e, Lanes &lanes, double *s, const double *a, double *next,
                          PassArgs &pass, const Admit &admit) {
  Example one = example(x, e, pass.scale, lanes);
  if (pass.rates) one.rate = pass.rates + e * pass.rate_stride;
  if (pass.objectives) add_losses<Policy>(s, one, pass.scales, x.lanes, pass.loss);
  Solved solved = Policy::solve(s, a, next, one, pass.threshold);
  if (solved.short_of_lanes) {
    admit();
    one.lanes = lanes.padded_count;
    one.outside = -kInfinity;
    const Solved again = Policy::solve(s, a, next, one, pass.threshold);
    solved = {solved.violation, again.changed, again.bound};
  }
  *pass.violation = larger(*pass.violation, solved.violation);
  *pass.sum_of_violations += solved.violation;
  if (pass.objectives) Policy::dual(solved.changed ? next : a, one, pass.dual);
  const bool calm = solved.violation < pass.rests_below;
  if (solved.changed) pass.rests[e] = calm || solved.bound;
  else if (calm) pass.rests[e] = 1;
  return solved.changed;
}

// One example: score, solve, and say how W is to move. The duals come from a dense row (all lanes step together) or
// from a list (the restricted step).
template <class Policy, class S>
inline Move visit_one(const Examples &x, const RowOperations<S> &rows, S *W, Index stride, Index e, Index next_row,
                      const Buffers &buffer, PassArgs &pass) {
  double *s = buffer.s, *a = buffer.a, *next = buffer.next;
  const Index row = x.row[e], label = x.label[e];
  Lanes lanes{nullptr, x.lanes, padded(x.lanes, 4), label};
  if (x.lists) lanes = listed_lanes(x, e, buffer);
  else a = x.alpha + e * x.alpha_stride;

  S *const all = buffer.all_scores<S>();
  const int admitted = x.lanes >= kManyLanes ? kAdmitted : 1;
  if (!x.lists) {
    rows.scores(*x.rows, row, next_row, W, stride, s);
    pad(s, x.lanes, lanes.padded_count);
  } else if (pass.listed_classes_only) {
    find_label(lanes, label, buffer);
    rows.scores_of(*x.rows, row, W, stride, lanes.classes, lanes.count, s);
    pad_gathered(lanes, buffer);
  } else if constexpr (!Policy::separable) {
    rows.own_scores(*x.rows, row, next_row, W, stride, all);
    if (!restrict_lanes<Policy>(lanes, all, x.lanes, admitted, label, e, buffer, pass)) return {};
  }
  const auto admit = [&] { admit_lanes(lanes, all, x.lanes, admitted, buffer); };
  if (!step_on_lanes<Policy>(x, e, lanes, s, a, next, pass, admit)) return {};
  const Move move = move_of<S>(row, lanes, next, a, stride, buffer, pass.scale);
  *pass.updates += move.row >= 0;
  if (x.lists) keep_list(x, e, lanes, next, buffer);
  else
    for (Index m = 0; m < x.lanes; ++m) a[m] = next[m];
  return move;
}

MM_PREFETCH inline void prefetch_duals(const Examples &x, Index e) {
  if (x.lists) return x.lists->prefetch(e);
  for (Index m = 0; m < x.lanes; m += 8) __builtin_prefetch(x.alpha + e * x.alpha_stride + m, 1);
}

// What says where its row and its duals are, and what its step needs.
inline constexpr Index kFar = 16; // visits ahead
MM_PREFETCH inline void prefetch_example(const Examples &x, Index e) {
  __builtin_prefetch(x.row + e);
  __builtin_prefetch(x.label + e);
  __builtin_prefetch(x.cap + e);
  __builtin_prefetch(x.norm + e);
  if (x.lists) x.lists->prefetch_place(e);
}

// Visits the examples of one block at positions of its order.
template <class Policy> void visit(const Examples &x, const WeightsView &weights, PassArgs &pass) {
  with_weights(weights, [&]<class S>(S *W) {
    const RowOperations<S> rows = row_operations<S>(*x.rows);
    const Buffers buffer(x);
    for (Index position = pass.begin; position < pass.end; ++position) {
      const Index following = pass.order[position + 1 < pass.end ? position + 1 : position];
      const Index next_row = x.row[following];
      prefetch_example(x, pass.order[position + kFar < pass.end ? position + kFar : position]);
      rows.prefetch(*x.rows, next_row);
      prefetch_duals(x, following);
      const Move move =
          visit_one<Policy>(x, rows, W, weights.stride, pass.order[position], next_row, buffer, pass);
      if (move.row < 0) continue;
      rows.add(*x.rows, move, W, weights.stride);
      if (pass.log) pass.log->note(move, weights);
    }
  });
}

// Moves W as another copy of it has been moved; its rows were not scored just before.
inline void follow(const Examples &x, const WeightsView &weights, const MoveLog &log) {
  with_weights(weights, [&]<class S>(S *W) {
    const RowOperations<S> rows = row_operations<S>(*x.rows);
    const Buffers buffer(x);
    for (Index place = 0; place < log.size(); ++place) {
      const Move move = log.at(place, weights, buffer.change);
      (move.lanes ? rows.add : rows.add_far)(*x.rows, move, W, weights.stride);
    }
  });
}

// The terms of both objectives at W and alpha, for the certificate.
template <class Policy>
void evaluate(const Examples &x, const WeightsView &weights, Index begin, Index end, const Scales &scales,
              const Rounding &rounding, double *loss, double *dual) {
  with_weights(weights, [&]<class S>(S *W) {
    const RowOperations<S> rows = row_operations<S>(*x.rows);
    const Buffers buffer(x);
    const Index lanes = padded(x.lanes, 4);
    for (Index e = begin; e < end; ++e) {
      const Index next_row = x.row[e + 1 < end ? e + 1 : e];
      rows.scores(*x.rows, x.row[e], next_row, W, weights.stride, buffer.s);
      pad(buffer.s, x.lanes, lanes);
      Example one = example(x, e, 1, {nullptr, x.lanes, lanes, x.label[e]});
      one.doubt = rounding.of(*x.rows, x.row[e], x.norm[e]);
      add_losses<Policy>(buffer.s, one, scales, x.lanes, loss);
      const double *a = x.alpha ? x.alpha + e * x.alpha_stride : buffer.a;
      if (!x.alpha) {
        for (Index m = 0; m < lanes; ++m) buffer.a[m] = 0;
        for (Index c = 0; c < x.lists->size(e); ++c) buffer.a[x.lists->classes(e)[c]] = x.lists->values(e)[c];
      }
      Policy::dual(a, one, dual);
    }
  });
}

template <class Policy>
void propose(const Examples &x, const WeightsView &weights, Index begin, Index end, double curvature, double *loss,
             double *dual, double *out) {
  with_weights(weights, [&]<class S>(S *W) {
    const RowOperations<S> rows = row_operations<S>(*x.rows);
    const Buffers buffer(x);
    const Index lanes = padded(x.lanes, 4);
    for (Index e = begin; e < end; ++e, out += x.alpha_stride) {
      const Index next_row = x.row[e + 1 < end ? e + 1 : e];
      rows.scores(*x.rows, x.row[e], next_row, W, weights.stride, buffer.s);
      pad(buffer.s, x.lanes, lanes);
      Example one = example(x, e, 1, {nullptr, x.lanes, lanes, x.label[e]});
      one.curvature = curvature;
      const double *a = x.alpha + e * x.alpha_stride;
      add_losses<Policy>(buffer.s, one, Scales(0), x.lanes, loss);
      const Solved solved = Policy::solve(buffer.s, a, buffer.next, one, 0);
      const double *chosen = solved.changed ? buffer.next : a;
      for (Index m = 0; m < lanes; ++m) out[m] = chosen[m];
      Policy::dual(out, one, dual);
    }
  });
}

inline void accumulate(const Examples &x, const WeightsView &weights, Index begin, Index end) {
  with_weights(weights, [&]<class S>(S *W) {
    const RowOperations<S> rows = row_operations<S>(*x.rows);
    const Buffers buffer(x);
    for (Index e = begin; e < end; ++e) {
      Index n = 0;
      const auto take = [&](Index m, double value) {
        if (value == 0) return;
        buffer.classes[n] = static_cast<std::int32_t>(m);
        buffer.a[n++] = value;
      };
      if (x.alpha)
        for (Index m = 0; m < x.lanes; ++m) take(m, x.alpha[e * x.alpha_stride + m]);
      else
        for (Index c = 0; c < x.lists->size(e); ++c) take(x.lists->classes(e)[c], x.lists->values(e)[c]);
      const Move move{x.row[e], buffer.a, nullptr, buffer.classes, n};
      if (n > 0) rows.add(*x.rows, move, W, weights.stride);
    }
  });
}

// out[i] = the first `lanes` scores of row i; `padded_scores` has room for all of them.
inline void scores(const Rows &rows, const WeightsView &weights, Index begin, Index end,
                   Index lanes, double *padded_scores, double *out) {
  with_weights(weights, [&]<class S>(S *W) {
    const RowOperations<S> operations = row_operations<S>(rows);
    for (Index i = begin; i < end; ++i, out += lanes) {
      operations.scores(rows, i, i + 1 < end ? i + 1 : i, W, weights.stride, padded_scores);
      for (Index m = 0; m < lanes; ++m) out[m] = padded_scores[m];
    }
  });
}

inline void squared_norms(const Rows &rows, double *out) {
  with_matrix(rows, [&]<class Matrix>(Matrix) {
    for (Index i = 0; i < rows.n_rows; ++i) {
      const auto row = Matrix::get(rows, i);
      double sum = 0;
      for (Index t = 0; t < row.count; ++t) {
        const double x = static_cast<double>(row.value[t]);
        sum += x * x;
      }
      out[i] = sum + rows.intercept * rows.intercept;
    }
  });
}

} // namespace mm::MM_ISA
