#include "box_decomposition.hpp"

#include <cmath>
#include <limits>

namespace mm {

namespace {
constexpr std::size_t kWorkingSet = 20; // BSVM: 10. A larger one shares the search; the steps stay as many
constexpr Index kSortEvery = 256;       // steps
constexpr double kInfinity = std::numeric_limits<double>::infinity();
} // namespace

template <class T>
BoxDecomposition<T>::BoxDecomposition(StoreView<T> rows, Index lanes, std::vector<std::int32_t> label,
                                      std::vector<double> cap, Index working_set, bool shrinking, double tolerance)
    : Base(std::move(rows), Formulation::weston_watkins, lanes, std::move(label), std::move(cap)),
      working_set_(working_set > 0 ? static_cast<std::size_t>(std::max<Index>(2, working_set)) : kWorkingSet),
      shrinking_(shrinking), tolerance_(tolerance), own_(static_cast<std::size_t>(n_)) {
  this->open_windows();
  const auto room_for = [](Best &best, std::size_t count) {
    best.key.resize(count);
    best.what.resize(count);
  };
  room_for(nearest_, working_set_ / 2);
  room_for(worst_, working_set_);
}

template <class T> double BoxDecomposition<T>::Best::to_beat(std::size_t wanted) const {
  return count < wanted ? -kInfinity : key[wanted - 1];
}

template <class T> void BoxDecomposition<T>::Best::consider(double new_key, Variable v) {
  if (!(new_key > to_beat(key.size()))) return;
  std::size_t place = count < key.size() ? count++ : count - 1;
  for (; place > 0 && new_key > key[place - 1]; --place) {
    key[place] = key[place - 1];
    what[place] = what[place - 1];
  }
  key[place] = new_key;
  what[place] = v;
}

template <class T> void BoxDecomposition<T>::note_states(Index i) {
  const double cap = cap_[static_cast<std::size_t>(i)];
  for (std::int32_t m = 0; m < lanes_; ++m) {
    const Variable v{static_cast<std::int32_t>(i), m};
    const double alpha = -alpha_[static_cast<std::size_t>(i * stride_ + m)];
    signed char &state = state_[at(v)];
    const bool was_listed = state & listed;
    state = 0;
    if (m == label_[static_cast<std::size_t>(i)]) continue;
    if (alpha < cap) state |= Windows::above;
    if (alpha > 0) state |= Windows::below;
    const bool free = alpha < cap && alpha > 0;
    if (free) state |= listed;
    if (free && !was_listed) free_.push_back({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(at(v))});
    if (!free && was_listed) stale_ = true;
  }
}

template <class T> typename ScoredMachine<T>::Progress BoxDecomposition<T>::step() {
  if (!ready_) {
    for (Index i = 0; i < n_; ++i) {
      note_states(i);
      top_[static_cast<std::size_t>(i)] = kInfinity;
    }
    ready_ = true;
  }
  choose();
  const double violation = std::max(worst_.count > 0 ? worst_.key[0] : 0,
                                    nearest_.count > 0 ? -nearest_.key[nearest_.count - 1] : 0);
  if (!(violation > 0)) return Progress::stuck;
  const bool settled = violation <= tolerance_;
  if (settled) tolerance_ *= 0.1; // for those who want more
  const Progress progress = solve();
  return settled && progress == Progress::more ? Progress::settled : progress;
}

template <class T> void BoxDecomposition<T>::look(Index i) {
  double &top = top_[static_cast<std::size_t>(i)] = -kInfinity, &low = low_[static_cast<std::size_t>(i)] = kInfinity;
  for (std::int32_t m = 0; m < lanes_; ++m) {
    const Variable v{static_cast<std::int32_t>(i), m};
    const signed char state = state_[at(v)];
    const double score = scores_[at(v)], g = gradient(v);
    double violation = 0; // minus v of 002
    if (state & Windows::above) {
      top = std::max(top, score);
      violation = -g;
    }
    if (state & Windows::below) {
      low = std::min(low, score);
      violation = std::max(violation, g);
    }
    if (!(violation > 0) || !(violation > worst_.to_beat(working_set_))) continue;
    const auto nearest = nearest_.what.begin(), end = nearest + static_cast<std::ptrdiff_t>(nearest_.count);
    if (std::find(nearest, end, v) == end) worst_.consider(violation, v);
  }
  this->spend(static_cast<double>(3 * lanes_));
}

template <class T> void BoxDecomposition<T>::choose() {
  const std::uint32_t n = static_cast<std::uint32_t>(n_);
  for (Index i = 0; i < n_; ++i)
    own_[static_cast<std::size_t>(i)] =
        scores_[static_cast<std::size_t>(label_[static_cast<std::size_t>(i)] * n_ + i)];
  if (stale_) std::erase_if(free_, [&](const Free &v) { return !(state_[v.at] & listed); });
  stale_ = false;
  if (steps_++ % kSortEvery == 0) // in the order of memory
    std::sort(free_.begin(), free_.end(), [](const Free &a, const Free &b) { return a.at < b.at; });
  nearest_.count = 0;
  double nearest = -kInfinity;
  for (const Free &v : free_)
    if (const double key = -std::abs(own_[v.i] - scores_[v.at] - 1); key > nearest) {
      nearest_.consider(key, {static_cast<std::int32_t>(v.i), static_cast<std::int32_t>(v.at / n)});
      nearest = nearest_.to_beat(working_set_ / 2);
    }
  // First the examples that were among the worst: few others have room in their windows for a variable as bad. More are
  // kept than are wanted, so that the next step has such examples.
  const std::size_t wanted = working_set_ - nearest_.count;
  std::vector<std::int32_t> first;
  for (std::size_t t = 0; t < worst_.count; ++t) first.push_back(worst_.what[t].i);
  std::sort(first.begin(), first.end());
  first.erase(std::unique(first.begin(), first.end()), first.end());
  worst_.count = 0;
  for (const std::int32_t i : first) look(i);
  const auto next = [&](Index from) {
    if (!shrinking_) return from;
    return kernels().next_beyond(this->windows(), own_.data(), from, n_, std::max(worst_.to_beat(wanted), 0.0));
  };
  for (Index i = next(0); i < n_; i = next(i + 1))
    if (!std::binary_search(first.begin(), first.end(), static_cast<std::int32_t>(i))) look(i);
  this->spend(static_cast<double>(3 * n_ + 4 * static_cast<Index>(free_.size())));

  set_.assign(nearest_.what.begin(), nearest_.what.begin() + static_cast<std::ptrdiff_t>(nearest_.count));
  const std::ptrdiff_t taken = static_cast<std::ptrdiff_t>(std::min(worst_.count, wanted));
  set_.insert(set_.end(), worst_.what.begin(), worst_.what.begin() + taken);
}

template <class T> typename ScoredMachine<T>::Progress BoxDecomposition<T>::solve() {
  const std::size_t q = set_.size();
  std::vector<std::int32_t> which;  // examples
  std::vector<std::size_t> place(q); // of the variables among them
  for (std::size_t b = 0; b < q; ++b) {
    const auto found = std::find(which.begin(), which.end(), set_[b].i);
    place[b] = static_cast<std::size_t>(found - which.begin());
    if (found == which.end()) which.push_back(set_[b].i);
  }
  const Index count = static_cast<Index>(which.size());
  std::vector<Tile> tiles(which.size());
  this->fetch(which.data(), count, tiles.data());

  const std::size_t stride = static_cast<std::size_t>(stride_);
  std::vector<double> Q(q * q), upper(q), x(q), g(q);
  for (std::size_t b = 0; b < q; ++b) {
    const std::size_t i = static_cast<std::size_t>(set_[b].i);
    upper[b] = cap_[i];
    x[b] = -alpha_[i * stride + static_cast<std::size_t>(set_[b].m)];
    g[b] = gradient(set_[b]);
    for (std::size_t c = 0; c <= b; ++c) {
      const std::size_t j = static_cast<std::size_t>(set_[c].i);
      const double K = i == j ? this->curvature_[i] : static_cast<double>(tiles[place[b]][static_cast<std::ptrdiff_t>(j)]);
      Q[b * q + c] = Q[c * q + b] = K * q_factor(label_[i], set_[b].m, label_[j], set_[c].m);
    }
  }
  qp_.solve(Q, upper, x, g);

  std::vector<double> next(which.size() * stride);
  for (std::size_t r = 0; r < which.size(); ++r)
    std::copy_n(alpha_.data() + static_cast<std::size_t>(which[r]) * stride, stride, next.data() + r * stride);
  for (std::size_t b = 0; b < q; ++b) next[place[b] * stride + static_cast<std::size_t>(set_[b].m)] = -x[b];
  for (std::size_t r = 0; r < which.size(); ++r) { // a_y = sum alpha
    double *const a = next.data() + r * stride;
    const Index y = label_[static_cast<std::size_t>(which[r])];
    a[y] = 0;
    double sum = 0;
    for (Index m = 0; m < lanes_; ++m) sum += a[m];
    a[y] = 0 - sum;
  }
  const bool moved = this->take(which.data(), count, tiles.data(), next.data());
  for (const std::int32_t i : which) {
    note_states(i);
    top_[static_cast<std::size_t>(i)] = kInfinity; // to be looked at
  }
  return moved ? Progress::more : Progress::stuck;
}

template <class T> void BoxDecomposition<T>::state(State &state) {
  Base::state(state);
  state.number("tolerance", tolerance_);
  state.number("ready", ready_);
  state.number("steps", steps_);
  state.number("stale", stale_);
  // Of the last step's choice, the examples of the worst variables are what the next one begins with.
  std::vector<std::int64_t> free;
  std::vector<std::int32_t> worst;
  for (const Free &v : free_) free.push_back(v.at);
  for (std::size_t t = 0; t < worst_.count; ++t) worst.push_back(worst_.what[t].i);
  state.indices("free", free, std::numeric_limits<std::int64_t>::max(), n_ * lanes_);
  state.indices("worst", worst, static_cast<std::int64_t>(worst_.what.size()), n_);
  if (!state.loads()) return;
  free_.clear();
  for (const std::int64_t at : free)
    free_.push_back({static_cast<std::uint32_t>(at % n_), static_cast<std::uint32_t>(at)});
  worst_.count = worst.size();
  for (std::size_t t = 0; t < worst.size(); ++t) worst_.what[t] = {worst[t], 0};
}

template class BoxDecomposition<float>;
template class BoxDecomposition<double>;

} // namespace mm
