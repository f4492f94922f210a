#include "binary_certificate.hpp"

#include <numeric>
#include <utility>

namespace mm {

BinaryBounds::BinaryBounds(const std::vector<std::int32_t> &sign, const std::vector<double> &cap)
    : upper(sign.size()), lower(sign.size()) {
  for (std::size_t i = 0; i < sign.size(); ++i) (sign[i] > 0 ? upper[i] : lower[i]) = sign[i] * cap[i];
}

BinaryLevels binary_levels(const BinaryBounds &bounds, const std::vector<double> &a, const std::vector<double> &scores,
                           bool free_bias, std::vector<double> &v) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  BinaryLevels levels{free_bias ? -infinity : 0, free_bias ? infinity : 0};
  for (std::size_t i = 0; i < a.size(); ++i) {
    v[i] = (bounds.upper[i] > 0 ? 1 : -1) - scores[i];
    if (a[i] < bounds.upper[i]) levels.top = std::max(levels.top, v[i]);
    if (a[i] > bounds.lower[i]) levels.low = std::min(levels.low, v[i]);
  }
  return levels;
}

// The primal's slope in b is -(caps of the positives) far left and rises by the cap of every v that b passes: b is the
// first v at which the caps passed reach those of the positives. Found as a median is, by halves.
static double best_bias(const std::vector<double> &cap, const BinaryBounds &bounds, const std::vector<double> &v) {
  if (v.empty()) return 0;
  const double positive_caps = std::accumulate(bounds.upper.begin(), bounds.upper.end(), 0.0);
  std::vector<std::pair<double, double>> passed(v.size()); // v and its cap
  for (std::size_t i = 0; i < v.size(); ++i) passed[i] = {v[i], cap[i]};
  const auto by_v = [](const auto &a, const auto &b) { return a.first < b.first; };
  double before = 0;
  for (auto begin = passed.begin(), end = passed.end();;) {
    if (end - begin == 1) return begin->first;
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, by_v);
    double lower_half = before;
    for (auto at = begin; at != middle; ++at) lower_half += at->second;
    if (lower_half >= positive_caps) {
      end = middle;
    } else {
      before = lower_half;
      begin = middle;
    }
  }
}

BinaryCertificate binary_certificate(const std::vector<double> &cap, const BinaryBounds &bounds,
                                     const std::vector<double> &a, const std::vector<double> &scores, bool free_bias,
                                     std::vector<double> &v) {
  BinaryCertificate out{{}, binary_levels(bounds, a, scores, free_bias, v)};
  const auto [top, low] = out.levels;
  if (free_bias) out.round.bias = best_bias(cap, bounds, v);
  const double bias = out.round.bias;
  double quadratic = 0, linear = 0, loss = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    quadratic += a[i] * scores[i];
    linear += std::abs(a[i]);
    loss += cap[i] * std::max(0.0, bounds.upper[i] > 0 ? v[i] - bias : bias - v[i]);
  }
  out.round.complete = true;
  out.round.violation = std::max(free_bias ? top - low : std::max(top, -low), 0.0);
  out.round.primal = 0.5 * quadratic + loss;
  out.round.dual = linear - 0.5 * quadratic;
  out.round.judge(out.round.primal - out.round.dual, out.round.primal);
  return out;
}

} // namespace mm
