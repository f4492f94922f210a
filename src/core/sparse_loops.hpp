// Passes over examples with sparse weights (sparse_weights.hpp): the same visits as in epoch.hpp, but only the lanes that
// a row's features know are scored. All others have the score of the intercept, so of those the first few in its ranking
// stand for all. The lanes so found, with the label's and the listed ones in front, are numbered anew: to the restricted
// step they are all lanes there are.
//
// Crammer-Singer only: its step and its loss ask for the largest scores. Weston-Watkins asks for every violated lane,
// and with an own score below 1 those are all.
#pragma once

#include <algorithm>
#include <vector>

#include "epoch.hpp"
#include "sparse_weights.hpp"

namespace mm::MM_ISA {

// The scores of one row, lane by lane as its features name them.
template <class S> class LaneScores {
public:
  explicit LaneScores(Index lanes)
      : sum_(static_cast<std::size_t>(lanes) + 1), known_(sum_.size()), lane_(sum_.size()) {
    known_.back() = 1; // that of empty slots
  }

  const std::int32_t *lanes() const { return lane_.data(); }

  void name(std::int32_t lane) {
    unsigned char &known = known_[static_cast<std::size_t>(lane)];
    lane_[count_] = lane;
    count_ += !known;
    known = 1;
  }

  template <class List> void add(S x, const List list) {
    // Local, for a store of bytes may change any member as far as the compiler knows.
    S *const sum = sum_.data();
    unsigned char *const known = known_.data();
    std::int32_t *const named = lane_.data();
    std::size_t count = count_;
    for (Index t = 0; t < list.count; ++t) {
      const auto lane = static_cast<std::size_t>(list.index[t]);
      named[count] = static_cast<std::int32_t>(lane);
      count += !known[lane];
      known[lane] = 1;
      sum[lane] += x * list.value[t];
    }
    count_ = count;
  }

  // Names the first n other lanes of the ranking, and writes the scores of all that are named; then it is empty again,
  // but for lanes(). Returns their number.
  Index take(const LaneRanking &ranking, double intercept, Index n, double *s) {
    if (n > 0 && 8 * count_ > lane_.size()) { // the ranking would have to skip many: all others are few
      for (std::size_t lane = 0; lane + 1 < lane_.size(); ++lane) name(static_cast<std::int32_t>(lane));
    } else if (n > 0)
      ranking.visit(
          open_, [&](Index lane) { return known_[static_cast<std::size_t>(lane)] != 0; },
          [&](Index lane) {
            name(static_cast<std::int32_t>(lane));
            return --n > 0;
          });
    for (std::size_t t = 0; t < count_; ++t) {
      const auto lane = static_cast<std::size_t>(lane_[t]);
      s[t] = static_cast<double>(sum_[lane]);
      if (intercept != 0) s[t] += intercept * ranking[lane_[t]];
      sum_[lane] = 0;
      known_[lane] = 0;
    }
    const Index count = static_cast<Index>(count_);
    count_ = 0;
    return count;
  }

private:
  std::vector<S> sum_;
  std::vector<unsigned char> known_;
  std::vector<std::int32_t> lane_;
  std::size_t count_ = 0;
  std::vector<std::size_t> open_;
};

// As RowOperations, for one storage of X and one precision of W.
template <class S> struct SparseOperations {
  void (*scores)(const Rows &, Index, const LaneTable<S> *, LaneScores<S> &);
  void (*scores_of)(const Rows &, Index, SparseWeights &, const std::int32_t *lanes, Index, double *);
  void (*add)(const Rows &, const Move &, SparseWeights &);
  void (*prefetch)(const Rows &, Index);
};

template <class Matrix, class S> struct SparseFunctions {
  static void scores(const Rows &r, Index i, const LaneTable<S> *tables, LaneScores<S> &out) {
    const auto row = Matrix::get(r, i);
    for (Index t = 0; t < row.count; ++t) {
      if (t + 1 < row.count) {
        const LaneList<S> next = tables[row.feature(t + 1)].slots();
        __builtin_prefetch(next.index);
        __builtin_prefetch(next.value);
      }
      const S x = static_cast<S>(row.value[t]);
      if (x != 0) out.add(x, tables[row.feature(t)].slots());
    }
  }

  static void scores_of(const Rows &r, Index i, SparseWeights &W, const std::int32_t *lanes, Index n, double *out) {
    const auto none = static_cast<std::int32_t>(W.lanes());
    const LaneTable<S> *tables = W.tables<S>().data();
    const auto row = Matrix::get(r, i);
    for (Index c = 0; c < n; ++c) out[c] = r.intercept != 0 ? r.intercept * W.ranking()[lanes[c]] : 0;
    for (Index t = 0; t < row.count; ++t) {
      fetch(row, t + 1, tables, lanes, n);
      const double x = static_cast<double>(row.value[t]);
      const LaneTable<S> &table = tables[row.feature(t)];
      for (Index c = 0; c < n; ++c) out[c] += x * static_cast<double>(table.get(lanes[c], none));
    }
  }

  // W += x c', lane by lane.
  static void add(const Rows &r, const Move &move, SparseWeights &W) {
    const auto none = static_cast<std::int32_t>(W.lanes());
    LaneTable<S> *tables = W.tables<S>().data();
    const auto row = Matrix::get(r, move.row);
    const double *change = static_cast<const double *>(move.change);
    for (Index t = 0; t < row.count; ++t) {
      fetch(row, t + 1, tables, move.lanes, move.n_changed);
      const double x = static_cast<double>(row.value[t]);
      if (x == 0) continue;
      LaneTable<S> &table = tables[row.feature(t)];
      for (Index c = 0; c < move.n_changed; ++c) table.add(move.lanes[c], static_cast<S>(x * change[c]), none);
    }
    if (r.intercept != 0)
      for (Index c = 0; c < move.n_changed; ++c) W.add_to_intercept(move.lanes[c], r.intercept * change[c]);
  }

private:
  template <class Row>
  static void fetch(const Row row, Index t, const LaneTable<S> *tables, const std::int32_t *lanes, Index n) {
    if (t >= row.count) return;
    const LaneTable<S> &table = tables[row.feature(t)];
    for (Index c = 0; c < n; ++c) table.prefetch(lanes[c]);
  }
};

template <class S> inline SparseOperations<S> sparse_operations(const Rows &rows) {
  SparseOperations<S> operations{};
  with_matrix(rows, [&]<class Matrix>(Matrix) {
    using F = SparseFunctions<Matrix, S>;
    operations = {F::scores, F::scores_of, F::add, Matrix::prefetch};
  });
  return operations;
}

template <class F> inline void with_sparse(const SparseWeights &W, F f) {
  if (W.single_precision()) f(float{});
  else f(double{});
}

// Scores an example: s and `lanes` as of a problem whose lanes are those that scores.lanes() numbers; the duals stand in
// front. Returns their number.
template <class S>
inline Index score_lanes(const Examples &x, Index e, const SparseOperations<S> &rows, SparseWeights &W, Index others,
                         Lanes &lanes, LaneScores<S> &scores, const Buffers &buffer) {
  for (Index c = 0; c < lanes.count; ++c) {
    scores.name(buffer.classes[c]);
    buffer.classes[c] = static_cast<std::int32_t>(c);
  }
  scores.name(x.label[e]);
  while (scores.lanes()[lanes.label] != x.label[e]) ++lanes.label;
  rows.scores(*x.rows, x.row[e], W.tables<S>().data(), scores);
  const Index n = scores.take(W.ranking(), x.rows->intercept, others, buffer.s);
  pad(buffer.s, n, (n + 3) / 4 * 4);
  return n;
}

template <class Policy> void visit_sparse(const Examples &x, SparseWeights &W, PassArgs &pass) {
  with_sparse(W, [&]<class S>(S) {
    const SparseOperations<S> rows = sparse_operations<S>(*x.rows);
    const Buffers buffer(x);
    LaneScores<S> scores(x.lanes);
    for (Index position = pass.begin; position < pass.end; ++position) {
      const Index e = pass.order[position], following = pass.order[position + 1 < pass.end ? position + 1 : position];
      rows.prefetch(*x.rows, x.row[following]);
      x.lists->prefetch(following);
      Lanes lanes = listed_lanes(x, e, buffer);
      if (pass.listed_classes_only) {
        find_label(lanes, x.label[e], buffer);
        rows.scores_of(*x.rows, x.row[e], W, lanes.classes, lanes.count, buffer.s);
      } else {
        const Index n = score_lanes(x, e, rows, W, kAdmitted, lanes, scores, buffer);
        if (!restrict_lanes<Policy>(lanes, n, kAdmitted, lanes.label, e, buffer, pass)) continue;
        for (Index c = 0; c < lanes.count; ++c) buffer.classes[c] = scores.lanes()[buffer.classes[c]];
      }
      pad_gathered(lanes, buffer.s, buffer.a);
      if (!step_on_lanes<Policy>(x, e, lanes, buffer.s, buffer.a, buffer.next, pass)) continue;
      const Move move = move_of<S>(x.row[e], lanes, buffer.next, buffer.a, kManyLanes, buffer, pass.scale);
      *pass.updates += move.row >= 0;
      keep_list(x, e, lanes, buffer.next, buffer);
      if (move.row >= 0) rows.add(*x.rows, move, W);
    }
  });
}

template <class Policy>
void evaluate_sparse(const Examples &x, SparseWeights &W, Index begin, Index end, const Scales &scales, double *loss,
                     double *dual) {
  with_sparse(W, [&]<class S>(S) {
    const SparseOperations<S> rows = sparse_operations<S>(*x.rows);
    const Buffers buffer(x);
    LaneScores<S> scores(x.lanes);
    for (Index e = begin; e < end; ++e) {
      Lanes lanes = listed_lanes(x, e, buffer);
      const Index n = score_lanes(x, e, rows, W, 1, lanes, scores, buffer);
      for (Index c = lanes.count; c < n + 4; ++c) buffer.a[c] = 0;
      const Example one = example(x, e, 1, {nullptr, n, (n + 3) / 4 * 4, lanes.label});
      add_losses<Policy>(buffer.s, one, scales, x.lanes, loss);
      Policy::dual(buffer.a, one, dual);
    }
  });
}

inline void accumulate_sparse(const Examples &x, SparseWeights &W, Index begin, Index end) {
  with_sparse(W, [&]<class S>(S) {
    const SparseOperations<S> rows = sparse_operations<S>(*x.rows);
    for (Index e = begin; e < end; ++e) {
      const Move move{x.row[e], x.lists->values(e), nullptr, x.lists->classes(e), x.lists->size(e)};
      if (move.n_changed > 0) rows.add(*x.rows, move, W);
    }
  });
}

// Prediction: W is a CSR matrix in float64, features x lanes, read in place. `f` gets the lanes that a row's features
// know and the first `others` of the others, with their scores.
template <class F>
inline void each_sparse_row(const Rows &rows, const Rows &W, const LaneRanking &ranking, Index begin, Index end,
                            Index others, F f) {
  LaneScores<double> scores(W.n_features);
  std::vector<double> s(static_cast<std::size_t>(W.n_features));
  const auto all = [&]<class Matrix, class I>(Matrix, I) {
    for (Index i = begin; i < end; ++i) {
      const auto row = Matrix::get(rows, i);
      for (Index t = 0; t < row.count; ++t) {
        const double x = static_cast<double>(row.value[t]);
        if (x != 0) scores.add(x, CsrMatrix<double, I>::get(W, row.feature(t)));
      }
      const Index n = scores.take(ranking, 1, others, s.data());
      f(i - begin, scores.lanes(), s.data(), n);
    }
  };
  with_matrix(rows, [&]<class Matrix>(Matrix matrix) {
    if (W.layout == Layout::csr32) all(matrix, std::int32_t{});
    else all(matrix, std::int64_t{});
  });
}

// The n lanes with the largest scores, in order; of equal ones that with the smaller number comes first.
inline void top_of_sparse(const Rows &rows, const Rows &W, const LaneRanking &ranking, Index begin, Index end, Index n,
                          std::int32_t *lane, double *score) {
  std::vector<Index> order;
  each_sparse_row(rows, W, ranking, begin, end, n, [&](Index i, const std::int32_t *lanes, const double *s, Index count) {
    order.resize(static_cast<std::size_t>(count));
    for (Index t = 0; t < count; ++t) order[static_cast<std::size_t>(t)] = t;
    std::partial_sort(order.begin(), order.begin() + n, order.end(), [&](Index a, Index b) {
      return s[a] != s[b] ? s[a] > s[b] : lanes[a] < lanes[b];
    });
    for (Index c = 0; c < n; ++c) {
      lane[i * n + c] = lanes[order[static_cast<std::size_t>(c)]];
      score[i * n + c] = s[order[static_cast<std::size_t>(c)]];
    }
  });
}

// The scores of all lanes.
inline void scores_of_sparse(const Rows &rows, const Rows &W, const LaneRanking &ranking, Index begin, Index end,
                             double *out) {
  const Index k = W.n_features;
  each_sparse_row(rows, W, ranking, begin, end, 0, [&](Index i, const std::int32_t *lanes, const double *s, Index n) {
    for (Index m = 0; m < k; ++m) out[i * k + m] = ranking[m];
    for (Index t = 0; t < n; ++t) out[i * k + lanes[t]] = s[t];
  });
}

} // namespace mm::MM_ISA
