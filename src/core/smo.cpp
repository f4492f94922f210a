#include "smo.hpp"

#include <cmath>
#include <limits>
#include <numeric>

namespace mm {

namespace {
constexpr Index kWorkingSet = 256;
constexpr double kInnerReduction = 0.1; // of the violation
constexpr Index kStepsOfCall = 20000;
constexpr double kLeastCurvature = 1e-12;
} // namespace

template <class T>
Smo<T>::Smo(StoreView<T> rows, std::vector<std::int32_t> sign, std::vector<double> cap, Index working_set)
    : rows_(std::move(rows)), n_(rows_.n()),
      most_(std::min({working_set > 0 ? working_set : kWorkingSet, rows_.rows_of_store(), n_})), cap_(std::move(cap)) {
  const std::size_t n = static_cast<std::size_t>(n_);
  curvature_.resize(n);
  upper_.resize(n);
  lower_.resize(n);
  a_.resize(n);
  scores_.resize(n);
  v_.resize(n);
  in_set_.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    curvature_[i] = std::max(rows_.diagonal(static_cast<Index>(i)), kLeastCurvature);
    (sign[i] > 0 ? upper_[i] : lower_[i]) = sign[i] * cap_[i];
  }
}

template <class T> Round Smo<T>::advance() {
  if (phase_ == Phase::start) { // scores of duals from an earlier fit, a slab of rows at a time
    set_.clear();
    std::vector<double> change;
    for (; fetched_ < n_ && static_cast<Index>(set_.size()) < std::min(rows_.rows_of_call(), most_); ++fetched_)
      if (const double a = a_[static_cast<std::size_t>(fetched_)]; a != 0) {
        set_.push_back(static_cast<std::int32_t>(fetched_));
        change.push_back(a);
      }
    const Index count = static_cast<Index>(set_.size());
    tiles_.resize(static_cast<std::size_t>(count * rows_.n_segments()));
    rows_.fetch(set_.data(), count, tiles_.data(), count);
    add(set_, change, count);
    set_.clear();
    if (fetched_ < n_) return {};
    phase_ = Phase::select;
    return certified(0, false);
  }
  if (phase_ == Phase::select) select();
  if (phase_ == Phase::fetch && !fetch()) return {};
  const Index visited = static_cast<Index>(set_.size());
  const bool stuck = solve() == 0;
  phase_ = Phase::select;
  return certified(visited, stuck);
}

template <class T> void Smo<T>::select() {
  // From both ends: duals that may rise with the largest v, duals that may fall with the smallest. At most half of
  // the set is new; the rest are examples of the last one, the worst first.
  std::vector<std::int32_t> before = std::move(set_), rising, falling;
  set_.clear();
  for (const std::int32_t i : before) in_set_[static_cast<std::size_t>(i)] = 1;
  for (Index t = 0; t < n_; ++t) {
    const std::size_t i = static_cast<std::size_t>(t);
    if (in_set_[i]) continue;
    if (a_[i] < upper_[i] && v_[i] > low_) rising.push_back(static_cast<std::int32_t>(t));
    if (a_[i] > lower_[i] && v_[i] < top_) falling.push_back(static_cast<std::int32_t>(t));
  }
  const auto v = [&](std::int32_t i) { return v_[static_cast<std::size_t>(i)]; };
  const auto higher = [&](std::int32_t a, std::int32_t b) { return v(a) > v(b) || (v(a) == v(b) && a < b); };
  const auto deeper = [&](std::int32_t a, std::int32_t b) { return v(a) < v(b) || (v(a) == v(b) && a < b); };
  const auto best = [](std::vector<std::int32_t> &from, Index count, auto order) {
    count = std::min(count, static_cast<Index>(from.size()));
    std::nth_element(from.begin(), from.begin() + count, from.end(), order);
    from.resize(static_cast<std::size_t>(count));
    std::sort(from.begin(), from.end(), order);
  };
  const auto take = [&](std::int32_t i) {
    char &taken = in_set_[static_cast<std::size_t>(i)];
    if (taken) return;
    taken = 1;
    set_.push_back(i);
  };
  const Index fresh = before.empty() ? most_ : most_ - std::min(static_cast<Index>(before.size()), most_ / 2);
  best(rising, fresh, higher);
  best(falling, fresh, deeper);
  for (std::size_t t = 0; static_cast<Index>(set_.size()) < fresh && t < std::max(rising.size(), falling.size()); ++t) {
    if (t < rising.size()) take(rising[t]);
    if (t < falling.size() && static_cast<Index>(set_.size()) < fresh) take(falling[t]);
  }
  // How far an old example is from rest: above the middle and able to rise, or below it and able to fall.
  const double middle = 0.5 * (top_ + low_);
  const auto unrest = [&](std::int32_t t) {
    const std::size_t i = static_cast<std::size_t>(t);
    const bool rises = a_[i] < upper_[i], falls = a_[i] > lower_[i];
    return std::max(rises ? v_[i] - middle : -1e300, falls ? middle - v_[i] : -1e300);
  };
  const Index kept = std::min(static_cast<Index>(before.size()), most_ - static_cast<Index>(set_.size()));
  std::nth_element(before.begin(), before.begin() + kept, before.end(), [&](std::int32_t a, std::int32_t b) {
    const double ua = unrest(a), ub = unrest(b);
    return ua > ub || (ua == ub && a < b);
  });
  for (const std::int32_t i : before) in_set_[static_cast<std::size_t>(i)] = 0;
  set_.insert(set_.end(), before.begin(), before.begin() + kept);
  for (const std::int32_t i : set_) in_set_[static_cast<std::size_t>(i)] = 0;
  std::sort(set_.begin(), set_.end());
  fetched_ = 0;
  tiles_.clear();
  tiles_.resize(set_.size() * static_cast<std::size_t>(rows_.n_segments()));
  phase_ = Phase::fetch;
}

template <class T> bool Smo<T>::fetch() {
  const Index size = static_cast<Index>(set_.size());
  const Index end = std::min(size, fetched_ + rows_.rows_of_call());
  rows_.fetch(set_.data() + fetched_, end - fetched_, tiles_.data() + fetched_, size);
  fetched_ = end;
  return fetched_ == size;
}

template <class T> Index Smo<T>::solve() {
  const std::size_t q = set_.size();
  if (q < 2) return 0;
  square_.resize(q * q);
  rows_.square(set_.data(), static_cast<Index>(q), tiles_.data(), static_cast<Index>(q), square_.data());
  std::vector<double> curvature(q), upper(q), lower(q), a(q), v(q);
  for (std::size_t r = 0; r < q; ++r) {
    const std::size_t i = static_cast<std::size_t>(set_[r]);
    curvature[r] = curvature_[i];
    upper[r] = upper_[i];
    lower[r] = lower_[i];
    a[r] = a_[i];
    v[r] = v_[i];
  }
  const Index steps =
      kernels().loops<T>().smo(square_.data(), static_cast<Index>(q), curvature.data(), upper.data(), lower.data(),
                               a.data(), v.data(), kInnerReduction * (top_ - low_), kStepsOfCall);
  for (std::size_t r = 0; r < q; ++r) {
    double &old = a_[static_cast<std::size_t>(set_[r])];
    const double change = a[r] - old;
    old = a[r];
    a[r] = change;
  }
  add(set_, a, static_cast<Index>(q));
  return steps;
}

template <class T>
void Smo<T>::add(const std::vector<std::int32_t> &which, const std::vector<double> &change, Index stride) {
  std::vector<std::vector<Index>> rows(1);
  std::vector<std::vector<double>> factor(1);
  for (std::size_t r = 0; r < which.size(); ++r)
    if (change[r] != 0) {
      rows[0].push_back(static_cast<Index>(r));
      factor[0].push_back(change[r]);
    }
  rows_.add(rows, factor, tiles_.data(), stride, scores_.data(), n_);
}

template <class T> Round Smo<T>::certified(Index visited, bool stuck) {
  Round round;
  round.complete = true;
  round.stuck = stuck;
  round.visited = visited;
  top_ = -std::numeric_limits<double>::infinity();
  low_ = std::numeric_limits<double>::infinity();
  double quadratic = 0, linear = 0, positive_caps = 0;
  for (Index t = 0; t < n_; ++t) {
    const std::size_t i = static_cast<std::size_t>(t);
    const double y = upper_[i] > 0 ? 1 : -1;
    v_[i] = y - scores_[i];
    if (a_[i] < upper_[i]) top_ = std::max(top_, v_[i]);
    if (a_[i] > lower_[i]) low_ = std::min(low_, v_[i]);
    quadratic += a_[i] * scores_[i];
    linear += std::abs(a_[i]);
    positive_caps += y > 0 ? cap_[i] : 0;
  }
  round.violation = std::max(top_ - low_, 0.0);
  // The primal's slope in b is -positive_caps far left and rises by the cap of every v that b passes.
  std::vector<std::int32_t> order(static_cast<std::size_t>(n_));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return v_[static_cast<std::size_t>(a)] < v_[static_cast<std::size_t>(b)];
  });
  double passed = 0;
  for (const std::int32_t i : order) {
    bias_ = v_[static_cast<std::size_t>(i)];
    passed += cap_[static_cast<std::size_t>(i)];
    if (passed >= positive_caps) break;
  }
  double loss = 0;
  for (Index t = 0; t < n_; ++t) {
    const std::size_t i = static_cast<std::size_t>(t);
    loss += cap_[i] * std::max(0.0, upper_[i] > 0 ? v_[i] - bias_ : bias_ - v_[i]);
  }
  round.primal = 0.5 * quadratic + loss;
  round.dual = linear - 0.5 * quadratic;
  round.worst_gap = (round.primal - round.dual) / std::max(std::abs(round.primal), 1e-300);
  return round;
}

template class Smo<float>;
template class Smo<double>;

} // namespace mm
