// Blocks of kernel values K(x_i, x_j), whatever the kernel and the storage of X.
//
// Conventions
//   T       precision of the values: float, or double where tol asks for it
//   block   values of a list of rows against a range of columns; column j is example j of the source
// Dense X: one GEMM of SciPy's BLAS for a block, then the function of the inner products. Sparse X: the rows of the
// block become the columns of a dense W, and the row kernels of the linear machines score X against it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kernels.hpp"

namespace mm {

// Fortran BLAS, as SciPy hands it out: gemm(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc).
template <class T>
using Gemm = void (*)(char *, char *, int *, int *, int *, T *, T *, int *, T *, int *, T *, T *, int *);

// Columns of a block at a time: their inner products stay in cache. A block that begins at a multiple of it, counted
// from the first column of a group, has the same bits as a part of a longer one.
inline constexpr Index kColumnsOfBlock = 1024;

template <class T> class KernelSource {
public:
  virtual ~KernelSource() = default;
  Index n() const { return static_cast<Index>(diagonal_.size()); }
  const std::vector<double> &diagonal() const { return diagonal_; } // K(x_i, x_i)
  // out[r] receives K(rows[r], begin..end). Safe to call from several threads.
  virtual void block(const Index *rows, Index count, Index begin, Index end, T *const *out) const = 0;
  // The same for one row, on its own: faster than a block of one, but its last bits may not be those of a block.
  virtual void row(Index i, Index begin, Index end, T *out) const { block(&i, 1, begin, end, &out); }
  // What one value costs, in multiply-adds of a GEMM: callers cut their work into calls of about 50 ms by it.
  virtual double cost_of_value() const = 0;

protected:
  std::vector<double> diagonal_;
};

// x: n x n_features, contiguous rows, alive as long as the source.
template <class T>
std::unique_ptr<KernelSource<T>> dense_source(const T *x, Index n, Index n_features, const KernelFunction &, Gemm<T>);

template <class T> std::unique_ptr<KernelSource<T>> sparse_source(const Rows &, const KernelFunction &);

// Values that somebody else computes: fill(rows, count, begin, end, out) with `out` count x (end - begin).
template <class T>
using Fill = std::function<void(const Index *rows, Index count, Index begin, Index end, T *out)>;
template <class T>
std::unique_ptr<KernelSource<T>> foreign_source(std::vector<double> diagonal, double bias, Fill<T>);

} // namespace mm
