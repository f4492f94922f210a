#include "decomposition.hpp"

#include <cmath>
#include <numeric>

namespace mm {

namespace {
using Selection = Strategy::Selection;
using Threshold = Strategy::Threshold;

constexpr double kFirstEpsilon = 0.999; // 003, section 7
constexpr double kGainAccuracy = 1e-3;  // phi of 004 Figure 2
constexpr int kPassesOfRound = 6;       // through all examples, and through the active set

bool in_order(Selection s) { return s == Selection::cyclic || s == Selection::random; }

int worth_of(Selection s) { return in_order(s) ? 0 : static_cast<int>(s) - static_cast<int>(Selection::kkt); }

bool largest_first(const Strategy &s) {
  if (s.threshold == Threshold::max) return s.factor >= 1 && !in_order(s.selection);
  return s.threshold != Threshold::mean && s.selection == Selection::kkt;
}
} // namespace

template <class T>
Decomposition<T>::Decomposition(StoreView<T> rows, Index lanes, std::vector<std::int32_t> label,
                                std::vector<double> cap, const Strategy &strategy, std::uint64_t seed)
    : Base(std::move(rows), Formulation::crammer_singer, lanes, std::move(label), std::move(cap)),
      strategy_(strategy), largest_first_(largest_first(strategy)), random_(seed), epsilon_(kFirstEpsilon), all_(static_cast<std::size_t>(n_)) {
  const std::size_t n = static_cast<std::size_t>(n_);
  std::iota(all_.begin(), all_.end(), 0);
  // Cyclic is one order again and again, but not that of the file: sorted by class, the method is many times slower.
  shuffle(all_);
  used_.resize(n);
  if (!largest_first_) return;
  this->open_windows();
  every_.assign(n, -1);
  // A move of u in all (up and down) gains at most 2 (violation u - A/2 ||change||^2), with ||change||^2 >= 2 u^2 for
  // a pair of duals and >= 4 u^2 / k for all.
  const double least = *std::min_element(curvature_.begin(), curvature_.end());
  if (strategy_.selection == Selection::amg) factor_ = 0.5 / least;
  if (strategy_.selection == Selection::bmg) factor_ = 0.25 * static_cast<double>(lanes_) / least;
}

template <class T> void Decomposition<T>::shuffle(std::vector<std::int32_t> &order) {
  for (std::size_t t = order.size(); t > 1; --t)
    std::swap(order[t - 1], order[random_.below(static_cast<std::uint32_t>(t))]);
}

template <class T> typename ScoredMachine<T>::Progress Decomposition<T>::step() {
  if (!open_) return begin_round();
  const Index p = next();
  if (p < 0) {
    open_ = false;
    return moved_ > 0 ? Progress::more : Progress::stuck;
  }
  this->spend(static_cast<double>(10 * stride_));
  const Stepped stepped = kernels().step[static_cast<int>(strategy_.step)](this->examples(), scores_.data(), p,
                                                                             accuracy_);
  const double *const old = alpha_.data() + p * stride_;
  if (!(stepped.gain > 0) || std::equal(old, old + lanes_, stepped.next)) {
    if (largest_first_) top_[static_cast<std::size_t>(p)] = low_[static_cast<std::size_t>(p)]; // not in this round again
    return Progress::more;
  }
  const std::vector<double> duals(stepped.next, stepped.next + stride_); // the workspace is used again
  const std::int32_t which = static_cast<std::int32_t>(p);
  Tile tile;
  this->fetch(&which, 1, &tile);
  this->take(&which, 1, &tile, duals.data());
  if (largest_first_) {
    note_states(p);
    look(p);
  }
  ++moved_;
  ++moved_in_pass_;
  used_[static_cast<std::size_t>(p)] = this->in_use(p) ? -1 : 0;
  return Progress::more;
}

template <class T> void Decomposition<T>::note_states(Index i) {
  const Index y = label_[static_cast<std::size_t>(i)];
  for (Index m = 0; m < lanes_; ++m) {
    const bool free = alpha_[static_cast<std::size_t>(i * stride_ + m)] < (m == y ? cap_[static_cast<std::size_t>(i)] : 0);
    state_[static_cast<std::size_t>(m * n_ + i)] =
        static_cast<signed char>(Windows::above | (free ? Windows::below : 0) | (m == y ? Windows::less : 0));
  }
}

template <class T> Worth Decomposition<T>::look(Index i) {
  this->spend(static_cast<double>(3 * stride_));
  const Worth worth = kernels().worth[worth_of(strategy_.selection)](this->examples(), scores_.data(), i);
  if (largest_first_) {
    top_[static_cast<std::size_t>(i)] = worth.top;
    low_[static_cast<std::size_t>(i)] = worth.low;
  }
  return worth;
}

template <class T> typename ScoredMachine<T>::Progress Decomposition<T>::begin_round() {
  double violation = 0, largest = 0, sum = 0;
  for (Index i = 0; i < n_; ++i) {
    const Worth worth = look(i);
    violation = std::max(violation, worth.top - worth.low);
    largest = std::max(largest, worth.value);
    sum += worth.value;
    used_[static_cast<std::size_t>(i)] = this->in_use(i) ? -1 : 0;
    if (largest_first_) note_states(i);
  }
  if (!(largest > 0)) return Progress::stuck;
  rho_ = threshold(largest, sum / static_cast<double>(n_));
  // epsilon of 003 Figure 4, which asks its fixed point for half of it
  const double epsilon = factor_ == 0 && rho_ > 0 ? rho_ : std::min(strategy_.tolerance, violation);
  accuracy_ = strategy_.step == Step::fixed_point ? 0.5 * epsilon : kGainAccuracy;
  ++rounds_;
  moved_ = 0;
  passes_ = 0;
  begin_pass(true);
  open_ = true;
  return violation <= strategy_.tolerance ? Progress::settled : Progress::more;
}

// epsilon(t) of 003, section 7.
template <class T> double Decomposition<T>::cooled() {
  const double t = rounds_;
  switch (strategy_.threshold) {
  case Threshold::exponential: return kFirstEpsilon * std::exp(-t);
  case Threshold::linear: return kFirstEpsilon / (t + 1);
  // As printed, epsilon_0 / log10(t + 10) stays above 0.1 for ten thousand million rounds, and 004 finds that it never
  // reaches the optimum. So each quotient is taken of the last epsilon, not of the first.
  case Threshold::logarithmic: return epsilon_ /= std::log10(t + 10);
  default: return 0;
  }
}

template <class T> double Decomposition<T>::threshold(double largest, double mean) {
  double rho = 0;
  if (strategy_.threshold == Threshold::mean) rho = mean;
  else if (strategy_.threshold == Threshold::max) rho = strategy_.factor * largest;
  else if (strategy_.cooling) rho = std::max(cooled(), strategy_.tolerance);
  else if (!in_order(strategy_.selection)) rho = strategy_.tolerance;
  // (else the baseline of 003: every example, whatever its violation)
  return rho < largest ? rho : 0.5 * largest; // a threshold that nobody exceeds would end the method
}

template <class T> Index Decomposition<T>::next() {
  if (!largest_first_) return next_in_order();
  if (strategy_.shrinking)
    if (const Index i = largest(used_, rho_); i >= 0) return i;
  return largest(every_, rho_);
}

// The example of the largest value above `above`. The one with the widest window is looked at first: most others have
// no room in theirs for a value as large.
template <class T> Index Decomposition<T>::largest(const std::vector<signed char> &among, double above) {
  const Windows windows = this->windows();
  Index best = -1;
  const auto compare = [&](Index i) {
    if (const double value = look(i).value; value > above) {
      above = value;
      best = i;
    }
  };
  const auto next = [&](Index from) { // whose value may be larger
    const double violation = factor_ > 0 ? std::sqrt(above / factor_) : above;
    return kernels().next_wider(windows, among.data(), from, n_, violation);
  };
  this->spend(static_cast<double>(2 * n_));
  const Index first = kernels().widest(windows, among.data(), n_);
  if (first < 0) return -1;
  compare(first);
  for (Index i = next(0); i < n_; i = next(i + 1))
    if (i != first) compare(i);
  return best;
}

template <class T> void Decomposition<T>::begin_pass(bool whole) {
  order_.clear();
  std::copy_if(all_.begin(), all_.end(), std::back_inserter(order_),
               [&](std::int32_t i) { return whole || used_[static_cast<std::size_t>(i)]; });
  if (strategy_.selection != Selection::cyclic) shuffle(order_);
  at_ = 0;
  moved_in_pass_ = 0;
  ++passes_;
}

// A pass through all examples; with shrinking, then passes through the active set while they find something to do.
template <class T> Index Decomposition<T>::next_in_order() {
  for (;;) {
    for (; at_ < order_.size(); ++at_) {
      const Index i = order_[at_];
      if (look(i).value > rho_) {
        ++at_;
        return i;
      }
    }
    if (!strategy_.shrinking || moved_in_pass_ == 0 || passes_ == kPassesOfRound) return -1;
    begin_pass(false);
  }
}

template <class T> void Decomposition<T>::state(State &state) {
  Base::state(state);
  state.random(random_);
  state.number("open", open_);
  state.number("rounds", rounds_);
  state.number("epsilon", epsilon_);
  state.number("rho", rho_);
  state.number("accuracy", accuracy_);
  state.number("moved", moved_);
  state.array("used", used_);
  state.check(std::all_of(used_.begin(), used_.end(), [](signed char u) { return u == 0 || u == -1; }),
              "an active set that is no mask");
  state.indices("order", order_, n_, n_);
  state.number("at", at_);
  state.check(at_ <= order_.size(), "a pass that has gone past its end");
  state.number("moved_in_pass", moved_in_pass_);
  state.number("passes", passes_);
}

template class Decomposition<float>;
template class Decomposition<double>;

} // namespace mm
