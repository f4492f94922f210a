// The hot loops of the primal methods, for the squared hinge on separable lanes. There the primal is smooth:
//
//   P(w) = 1/2 ||w||^2 + sum_i C_i max(0, b_i)^2,     b_i = 1 - z_i w.x_i,  z = +1 in the label's lane, else -1
//   grad P = w - V,   V = sum_i a_i x_i,              a_i = 2 C_i max(0, b_i) z_i
//   H v = v + sum_{i: b_i > 0} 2 C_i (x_i.v) x_i      (generalised Hessian)
//
// a is feasible for the dual: the point that w implies. As z w.x = 1 - b wherever a is not zero, its gap is
//
//   P(w) + f(a) = 1/2 ||w - V||^2 = 1/2 ||grad P||^2.
#pragma once

#include "epoch.hpp"

namespace mm::MM_ISA {

using Smooth = OneVsRest<true>;

// One pass of the trust-region method over examples [begin, end), see Responses.
inline void respond(const Examples &x, const Responses &pass, Index begin, Index end) {
  const RowOperations<double> rows = row_operations<double>(*x.rows);
  const Buffers buffer(x);
  double *s = buffer.s, *response = buffer.change;
  for (Index c = 0; c < pass.stride; ++c) response[c] = 0;
  bool all = false;
  for (Index c = 0; c < pass.count; ++c) all = all || pass.evaluates[c];
  for (Index e = begin; e < end; ++e) {
    double *alpha = x.alpha + e * x.alpha_stride;
    bool active = all;
    for (Index c = 0; c < pass.count && !active; ++c) active = alpha[pass.lane[c]] != 0;
    if (!active) continue;
    ++*pass.visited;
    rows.scores(*x.rows, x.row[e], x.row[e + 1 < end ? e + 1 : e], pass.query, pass.stride, s);
    for (Index c = 0; c < pass.count; ++c) {
      double &a = alpha[pass.lane[c]];
      if (pass.evaluates[c]) {
        const double z = pass.lane[c] == x.label[e] ? 1 : -1, zs = z * s[c];
        pass.loss[c] += Smooth::lane_loss(zs, x.cap[e]);
        response[c] = a = z * Smooth::implied_dual(1 - zs, x.cap[e]);
      } else {
        response[c] = a != 0 ? 2 * x.cap[e] * s[c] : 0;
      }
    }
    Index n = 0; // vectors of lanes with a response
    const Index width = pass.stride == 1 ? 1 : 4;
    for (Index first = 0; first < pass.stride; first += width) {
      bool any = false;
      for (Index c = first; c < first + width; ++c) any = any || response[c] != 0;
      buffer.changed[n] = first;
      n += any;
    }
    if (n > 0) rows.add_far(*x.rows, {x.row[e], response, buffer.changed, nullptr, n}, pass.out, pass.stride);
  }
}

// Residuals to the duals that they imply, in `alpha`, and to losses, added by lane.
inline void imply(const Examples &x, Index n_examples, const double *residual, double *loss) {
  for (Index e = 0; e < n_examples; ++e)
    for (Index m = 0; m < x.lanes; ++m) {
      const Index at = e * x.alpha_stride + m;
      loss[m] += Smooth::lane_loss(1 - residual[at], x.cap[e]);
      x.alpha[at] = (m == x.label[e] ? 1 : -1) * Smooth::implied_dual(residual[at], x.cap[e]);
    }
}

// Primal coordinate descent (Chang, Hsieh and Lin 2008): along feature j, as a function of the step d,
//
//   D(d) = P(w + d e_j) - P(w),  D'(0) = w_j - sum_i 2 C_i z_i x_ij max(0, b_i),  D''(0) = 1 + sum_{b_i > 0} 2 C_i x_ij^2
//
// The step is t d, d = -D'(0) / D''(0), with the first t of 1, 1/2, 1/4 ... for which D(t d) <= -sigma (t d)^2. That is
// certain, and not looked at, when t <= D''(0) / (H/2 + sigma), H = 1 + sum_i 2 C_i x_ij^2 (their Theorem 1): so rounding
// cannot keep the search going. All lanes step at once, each with its own t.
inline constexpr double kSufficient = 0.01; // sigma

// Values of `B` vectors of lanes, beginning with `first`; V is a vector of four lanes, or a plain double.
template <class V, int B> struct LaneBlock {
  static constexpr Index width = sizeof(V) / sizeof(double);
  Index first;
  V index[B];
  explicit LaneBlock(Index first_lane) : first(first_lane) {
    for (Index b = 0; b < B; ++b)
      for (Index c = 0; c < width; ++c)
        reinterpret_cast<double *>(&index[b])[c] = static_cast<double>(first + b * width + c);
  }
  // z v
  V signed_by(V v, int b, double label) const { return index[b] == splat<V>(label) ? v : -v; }
};

template <class V, int B, class Column>
inline double slope(const Column column, const Descent &x, Index first, double *gradient, double *curvature) {
  const LaneBlock<V, B> block(first);
  constexpr Index width = LaneBlock<V, B>::width;
  V g[B], h[B];
  for (int b = 0; b < B; ++b) g[b] = h[b] = V{};
  double largest = 1;
  for (Index t = 0; t < column.count; ++t) {
    if constexpr (Column::prefetches)
      if (t + kAhead < column.count)
        prefetch_lanes(x.residual + column.feature(t + kAhead) * x.stride + first, B * width);
    const Index i = column.feature(t);
    const double value = static_cast<double>(column.value[t]), c = 2 * x.cap[i] * value;
    const double label = static_cast<double>(x.label[i]);
    const double *r = x.residual + i * x.stride + first;
    largest += c * value;
    for (int b = 0; b < B; ++b) {
      const V residual = load<V>(r + b * width);
      g[b] -= block.signed_by(c * larger(residual, V{}), b, label);
      h[b] += residual > V{} ? splat<V>(c * value) : V{};
    }
  }
  for (int b = 0; b < B; ++b) {
    store(gradient + first + b * width, g[b]);
    store(curvature + first + b * width, h[b]);
  }
  return largest; // H
}

// Residuals after w_j += step, and by how much that changes the loss, added.
template <class V, int B, class Column>
inline void shift(const Column column, const Descent &x, Index first, const double *step, double *change) {
  const LaneBlock<V, B> block(first);
  constexpr Index width = LaneBlock<V, B>::width;
  V d[B], sum[B];
  for (int b = 0; b < B; ++b) {
    d[b] = load<V>(step + first + b * width);
    sum[b] = load<V>(change + first + b * width);
  }
  for (Index t = 0; t < column.count; ++t) {
    const Index i = column.feature(t);
    const double value = static_cast<double>(column.value[t]), cap = x.cap[i];
    const double label = static_cast<double>(x.label[i]);
    double *r = x.residual + i * x.stride + first;
    for (int b = 0; b < B; ++b) {
      const V before = load<V>(r + b * width), after = before - block.signed_by(value * d[b], b, label);
      const V p = larger(before, V{}), q = larger(after, V{});
      store(r + b * width, after);
      sum[b] += cap * ((q - p) * (q + p));
    }
  }
  for (int b = 0; b < B; ++b) store(change + first + b * width, sum[b]);
}

// Calls f(V{}, integral constant B, first lane) for blocks of at most six vectors: what registers hold.
template <class F> inline void each_block(Index stride, F f) {
  if (stride == 1) return f.template operator()<double, 1>(0);
  for (Index first = 0; first < stride;) {
    const Index vectors = (stride - first) / 4;
    if (vectors >= 6) f.template operator()<Double4, 6>(first), first += 24;
    else if (vectors >= 3) f.template operator()<Double4, 3>(first), first += 12;
    else if (vectors == 2) f.template operator()<Double4, 2>(first), first += 8;
    else f.template operator()<Double4, 1>(first), first += 4;
  }
}

inline void descend(const Descent &x, const std::int32_t *features, Index count) {
  with_matrix(*x.columns, [&]<class Matrix>(Matrix) {
    double *gradient = x.workspace, *curvature = gradient + x.stride, *step = curvature + x.stride,
           *change = step + x.stride, *taken = change + x.stride; // t d
    for (Index f = 0; f < count; ++f) {
      const auto column = Matrix::get(*x.columns, features[f]);
      double *w = x.W + features[f] * x.stride, largest = 1;
      each_block(x.stride, [&]<class V, int B>(Index first) {
        largest = slope<V, B>(column, x, first, gradient, curvature);
      });
      bool moves = false;
      for (Index m = 0; m < x.stride; ++m) {
        gradient[m] += w[m];
        curvature[m] += 1;
        x.squared_gradient[m] += gradient[m] * gradient[m];
        *x.steepest = larger(*x.steepest, larger(gradient[m], -gradient[m]));
        step[m] = taken[m] = -gradient[m] / curvature[m];
        change[m] = 0;
        moves = moves || step[m] != 0;
      }
      const double certain = largest / 2 + kSufficient;
      for (double t = 1; moves; t /= 2) {
        each_block(x.stride, [&]<class V, int B>(Index first) { shift<V, B>(column, x, first, step, change); });
        moves = false;
        for (Index m = 0; m < x.stride; ++m) {
          step[m] = 0;
          const double d = taken[m], decrease = change[m] + d * (w[m] + 0.5 * d);
          const bool hopeless = !(decrease - decrease == 0); // not finite: halving would never end
          if (d == 0 || hopeless || t * certain <= curvature[m] || decrease <= -kSufficient * d * d) continue;
          moves = true;
          taken[m] = d / 2;
          step[m] = -taken[m]; // back by half
        }
      }
      for (Index m = 0; m < x.stride; ++m) w[m] += taken[m];
    }
  });
}

} // namespace mm::MM_ISA
