#include "scored_machine.hpp"

#include <cmath>

namespace mm {

namespace {
constexpr Index kRowsAtOnce = 64;        // of duals from an earlier fit
constexpr double kSingleRow = 4;         // a row on its own costs this many times its share of a block
constexpr double kValuesOfScan = 8;      // a certificate in units of values, by lane and example
constexpr double kCertificateShare = 20; // steps take this many times the work of the certificates
} // namespace

template <class T>
ScoredMachine<T>::ScoredMachine(StoreView<T> rows, Formulation formulation, Index lanes,
                                std::vector<std::int32_t> label, std::vector<double> cap)
    : Base(std::move(rows), lanes, std::move(cap)), formulation_(formulation), label_(std::move(label)),
      workspace_(static_cast<std::size_t>(workspace_size(lanes))) {}

template <class T> KernelExamples ScoredMachine<T>::examples() {
  return {n_,           lanes_,   n_, label_.data(), cap_.data(), curvature_.data(), alpha_.data(), stride_,
          workspace_.data()};
}

template <class T> Round ScoredMachine<T>::advance() {
  work_ = 0;
  if (!started_) {
    if (!start()) return {};
    started_ = true;
    return certified(false);
  }
  const double often = kCertificateShare * kValuesOfScan * kWorkOfValue * static_cast<double>(n_ * stride_);
  Progress progress = Progress::more;
  while (progress == Progress::more && work_ < kWorkOfCall && uncertified_ + work_ < often) progress = step();
  uncertified_ += work_;
  if (progress == Progress::more && uncertified_ < often) return {};
  return certified(progress == Progress::stuck);
}

// The scores of the duals from an earlier fit, as many as a call may do.
template <class T> bool ScoredMachine<T>::start() {
  std::vector<std::int32_t> some;
  while (scored_ < n_ && work_ < kWorkOfCall) {
    some.clear();
    for (; scored_ < n_ && static_cast<Index>(some.size()) < std::min(kRowsAtOnce, rows_.rows_of_call()); ++scored_)
      if (this->in_use(scored_)) some.push_back(static_cast<std::int32_t>(scored_));
    const Index count = static_cast<Index>(some.size());
    std::vector<Tile> tiles(some.size());
    fetch(some.data(), count, tiles.data());
    std::vector<double> next(some.size() * static_cast<std::size_t>(stride_));
    for (Index r = 0; r < count; ++r) { // as a step from zero
      double *const a = alpha_.data() + some[static_cast<std::size_t>(r)] * stride_;
      std::swap_ranges(a, a + stride_, next.data() + r * stride_);
    }
    take(some.data(), count, tiles.data(), next.data());
  }
  visited_ = 0;
  return scored_ == n_;
}

template <class T> void ScoredMachine<T>::fetch(const std::int32_t *which, Index count, Tile *tiles) {
  const Index computed = rows_.fetch(which, count, tiles, count, true);
  work_ += kSingleRow * kWorkOfCall / static_cast<double>(rows_.rows_of_call()) * static_cast<double>(computed);
}

template <class T>
bool ScoredMachine<T>::take(const std::int32_t *which, Index count, const Tile *tiles, const double *next) {
  first_.assign(1, 0);
  changed_.clear();
  by_.clear();
  for (Index m = 0; m < lanes_; ++m) {
    for (Index r = 0; r < count; ++r) {
      double &a = alpha_[static_cast<std::size_t>(which[r] * stride_ + m)];
      const double fresh = next[r * stride_ + m];
      if (fresh == a) continue;
      changed_.push_back(tiles[r].get());
      by_.push_back(fresh - a);
      a = fresh;
    }
    first_.push_back(static_cast<Index>(by_.size()));
  }
  visited_ += count;
  const Windows windows = this->windows();
  kernels().loops<T>().spread({first_.data(), changed_.data(), by_.data()}, lanes_, n_, scores_.data(), n_,
                              top_.empty() ? nullptr : &windows);
  spend(static_cast<double>(static_cast<Index>(by_.size()) * n_));
  return !by_.empty();
}

template <class T> void ScoredMachine<T>::open_windows() {
  top_.resize(static_cast<std::size_t>(n_));
  low_.resize(static_cast<std::size_t>(n_));
  state_.resize(static_cast<std::size_t>(n_ * lanes_));
}

template <class T> Round ScoredMachine<T>::certified(bool stuck) {
  std::vector<double> violation(static_cast<std::size_t>(n_));
  Round round = lane_certificate(formulation_, examples(), scores_.data(), violation.data());
  round.stuck |= stuck;
  round.visited = visited_;
  visited_ = 0;
  uncertified_ = 0;
  return round;
}

template <class T> void ScoredMachine<T>::state(State &state) {
  this->state_of_lanes(state);
  state.array("window_top", top_);
  state.array("window_low", low_);
  state.array("window_state", state_);
  state.number("started", started_);
  state.number("scored", scored_);
  state.check(scored_ <= n_, "more examples than there are");
  state.number("uncertified", uncertified_);
  state.number("visited", visited_);
}

template class ScoredMachine<float>;
template class ScoredMachine<double>;

} // namespace mm
