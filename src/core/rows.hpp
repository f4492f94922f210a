// The rows of X: what a row is, whatever its storage.
//
// Conventions
//   X  n_rows x n_features, CSR (int32 or int64 indices) or dense rows, float32 or float64
//   W  feature-major: row j of W holds the weights of feature j for all lanes, `stride` scalars apart;
//      one more row, n_features, belongs to the intercept when `intercept` is not zero,
//      and n_along more to the coordinates along directions
#pragma once

#include <cstdint>

// For functions that only fetch ahead: GCC takes calls of them for calls without effect, and leaves them out.
#define MM_PREFETCH __attribute__((always_inline))

namespace mm {

using Index = std::int64_t;

enum class Layout : int { csr32, csr64, dense };

struct Rows {
  Layout layout;
  bool single_precision;  // X is float32
  const void *values;     // CSR data, or the dense array
  const void *indices;    // CSR column indices
  const void *indptr;     // CSR row pointers, same integer type as the indices
  Index n_rows;
  Index n_features;
  Index row_stride;       // dense: scalars from one row to the next
  double intercept;       // value of the constant feature, 0 for none
  // Coordinates along directions in which W is held back (directions.hpp), which follow the features; none by default.
  const double *along = nullptr; // n_along a row, along_stride from one row to the next
  const double *held = nullptr;  // by how much of each
  Index n_along = 0;
  Index along_stride = 0;

  // Of a row's sums: its non-zeros, or all features.
  Index n_terms(Index i) const {
    const auto between = [i](const auto *begin) { return static_cast<Index>(begin[i + 1] - begin[i]); };
    if (layout == Layout::csr32) return between(static_cast<const std::int32_t *>(indptr));
    if (layout == Layout::csr64) return between(static_cast<const std::int64_t *>(indptr));
    return n_features;
  }
};

} // namespace mm
