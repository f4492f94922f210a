#include "kernel_block.hpp"

#include <cmath>
#include <numeric>

namespace mm {

namespace {
constexpr Index kWorkingSet = 512;
constexpr double kInnerReduction = 0.1; // of the violation
constexpr int kInnerPasses = 100;
constexpr int kShrunkPasses = 5;        // between full ones
} // namespace

template <class T>
KernelBlock<T>::KernelBlock(StoreView<T> rows, Formulation formulation, Index lanes, std::vector<std::int32_t> label,
                            std::vector<double> cap, Index working_set, std::uint64_t seed)
    : WorkingSetMachine<T>(std::move(rows), lanes, std::move(cap), working_set > 0 ? working_set : kWorkingSet),
      formulation_(formulation), label_(std::move(label)), violation_(label_.size()),
      workspace_(static_cast<std::size_t>(workspace_size(lanes))), random_(seed) {}

template <class T> void KernelBlock<T>::select() {
  auto &set = this->set_;
  auto &in_set = this->in_set_;
  const auto worse = [&](std::int32_t a, std::int32_t b) {
    const double va = violation_[static_cast<std::size_t>(a)], vb = violation_[static_cast<std::size_t>(b)];
    return va > vb || (va == vb && a < b);
  };
  std::vector<std::int32_t> before = std::move(set), others;
  set.clear();
  for (const std::int32_t i : before) in_set[static_cast<std::size_t>(i)] = 1;
  for (std::size_t i = 0; i < violation_.size(); ++i)
    if (!in_set[i] && violation_[i] > 0) others.push_back(static_cast<std::int32_t>(i));
  for (const std::int32_t i : before) in_set[static_cast<std::size_t>(i)] = 0;
  const auto take = [&](std::vector<std::int32_t> &from, Index count) {
    count = std::min(count, static_cast<Index>(from.size()));
    std::nth_element(from.begin(), from.begin() + count, from.end(), worse);
    set.insert(set.end(), from.begin(), from.begin() + count);
  };
  const Index most = this->most_, fresh = std::min(static_cast<Index>(others.size()), most);
  const Index kept = std::min(static_cast<Index>(before.size()), std::max(most / 2, most - fresh));
  take(others, most - kept);
  take(before, kept);
  std::sort(set.begin(), set.end()); // so that their values lie in the order in which a row is read
}

template <class T> bool KernelBlock<T>::solve() {
  const std::size_t q = this->set_.size(), lanes = static_cast<std::size_t>(this->lanes_);
  const std::size_t stride = static_cast<std::size_t>(this->stride_), n = static_cast<std::size_t>(this->n_);
  std::vector<std::int32_t> label(q), order(q), full(q);
  std::vector<double> cap(q), curvature(q), alpha(q * stride), scores(q * lanes), violation(q);
  double start = 0;
  for (std::size_t r = 0; r < q; ++r) {
    const std::size_t i = static_cast<std::size_t>(this->set_[r]);
    label[r] = label_[i];
    cap[r] = this->cap_[i];
    curvature[r] = this->curvature_[i];
    std::copy_n(this->alpha_.data() + i * stride, stride, alpha.data() + r * stride);
    for (std::size_t m = 0; m < lanes; ++m) scores[m * q + r] = this->scores_[m * n + i];
    violation[r] = violation_[i];
    start = std::max(start, violation_[i]);
  }
  const double threshold = kInnerReduction * start;
  const KernelExamples x{static_cast<Index>(q), this->lanes_, static_cast<Index>(q), label.data(),     cap.data(),
                         curvature.data(),      alpha.data(), this->stride_,         workspace_.data()};
  std::iota(full.begin(), full.end(), 0);
  Index updates = 0;
  int since_full = kShrunkPasses;
  for (int pass = 0; pass < kInnerPasses; ++pass) {
    order.clear();
    if (since_full < kShrunkPasses)
      std::copy_if(full.begin(), full.end(), std::back_inserter(order),
                   [&](std::int32_t r) { return violation[static_cast<std::size_t>(r)] > threshold; });
    const bool whole = order.empty();
    if (whole) order = full;
    since_full = whole ? 0 : since_full + 1;
    for (std::size_t t = order.size(); t > 1; --t)
      std::swap(order[t - 1], order[random_.below(static_cast<std::uint32_t>(t))]);
    Swept swept{violation.data(), 0, 0};
    kernels().loops<T>().sweep[static_cast<int>(formulation_)](x, this->square_.data(), scores.data(), order.data(),
                                                                static_cast<Index>(order.size()), threshold, swept);
    updates += swept.updates;
    if (whole && swept.updates == 0) break;
  }
  for (std::size_t r = 0; r < q; ++r) {
    double *const old = this->alpha_.data() + static_cast<std::size_t>(this->set_[r]) * stride;
    for (std::size_t m = 0; m < lanes; ++m) {
      const double fresh = alpha[r * stride + m];
      alpha[r * stride + m] = fresh - old[m];
      old[m] = fresh;
    }
  }
  this->add(alpha.data());
  return updates > 0;
}

template <class T> Round KernelBlock<T>::certified() {
  const std::size_t room = static_cast<std::size_t>(parts_size(this->lanes_));
  std::vector<double> loss(room), dual(room), quadratic(room);
  Scanned scanned{violation_.data(), loss.data(), dual.data(), quadratic.data()};
  const KernelExamples x{this->n_,          this->lanes_,        this->n_,      label_.data(),
                         this->cap_.data(), this->curvature_.data(), this->alpha_.data(), this->stride_,
                         workspace_.data()};
  kernels().scan[static_cast<int>(formulation_)](x, this->scores_.data(), 0, this->n_, scanned);
  Round round;
  round.complete = true;
  for (const double v : violation_) round.violation = std::max(round.violation, v);
  for (Index p = 0; p < n_parts(); ++p) {
    const std::size_t at = static_cast<std::size_t>(p);
    const double primal = 0.5 * quadratic[at] + loss[at], f = 0.5 * quadratic[at] + dual[at];
    round.primal += primal;
    round.dual -= f;
    round.worst_gap = std::max(round.worst_gap, (primal + f) / std::max(std::abs(primal), 1e-300));
  }
  return round;
}

template class KernelBlock<float>;
template class KernelBlock<double>;

} // namespace mm
