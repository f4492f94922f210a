#include "kernel_block.hpp"

#include <cmath>
#include <numeric>

namespace mm {

namespace {
constexpr Index kWorkingSet = 512;
constexpr double kInnerReduction = 0.1; // of the violation
constexpr int kInnerPasses = 100;
constexpr int kShrunkPasses = 5;        // between full ones
constexpr double kLeastCurvature = 1e-12;
} // namespace

template <class T>
KernelBlock<T>::KernelBlock(StoreView<T> rows, Formulation formulation, Index lanes, std::vector<std::int32_t> label,
                            std::vector<double> cap, Index working_set, std::uint64_t seed)
    : rows_(std::move(rows)), formulation_(formulation), n_(rows_.n()), lanes_(lanes), stride_(padded(lanes, 4)),
      most_(std::min({working_set > 0 ? working_set : kWorkingSet, rows_.rows_of_store(), n_})),
      label_(std::move(label)), cap_(std::move(cap)), random_(seed) {
  const std::size_t n = static_cast<std::size_t>(n_);
  curvature_.resize(n);
  for (Index i = 0; i < n_; ++i)
    curvature_[static_cast<std::size_t>(i)] = std::max(rows_.diagonal(i), kLeastCurvature);
  alpha_.resize(n * static_cast<std::size_t>(stride_));
  scores_.resize(n * static_cast<std::size_t>(lanes_));
  violation_.resize(n);
  in_set_.resize(n);
  workspace_.resize(static_cast<std::size_t>(workspace_size(lanes_)));
}

template <class T> KernelExamples KernelBlock<T>::examples() {
  return {n_,           lanes_,   n_, label_.data(), cap_.data(), curvature_.data(), alpha_.data(), stride_,
          workspace_.data()};
}

template <class T> void KernelBlock<T>::duals(double *out) const {
  for (Index i = 0; i < n_; ++i) std::copy_n(alpha_.data() + i * stride_, lanes_, out + i * lanes_);
}

template <class T> void KernelBlock<T>::set_duals(const double *duals) {
  for (Index i = 0; i < n_; ++i) std::copy_n(duals + i * lanes_, lanes_, alpha_.data() + i * stride_);
}

template <class T> Round KernelBlock<T>::advance() {
  if (phase_ == Phase::start) { // scores of duals from an earlier fit, a slab of rows at a time
    std::vector<std::int32_t> some;
    while (fetched_ < n_ && static_cast<Index>(some.size()) < std::min(rows_.rows_of_call(), most_)) {
      const double *const a = alpha_.data() + fetched_ * stride_;
      if (std::any_of(a, a + lanes_, [](double v) { return v != 0; })) some.push_back(static_cast<std::int32_t>(fetched_));
      ++fetched_;
    }
    if (!some.empty()) {
      const Index count = static_cast<Index>(some.size());
      tiles_.resize(static_cast<std::size_t>(count * rows_.n_segments()));
      rows_.fetch(some.data(), count, tiles_.data(), count);
      std::vector<std::vector<Index>> which(static_cast<std::size_t>(lanes_));
      std::vector<std::vector<double>> factor(which.size());
      for (Index r = 0; r < count; ++r)
        for (Index m = 0; m < lanes_; ++m)
          if (const double v = alpha_[static_cast<std::size_t>(some[static_cast<std::size_t>(r)] * stride_ + m)]; v != 0) {
            which[static_cast<std::size_t>(m)].push_back(r);
            factor[static_cast<std::size_t>(m)].push_back(v);
          }
      rows_.add(which, factor, tiles_.data(), count, scores_.data(), n_);
    }
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

template <class T> void KernelBlock<T>::select() {
  // Half of the set may stay: those of its examples that still violate most.
  const auto worse = [&](std::int32_t a, std::int32_t b) {
    const double va = violation_[static_cast<std::size_t>(a)], vb = violation_[static_cast<std::size_t>(b)];
    return va > vb || (va == vb && a < b);
  };
  before_ = std::move(set_);
  set_.clear();
  for (const std::int32_t i : before_) in_set_[static_cast<std::size_t>(i)] = 1;
  std::vector<std::int32_t> others;
  for (Index i = 0; i < n_; ++i)
    if (!in_set_[static_cast<std::size_t>(i)] && violation_[static_cast<std::size_t>(i)] > 0)
      others.push_back(static_cast<std::int32_t>(i));
  for (const std::int32_t i : before_) in_set_[static_cast<std::size_t>(i)] = 0;
  const auto take = [&](std::vector<std::int32_t> &from, Index count) {
    count = std::min(count, static_cast<Index>(from.size()));
    std::nth_element(from.begin(), from.begin() + count, from.end(), worse);
    std::sort(from.begin(), from.begin() + count); // rows of one class lie together
    set_.insert(set_.end(), from.begin(), from.begin() + count);
  };
  const Index kept = std::min(static_cast<Index>(before_.size()), std::max(most_ / 2, most_ - static_cast<Index>(others.size())));
  take(others, most_ - kept);
  take(before_, kept);
  fetched_ = 0;
  tiles_.clear();
  tiles_.resize(set_.size() * static_cast<std::size_t>(rows_.n_segments()));
  phase_ = Phase::fetch;
}

template <class T> bool KernelBlock<T>::fetch() {
  const Index size = static_cast<Index>(set_.size());
  const Index end = std::min(size, fetched_ + rows_.rows_of_call());
  rows_.fetch(set_.data() + fetched_, end - fetched_, tiles_.data() + fetched_, size);
  fetched_ = end;
  return fetched_ == size;
}

template <class T> Index KernelBlock<T>::solve() {
  const std::size_t q = set_.size(), lanes = static_cast<std::size_t>(lanes_), stride = static_cast<std::size_t>(stride_);
  if (q == 0) return 0;
  square_.resize(q * q);
  rows_.square(set_.data(), static_cast<Index>(q), tiles_.data(), static_cast<Index>(q), square_.data());
  std::vector<std::int32_t> label(q), order(q), full(q);
  std::vector<double> cap(q), curvature(q), alpha(q * stride), scores(q * lanes), violation(q);
  double start = 0;
  for (std::size_t r = 0; r < q; ++r) {
    const std::size_t i = static_cast<std::size_t>(set_[r]);
    label[r] = label_[i];
    cap[r] = cap_[i];
    curvature[r] = curvature_[i];
    std::copy_n(alpha_.data() + i * stride, stride, alpha.data() + r * stride);
    for (std::size_t m = 0; m < lanes; ++m) scores[m * q + r] = scores_[m * static_cast<std::size_t>(n_) + i];
    violation[r] = violation_[i];
    start = std::max(start, violation_[i]);
  }
  const double threshold = kInnerReduction * start;
  const KernelExamples x{static_cast<Index>(q), lanes_,  static_cast<Index>(q), label.data(), cap.data(),
                         curvature.data(),      alpha.data(), stride_,          workspace_.data()};
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
    kernels().loops<T>().sweep[static_cast<int>(formulation_)](x, square_.data(), scores.data(), order.data(),
                                                                static_cast<Index>(order.size()), threshold, swept);
    updates += swept.updates;
    if (whole && swept.updates == 0) break;
  }

  std::vector<std::vector<Index>> which(lanes);
  std::vector<std::vector<double>> factor(lanes);
  for (std::size_t r = 0; r < q; ++r) {
    double *const old = alpha_.data() + static_cast<std::size_t>(set_[r]) * stride;
    for (std::size_t m = 0; m < lanes; ++m) {
      const double change = alpha[r * stride + m] - old[m];
      if (change == 0) continue;
      which[m].push_back(static_cast<Index>(r));
      factor[m].push_back(change);
      old[m] = alpha[r * stride + m];
    }
  }
  rows_.add(which, factor, tiles_.data(), static_cast<Index>(q), scores_.data(), n_);
  return updates;
}

template <class T> Round KernelBlock<T>::certified(Index visited, bool stuck) {
  const std::size_t room = static_cast<std::size_t>(parts_size(lanes_));
  std::vector<double> loss(room), dual(room), quadratic(room);
  Scanned scanned{violation_.data(), loss.data(), dual.data(), quadratic.data()};
  kernels().scan[static_cast<int>(formulation_)](examples(), scores_.data(), 0, n_, scanned);
  Round round;
  round.complete = true;
  round.stuck = stuck;
  round.visited = visited;
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
