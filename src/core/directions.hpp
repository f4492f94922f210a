// A few directions along which the acceleration holds W back.
//
// Steps see the curvature ||x||^2 / lambda, and the larger it is the smaller they are. Often most of it lies along few
// directions that all rows share: the intercept's feature, the mean of the pixels. Along these the loss is so steep that
// an outer loop finds its way at once, and steps need not. So the proximal term is stiffer there: with orthonormal
// columns U and ratios R >= 1,
//   M = lambda (I + U (R - I) U'),    W = Z + M^-1 (V - Z),    V = Z + M (W - Z),
//   M^-1 = (I - U H U') / lambda,     H = I - R^-1,
// and a step on x with coordinates a = U' x sees the curvature (||x||^2 - a' H a) / lambda and moves W by (x - U H a) /
// lambda times the change of its duals. W is kept as a sum, W + U T, whose T has one row a direction: then the row x is
// followed by a when it is scored, and by -H a when W moves, as if these were features.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "rows.hpp"

namespace mm {

class Directions : public std::enable_shared_from_this<Directions> {
public:
  // U: n_weights x count; coordinates: n_rows x count, 1 x count when all rows have the same, or none when rows are
  // elsewhere: on disk, with other ranks. Ratios are 1 at first.
  Directions(Index count, std::vector<double> U, std::vector<double> coordinates)
      : count_(count), n_weights_(static_cast<Index>(U.size()) / count),
        n_rows_(static_cast<Index>(coordinates.size()) / count),
        U_(std::make_shared<const std::vector<double>>(std::move(U))),
        coordinates_(std::make_shared<const std::vector<double>>(std::move(coordinates))),
        ratios_(static_cast<std::size_t>(count), 1.0), held_(static_cast<std::size_t>(count), 0.0) {
    while (first_ < n_weights_ && is_zero(first_)) ++first_;
  }

  // The same directions with ratios of their own.
  std::shared_ptr<Directions> with(std::vector<double> ratios) const {
    const auto copy = std::make_shared<Directions>(*this);
    for (std::size_t t = 0; t < ratios.size(); ++t) copy->held_[t] = 1 - 1 / ratios[t];
    copy->ratios_ = std::move(ratios);
    return copy;
  }

  Index count() const { return count_; }
  Index n_weights() const { return n_weights_; }
  bool has(Index row) const { return row >= 0 && (n_rows_ == 1 || row < n_rows_); }
  bool fits(const Rows &rows) const { return n_rows_ <= 1 || n_rows_ == rows.n_rows; }
  // The same directions with the coordinates of these rows, if they have none.
  std::shared_ptr<const Directions> of(const Rows &rows) const;
  Index first() const { return first_; } // row of U that is not zero
  std::vector<double> U() const { return *U_; }
  const double *row(Index j) const { return U_->data() + j * count_; }
  double ratio(Index t) const { return ratios_[static_cast<std::size_t>(t)]; }
  const double *coordinates(Index row) const { return coordinates_->data() + (n_rows_ == 1 ? 0 : row * count_); }

  // Rows that are followed by their coordinates.
  Rows followed(Rows rows) const {
    rows.along = coordinates_->data();
    rows.held = held_.data();
    rows.n_along = count_;
    rows.along_stride = n_rows_ == 1 ? 0 : count_;
    return rows;
  }

  // ||x||^2 - a' H a of a row.
  double curvature(Index row, double norm) const {
    const double *a = coordinates(row);
    double curvature = norm;
    for (Index t = 0; t < count_; ++t) curvature -= held_[static_cast<std::size_t>(t)] * a[t] * a[t];
    constexpr double rounding = 1e-9;
    return curvature > rounding * norm ? curvature : rounding * norm;
  }

private:
  bool is_zero(Index j) const {
    for (Index t = 0; t < count_; ++t)
      if (row(j)[t] != 0) return false;
    return true;
  }

  Index count_, n_weights_, n_rows_;
  std::shared_ptr<const std::vector<double>> U_, coordinates_;
  std::vector<double> ratios_, held_;
  Index first_ = 0;
};

} // namespace mm
