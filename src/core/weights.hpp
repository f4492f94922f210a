// W and what the accelerated outer loop keeps beside it.
//
// Acceleration minimises the objective plus kappa/2 ||W - Z||^2 (Catalyst): with V = sum alpha x,
//   W = (kappa Z + V) / lambda,  lambda = 1 + kappa,
// so steps see curvature A / lambda and move W by (change of alpha) x / lambda. Without it kappa = 0,
// lambda = 1 and W = V. Along some directions W may be held back more (directions.hpp).
// Or W is sparse (sparse_weights.hpp): then there is no array, and no acceleration.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "directions.hpp"
#include "kernels.hpp"
#include "sparse_weights.hpp"
#include "state.hpp"

namespace mm {

struct FreeBuffer {
  void *mapping = nullptr; // of a large buffer
  std::size_t length = 0;
  void operator()(void *p) const;
};
using Buffer = std::unique_ptr<void, FreeBuffer>;
Buffer allocate_zeroed(std::size_t bytes); // 64-byte aligned, large ones on huge pages where there are any

class Weights {
public:
  Weights(Index n_rows, Index lanes, bool single_precision, std::shared_ptr<const Directions> directions = nullptr);
  struct Sparse {
    bool intercept; // whether the last row is that of the intercept
  };
  Weights(Index n_rows, Index lanes, bool single_precision, Sparse);

  Index n_rows() const { return n_rows_; }
  Index lanes() const { return lanes_; }
  Index stride() const { return stride_; }
  bool single_precision() const { return single_; }
  double kappa() const { return kappa_; }
  double lambda() const { return 1 + kappa_; }
  void *data() { return W_.get(); }
  std::size_t bytes() const; // of the array
  const Directions *held() const { return kappa_ > 0 ? directions_.get() : nullptr; } // while it is accelerated
  void fold(); // what is along the directions into W, as others read it
  SparseWeights *sparse() { return sparse_.get(); } // null: W is an array
  const SparseWeights *sparse() const { return sparse_.get(); }
  WeightsView view() { return {W_.get(), single_, stride_, held(), sparse_.get()}; }

  // Starts (kappa > 0) or ends (kappa = 0) the acceleration; V, and so alpha's meaning, stays. Momentum
  // begins anew: Z = W.
  void set_kappa(double kappa);
  // Z = W + beta (W - W at the last call), V unchanged.
  void extrapolate(double beta, double next_kappa); // kappa() > 0, and so it stays
  // out = W, or with acceleration the mean of W and W at the last extrapolation: steps leave the primal less
  // noise in it. `out` is of the same shape, in double precision.
  void averaged(Weights &out);

  // ||w_m||^2 and ||v_m||^2 for every lane; returns ||W - Z||^2.
  double squared_norms(double *w, double *v);

  void state(State &); // of weights of the same shape and precision

private:
  using Coordinates = std::vector<double>; // directions x stride
  Index n_along() const { return directions_ ? directions_->count() : 0; }
  Coordinates along(const void *A, const void *less) const;         // U' (A - less), less may be null
  void add_along(void *A, const Coordinates &c) const;              // A += U c
  double lifted(Index t) const { return lambda() * (directions_->ratio(t) - 1); } // M = lambda + U (this) U'

  Index n_rows_, lanes_, stride_;
  bool single_;
  std::shared_ptr<const Directions> directions_;
  double kappa_ = 0;
  Buffer W_, Z_, previous_;
  std::unique_ptr<SparseWeights> sparse_;
};

} // namespace mm
