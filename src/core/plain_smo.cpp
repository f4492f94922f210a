#include "plain_smo.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace mm {

namespace {
constexpr double kRounding = 1e-8; // of caps
constexpr Index kShrinkEvery = 1000;     // steps, as in LIBSVM
constexpr Index kRowsAtOnce = 64;
constexpr double kWorkOfValue = 12;      // multiply-adds of a GEMM in the time of one value, as in scored_machine.hpp
constexpr double kSingleRow = 4;
constexpr double kCertificateShare = 20; // steps take this many times the work of the certificates

std::size_t padded_size(std::size_t n) { return (n + 3) / 4 * 4; }

// A dual after a change. One that meets its bound is set to it exactly: it then counts as bound.
double moved(const BinaryBounds &bounds, const std::vector<double> &a, std::size_t i, double change) {
  const double bound = change > 0 ? bounds.upper[i] : bounds.lower[i];
  return change == bound - a[i] ? bound : a[i] + change;
}
} // namespace

template <class T>
PlainSmo<T>::PlainSmo(StoreView<T> rows, const std::vector<std::int32_t> &sign, std::vector<double> cap,
                      bool free_bias, bool shrinking, double tolerance)
    : rows_(std::move(rows)), n_(rows_.n()), cap_(std::move(cap)), bounds_(sign, cap_), free_bias_(free_bias),
      shrinking_(shrinking), tolerance_(tolerance) {
  const std::size_t n = static_cast<std::size_t>(n_);
  a_.resize(n);
  scores_.resize(n);
  v_.resize(n);
  scored_.resize(n);
}

template <class T> void PlainSmo<T>::scores(const Index *examples, Index count, double *out) const {
  const std::vector<double> &scores = told_scores_.empty() ? scores_ : told_scores_;
  for (Index r = 0; r < count; ++r) out[r] = scores[static_cast<std::size_t>(examples[r])];
}

template <class T> Round PlainSmo<T>::advance() {
  work_ = 0;
  if (!stepping_) return score() ? certified() : Round{};
  tried_ = true;
  bool more = true;
  const double often = kCertificateShare * kWorkOfValue * 20 * static_cast<double>(n_);
  const auto due = [&] { // more examples that changed cost more to make up for, if any were left out
    const double rows = static_cast<Index>(play_.size()) == n_ ? 0 : static_cast<double>(n_changed_ * n_);
    return uncertified_ + work_ >= often + kCertificateShare * kWorkOfValue * rows;
  };
  while (more && work_ < kWorkOfCall && !due()) more = step();
  const bool certify = !more || due();
  uncertified_ += work_;
  if (!certify) return {};
  stepping_ = false;
  if (static_cast<Index>(play_.size()) != n_) return {}; // then the scores come first
  for (std::size_t i = 0; i < scores_.size(); ++i) scores_[i] = (bounds_.upper[i] > 0 ? 1 : -1) - level_[i];
  scored_ = a_;
  return certified();
}

template <class T> bool PlainSmo<T>::score() {
  std::vector<std::int32_t> some;
  for (std::size_t i = 0; work_ < kWorkOfCall;) {
    some.clear();
    for (; i < a_.size() && static_cast<Index>(some.size()) < std::min(kRowsAtOnce, rows_.rows_of_call()); ++i)
      if (a_[i] != scored_[i]) some.push_back(static_cast<std::int32_t>(i));
    if (some.empty()) return true;
    const Index count = static_cast<Index>(some.size());
    std::vector<Tile> tiles(some.size() * static_cast<std::size_t>(rows_.n_segments()));
    std::vector<double> change(some.size());
    for (Index r = 0; r < count; ++r) {
      const std::size_t at = static_cast<std::size_t>(some[static_cast<std::size_t>(r)]);
      charge(some[static_cast<std::size_t>(r)]);
      change[static_cast<std::size_t>(r)] = a_[at] - scored_[at];
      scored_[at] = a_[at];
    }
    rows_.fetch(some.data(), count, tiles.data(), count, true);
    rows_.add(change.data(), 1, 1, tiles.data(), count, scores_.data(), n_);
    work_ += kWorkOfValue * static_cast<double>(count * n_);
  }
  return false;
}

template <class T> Round PlainSmo<T>::certified() {
  const BinaryCertificate certificate = binary_certificate(cap_, bounds_, a_, scores_, free_bias_, v_);
  levels_ = certificate.levels;
  told_duals_ = a_;
  told_scores_ = scores_;
  Round round = certificate.round;
  round.visited = visited_;
  round.stuck |= !(round.violation > 0) || (tried_ && visited_ == 0);
  visited_ = 0;
  uncertified_ = 0;
  n_changed_ = 0;
  if (round.violation <= tolerance_) tolerance_ = 0.1 * round.violation; // for those who want more
  std::vector<std::int32_t> all(a_.size());
  std::iota(all.begin(), all.end(), 0);
  play(std::move(all), v_);
  if (shrinking_) leave_out();
  stepping_ = true;
  return round;
}

template <class T> void PlainSmo<T>::play(std::vector<std::int32_t> examples, std::vector<double> level) {
  play_ = std::move(examples);
  level_ = std::move(level);
  level_.resize(padded_size(play_.size()));
  curvature_.assign(level_.size(), 1);
  state_.assign(level_.size(), 0);
  for (std::size_t t = 0; t < play_.size(); ++t) {
    curvature_[t] = std::max(rows_.diagonal(play_[t]), kLeastCurvature);
    note_state(static_cast<Index>(t));
  }
  first_row_.assign(level_.size(), T{0});
  second_row_.assign(level_.size(), T{0});
  next_ = pull(first_row_.data(), second_row_.data(), 0).at; // nothing moves: this is for the choice of i
}

template <class T> SmoChoice PlainSmo<T>::pull(const T *Ki, const T *Kj, double change) {
  const KernelLoops<T> &loops = kernels().loops<T>();
  const Index size = static_cast<Index>(level_.size());
  if (free_bias_) return loops.pull(Ki, Kj, size, change, level_.data(), state_.data());
  return loops.pull_one(Ki, size, change, curvature_.data(), level_.data(), state_.data());
}

template <class T> void PlainSmo<T>::note_state(Index t) {
  const std::size_t i = static_cast<std::size_t>(play_[static_cast<std::size_t>(t)]);
  state_[static_cast<std::size_t>(t)] = static_cast<signed char>((a_[i] < bounds_.upper[i] ? SmoChoice::rises : 0) |
                                                                 (a_[i] > bounds_.lower[i] ? SmoChoice::falls : 0));
}

template <class T> void PlainSmo<T>::leave_out() {
  std::vector<std::int32_t> stay;
  std::vector<double> level;
  for (std::size_t t = 0; t < play_.size(); ++t) {
    const bool held_below = state_[t] == SmoChoice::rises && level_[t] < levels_.low;
    const bool held_above = state_[t] == SmoChoice::falls && level_[t] > levels_.top;
    if (held_below || held_above) continue;
    stay.push_back(play_[t]);
    level.push_back(level_[t]);
  }
  if (stay.size() < play_.size()) play(std::move(stay), std::move(level));
}

template <class T> void PlainSmo<T>::charge(Index i) {
  if (!rows_.stored(i)) work_ += kSingleRow * kWorkOfCall / static_cast<double>(rows_.rows_of_call());
}

// The kernel row of the example at place t against the examples in play, with room for a multiple of four.
template <class T> const T *PlainSmo<T>::row(Index t, std::vector<T> &buffer) {
  const std::int32_t i = play_[static_cast<std::size_t>(t)];
  Tile tiles[2];
  charge(i);
  rows_.fetch(&i, 1, tiles, 1, true);
  std::size_t at = 0;
  for (Index s = 0; s < rows_.n_segments(); ++s) {
    const Index begin = rows_.segment_begin(s), end = rows_.segment_begin(s + 1);
    const T *const tile = tiles[s].get();
    if (static_cast<Index>(play_.size()) == n_) {
      std::copy(tile, tile + (end - begin), buffer.begin() + begin);
      continue;
    }
    for (; at < play_.size() && play_[at] < end; ++at) buffer[at] = tile[play_[at] - begin];
  }
  return buffer.data();
}

template <class T> void PlainSmo<T>::move(Index t, double change) {
  const std::size_t i = static_cast<std::size_t>(play_[static_cast<std::size_t>(t)]);
  const bool was_scored = a_[i] == scored_[i];
  a_[i] = moved(bounds_, a_, i, change);
  n_changed_ += (a_[i] == scored_[i] ? 0 : 1) - (was_scored ? 0 : 1); // rounding can lead back and forth
  note_state(t);
  ++visited_;
}

template <class T> bool PlainSmo<T>::step() {
  const std::size_t first = static_cast<std::size_t>(next_);
  if (next_ < 0) return false;
  work_ += kWorkOfValue * static_cast<double>(10 * level_.size());
  const std::size_t i = static_cast<std::size_t>(play_[first]);
  const T *const Ki = row(next_, first_row_);
  const double value = level_[first], own = curvature_[first];
  const double rise = bounds_.upper[i] - a_[i], fall = a_[i] - bounds_.lower[i];
  SmoChoice choice;
  if (free_bias_) {
    choice = kernels().loops<T>().second(Ki, static_cast<Index>(level_.size()), curvature_.data(), own, value,
                                         level_.data(), state_.data());
    levels_ = {value, choice.low};
    if (choice.at < 0 || violation() <= tolerance_) return false;
    const std::size_t second = static_cast<std::size_t>(choice.at), j = static_cast<std::size_t>(play_[second]);
    const double curved = own + curvature_[second] - 2 * static_cast<double>(Ki[second]);
    const double wanted = (value - level_[second]) / std::max(curved, kLeastCurvature);
    const double change = std::min({wanted, rise, a_[j] - bounds_.lower[j]});
    if (!(change > 0)) return false;
    if (moved(bounds_, a_, i, change) == a_[i] && moved(bounds_, a_, j, -change) == a_[j]) return false; // rounding
    const T *const Kj = row(choice.at, second_row_);
    move(next_, change);
    move(choice.at, -change);
    choice = pull(Ki, Kj, change);
  } else {
    const double change = std::clamp(value / own, -fall, rise);
    if (moved(bounds_, a_, i, change) == a_[i]) return false;
    move(next_, change);
    choice = pull(Ki, nullptr, change);
    levels_ = {choice.top, choice.low};
    if (violation() <= tolerance_) return false;
  }
  next_ = choice.at;
  if (shrinking_ && ++steps_ % std::min(n_, kShrinkEvery) == 0) leave_out();
  return true;
}

template <class T> void PlainSmo<T>::state(State &state) {
  state.part("rows", rows_);
  state.array("a", a_);
  state.array("scores", scores_);
  state.array("v", v_);
  state.array("scored", scored_);
  for (std::size_t i = 0; state.loads() && i < a_.size(); ++i) { // those that were told are checked by whoever asks
    const double room = kRounding * cap_[i];
    state.check(a_[i] >= bounds_.lower[i] - room && a_[i] <= bounds_.upper[i] + room, "duals are outside of their bounds");
  }
  state.list("told_duals", told_duals_, n_);
  state.list("told_scores", told_scores_, n_);
  state.check(told_duals_.size() == told_scores_.size() && (told_duals_.empty() || told_duals_.size() == a_.size()),
              "duals and scores of a certificate that are not of its examples");
  state.number("stepping", stepping_);
  state.number("tried", tried_);
  state.number("tolerance", tolerance_);
  state.number("top", levels_.top);
  state.number("low", levels_.low);
  state.number("steps", steps_);
  state.number("visited", visited_);
  state.number("n_changed", n_changed_);
  state.number("uncertified", uncertified_);
  std::vector<std::int32_t> in_play = play_;
  std::vector<double> level = level_;
  Index next = next_ + 1;
  state.indices("play", in_play, n_, n_);
  state.list("level", level, static_cast<std::int64_t>(padded_size(static_cast<std::size_t>(n_))));
  state.number("next", next);
  if (!state.loads()) return;
  state.check(std::adjacent_find(in_play.begin(), in_play.end(), std::greater_equal<>()) == in_play.end(),
              "examples in play that do not ascend");
  state.check(level.size() == padded_size(in_play.size()) && next <= static_cast<Index>(in_play.size()),
              "examples in play without a level");
  play(std::move(in_play), std::move(level));
  next_ = next - 1;
}

template class PlainSmo<float>;
template class PlainSmo<double>;

} // namespace mm
