#include "directions.hpp"

#include "kernels.hpp"
#include "weights.hpp"

namespace mm {

std::shared_ptr<const Directions> Directions::of(const Rows &rows) const {
  if (n_rows_ > 0) return shared_from_this();
  const Index stride = count_ == 1 ? 1 : padded(count_, 4);
  const Buffer U = allocate_zeroed(static_cast<std::size_t>(n_weights_ * stride) * sizeof(double));
  double *const padded_U = static_cast<double *>(U.get());
  for (Index j = 0; j < n_weights_; ++j) std::copy(row(j), row(j) + count_, padded_U + j * stride);
  std::vector<double> scores(static_cast<std::size_t>(stride));
  std::vector<double> coordinates(static_cast<std::size_t>(rows.n_rows * count_));
  kernels().scores(rows, {padded_U, false, stride}, 0, rows.n_rows, count_, scores.data(), coordinates.data());
  const auto copy = std::make_shared<Directions>(*this);
  copy->n_rows_ = rows.n_rows;
  copy->coordinates_ = std::make_shared<const std::vector<double>>(std::move(coordinates));
  return copy;
}

} // namespace mm
