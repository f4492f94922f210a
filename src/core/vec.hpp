// Fixed-width vectors. Every instruction set executes the same sequence of elementwise operations on
// them (no fused multiply-add, fixed reduction order), so all builds of the core give the same bits.
#pragma once

#include <cstdint>
#include <limits>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#ifndef MM_ISA
#error "compile the hot loops through a file that names its instruction set (isa.cpp)"
#endif

namespace mm::MM_ISA {

using Index = std::int64_t;

// 32 bytes: four doubles or eight floats. Narrower machines execute them in halves.
using Double4 = double __attribute__((vector_size(32)));
using Long4 = long long __attribute__((vector_size(32)));
using Float8 = float __attribute__((vector_size(32)));

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class Scalar> struct VectorOf;
template <> struct VectorOf<double> {
  using type = Double4;
  static constexpr int width = 4;
};
template <> struct VectorOf<float> {
  using type = Float8;
  static constexpr int width = 8;
};

template <class V, class Scalar> inline V load(const Scalar *p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(V));
  return v;
}
template <class V, class Scalar> inline void store(Scalar *p, V v) { __builtin_memcpy(p, &v, sizeof(V)); }

// What compilers make of conversions and tests is often one element after the other: here the instructions are named.

using Float4 = float __attribute__((vector_size(16)));
using Int4 = std::int32_t __attribute__((vector_size(16)));
using FourBytes = signed char __attribute__((vector_size(4)));

inline Double4 load_four(const double *p) { return load<Double4>(p); }
inline Double4 load_four(const float *p) {
#ifdef __AVX2__
  return _mm256_cvtps_pd(_mm_loadu_ps(p));
#else
  return __builtin_convertvector(load<Float4>(p), Double4);
#endif
}

inline Long4 load_bits(const signed char *p) {
#ifdef __AVX2__
  return reinterpret_cast<Long4>(_mm256_cvtepi8_epi64(_mm_cvtsi32_si128(load<int>(p))));
#else
  return __builtin_convertvector(load<FourBytes>(p), Long4);
#endif
}

// Of a mask, elements 0 or -1: whether any is set.
inline bool any(Long4 mask) {
#ifdef __AVX2__
  return _mm256_movemask_pd(reinterpret_cast<__m256d>(mask)) != 0;
#else
  return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
#endif
}

// One bit an element.
inline int bits(Long4 mask) {
#ifdef __AVX2__
  return _mm256_movemask_pd(reinterpret_cast<__m256d>(mask));
#else
  return static_cast<int>((mask[0] & 1) | (mask[1] & 2) | (mask[2] & 4) | (mask[3] & 8));
#endif
}

inline bool all(Long4 mask) { return !any(~mask); }
inline bool all(bool mask) { return mask; }

inline void store_as(double *p, Double4 v) { store(p, v); }
inline void store_as(float *p, Float8 v) { store(p, v); }
inline void store_as(double *p, Float8 v) {
  Float4 half[2];
  __builtin_memcpy(half, &v, sizeof v);
  store(p, __builtin_convertvector(half[0], Double4));
  store(p + 4, __builtin_convertvector(half[1], Double4));
}

// What comparisons of lanes give.
template <class V> struct MaskOf;
template <> struct MaskOf<Double4> {
  using type = Long4;
};
template <> struct MaskOf<double> {
  using type = bool;
};

template <class V> inline V splat(double x);
template <> inline Double4 splat<Double4>(double x) { return Double4{x, x, x, x}; }
template <> inline double splat<double>(double x) { return x; }

// Elementwise maximum and minimum; also for plain doubles, so that a lane formula is written once.
template <class V> inline V larger(V a, V b) { return a > b ? a : b; }
template <class V> inline V smaller(V a, V b) { return a < b ? a : b; }

template <class V, class Scalar> inline V splat_of(Scalar x) {
  V v;
  for (unsigned i = 0; i < sizeof(V) / sizeof(Scalar); ++i) v[i] = x;
  return v;
}

inline double horizontal_sum(Double4 v) { return (v[0] + v[2]) + (v[1] + v[3]); }
inline double horizontal_max(Double4 v) { return larger(larger(v[0], v[2]), larger(v[1], v[3])); }
inline double horizontal_min(Double4 v) { return smaller(smaller(v[0], v[2]), smaller(v[1], v[3])); }
inline double horizontal_sum(double v) { return v; }
inline double horizontal_max(double v) { return v; }

} // namespace mm::MM_ISA
