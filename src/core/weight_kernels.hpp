// Passes over W as a whole: norms, and the acceleration's extrapolation (see weights.hpp).
#pragma once

#include "kernels.hpp"
#include "vec.hpp"

namespace mm::MM_ISA {

// Per lane: sums of w^2, of v^2 and of (w - z)^2, with v = w + kappa (w - z). Without acceleration Z is null.
template <class S>
inline void lane_sums(const S *__restrict W, const S *__restrict Z, Index n_rows, Index stride, double kappa,
                      double *__restrict w_sum, double *__restrict v_sum, double *__restrict apart_sum) {
  for (Index m = 0; m < stride; ++m) w_sum[m] = v_sum[m] = apart_sum[m] = 0;
  for (Index j = 0; j < n_rows; ++j) {
    const S *__restrict w = W + j * stride;
    for (Index m = 0; m < stride; ++m) {
      const double value = static_cast<double>(w[m]);
      w_sum[m] += value * value;
    }
    if (!Z) continue;
    const S *__restrict z = Z + j * stride;
    for (Index m = 0; m < stride; ++m) {
      const double value = static_cast<double>(w[m]);
      const double apart = value - static_cast<double>(z[m]);
      const double v = value + kappa * apart;
      v_sum[m] += v * v;
      apart_sum[m] += apart * apart;
    }
  }
}

inline void norms(const void *W, const void *Z, bool single, Index n_rows, Index stride, double kappa, double *w,
                  double *v, double *apart) {
  if (single)
    lane_sums(static_cast<const float *>(W), static_cast<const float *>(Z), n_rows, stride, kappa, w, v, apart);
  else lane_sums(static_cast<const double *>(W), static_cast<const double *>(Z), n_rows, stride, kappa, w, v, apart);
}

// Z <- W + beta (W - previous), previous <- W, and W moves with Z so that V stays: W += share (new Z - old Z).
template <class S>
inline void extrapolated(S *__restrict W, S *__restrict Z, S *__restrict previous, Index size, S beta, S share) {
  for (Index i = 0; i < size; ++i) {
    const S w = W[i];
    const S target = w + beta * (w - previous[i]);
    previous[i] = w;
    W[i] = w + share * (target - Z[i]);
    Z[i] = target;
  }
}

inline void extrapolate(void *W, void *Z, void *previous, bool single, Index size, double beta, double share) {
  if (single)
    extrapolated(static_cast<float *>(W), static_cast<float *>(Z), static_cast<float *>(previous), size,
                 static_cast<float>(beta), static_cast<float>(share));
  else
    extrapolated(static_cast<double *>(W), static_cast<double *>(Z), static_cast<double *>(previous), size, beta,
                 share);
}

} // namespace mm::MM_ISA
