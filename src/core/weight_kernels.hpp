// Passes over W as a whole: norms, and the acceleration's extrapolation (see weights.hpp).
#pragma once

#include "kernels.hpp"
#include "vec.hpp"

namespace mm::MM_ISA {

// Per lane: sums of w^2, of v^2 and of (w - z)^2, with v = w + kappa (w - z). Without acceleration Z is null.
// Some rows at a time are summed in W's own precision, and these sums in double precision.
template <class S>
inline void lane_sums(const S *__restrict W, const S *__restrict Z, Index n_rows, Index stride, double kappa,
                      double *__restrict w_sum, double *__restrict v_sum, double *__restrict apart_sum) {
  constexpr Index rows_at_once = 32;
  const S k = static_cast<S>(kappa);
  for (Index m = 0; m < stride; ++m) w_sum[m] = v_sum[m] = apart_sum[m] = 0;
  constexpr Index most = 64; // lanes at once
  S w2[most], v2[most], d2[most];
  for (Index first = 0; first < n_rows; first += rows_at_once) {
    const Index last = first + rows_at_once < n_rows ? first + rows_at_once : n_rows;
    for (Index begin = 0; begin < stride; begin += most) {
      const Index count = stride - begin < most ? stride - begin : most;
      for (Index m = 0; m < count; ++m) w2[m] = v2[m] = d2[m] = 0;
      for (Index j = first; j < last; ++j) {
        const S *__restrict w = W + j * stride + begin;
        if (!Z) {
          for (Index m = 0; m < count; ++m) w2[m] += w[m] * w[m];
          continue;
        }
        const S *__restrict z = Z + j * stride + begin;
        for (Index m = 0; m < count; ++m) {
          const S apart = w[m] - z[m], v = w[m] + k * apart;
          w2[m] += w[m] * w[m];
          v2[m] += v * v;
          d2[m] += apart * apart;
        }
      }
      for (Index m = 0; m < count; ++m) {
        w_sum[begin + m] += static_cast<double>(w2[m]);
        v_sum[begin + m] += static_cast<double>(v2[m]);
        apart_sum[begin + m] += static_cast<double>(d2[m]);
      }
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
