// Steps of Pegasos (Shalev-Shwartz, Singer, Srebro 2007) on the hinge loss, one batch after the other. pegasos.hpp
// says what the array W, its scale, the duals and `projected` are to each other.
#pragma once

#include "epoch.hpp"

namespace mm::MM_ISA {

// In which lanes an example's loss has a slope, and by what its duals are to change there.
struct Slopes {
  const PegasosArgs &args;
  double cap;
  const double *a;
  std::int32_t *lane;
  double *change;
  Index count = 0;

  // Never above the cap, whatever the rounding.
  double step(double alpha, double projected) const {
    return smaller(args.share * cap, cap - projected * alpha) / projected;
  }
  void add(Index m, double by) {
    lane[count] = static_cast<std::int32_t>(m);
    change[count++] = by;
  }
};

struct Top {
  Index lane;
  double score;
};

// The largest score, and the first lane that has it. Two chains of comparisons hide each other's latency.
inline Top top_lane(const double *s, Index lanes) {
  Double4 best[2] = {splat<Double4>(-kInfinity), splat<Double4>(-kInfinity)}, where[2] = {};
  Double4 here = {0, 1, 2, 3};
  const auto compare = [&](int chain, Index m) __attribute__((always_inline)) {
    const Double4 v = load<Double4>(s + m);
    const Long4 above = v > best[chain];
    where[chain] = above ? here : where[chain];
    best[chain] = above ? v : best[chain];
    here += 4;
  };
  Index m = 0;
  for (; m + 4 < lanes; m += 8) {
    compare(0, m);
    compare(1, m + 4);
  }
  if (m < lanes) compare(0, m);
  const double score = horizontal_max(larger(best[0], best[1]));
  const Double4 far = splat<Double4>(kInfinity);
  const Double4 first = smaller(best[0] == score ? where[0] : far, best[1] == score ? where[1] : far);
  return {static_cast<Index>(horizontal_min(first)), score};
}

// Crammer-Singer: the class with the largest score, if it violates the margin, and the example's own.
inline double find_slopes(CrammerSinger<false>, double *s, Index y, Index lanes, double scale, Slopes &slopes) {
  const double own = s[y], projected = *slopes.args.projected;
  s[y] = -kInfinity;
  const Top other = top_lane(s, lanes);
  s[y] = own;
  const double slack = 1 - scale * projected * (own - other.score);
  if (!(slack > 0)) return 0;
  *slopes.args.loss += slopes.cap * slack;
  const double step = slopes.step(slopes.a[y], projected);
  slopes.add(y, step);
  slopes.add(other.lane, -step);
  return slack;
}

// Lanes: every one that violates its margin.
inline double find_slopes(OneVsRest<false>, double *s, Index label, Index lanes, double scale, Slopes &slopes) {
  const double *projected = slopes.args.projected;
  double *loss = slopes.args.loss, worst = 0;
  const auto single = [&](Index m, double z) {
    const double slack = 1 - scale * projected[m] * (z * s[m]);
    if (!(slack > 0)) return;
    loss[m] += slopes.cap * slack;
    worst = larger(worst, slack);
    slopes.add(m, z * slopes.step(z * slopes.a[m], projected[m]));
  };
  if (lanes == 1) {
    single(0, label >= 0 ? 1 : -1);
    return worst;
  }
  const double own = label >= 0 ? s[label] : 0;
  if (label >= 0) s[label] = -kInfinity; // as a negative it has no loss
  for (Index m = 0; m < lanes; m += 4) {
    const Long4 violated = 1 + scale * load<Double4>(projected + m) * load<Double4>(s + m) > 0;
    if (!any(violated)) continue;
    for (Index j = 0; j < 4; ++j)
      if (violated[j]) single(m + j, -1);
  }
  if (label >= 0) {
    s[label] = own;
    single(label, 1);
  }
  return worst;
}

template <class Policy> Index pegasos(const Examples &x, const WeightsView &weights, const PegasosArgs &args) {
  Index position = args.begin;
  with_weights(weights, [&]<class S>(S *W) {
    const RowOperations<S> rows = row_operations<S>(*x.rows);
    const Buffers buffer(x);
    const bool projects = args.bound < kInfinity;
    for (Index m = 0; m < x.lanes; ++m) buffer.next[m] = 0;
    bool fold = false;
    while (position < args.end && !fold) {
      const Index size = smaller(args.batch, args.end - position);
      const double seen = args.seen + static_cast<double>(position);
      const double scale = seen > 0 ? args.horizon / seen : 0; // at the very first W is zero
      for (Index b = 0; b < size; ++b) {
        const Index at = position + b, e = args.order[at];
        const Index next_row = x.row[args.order[at + 1 < args.end ? at + 1 : at]];
        rows.prefetch(*x.rows, next_row);
        rows.scores(*x.rows, x.row[e], next_row, W, weights.stride, buffer.s);
        pad(buffer.s, x.lanes, padded(x.lanes, 4));
        Slopes slopes{args, x.cap[e], x.alpha + e * x.alpha_stride, args.lane + b * args.most,
                      args.change + b * args.most};
        const double slack = find_slopes(Policy{}, buffer.s, x.label[e], x.lanes, scale, slopes);
        *args.violation = larger(*args.violation, slack);
        args.count[b] = slopes.count;
      }

      const double next_scale = args.horizon / (seen + static_cast<double>(size));
      for (Index b = 0; b < size; ++b) {
        const Index e = args.order[position + b], n = args.count[b];
        if (n == 0) continue;
        const std::int32_t *lane = args.lane + b * args.most;
        const double *change = args.change + b * args.most;
        if (projects) {
          if (size > 1) rows.scores(*x.rows, x.row[e], x.row[e], W, weights.stride, buffer.s); // others have moved W
          for (Index c = 0; c < n; ++c)
            args.norm[Policy::separable ? lane[c] : 0] += change[c] * (2 * buffer.s[lane[c]] + change[c] * x.norm[e]);
        }
        double *a = x.alpha + e * x.alpha_stride;
        for (Index c = 0; c < n; ++c) a[lane[c]] += change[c];
        const Lanes lanes{lane, n, 0, 0};
        const Move move = move_of<S>(x.row[e], lanes, change, buffer.next, weights.stride, buffer, 1);
        if (move.row < 0) continue; // at its cap already
        rows.add(*x.rows, move, W, weights.stride);
        ++*args.updates;
      }
      for (Index b = 0; b < size && projects; ++b)
        for (Index c = 0; c < (Policy::separable ? args.count[b] : 1); ++c) {
          const Index part = Policy::separable ? args.lane[b * args.most + c] : 0;
          const double most = args.bound / (next_scale * next_scale * args.norm[part]);
          double &projected = args.projected[part];
          if (most > 0 && most < projected * projected) projected = __builtin_sqrt(most);
          fold = fold || projected < kFoldBelow;
        }
      position += size;
    }
  });
  return position;
}

} // namespace mm::MM_ISA
