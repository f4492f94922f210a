#include "kernel_block.hpp"

#include <cmath>
#include <numeric>

namespace mm {

namespace {
constexpr Index kWorkingSet = 512;
constexpr double kInnerReduction = 0.1; // of the violation
constexpr int kPlainPasses = 30;
constexpr int kShrunkPasses = 5;        // between full ones
// Accelerated passes: kappa starts at a multiple of the root of the mean of C K(x, x).
constexpr double kKappa = 0.3, kKappaFalls = 0.3, kKappaRises = 1.5;
constexpr double kWorkOfStages = 2e8; // about 50 ms
constexpr int kShrunkOfStage = 2;
constexpr int kStagesOfCheck = 5;  // between looks at f
constexpr int kStagesOfTrust = 10; // before a rise of f counts
} // namespace

template <class T>
KernelBlock<T>::KernelBlock(StoreView<T> rows, Formulation formulation, Index lanes, std::vector<std::int32_t> label,
                            std::vector<double> cap, Index working_set, bool shrinking, std::uint64_t seed)
    : WorkingSetMachine<T>(std::move(rows), lanes, std::move(cap), working_set > 0 ? working_set : kWorkingSet),
      formulation_(formulation), label_(std::move(label)), violation_(label_.size()),
      workspace_(static_cast<std::size_t>(workspace_size(lanes))), random_(seed), shrinking_(shrinking) {
  const double q = static_cast<double>(this->most_), pass = q * (8 * static_cast<double>(lanes) + 2 * q);
  stages_ = static_cast<int>(std::clamp(kWorkOfStages / ((1 + kShrunkOfStage) * pass), 10.0, 100.0));
  double sum = 0;
  for (std::size_t i = 0; i < label_.size(); ++i) sum += this->cap_[i] * this->curvature_[i];
  kappa_ = kKappa * std::sqrt(sum / std::max<double>(1, static_cast<double>(label_.size())));
}

template <class T> bool KernelBlock<T>::free(std::size_t i) const {
  const double *const a = this->alpha_.data() + i * static_cast<std::size_t>(this->stride_);
  for (Index m = 0; m < this->lanes_; ++m)
    if (a[m] != 0 && std::abs(a[m]) < this->cap_[i] && (m != label_[i] || n_parts() == this->lanes_)) return true;
  return false;
}

template <class T> void KernelBlock<T>::select() {
  auto &set = this->set_;
  auto &in_set = this->in_set_;
  std::vector<char> before(in_set.size());
  for (const std::int32_t i : set) before[static_cast<std::size_t>(i)] = 1;
  set.clear();
  // The most violating of some examples.
  const auto take = [&](auto eligible, Index most) {
    std::vector<std::int32_t> from;
    for (std::size_t i = 0; i < violation_.size(); ++i)
      if (!in_set[i] && eligible(i)) from.push_back(static_cast<std::int32_t>(i));
    const Index count = std::min(most, static_cast<Index>(from.size()));
    std::nth_element(from.begin(), from.begin() + count, from.end(), [&](std::int32_t a, std::int32_t b) {
      const double va = violation_[static_cast<std::size_t>(a)], vb = violation_[static_cast<std::size_t>(b)];
      return va > vb || (va == vb && a < b);
    });
    for (Index t = 0; t < count; ++t) in_set[static_cast<std::size_t>(from[static_cast<std::size_t>(t)])] = 1;
    set.insert(set.end(), from.begin(), from.begin() + count);
  };
  // Smaller violations than this would not be looked at in a pass over the set: they wait.
  const double least = kInnerReduction * *std::max_element(violation_.begin(), violation_.end());
  const auto violates = [&](std::size_t i) { return violation_[i] > least; };
  take([&](std::size_t i) { return violates(i) && !before[i]; }, (this->most_ + 1) / 2);
  take([&](std::size_t i) { return before[i] && (violates(i) || free(i)); }, this->most_ - static_cast<Index>(set.size()));
  take([&](std::size_t i) { return violates(i) || free(i); }, this->most_ - static_cast<Index>(set.size()));
  for (const std::int32_t i : set) in_set[static_cast<std::size_t>(i)] = 0;
  std::sort(set.begin(), set.end()); // so that their values lie in the order in which a row is read
}

template <class T> struct KernelBlock<T>::Working {
  std::size_t q, ld; // ld: between the scores of two lanes
  std::vector<std::int32_t> label, order, full;
  std::vector<double> cap, curvature, alpha, scores, violation;
  double threshold = 0;
  Index updates = 0;
  bool solved = false;
  KernelExamples x{};

  // One pass over all of the set, or over those of its examples that were above the threshold.
  // Whether nothing was left to do.
  bool pass(KernelBlock<T> &block, bool whole, double scale) {
    order.clear();
    if (!whole)
      std::copy_if(full.begin(), full.end(), std::back_inserter(order),
                   [&](std::int32_t r) { return violation[static_cast<std::size_t>(r)] > threshold; });
    if (order.empty()) {
      if (!whole) return true;
      order = full;
    }
    for (std::size_t t = order.size(); t > 1; --t)
      std::swap(order[t - 1], order[block.random_.below(static_cast<std::uint32_t>(t))]);
    Swept swept{violation.data(), 0};
    kernels().loops<T>().sweep[static_cast<int>(block.formulation_)](x, block.square_.data(), scores.data(),
                                                                      order.data(), static_cast<Index>(order.size()),
                                                                      scale, threshold, swept);
    updates += swept.updates;
    return swept.updates == 0;
  }
};

template <class T> bool KernelBlock<T>::solve() {
  const std::size_t q = this->set_.size(), lanes = static_cast<std::size_t>(this->lanes_);
  const std::size_t stride = static_cast<std::size_t>(this->stride_), n = static_cast<std::size_t>(this->n_);
  Working w;
  w.q = q;
  w.ld = static_cast<std::size_t>(this->square_ld_);
  w.alpha.resize(q * stride);
  w.scores.resize(w.ld * lanes);
  w.full.resize(q);
  std::iota(w.full.begin(), w.full.end(), 0);
  double start = 0;
  for (std::size_t r = 0; r < q; ++r) {
    const std::size_t i = static_cast<std::size_t>(this->set_[r]);
    w.label.push_back(label_[i]);
    w.cap.push_back(this->cap_[i]);
    w.curvature.push_back(this->curvature_[i]);
    std::copy_n(this->alpha_.data() + i * stride, stride, w.alpha.data() + r * stride);
    for (std::size_t m = 0; m < lanes; ++m) w.scores[m * w.ld + r] = this->scores_[m * n + i];
    w.violation.push_back(violation_[i]);
    start = std::max(start, violation_[i]);
  }
  w.threshold = kInnerReduction * start;
  w.x = {static_cast<Index>(q), this->lanes_,   this->square_ld_,      w.label.data(),     w.cap.data(),
         w.curvature.data(),    w.alpha.data(), this->stride_,         workspace_.data()};
  plain_passes(w);
  if (!w.solved) accelerated_passes(w);
  for (std::size_t r = 0; r < q; ++r) {
    double *const old = this->alpha_.data() + static_cast<std::size_t>(this->set_[r]) * stride;
    for (std::size_t m = 0; m < lanes; ++m) {
      const double fresh = w.alpha[r * stride + m];
      w.alpha[r * stride + m] = fresh - old[m];
      old[m] = fresh;
    }
  }
  this->add(w.alpha.data());
  return w.updates > 0;
}

template <class T> void KernelBlock<T>::plain_passes(Working &w) {
  int since_full = kShrunkPasses;
  for (int pass = 0; pass < kPlainPasses; ++pass) {
    const bool whole = !shrinking_ || since_full >= kShrunkPasses;
    const bool nothing = w.pass(*this, whole, 1);
    since_full = whole ? 0 : nothing ? kShrunkPasses : since_full + 1;
    if (whole && nothing) {
      w.solved = true;
      return;
    }
  }
}

// scores are those of W = (kappa Z + V) / lambda, lambda = 1 + kappa, V = sum alpha x: a change of alpha moves them by
// 1 / lambda of what it moves those of V. Too large a kappa may raise f: then the best duals seen are taken, and kappa
// is lowered.
template <class T> void KernelBlock<T>::accelerated_passes(Working &w) {
  const double lambda = 1 + kappa_, root = std::sqrt(1 / lambda), beta = (1 - root) / (1 + root);
  const std::vector<double> start = w.alpha, start_scores = w.scores;
  std::vector<double> best = w.alpha, z = w.scores, previous = w.scores, v = w.scores;
  const std::size_t lanes = static_cast<std::size_t>(this->lanes_), stride = static_cast<std::size_t>(this->stride_);
  // f less its value at the start, up to the linear terms; and the violations, at the scores of V.
  const auto look = [&] {
    const std::size_t room = static_cast<std::size_t>(parts_size(this->lanes_));
    std::vector<double> loss(room), dual(room), quadratic(room);
    Scanned scanned{w.violation.data(), loss.data(), dual.data(), quadratic.data()};
    kernels().scan[static_cast<int>(formulation_)](w.x, v.data(), 0, w.x.n, scanned);
    double f = std::accumulate(dual.begin(), dual.begin() + n_parts(), 0.0);
    for (std::size_t r = 0; r < w.q; ++r)
      for (std::size_t m = 0; m < lanes; ++m)
        f += 0.5 * (w.alpha[r * stride + m] - start[r * stride + m]) * (v[m * w.ld + r] + start_scores[m * w.ld + r]);
    return f;
  };
  double lowest = look();
  for (int stage = 1; stage <= stages_; ++stage) {
    w.pass(*this, true, 1 / lambda);
    for (int more = 0; more < kShrunkOfStage; ++more)
      if (w.pass(*this, !shrinking_, 1 / lambda)) break;
    for (std::size_t t = 0; t < z.size(); ++t) {
      v[t] = lambda * w.scores[t] - kappa_ * z[t];
      const double next = w.scores[t] + beta * (w.scores[t] - previous[t]);
      previous[t] = w.scores[t];
      w.scores[t] += kappa_ / lambda * (next - z[t]);
      z[t] = next;
    }
    if (stage % kStagesOfCheck != 0) continue;
    const double f = look();
    if (f < lowest) {
      lowest = f;
      best = w.alpha;
    } else if (stage >= kStagesOfTrust) {
      kappa_ *= kKappaFalls;
      break;
    }
    if (*std::max_element(w.violation.begin(), w.violation.end()) <= w.threshold) break;
    if (stage == stages_) kappa_ *= kKappaRises;
  }
  w.alpha = best;
}

template <class T> Round KernelBlock<T>::certified() {
  const KernelExamples x{this->n_,          this->lanes_,        this->n_,      label_.data(),
                         this->cap_.data(), this->curvature_.data(), this->alpha_.data(), this->stride_,
                         workspace_.data()};
  return lane_certificate(formulation_, x, this->scores_.data(), violation_.data());
}

template <class T> void KernelBlock<T>::state(State &state) {
  WorkingSetMachine<T>::state(state);
  state.array("violation", violation_);
  state.random(random_);
  state.number("kappa", kappa_);
  state.check(kappa_ >= 0 && std::isfinite(kappa_), "kappa out of range");
}

template class KernelBlock<float>;
template class KernelBlock<double>;

} // namespace mm
