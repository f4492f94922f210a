// Where rows stand in a call of gemm, so that their products do not depend on the rows beside them.
//
// Kernel values of a row must be the same, to the last bit, whichever rows it is computed with: then fits in several threads
// repeat exactly, and so do those that go on from a checkpoint. Most BLAS compute all rows of a call in the same way if
// they are filled up to a multiple of 16. OpenBLAS's sgemm for Haswell and Zen does not: of every twelve rows the first
// six are computed in one way, the others in another; its dgemm for AVX-512 takes 24 rows together, and of wide products the
// columns that are left over by twelve. So rows have kinds, by their number, and each kind has its
// places in a period of the call. Period and kinds are found by products of equal rows. And small products may be
// computed in a way of their own (for AVX-512 those of at most 1200 values), which then must not depend on how many rows
// there are: where it is so, calls of few columns or features have one period each.
#pragma once

#include <algorithm>
#include <vector>

#include "kernel_source.hpp"
#include "random.hpp"

namespace mm {

template <class T> class GemmPlaces {
public:
  GemmPlaces(Gemm<T> gemm, Index n_features) {
    if (n_features > 0) find(gemm, std::min(n_features, kDepth));
    columns_ = {};
    rows_ = {};
  }

  // How many of so many rows, a multiple of the period or a single one, one call may have.
  Index of_call(Index rows, Index columns, Index n_features) const {
    const bool small = small_differ_ && (columns < kFewColumns || columns * n_features < kFewNumbers);
    return std::min(rows, most_ > 0 ? most_ : small ? period() : rows);
  }

  // The place of every row; returns how many places there are, a multiple of the period.
  Index assign(const Index *rows, Index count, std::vector<Index> &place) const {
    std::vector<Index> taken(places_.size(), 0);
    const Index kinds = static_cast<Index>(places_.size()), period = this->period();
    place.resize(static_cast<std::size_t>(count));
    Index periods = 0;
    for (Index r = 0; r < count; ++r) {
      const auto kind = static_cast<std::size_t>(rows[r] % kinds);
      const Index of_kind = static_cast<Index>(places_[kind].size()), at = taken[kind]++;
      place[static_cast<std::size_t>(r)] = at / of_kind * period + places_[kind][static_cast<std::size_t>(at % of_kind)];
      periods = std::max(periods, at / of_kind + 1);
    }
    return periods * period;
  }

private:
  static constexpr Index kFewColumns = 256, kFewNumbers = 1 << 16;
  static constexpr Index kWidth = 87, kMost = 48; // columns: whole vectors of them, and what is left over in every way
  static constexpr Index kWide = 599, kWideDepth = 16; // ... of wide products; fewer features would hide that sums differ
  static constexpr Index kSmallWidth = 31;        // ... and those of a product that is small with 16 rows, but not with 48
  static constexpr Index kDepth = 256;

  void find(Gemm<T> gemm, Index depth) {
    Random random(1);
    const auto number = [&] { return static_cast<T>(random.below(1000)) / T{997} - T{0.5}; };
    std::vector<T> row(static_cast<std::size_t>(kDepth));
    columns_.resize(static_cast<std::size_t>(kWidth * kDepth));
    std::generate(columns_.begin(), columns_.end(), number);
    std::generate(row.begin(), row.end(), number);
    for (Index r = 0; r < 2 * kMost; ++r) rows_.insert(rows_.end(), row.begin(), row.end());
    for (const Index period : {16, 12, 24, 48}) {
      if (!has_period(gemm, kWidth, period, depth) || !has_period(gemm, kWide, period, kWideDepth)) continue;
      places_ = kinds_of_places(gemm, period, depth);
      small_differ_ = !has_period(gemm, kSmallWidth, period, kDepth);
      return;
    }
    for (most_ = 8; most_ > 1; most_ /= 2) { // else by calls of few rows, all computed in the same way
      places_ = kinds_of_places(gemm, most_, depth);
      if (places_.size() == 1) return;
    }
    places_ = {{0}};
  }

  Index period() const {
    std::size_t sum = 0;
    for (const auto &places : places_) sum += places.size();
    return static_cast<Index>(sum);
  }

  // Whether rows a period apart are computed in the same way in calls of one period and of more.
  bool has_period(Gemm<T> gemm, Index width, Index period, Index depth) {
    const std::vector<T> first = products(gemm, width, period, depth);
    for (Index rows = 2 * period; rows <= std::max(kMost, 2 * period); rows += period) {
      const std::vector<T> values = products(gemm, width, rows, depth);
      for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i] != first[i % first.size()]) return false;
    }
    return true;
  }

  // The places of a period by the way in which their rows are computed, in products that are small or not.
  std::vector<std::vector<Index>> kinds_of_places(Gemm<T> gemm, Index period, Index depth) {
    const std::vector<T> some = products(gemm, kWidth, period, depth), few = products(gemm, kSmallWidth, period, depth);
    const std::vector<T> many = products(gemm, kWide, period, kWideDepth);
    const auto equal = [](const std::vector<T> &values, Index width, Index p, Index q) {
      return std::equal(values.begin() + p * width, values.begin() + (p + 1) * width, values.begin() + q * width);
    };
    std::vector<std::vector<Index>> kinds;
    for (Index p = 0; p < period; ++p) {
      const auto same = [&](const std::vector<Index> &places) {
        return equal(some, kWidth, p, places[0]) && equal(few, kSmallWidth, p, places[0]) &&
               equal(many, kWide, p, places[0]);
      };
      const auto known = std::find_if(kinds.begin(), kinds.end(), same);
      if (known == kinds.end()) kinds.push_back({p});
      else known->push_back(p);
    }
    return kinds;
  }

  // Of equal rows, and of their first `depth` features, with some columns.
  std::vector<T> products(Gemm<T> gemm, Index width, Index count, Index depth) {
    std::vector<T> values(static_cast<std::size_t>(width * count));
    char transposed = 'T', plain = 'N';
    int m = static_cast<int>(width), n = static_cast<int>(count), k = static_cast<int>(depth), apart = static_cast<int>(kDepth);
    T one = 1, zero = 0;
    gemm(&transposed, &plain, &m, &n, &k, &one, columns_.data(), &k, rows_.data(), &apart, &zero, values.data(), &m);
    return values;
  }

  Index most_ = 0; // rows of a call; 0: any multiple of the period
  bool small_differ_ = false;
  std::vector<T> columns_, rows_;
  std::vector<std::vector<Index>> places_{{0}}; // of every kind, in a period
};

} // namespace mm
