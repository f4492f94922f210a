#include "working_set.hpp"

#include <algorithm>
#include <functional>

namespace mm {

namespace {
constexpr Index kRoundsOfCertificate = 16;
constexpr Index kCacheLine = 8; // doubles: strides of a large power of two would all meet in the same part of the cache
} // namespace

template <class T>
WorkingSetMachine<T>::WorkingSetMachine(StoreView<T> rows, Index lanes, std::vector<double> cap, Index working_set)
    : Base(std::move(rows), lanes, std::move(cap)), most_(std::min({working_set, rows_.rows_of_set(), n_})),
      in_set_(static_cast<std::size_t>(n_)), travelled_(static_cast<std::size_t>(lanes)) {}

template <class T> Round WorkingSetMachine<T>::advance() {
  for (;;) {
    if (!selected_) {
      if (starting_) select_started();
      else select();
      find_tiles();
      selected_ = true;
    }
    const Index size = static_cast<Index>(set_.size());
    if (!rows_.compute(tiles_.data(), size)) return {};
    selected_ = false;
    if (starting_) {
      add_started();
      if (started_ < n_) return {};
      starting_ = false;
      set_.clear();
      return certified();
    }
    square_ld_ = padded(size, 4) + kCacheLine;
    square_.resize(static_cast<std::size_t>(size * square_ld_));
    rows_.square(set_.data(), size, tiles_.data(), size, square_.data(), square_ld_);
    const bool moved = solve();
    visited_ += size;
    moved_ |= moved;
    if (moved && most_ <= 2 && ++uncertified_ < kRoundsOfCertificate) { // the rounds of pairs are short
      refresh();
      continue;
    }
    Round round = certified();
    round.visited = visited_;
    round.stuck |= !moved_;
    uncertified_ = visited_ = 0;
    moved_ = false;
    return round;
  }
}

template <class T> void WorkingSetMachine<T>::find_tiles() {
  tiles_.clear();
  tiles_.resize(set_.size() * static_cast<std::size_t>(rows_.n_segments()));
  rows_.find(set_.data(), static_cast<Index>(set_.size()), tiles_.data(), static_cast<Index>(set_.size()));
}

template <class T> void WorkingSetMachine<T>::state(State &state) {
  this->state_of_lanes(state);
  state.indices("set", set_, most_, n_);
  state.check(std::adjacent_find(set_.begin(), set_.end(), std::greater_equal<>()) == set_.end(),
              "a working set that does not ascend");
  state.number("started", started_);
  state.check(started_ <= n_, "more examples than there are");
  state.number("starting", starting_);
  state.number("selected", selected_);
  state.number("uncertified", uncertified_);
  state.number("visited", visited_);
  state.number("moved", moved_);
  state.array("travelled", travelled_);
  if (state.loads() && selected_) rows_.uncounted([&] { find_tiles(); }); // missing ones begin with the first column
}

template <class T> void WorkingSetMachine<T>::select_started() {
  for (set_.clear(); started_ < n_ && static_cast<Index>(set_.size()) < most_; ++started_)
    if (this->in_use(started_)) set_.push_back(static_cast<std::int32_t>(started_));
}

template <class T> void WorkingSetMachine<T>::add_started() {
  std::vector<double> duals;
  for (const std::int32_t i : set_)
    duals.insert(duals.end(), alpha_.data() + i * stride_, alpha_.data() + (i + 1) * stride_);
  add(duals.data());
}

template <class T> void WorkingSetMachine<T>::add(const double *change) {
  for (Index m = 0; m < lanes_; ++m) {
    double length = 0, count = 0;
    for (Index r = 0; r < static_cast<Index>(set_.size()); ++r) {
      const double by = std::abs(change[r * stride_ + m]);
      length += by;
      count += by > 0;
    }
    travelled_[static_cast<std::size_t>(m)] += length * (4 + 0.5 * count);
  }
  rows_.add(change, stride_, lanes_, tiles_.data(), static_cast<Index>(set_.size()), scores_.data(), n_);
}

template class WorkingSetMachine<float>;
template class WorkingSetMachine<double>;

} // namespace mm
