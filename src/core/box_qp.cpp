#include "box_qp.hpp"

#include <algorithm>
#include <cmath>

namespace mm {

namespace {
constexpr double kAtRest = 1e-11;  // gradients this small beside those at the start are zero
constexpr double kNearRest = 0.01; // so small that Newton's steps take over from single variables
constexpr int kSweeps = 30;
constexpr double kLeastPivot = 1e-12; // beside the diagonal: singular directions get this curvature

// The variable i moves, and with it the gradient.
void move(const std::vector<double> &Q, std::size_t i, double to, std::vector<double> &x, std::vector<double> &g) {
  const double change = to - x[i];
  const double *const column = Q.data() + i * g.size();
  double *const at = g.data();
  x[i] = to;
  for (std::size_t j = 0; j < g.size(); ++j) at[j] += column[j] * change;
}
} // namespace

// direction_ = -Q^-1 g over the free variables, by Cholesky; whether that is a number.
bool BoxQp::newton(const std::vector<double> &Q, const std::vector<double> &g, std::size_t q) {
  const std::size_t f = which_.size();
  factor_.resize(f * f);
  direction_.resize(f);
  column_.resize(f);
  for (std::size_t r = 0; r < f; ++r)
    for (std::size_t c = 0; c <= r; ++c) factor_[r * f + c] = Q[which_[r] * q + which_[c]];
  for (std::size_t c = 0; c < f; ++c) {
    const double pivot = std::sqrt(std::max(factor_[c * f + c], kLeastPivot * Q[which_[c] * q + which_[c]]));
    factor_[c * f + c] = pivot;
    for (std::size_t r = c + 1; r < f; ++r) {
      column_[r] = factor_[r * f + c] /= pivot;
      double *const row = factor_.data() + r * f;
      const double factor = column_[r];
      for (std::size_t t = c + 1; t <= r; ++t) row[t] -= factor * column_[t];
    }
  }
  for (std::size_t r = 0; r < f; ++r) {
    double sum = -g[which_[r]];
    for (std::size_t t = 0; t < r; ++t) sum -= factor_[r * f + t] * direction_[t];
    direction_[r] = sum / factor_[r * f + r];
  }
  for (std::size_t r = f; r-- > 0;) {
    double sum = direction_[r];
    for (std::size_t t = r + 1; t < f; ++t) sum -= factor_[t * f + r] * direction_[t];
    direction_[r] = sum / factor_[r * f + r];
  }
  return std::all_of(direction_.begin(), direction_.end(), [](double d) { return std::isfinite(d); });
}

void BoxQp::solve(const std::vector<double> &Q, const std::vector<double> &upper, std::vector<double> &x,
                  std::vector<double> &g) {
  const std::size_t q = x.size();
  double scale = 0;
  for (const double v : g) scale = std::max(scale, std::abs(v));
  const double rest = kAtRest * scale;
  const auto inward = [&](std::size_t i) { return x[i] <= 0 ? -g[i] : x[i] >= upper[i] ? g[i] : std::abs(g[i]); };
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double largest = 0;
    for (std::size_t i = 0; i < q; ++i) {
      if (!(inward(i) > rest)) continue;
      largest = std::max(largest, inward(i));
      move(Q, i, std::clamp(x[i] - g[i] / Q[i * q + i], 0.0, upper[i]), x, g);
    }
    if (largest <= kNearRest * scale) break;
  }
  free_.assign(q, 0);
  for (std::size_t i = 0; i < q; ++i) free_[i] = (x[i] > 0 && x[i] < upper[i]) || inward(i) > rest;
  for (std::size_t pass = 0; pass < 20 * q + 50; ++pass) {
    which_.clear();
    for (std::size_t i = 0; i < q; ++i)
      if (free_[i]) which_.push_back(i);
    const bool moves = std::any_of(which_.begin(), which_.end(), [&](std::size_t i) { return std::abs(g[i]) > rest; });
    if (moves && newton(Q, g, q)) {
      double step = 1;
      for (std::size_t t = 0; t < which_.size(); ++t) {
        const double room = direction_[t] > 0 ? upper[which_[t]] - x[which_[t]] : x[which_[t]];
        if (std::abs(direction_[t]) * step > room) step = room / std::abs(direction_[t]);
      }
      for (std::size_t t = 0; t < which_.size(); ++t) {
        const std::size_t i = which_[t];
        const double room = direction_[t] > 0 ? upper[i] - x[i] : x[i];
        const bool meets = std::abs(direction_[t]) * step >= room;
        move(Q, i, meets ? (direction_[t] > 0 ? upper[i] : 0) : x[i] + step * direction_[t], x, g);
        if (meets) free_[i] = 0;
      }
      continue;
    }
    std::size_t enters = q;
    for (std::size_t i = 0; i < q; ++i)
      if (!free_[i] && inward(i) > rest && (enters == q || inward(i) > inward(enters))) enters = i;
    if (enters == q) return;
    free_[enters] = 1;
  }
}

} // namespace mm
