#include "box_qp.hpp"

#include <algorithm>
#include <cmath>

namespace mm {

namespace {
constexpr double kAtRest = 1e-13;  // gradients this small beside those at the start are zero
constexpr double kLeastPivot = 1e-12; // beside the diagonal: singular directions get this curvature
} // namespace

// direction_ = -Q^-1 g over the free variables, by Cholesky; whether that is a number.
bool BoxQp::newton(const std::vector<double> &Q, const std::vector<double> &g, std::size_t q) {
  const std::size_t f = which_.size();
  factor_.assign(f * f, 0);
  direction_.assign(f, 0);
  for (std::size_t r = 0; r < f; ++r)
    for (std::size_t c = 0; c <= r; ++c) {
      double sum = Q[which_[r] * q + which_[c]];
      for (std::size_t t = 0; t < c; ++t) sum -= factor_[r * f + t] * factor_[c * f + t];
      const double diagonal = Q[which_[r] * q + which_[r]];
      factor_[r * f + c] = r == c ? std::sqrt(std::max(sum, kLeastPivot * diagonal)) : sum / factor_[c * f + c];
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
  free_.assign(q, 0);
  for (std::size_t i = 0; i < q; ++i) free_[i] = inward(i) > rest;
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
        const double before = x[i];
        x[i] = meets ? (direction_[t] > 0 ? upper[i] : 0) : before + step * direction_[t];
        if (meets) free_[i] = 0;
        if (x[i] != before)
          for (std::size_t j = 0; j < q; ++j) g[j] += Q[j * q + i] * (x[i] - before);
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
