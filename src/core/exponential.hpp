// exp in vectors, the same bits everywhere.
#pragma once

#include <initializer_list>

#include "vec.hpp"

namespace mm::MM_ISA {

// exp(x) for x <= 0 (larger x count as 0): 2^n p(r) with x = n ln 2 + r and |r| <= ln(2) / 2. The polynomials are
// the series of exp, long enough that their rest is below half a unit of the last place.
inline Float8 exp_of_negative(Float8 x) {
  using Int8 = std::int32_t __attribute__((vector_size(32)));
  x = larger(smaller(x, Float8{}), Float8{} - 87.0f);
  const float magic = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer
  const Float8 shifted = x * 1.44269504f + magic;
  const Float8 n = shifted - magic;
  const Float8 r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Float8 p = r * (1.0f / 5040) + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = (p * r) * r + r + 1.0f;
  Int8 bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127) << 23;
  Float8 scale;
  __builtin_memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

inline Double4 exp_of_negative(Double4 x) {
  x = larger(smaller(x, Double4{}), Double4{} - 708.0);
  const double magic = 6755399441055744.0; // 1.5 * 2^52
  const Double4 shifted = x * 1.4426950408889634 + magic;
  const Double4 n = shifted - magic;
  const Double4 r = (x - n * 0.693145751953125) - n * 1.42860682030941723212e-6;
  Double4 p = r * (1.0 / 6227020800) + 1.0 / 479001600;
  for (const double c : {1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120,
                         1.0 / 24, 1.0 / 6, 0.5})
    p = p * r + c;
  p = (p * r) * r + r + 1.0;
  Long4 bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 1023) << 52;
  Double4 scale;
  __builtin_memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

// The same to ten digits, where that will do: a shorter series, its terms side by side instead of one after the other.
inline Double4 quick_exp_of_negative(Double4 x) {
  x = larger(smaller(x, Double4{}), Double4{} - 708.0);
  const double magic = 6755399441055744.0;
  const Double4 shifted = x * 1.4426950408889634 + magic;
  const Double4 n = shifted - magic;
  const Double4 r = x - n * 0.6931471805599453, r2 = r * r, r4 = r2 * r2;
  const Double4 low = (r + 1.0) + r2 * (r * (1.0 / 6) + 0.5);
  const Double4 middle = (r * (1.0 / 120) + 1.0 / 24) + r2 * (r * (1.0 / 5040) + 1.0 / 720);
  const Double4 p = low + r4 * (middle + r4 * (r * (1.0 / 362880) + 1.0 / 40320));
  Long4 bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 1023) << 52;
  Double4 scale;
  __builtin_memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}
inline double quick_exp_of_negative(double x) { return quick_exp_of_negative(splat<Double4>(x))[0]; }

} // namespace mm::MM_ISA
