#include "smo.hpp"

#include <cmath>
#include <limits>
#include <numeric>

namespace mm {

namespace {
constexpr Index kWorkingSet = 128, kWorkingSetOfCostly = 256;
constexpr double kCostly = 150; // values that cost more than this are computed faster in larger blocks
constexpr double kInnerReduction = 0.1; // of the violation
constexpr Index kStepsOfCall = 20000;
} // namespace

template <class T>
Smo<T>::Smo(StoreView<T> rows, std::vector<std::int32_t> sign, std::vector<double> cap, Index working_set)
    : WorkingSetMachine<T>(rows, 1, std::move(cap),
                           working_set > 0                    ? working_set
                           : rows.cost_of_value() > kCostly ? kWorkingSetOfCostly
                                                              : kWorkingSet),
      upper_(sign.size()), lower_(sign.size()), v_(sign.size()) {
  for (std::size_t i = 0; i < sign.size(); ++i) (sign[i] > 0 ? upper_[i] : lower_[i]) = sign[i] * this->cap_[i];
}

template <class T> void Smo<T>::select() {
  auto &set = this->set_;
  auto &in_set = this->in_set_;
  const auto &a_ = this->alpha_;
  const Index most = this->most_;
  // From both ends: duals that may rise with the largest v, duals that may fall with the smallest. The worst pair comes
  // first, so that every round moves something; else at most half of the set is new, and the rest are examples of the
  // last one, those farthest from rest.
  std::vector<std::int32_t> before = std::move(set), rising, falling;
  std::vector<char> old(in_set.size());
  set.clear();
  for (const std::int32_t i : before) old[static_cast<std::size_t>(i)] = 1;
  for (Index t = 0; t < this->n_; ++t) {
    const std::size_t i = static_cast<std::size_t>(t);
    if (a_[i] < upper_[i] && (v_[i] == top_ || (v_[i] > low_ && !old[i]))) rising.push_back(static_cast<std::int32_t>(t));
    if (a_[i] > lower_[i] && (v_[i] == low_ || (v_[i] < top_ && !old[i]))) falling.push_back(static_cast<std::int32_t>(t));
  }
  const auto take = [&](std::int32_t i) {
    char &taken = in_set[static_cast<std::size_t>(i)];
    if (taken || static_cast<Index>(set.size()) >= most) return;
    taken = 1;
    set.push_back(i);
  };
  const auto best = [](std::vector<std::int32_t> &from, Index count, auto key) {
    const auto order = [&](std::int32_t a, std::int32_t b) { return key(a) > key(b) || (key(a) == key(b) && a < b); };
    count = std::min(count, static_cast<Index>(from.size()));
    std::nth_element(from.begin(), from.begin() + count, from.end(), order);
    from.resize(static_cast<std::size_t>(count));
    std::sort(from.begin(), from.end(), order);
  };
  const Index fresh = std::max<Index>(2, before.empty() ? most : most - std::min(static_cast<Index>(before.size()), most / 2));
  best(rising, fresh, [&](std::int32_t i) { return v_[static_cast<std::size_t>(i)]; });
  best(falling, fresh, [&](std::int32_t i) { return -v_[static_cast<std::size_t>(i)]; });
  for (std::size_t t = 0; static_cast<Index>(set.size()) < fresh && t < std::max(rising.size(), falling.size()); ++t) {
    if (t < rising.size()) take(rising[t]);
    if (t < falling.size()) take(falling[t]);
  }
  const double middle = 0.5 * (top_ + low_);
  best(before, most, [&](std::int32_t t) { // how far from rest: above the middle and able to rise, or the reverse
    const std::size_t i = static_cast<std::size_t>(t);
    const bool rises = a_[i] < upper_[i], falls = a_[i] > lower_[i];
    return std::max(rises ? v_[i] - middle : -1e300, falls ? middle - v_[i] : -1e300);
  });
  for (const std::int32_t i : before) take(i);
  for (const std::int32_t i : set) in_set[static_cast<std::size_t>(i)] = 0;
  std::sort(set.begin(), set.end());
}

template <class T> bool Smo<T>::solve() {
  const std::size_t q = this->set_.size();
  if (q < 2) return false;
  std::vector<double> curvature(q), upper(q), lower(q), a(q), v(q);
  for (std::size_t r = 0; r < q; ++r) {
    const std::size_t i = static_cast<std::size_t>(this->set_[r]);
    curvature[r] = this->curvature_[i];
    upper[r] = upper_[i];
    lower[r] = lower_[i];
    a[r] = this->alpha_[i];
    v[r] = v_[i];
  }
  const Index steps =
      kernels().loops<T>().smo(this->square_.data(), static_cast<Index>(q), curvature.data(), upper.data(),
                               lower.data(), a.data(), v.data(), kInnerReduction * (top_ - low_), kStepsOfCall);
  for (std::size_t r = 0; r < q; ++r) {
    double &old = this->alpha_[static_cast<std::size_t>(this->set_[r])];
    const double fresh = a[r];
    a[r] = fresh - old;
    old = fresh;
  }
  this->add(a.data());
  return steps > 0;
}

template <class T> void Smo<T>::refresh() {
  top_ = -std::numeric_limits<double>::infinity();
  low_ = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < v_.size(); ++i) {
    const double a = this->alpha_[i];
    v_[i] = (upper_[i] > 0 ? 1 : -1) - this->scores_[i];
    if (a < upper_[i]) top_ = std::max(top_, v_[i]);
    if (a > lower_[i]) low_ = std::min(low_, v_[i]);
  }
}

template <class T> Round Smo<T>::certified() {
  const std::vector<double> &a_ = this->alpha_, &scores_ = this->scores_, &cap_ = this->cap_;
  const Index n_ = this->n_;
  refresh();
  Round round;
  round.complete = true;
  double quadratic = 0, linear = 0, positive_caps = 0;
  for (std::size_t i = 0; i < v_.size(); ++i) {
    quadratic += a_[i] * scores_[i];
    linear += std::abs(a_[i]);
    positive_caps += upper_[i];
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
  round.judge(round.primal - round.dual, round.primal);
  return round;
}

template class Smo<float>;
template class Smo<double>;

} // namespace mm
