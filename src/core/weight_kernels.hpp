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

// Z <- W + beta (W - previous), previous <- W; kappa becomes next_kappa, and W such that V = W + kappa (W - Z) stays.
template <class S>
inline void extrapolated(S *__restrict W, S *__restrict Z, S *__restrict previous, Index size, S beta, S kappa,
                         S next_kappa) {
  const S share = 1 / (1 + next_kappa);
  for (Index i = 0; i < size; ++i) {
    const S w = W[i];
    const S v = w + kappa * (w - Z[i]);
    const S z = w + beta * (w - previous[i]);
    previous[i] = w;
    W[i] = z + share * (v - z);
    Z[i] = z;
  }
}

inline void extrapolate(void *W, void *Z, void *previous, bool single, Index size, double beta, double kappa,
                        double next_kappa) {
  const auto run = [&]<class S>(S) {
    extrapolated(static_cast<S *>(W), static_cast<S *>(Z), static_cast<S *>(previous), size, static_cast<S>(beta),
                 static_cast<S>(kappa), static_cast<S>(next_kappa));
  };
  if (single) run(float{});
  else run(double{});
}

} // namespace mm::MM_ISA
