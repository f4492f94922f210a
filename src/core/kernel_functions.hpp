// From inner products to kernel values, in vectors.
#pragma once

#include <limits>

#include "exponential.hpp"
#include "kernels.hpp"

namespace mm::MM_ISA {

// Squared distances below this share of the squared norms are rounding.
template <class T> constexpr T kSameRow = 16 * std::numeric_limits<T>::epsilon();

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
    each([&](V p, V q) { // a distance within the rounding of what it is the difference of is none: else, where gamma
                         // is large, a row would be far from itself
      const V norms = q + own, negative = (p + p) - norms;
      return exp_of_negative(negative > -kSameRow<T> * norms ? V{} : gamma * negative) + bias;
    });
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
