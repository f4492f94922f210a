// From inner products to kernel values, in vectors.
#pragma once

#include "kernels.hpp"
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

template <class T>
void kernel_values(const T *product, const T *norm, T own, Index n, const KernelFunction &f, T *out) {
  using V = typename VectorOf<T>::type;
  constexpr Index width = VectorOf<T>::width;
  const T gamma = static_cast<T>(f.gamma), coef0 = static_cast<T>(f.coef0), bias = static_cast<T>(f.bias);
  const auto each = [&](auto value) { // value(products, norms) -> kernel values
    Index j = 0;
    for (; j + width <= n; j += width) store(out + j, value(load<V>(product + j), load<V>(norm + j)));
    if (j == n) return;
    T p[width] = {}, q[width] = {}, v[width];
    __builtin_memcpy(p, product + j, static_cast<std::size_t>(n - j) * sizeof(T));
    __builtin_memcpy(q, norm + j, static_cast<std::size_t>(n - j) * sizeof(T));
    store(v, value(load<V>(p), load<V>(q)));
    __builtin_memcpy(out + j, v, static_cast<std::size_t>(n - j) * sizeof(T));
  };
  switch (f.kind) {
  case KernelFunction::Kind::linear:
    each([&](V p, V) { return p + bias; });
    break;
  case KernelFunction::Kind::rbf:
    each([&](V p, V q) { return exp_of_negative(gamma * ((p + p) - (q + own))) + bias; });
    break;
  case KernelFunction::Kind::poly:
    each([&](V p, V) {
      const V base = gamma * p + coef0;
      V power = V{} + T{1}, square = base;
      for (unsigned degree = static_cast<unsigned>(f.degree); degree > 0; degree >>= 1) {
        if (degree & 1) power = power * square;
        square = square * square;
      }
      return power + bias;
    });
    break;
  case KernelFunction::Kind::sigmoid: // tanh(u) = (1 - e^{-2|u|}) / (1 + e^{-2|u|}), with the sign of u
    each([&](V p, V) {
      const V u = gamma * p + coef0;
      const V e = exp_of_negative(T{-2} * (u < V{} ? -u : u));
      const V value = (T{1} - e) / (T{1} + e);
      return (u < V{} ? -value : value) + bias;
    });
    break;
  }
}

} // namespace mm::MM_ISA
