#include "working_set.hpp"

namespace mm {

namespace {
constexpr double kLeastCurvature = 1e-12; // kernels that are not positive definite have worse ones
constexpr Index kRoundsOfCertificate = 16;
} // namespace

template <class T>
WorkingSetMachine<T>::WorkingSetMachine(StoreView<T> rows, Index lanes, std::vector<double> cap, Index working_set)
    : rows_(std::move(rows)), n_(rows_.n()), lanes_(lanes), stride_(padded(lanes, 4)),
      most_(std::min({working_set, rows_.rows_of_set(), n_})), cap_(std::move(cap)) {
  const std::size_t n = static_cast<std::size_t>(n_);
  for (Index i = 0; i < n_; ++i) curvature_.push_back(std::max(rows_.diagonal(i), kLeastCurvature));
  alpha_.resize(n * static_cast<std::size_t>(stride_));
  scores_.resize(n * static_cast<std::size_t>(lanes_));
  in_set_.resize(n);
}

template <class T> void WorkingSetMachine<T>::duals(double *out) const {
  for (Index i = 0; i < n_; ++i) std::copy_n(alpha_.data() + i * stride_, lanes_, out + i * lanes_);
}

template <class T> void WorkingSetMachine<T>::set_duals(const double *duals) {
  for (Index i = 0; i < n_; ++i) std::copy_n(duals + i * lanes_, lanes_, alpha_.data() + i * stride_);
}

template <class T> void WorkingSetMachine<T>::scores(const Index *examples, Index count, double *out) const {
  for (Index r = 0; r < count; ++r)
    for (Index m = 0; m < lanes_; ++m) out[r * lanes_ + m] = scores_[static_cast<std::size_t>(m * n_ + examples[r])];
}

template <class T> Round WorkingSetMachine<T>::advance() {
  if (phase_ == Phase::start) { // the scores of duals from an earlier fit, a slab of rows at a time
    std::vector<double> start;
    for (set_.clear(); fetched_ < n_ && static_cast<Index>(set_.size()) < std::min(rows_.rows_of_call(), most_);
         ++fetched_) {
      const double *const a = alpha_.data() + fetched_ * stride_;
      if (std::all_of(a, a + lanes_, [](double v) { return v == 0; })) continue;
      set_.push_back(static_cast<std::int32_t>(fetched_));
      start.insert(start.end(), a, a + stride_);
    }
    const Index count = static_cast<Index>(set_.size());
    tiles_.resize(static_cast<std::size_t>(count * rows_.n_segments()));
    rows_.fetch(set_.data(), count, tiles_.data(), count);
    add(start.data());
    if (fetched_ < n_) return {};
    set_.clear();
    phase_ = Phase::select;
    return certified();
  }
  for (;;) {
    if (phase_ == Phase::select) {
      select();
      tiles_.clear();
      tiles_.resize(set_.size() * static_cast<std::size_t>(rows_.n_segments()));
      fetched_ = 0;
      phase_ = Phase::fetch;
    }
    if (!fetch()) return {};
    const Index size = static_cast<Index>(set_.size());
    square_.resize(static_cast<std::size_t>(size * size));
    rows_.square(set_.data(), size, tiles_.data(), size, square_.data());
    const bool moved = solve();
    phase_ = Phase::select;
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

template <class T> bool WorkingSetMachine<T>::fetch() {
  const Index size = static_cast<Index>(set_.size());
  const Index end = std::min(size, fetched_ + rows_.rows_of_call());
  rows_.fetch(set_.data() + fetched_, end - fetched_, tiles_.data() + fetched_, size);
  fetched_ = end;
  return fetched_ == size;
}

template <class T> void WorkingSetMachine<T>::add(const double *change) {
  rows_.add(change, stride_, lanes_, tiles_.data(), static_cast<Index>(set_.size()), scores_.data(), n_);
}

template class WorkingSetMachine<float>;
template class WorkingSetMachine<double>;

} // namespace mm
