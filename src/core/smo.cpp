#include "smo.hpp"

namespace mm {

namespace {
constexpr Index kLeastSet = 64, kMostSet = 512, kWholeSet = 128; // so few examples are a set as a whole
constexpr double kInnerReduction = 0.1; // of the violation
constexpr double kWholeReduction = 0.01; // where the set is the whole problem
constexpr Index kStepsOfCall = 20000;
} // namespace

template <class T>
Smo<T>::Smo(StoreView<T> rows, std::vector<std::int32_t> sign, std::vector<double> cap, Index working_set)
    : WorkingSetMachine<T>(std::move(rows), 1, std::move(cap), working_set > 0 ? working_set : kMostSet),
      bounds_(sign, this->cap_), v_(sign.size()) {}

template <class T> void Smo<T>::select() {
  auto &set = this->set_;
  auto &in_set = this->in_set_;
  const auto &a_ = this->alpha_;
  const auto [top, low] = levels_;
  const auto rises = [&](std::size_t i) { return a_[i] < bounds_.upper[i]; };
  const auto falls = [&](std::size_t i) { return a_[i] > bounds_.lower[i]; };
  // Duals between their bounds concern each other: the set has room for all of them.
  Index between = 0;
  for (std::size_t i = 0; i < in_set.size(); ++i) between += rises(i) && falls(i);
  const Index most = std::min(this->most_, this->n_ <= kWholeSet ? this->n_ : std::max(kLeastSet, between));
  // From both ends: duals that may rise with the largest v, duals that may fall with the smallest. The worst pair comes
  // first, so that every round moves something; else at most half of the set is new, and the rest are examples of the
  // last one, those farthest from rest.
  std::vector<std::int32_t> before = std::move(set), rising, falling;
  std::vector<char> old(in_set.size());
  set.clear();
  for (const std::int32_t i : before) old[static_cast<std::size_t>(i)] = 1;
  for (Index t = 0; t < this->n_; ++t) {
    const std::size_t i = static_cast<std::size_t>(t);
    const double v = v_[i];
    if (rises(i) && (v == top || (v > low && !old[i]))) rising.push_back(static_cast<std::int32_t>(t));
    if (falls(i) && (v == low || (v < top && !old[i]))) falling.push_back(static_cast<std::int32_t>(t));
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
  const double middle = 0.5 * (top + low);
  best(before, most, [&](std::int32_t t) { // how far from rest: above the middle and able to rise, or the reverse
    const std::size_t i = static_cast<std::size_t>(t);
    return std::max(rises(i) ? v_[i] - middle : -1e300, falls(i) ? middle - v_[i] : -1e300);
  });
  for (const std::int32_t i : before) take(i);
  for (const std::int32_t i : set) in_set[static_cast<std::size_t>(i)] = 0;
  std::sort(set.begin(), set.end());
}

template <class T> bool Smo<T>::solve() {
  const std::size_t q = this->set_.size();
  if (q < 2) return false;
  const std::size_t room = static_cast<std::size_t>(this->square_ld_);
  std::vector<double> curvature(room), upper(q), lower(q), a(q), v(room);
  std::vector<signed char> state(room);
  for (std::size_t r = 0; r < q; ++r) {
    const std::size_t i = static_cast<std::size_t>(this->set_[r]);
    curvature[r] = this->curvature_[i];
    upper[r] = bounds_.upper[i];
    lower[r] = bounds_.lower[i];
    a[r] = this->alpha_[i];
    v[r] = v_[i];
  }
  const double reduction = static_cast<Index>(q) == this->n_ ? kWholeReduction : kInnerReduction;
  const Index steps = kernels().loops<T>().smo(
      this->square_.data(), this->square_ld_, static_cast<Index>(q), curvature.data(), upper.data(), lower.data(),
      a.data(), v.data(), state.data(), reduction * (levels_.top - levels_.low), kStepsOfCall);
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
  levels_ = binary_levels(bounds_, this->alpha_, this->scores_, true, v_);
}

template <class T> Round Smo<T>::certified() {
  const BinaryCertificate out = binary_certificate(this->cap_, bounds_, this->alpha_, this->scores_, true, v_);
  levels_ = out.levels;
  return out.round;
}

template <class T> void Smo<T>::state(State &state) {
  WorkingSetMachine<T>::state(state);
  state.number("top", levels_.top);
  state.number("low", levels_.low);
  state.array("v", v_);
}

template class Smo<float>;
template class Smo<double>;

} // namespace mm
