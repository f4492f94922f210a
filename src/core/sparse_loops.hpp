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
#include "sparse_kernels.hpp"
#include "sparse_weights.hpp"

namespace mm::MM_ISA {

// A row of W in CSR, as the slots of a table.
template <class Row> struct RowOfWeights {
  Row row;
  Index count;

  std::int32_t lane(Index t) const { return static_cast<std::int32_t>(row.index[t]); }
  auto value(Index t) const { return row.value[t]; }
  void prefetch(Index t) const {
    if (t >= count) return;
    __builtin_prefetch(row.index + t);
    __builtin_prefetch(row.value + t);
    __builtin_prefetch(row.value + t + 8);
  }
};

// Scores of one row: of lanes that are asked for, and the largest ones of all others.
//
// Sums are in an array of all lanes. To find the largest, and to leave zeros behind, one runs over the whole array if the
// features have many weights; else lanes are noted as they are met, and those that are not have the score that is ranked.
template <class S> class LaneScores {
public:
  explicit LaneScores(Index lanes)
      : n_lanes_(lanes), sum_(static_cast<std::size_t>(lanes + kNoLanes)), known_(sum_.size()), met_(sum_.size()) {
    std::fill_n(known_.end() - kNoLanes, kNoLanes, 1); // of empty slots
  }

  // Row by row: begin, ask for lanes (each once), expect so many weights, add them, take.
  void begin() { lanes_.clear(); }
  void expect(Index n_weights) { whole_ = kWholePays * n_weights > n_lanes_; }

  void ask(std::int32_t lane) {
    known_[static_cast<std::size_t>(lane)] = 1;
    lanes_.push_back(lane);
  }

  // `following` are the weights that come next, fetched on the way.
  template <class List> void add(S x, const List list, const List following) {
    if (whole_) run<false>(x, list, following);
    else run<true>(x, list, following);
  }

  // The scores of the lanes that were asked for, and behind them those of the n best others, the best first; of equal ones
  // that with the smaller number. Returns how many there are; lanes() says which. Then all sums are zero again.
  Index take(const LaneRanking &ranking, double intercept, Index n, double *s) {
    for (std::size_t c = 0; c < lanes_.size(); ++c) s[c] = score(ranking, intercept, lanes_[c]);
    best_.clear();
    n_best_ = static_cast<std::size_t>(n);
    if (!whole_) best_of_few(ranking, intercept);
    else if (intercept != 0) best_of_all<true>(ranking, intercept);
    else best_of_all<false>(ranking, 0);
    for (const std::int32_t lane : lanes_) forget(lane);
    std::sort_heap(best_.begin(), best_.end(), before);
    s += lanes_.size();
    for (const Scored &one : best_) {
      *s++ = one.score;
      lanes_.push_back(one.lane);
    }
    return static_cast<Index>(lanes_.size());
  }

  const std::int32_t *lanes() const { return lanes_.data(); }

private:
  static constexpr Index kRound = 16;    // lanes or slots
  static constexpr Index kWholePays = 8; // a lane that is noted costs as much as so many in a run over all

  struct Scored {
    double score;
    std::int32_t lane;
  };
  static bool before(const Scored &a, const Scored &b) { return a.score != b.score ? a.score > b.score : a.lane < b.lane; }

  double score(const LaneRanking &ranking, double intercept, std::int32_t lane) const {
    const double sum = static_cast<double>(sum_[static_cast<std::size_t>(lane)]);
    return intercept != 0 ? sum + intercept * ranking[lane] : sum;
  }

  void forget(std::int32_t lane) {
    sum_[static_cast<std::size_t>(lane)] = 0;
    known_[static_cast<std::size_t>(lane)] = 0;
  }

  template <bool Note, class List> void run(S x, const List list, const List following) {
    // Local, for a store of bytes may change any member as far as the compiler knows.
    S *const sum = sum_.data();
    unsigned char *const known = known_.data();
    std::int32_t *const met = met_.data();
    std::size_t count = n_met_;
    for (Index t = 0; t < list.count;) {
      following.prefetch(t);
      for (const Index end = std::min(list.count, t + kRound); t < end; ++t) {
        const auto lane = static_cast<std::size_t>(list.lane(t));
        if constexpr (Note) {
          met[count] = static_cast<std::int32_t>(lane);
          count += !known[lane];
          known[lane] = 1;
        }
        sum[lane] += x * list.value(t);
      }
    }
    n_met_ = count;
  }

  // A heap of the best, the worst of them in front.
  void consider(const Scored &one) {
    if (best_.size() == n_best_) {
      if (!before(one, best_.front())) return;
      std::pop_heap(best_.begin(), best_.end(), before);
      best_.back() = one;
    } else best_.push_back(one);
    std::push_heap(best_.begin(), best_.end(), before);
  }

  void best_of_few(const LaneRanking &ranking, double intercept) {
    for (std::size_t t = 0; t < n_met_; ++t) consider({score(ranking, intercept, met_[t]), met_[t]});
    std::size_t left = n_best_;
    ranking.visit(
        open_, [&](Index lane) { return known_[static_cast<std::size_t>(lane)] != 0; },
        [&](Index lane) {
          consider({intercept * ranking[lane], static_cast<std::int32_t>(lane)});
          return --left > 0;
        });
    for (std::size_t t = 0; t < n_met_; ++t) forget(met_[t]);
    n_met_ = 0;
  }

  // Lanes come in order, so that after n of them only a larger score is better than the worst of the best.
  template <bool Intercept> void best_of_all(const LaneRanking &ranking, double intercept) {
    S *const sum = sum_.data();
    const double *const ranked = ranking.values();
    const auto look = [&](Index m) {
      const auto lane = static_cast<std::int32_t>(m);
      if (!known_[static_cast<std::size_t>(m)]) consider({score(ranking, intercept, lane), lane});
      sum[m] = 0;
    };
    Index m = 0;
    for (; m < n_lanes_ && (best_.size() < n_best_ || m % kRound != 0); ++m) look(m);
    for (; m + kRound <= n_lanes_; m += kRound) {
      Double4 top = splat<Double4>(-kInfinity);
      for (Index c = m; c < m + kRound; c += 4) {
        Double4 v = load_four(sum + c);
        if constexpr (Intercept) v += intercept * load<Double4>(ranked + c);
        top = larger(v, top);
      }
      if (any(top > best_.front().score))
        for (Index c = m; c < m + kRound; ++c) look(c);
      else
        for (Index c = m; c < m + kRound; c += 4) clear_four(sum + c);
    }
    for (; m < n_lanes_; ++m) look(m);
  }
  static void clear_four(double *p) { store(p, Double4{}); }
  static void clear_four(float *p) { store(p, Float4{}); }

  Index n_lanes_;
  bool whole_ = false;
  std::vector<S> sum_;
  std::vector<unsigned char> known_; // asked for, or noted
  std::vector<std::int32_t> met_;    // noted
  std::size_t n_met_ = 0;
  std::vector<std::int32_t> lanes_;
  std::vector<Scored> best_;
  std::size_t n_best_ = 0;
  std::vector<std::size_t> open_;
};

// A row's scores: the weights of its features, one after the other.
template <class S, class Row, class Weights>
inline void add_weights(const Row row, Weights weights, LaneScores<S> &out) {
  Index n_weights = 0;
  for (Index t = 0; t < row.count; ++t)
    if (row.value[t] != 0) n_weights += weights(row.feature(t)).count;
  out.expect(n_weights);
  for (Index t = 0; t < row.count; ++t) {
    const S x = static_cast<S>(row.value[t]);
    if (x != 0) out.add(x, weights(row.feature(t)), weights(row.feature(t + 1 < row.count ? t + 1 : t)));
  }
}

// As RowOperations, for one storage of X and one precision of W.
template <class S> struct SparseOperations {
  void (*scores)(const Rows &, Index, const LaneTable<S> *, LaneScores<S> &);
  void (*scores_of)(const Rows &, Index, SparseWeights &, const std::int32_t *lanes, Index, double *);
  void (*add)(const Rows &, const Move &, SparseWeights &);
  void (*prefetch)(const Rows &, Index);
  void (*prefetch_tables)(const Rows &, Index, const LaneTable<S> *); // but for their slots
};

template <class Matrix, class S> struct SparseFunctions {
  static void prefetch_tables(const Rows &r, Index i, const LaneTable<S> *tables) {
    const auto row = Matrix::get(r, i);
    for (Index t = 0; t < row.count; ++t) __builtin_prefetch(tables + row.feature(t));
  }

  static void scores(const Rows &r, Index i, const LaneTable<S> *tables, LaneScores<S> &out) {
    const auto row = Matrix::get(r, i);
    add_weights(row, [&](Index feature) { return tables[feature].slots(); }, out);
  }

  static void scores_of(const Rows &r, Index i, SparseWeights &W, const std::int32_t *lanes, Index n, double *out) {
    const auto none = static_cast<std::int32_t>(W.lanes());
    const LaneTable<S> *tables = W.tables<S>().data();
    const auto row = Matrix::get(r, i);
    for (Index c = 0; c < n; ++c) out[c] = r.intercept != 0 ? r.intercept * W.ranking()[lanes[c]] : 0;
    for (Index t = 0; t < kTablesAhead; ++t) fetch(row, t, tables, lanes, n);
    for (Index t = 0; t < row.count; ++t) {
      fetch(row, t + kTablesAhead, tables, lanes, n);
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
    for (Index t = 0; t < kTablesAhead; ++t) fetch(row, t, tables, move.lanes, move.n_changed);
    for (Index t = 0; t < row.count; ++t) {
      fetch(row, t + kTablesAhead, tables, move.lanes, move.n_changed);
      const double x = static_cast<double>(row.value[t]);
      if (x == 0) continue;
      LaneTable<S> &table = tables[row.feature(t)];
      for (Index c = 0; c < move.n_changed; ++c) table.add(move.lanes[c], static_cast<S>(x * change[c]), none);
    }
    if (r.intercept != 0)
      for (Index c = 0; c < move.n_changed; ++c) W.add_to_intercept(move.lanes[c], r.intercept * change[c]);
  }

private:
  static constexpr Index kTablesAhead = 3; // whose slots are fetched: one is looked through faster than memory answers
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
    operations = {F::scores, F::scores_of, F::add, Matrix::prefetch, F::prefetch_tables};
  });
  return operations;
}

template <class F> inline void with_sparse(const SparseWeights &W, F f) {
  if (W.single_precision()) f(float{});
  else f(double{});
}

// Scores an example: all scores and `lanes` as of a problem whose lanes are those that scores.lanes() numbers, the duals and the
// label in front, the best others behind. Returns their number.
template <class S>
inline Index score_lanes(const Examples &x, Index e, const SparseOperations<S> &rows, SparseWeights &W, Index others,
                         Lanes &lanes, LaneScores<S> &scores, const Buffers &buffer) {
  scores.begin();
  lanes.label = lanes.count;
  for (Index c = 0; c < lanes.count; ++c) {
    if (buffer.classes[c] == x.label[e]) lanes.label = c;
    scores.ask(buffer.classes[c]);
    buffer.classes[c] = static_cast<std::int32_t>(c);
  }
  if (lanes.label == lanes.count) scores.ask(x.label[e]);
  rows.scores(*x.rows, x.row[e], W.tables<S>().data(), scores);
  return scores.take(W.ranking(), x.rows->intercept, others, buffer.wide);
}

template <class Policy> void visit_sparse(const Examples &x, SparseWeights &W, PassArgs &pass) {
  with_sparse(W, [&]<class S>(S) {
    const SparseOperations<S> rows = sparse_operations<S>(*x.rows);
    const Buffers buffer(x);
    LaneScores<S> scores(x.lanes);
    for (Index position = pass.begin; position < pass.end; ++position) {
      const auto ahead = [&](Index n) { return pass.order[position + n < pass.end ? position + n : position]; };
      const Index e = pass.order[position];
      rows.prefetch(*x.rows, x.row[ahead(2)]);
      rows.prefetch_tables(*x.rows, x.row[ahead(1)], W.tables<S>().data());
      x.lists->prefetch(ahead(1));
      Lanes lanes = listed_lanes(x, e, buffer);
      Index n = 0;
      if (pass.listed_classes_only) {
        find_label(lanes, x.label[e], buffer);
        rows.scores_of(*x.rows, x.row[e], W, lanes.classes, lanes.count, buffer.s);
        pad_gathered(lanes, buffer);
      } else {
        n = score_lanes(x, e, rows, W, kAdmitted, lanes, scores, buffer);
        if (!restrict_lanes<Policy>(lanes, buffer.wide, n, kAdmitted, lanes.label, e, buffer, pass)) continue;
      }
      const auto admit = [&] { admit_lanes(lanes, buffer.wide, n, kAdmitted, buffer); };
      const bool changed = step_on_lanes<Policy>(x, e, lanes, buffer.s, buffer.a, buffer.next, pass, admit);
      if (!changed) continue;
      if (!pass.listed_classes_only)
        for (Index c = 0; c < lanes.count; ++c) buffer.classes[c] = scores.lanes()[buffer.classes[c]];
      const Move move = move_of<S>(x.row[e], lanes, buffer.next, buffer.a, kManyLanes, buffer, pass.scale);
      *pass.updates += move.row >= 0;
      keep_list(x, e, lanes, buffer.next, buffer);
      if (move.row >= 0) rows.add(*x.rows, move, W);
    }
  });
}

template <class Policy>
void evaluate_sparse(const Examples &x, SparseWeights &W, Index begin, Index end, const Scales &scales,
                     const Rounding &rounding, double *loss, double *dual) {
  with_sparse(W, [&]<class S>(S) {
    const SparseOperations<S> rows = sparse_operations<S>(*x.rows);
    const Buffers buffer(x);
    LaneScores<S> scores(x.lanes);
    for (Index e = begin; e < end; ++e) {
      Lanes lanes = listed_lanes(x, e, buffer);
      const Index n = score_lanes(x, e, rows, W, 1, lanes, scores, buffer);
      pad(buffer.wide, n, padded(n, 4));
      for (Index c = lanes.count; c < n + 4; ++c) buffer.a[c] = 0;
      Example one = example(x, e, 1, {nullptr, n, (n + 3) / 4 * 4, lanes.label});
      one.doubt = rounding.of(*x.rows, x.row[e], x.norm[e]);
      add_losses<Policy>(buffer.wide, one, scales, x.lanes, loss);
      Policy::dual(buffer.a, one, dual);
    }
  });
}

void accumulate_sparse(const Examples &x, SparseWeights &W, Index begin, Index end) {
  with_sparse(W, [&]<class S>(S) {
    const SparseOperations<S> rows = sparse_operations<S>(*x.rows);
    for (Index e = begin; e < end; ++e) {
      const Move move{x.row[e], x.lists->values(e), nullptr, x.lists->classes(e), x.lists->size(e)};
      if (move.n_changed > 0) rows.add(*x.rows, move, W);
    }
  });
}

// Prediction: W is a CSR matrix in float64, features x lanes, read in place. f(row of X, rows of W) for every row.
template <class F> inline void each_sparse_row(const Rows &rows, const Rows &W, Index begin, Index end, F f) {
  const auto all = [&]<class Matrix, class I>(Matrix, I) {
    const auto weights = [&](Index feature) {
      const auto row = CsrMatrix<double, I>::get(W, feature);
      return RowOfWeights<decltype(row)>{row, row.count};
    };
    for (Index i = begin; i < end; ++i) f(i - begin, Matrix::get(rows, i), weights);
  };
  with_matrix(rows, [&]<class Matrix>(Matrix matrix) {
    if (W.layout == Layout::csr32) all(matrix, std::int32_t{});
    else all(matrix, std::int64_t{});
  });
}

// The n lanes with the largest scores, in order; of equal ones that with the smaller number comes first.
void top_of_sparse(const Rows &rows, const Rows &W, const LaneRanking &ranking, Index begin, Index end, Index n,
                          std::int32_t *lane, double *score) {
  LaneScores<double> scores(W.n_features);
  each_sparse_row(rows, W, begin, end, [&](Index i, const auto row, const auto weights) {
    scores.begin();
    add_weights(row, weights, scores);
    scores.take(ranking, 1, n, score + i * n);
    std::copy_n(scores.lanes(), n, lane + i * n);
  });
}

// The scores of all lanes.
void scores_of_sparse(const Rows &rows, const Rows &W, const LaneRanking &ranking, Index begin, Index end,
                             double *out) {
  const Index k = W.n_features;
  each_sparse_row(rows, W, begin, end, [&](Index i, const auto row, const auto weights) {
    double *const s = out + i * k;
    std::fill_n(s, k, 0.0);
    for (Index t = 0; t < row.count; ++t) {
      const double x = static_cast<double>(row.value[t]);
      if (x == 0) continue;
      const auto list = weights(row.feature(t));
      for (Index c = 0; c < list.count; ++c) s[list.lane(c)] += x * list.value(c);
    }
    for (Index m = 0; m < k; ++m) s[m] += ranking[m];
  });
}

} // namespace mm::MM_ISA
