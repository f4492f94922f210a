#include "pegasos.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mm {

Pegasos::Pegasos(Formulation formulation, Index lanes, Index n_examples, double sum_of_caps, Index batch,
                 bool projection, Index passes)
    : formulation_(formulation), lanes_(lanes), n_examples_(n_examples), bound_(projection ? sum_of_caps : INFINITY),
      batch_(std::max<Index>(1, std::min(batch, n_examples))), passes_(passes),
      most_(formulation == Formulation::one_vs_rest ? lanes : 2),
      projected_(static_cast<std::size_t>(parts_size(lanes)), 1.0), norm_(projected_.size()),
      change_(static_cast<std::size_t>(batch_ * most_)), lane_(change_.size()), count_(static_cast<std::size_t>(batch_)) {}

// U and alpha times `projected`, which becomes 1, and times a factor.
void Pegasos::fold(const Examples &x, const WeightsView &weights, double factor) {
  const bool separable = formulation_ == Formulation::one_vs_rest;
  const Index n_rows = x.rows->n_features + (x.rows->intercept != 0 ? 1 : 0);
  std::vector<double> by(static_cast<std::size_t>(weights.stride), factor);
  for (Index m = 0; m < lanes_; ++m)
    by[static_cast<std::size_t>(m)] *= projected_[static_cast<std::size_t>(separable ? m : 0)];
  if (std::any_of(by.begin(), by.end(), [](double b) { return b != 1; })) {
    const auto scale = [&](auto *array, Index rows, Index stride) {
      for (Index i = 0; i < rows; ++i, array += stride)
        for (Index m = 0; m < lanes_; ++m)
          array[m] *= static_cast<std::remove_reference_t<decltype(*array)>>(by[static_cast<std::size_t>(m)]);
    };
    if (weights.single_precision) scale(static_cast<float *>(weights.data), n_rows, weights.stride);
    else scale(static_cast<double *>(weights.data), n_rows, weights.stride);
    scale(x.alpha, n_examples_, x.alpha_stride);
    std::fill(projected_.begin(), projected_.end(), 1.0);
  }
  if (std::isinf(bound_)) return;
  std::vector<double> v(by.size()), apart(by.size());
  kernels().norms(weights.data, nullptr, weights.single_precision, n_rows, weights.stride, 0, by.data(), v.data(),
                  apart.data());
  if (separable) std::copy_n(by.begin(), lanes_, norm_.begin());
  else norm_[0] = std::accumulate(by.begin(), by.end(), 0.0);
}

void Pegasos::visit(const Examples &x, const WeightsView &weights, const std::int32_t *order, Index begin, Index end,
                    const Sums &sums) {
  const auto l = static_cast<double>(n_examples_), passes = static_cast<double>(passes_);
  fold(x, weights, begin == 0 ? passes / (passes + 1) : 1);
  PegasosArgs args{order,
                   begin,
                   end,
                   batch_,
                   passes * l,
                   (passes + 1) * l,
                   1 / (passes + 1),
                   bound_,
                   projected_.data(),
                   norm_.data(),
                   most_,
                   lane_.data(),
                   change_.data(),
                   count_.data(),
                   sums.loss,
                   sums.violation,
                   sums.updates};
  while (args.begin < end) {
    args.begin = kernels().pegasos[static_cast<int>(formulation_)](x, weights, args);
    fold(x, weights, 1);
  }
  passes_ += end == n_examples_;
}

} // namespace mm
