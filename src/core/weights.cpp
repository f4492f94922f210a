#include "weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace mm {

void FreeBuffer::operator()(void *p) const {
#if defined(__linux__)
  if (mapping != nullptr) {
    munmap(mapping, length);
    return;
  }
#endif
  std::free(p);
}

Buffer allocate_zeroed(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) throw std::bad_alloc();
#if defined(__linux__)
  constexpr std::size_t huge = std::size_t{1} << 21;
  if (bytes >= huge) { // fresh pages are zero
    const std::size_t length = bytes + huge;
    void *mapping = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    const std::size_t begin = (reinterpret_cast<std::size_t>(mapping) + huge - 1) / huge * huge;
    madvise(reinterpret_cast<void *>(begin), bytes, MADV_HUGEPAGE);
    return Buffer(reinterpret_cast<void *>(begin), FreeBuffer{mapping, length});
  }
#endif
  constexpr std::size_t alignment = 64;
  const std::size_t size = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  void *p = std::aligned_alloc(alignment, size);
  if (p == nullptr) throw std::bad_alloc();
  std::memset(p, 0, size);
  return Buffer(p);
}

namespace {
template <class F> void with_scalar(bool single, F f) {
  if (single) f(float{});
  else f(double{});
}
std::size_t bytes_of(Index n_rows, Index stride, bool single) {
  const std::size_t scalar = single ? 4 : 8;
  const auto rows = static_cast<std::size_t>(n_rows), columns = static_cast<std::size_t>(stride);
  if (columns != 0 && rows > std::numeric_limits<std::size_t>::max() / 16 / columns) throw std::bad_alloc();
  return rows * columns * scalar;
}
} // namespace

Weights::Weights(Index n_rows, Index lanes, bool single_precision, std::shared_ptr<const Directions> directions)
    : n_rows_(n_rows), lanes_(lanes), stride_(padded(lanes, single_precision ? 8 : 4)), single_(single_precision),
      directions_(std::move(directions)), W_(allocate_zeroed(bytes_of(n_rows + n_along(), stride_, single_))) {}

std::size_t Weights::bytes() const { return bytes_of(n_rows_ + n_along(), stride_, single_); }

void Weights::fold() {
  if (!held()) return;
  with_scalar(single_, [&]<class S>(S) {
    S *T = static_cast<S *>(W_.get()) + n_rows_ * stride_;
    const Coordinates c(T, T + n_along() * stride_);
    add_along(W_.get(), c);
    std::fill_n(T, n_along() * stride_, S{0});
  });
}

Weights::Coordinates Weights::along(const void *A, const void *less) const {
  Coordinates c(static_cast<std::size_t>(n_along() * stride_));
  with_scalar(single_, [&]<class S>(S) {
    const S *a = static_cast<const S *>(A), *b = static_cast<const S *>(less);
    for (Index j = directions_->first(); j < n_rows_; ++j)
      for (Index t = 0; t < n_along(); ++t) {
        const double u = directions_->row(j)[t];
        double *out = c.data() + t * stride_;
        const S *aj = a + j * stride_, *bj = b ? b + j * stride_ : nullptr;
        if (bj)
          for (Index m = 0; m < stride_; ++m) out[m] += u * static_cast<double>(aj[m] - bj[m]);
        else
          for (Index m = 0; m < stride_; ++m) out[m] += u * static_cast<double>(aj[m]);
      }
  });
  return c;
}

void Weights::add_along(void *A, const Coordinates &c) const {
  with_scalar(single_, [&]<class S>(S) {
    const std::vector<S> narrow(c.begin(), c.end());
    for (Index j = directions_->first(); j < n_rows_; ++j) {
      S *a = static_cast<S *>(A) + j * stride_;
      for (Index t = 0; t < n_along(); ++t) {
        const S u = static_cast<S>(directions_->row(j)[t]);
        const S *from = narrow.data() + t * stride_;
        for (Index m = 0; m < stride_; ++m) a[m] += u * from[m];
      }
    }
  });
}

Weights::Weights(Index n_rows, Index lanes, bool single_precision, Sparse sparse)
    : n_rows_(n_rows), lanes_(lanes), stride_(padded(lanes, single_precision ? 8 : 4)), single_(single_precision),
      sparse_(std::make_unique<SparseWeights>(n_rows, lanes, single_precision, sparse.intercept)) {}

void Weights::set_kappa(double kappa) {
  if (sparse_) {
    if (kappa > 0) throw std::invalid_argument("sparse weights are not accelerated");
    return;
  }
  const std::size_t bytes = bytes_of(n_rows_, stride_, single_);
  if (kappa_ > 0) { // W <- V = Z + M (W - Z)
    fold();
    Coordinates apart;
    if (held()) {
      apart = along(W_.get(), Z_.get());
      for (Index t = 0; t < n_along(); ++t)
        for (Index m = 0; m < stride_; ++m) apart[static_cast<std::size_t>(t * stride_ + m)] *= lifted(t);
    }
    with_scalar(single_, [&]<class S>(S) {
      S *w = static_cast<S *>(W_.get());
      const S *z = static_cast<const S *>(Z_.get());
      const S l = static_cast<S>(1 + kappa_), k = static_cast<S>(kappa_);
      for (Index i = 0; i < n_rows_ * stride_; ++i) w[i] = l * w[i] - k * z[i];
    });
    if (held()) add_along(W_.get(), apart);
  }
  kappa_ = kappa;
  if (kappa > 0) { // Z = W = V: W stands
    if (!Z_) {
      Z_ = allocate_zeroed(bytes);
      previous_ = allocate_zeroed(bytes);
    }
    std::memcpy(Z_.get(), W_.get(), bytes);
    std::memcpy(previous_.get(), W_.get(), bytes);
  } else {
    Z_.reset();
    previous_.reset();
  }
}

// W = Z + M^-1 (V - Z) for the new Z and M. What is along U of it is left in T:
//   U' (V - Z) = q (kappa + lifted) - beta r,  q = U' (W - old Z),  r = U' (W - previous)
// of which the kernel takes q kappa - beta r and all of it by 1 / lambda.
void Weights::extrapolate(double beta, double next_kappa) {
  fold();
  Coordinates q, r;
  if (held()) {
    q = along(W_.get(), Z_.get());
    r = along(W_.get(), previous_.get());
  }
  kernels().extrapolate(W_.get(), Z_.get(), previous_.get(), single_, n_rows_ * stride_, beta, kappa_, next_kappa);
  with_scalar(single_, [&]<class S>(S) {
    S *T = static_cast<S *>(W_.get()) + n_rows_ * stride_;
    for (Index t = 0; t < (held() ? n_along() : 0); ++t)
      for (Index m = 0; m < stride_; ++m) {
        const auto i = static_cast<std::size_t>(t * stride_ + m);
        const double share = 1 / directions_->ratio(t), of_kernel = kappa_ * q[i] - beta * r[i];
        T[i] = static_cast<S>((share * (of_kernel + lifted(t) * q[i]) - of_kernel) / (1 + next_kappa));
      }
  });
  kappa_ = next_kappa;
}

void Weights::averaged(Weights &out) {
  fold();
  double *target = static_cast<double *>(out.data());
  with_scalar(single_, [&]<class S>(S) {
    const S *w = static_cast<const S *>(W_.get());
    const S *p = kappa_ > 0 ? static_cast<const S *>(previous_.get()) : w;
    for (Index j = 0; j < n_rows_; ++j)
      for (Index m = 0; m < lanes_; ++m)
        target[j * out.stride_ + m] =
            0.5 * (static_cast<double>(w[j * stride_ + m]) + static_cast<double>(p[j * stride_ + m]));
  });
}

double Weights::squared_norms(double *w_norm, double *v_norm) {
  if (sparse_) {
    std::fill_n(w_norm, stride_, 0.0);
    sparse_->squared_norms(w_norm);
    std::copy_n(w_norm, stride_, v_norm);
    return 0;
  }
  fold();
  std::vector<double> apart(static_cast<std::size_t>(stride_));
  kernels().norms(W_.get(), Z_.get(), single_, n_rows_, stride_, kappa_, w_norm, v_norm, apart.data());
  if (kappa_ == 0) std::copy_n(w_norm, stride_, v_norm);
  if (held()) { // V = (W + kappa (W - Z)) + U (lifted) q
    const Coordinates q = along(W_.get(), Z_.get()), w = along(W_.get(), nullptr);
    for (Index t = 0; t < n_along(); ++t)
      for (Index m = 0; m < stride_; ++m) {
        const auto i = static_cast<std::size_t>(t * stride_ + m);
        const double more = lifted(t) * q[i];
        v_norm[m] += more * (2 * (w[i] + kappa_ * q[i]) + more);
      }
  }
  double distance = 0;
  for (const double lane : apart) distance += lane;
  return distance;
}

void Weights::state(State &state) {
  double kappa = kappa_;
  state.number("kappa", kappa);
  state.check(kappa >= 0 && std::isfinite(kappa), "kappa out of range");
  if (sparse_) {
    state.check(kappa == 0, "acceleration of sparse weights");
    sparse_->state(state);
    return;
  }
  if (state.loads()) set_kappa(kappa); // makes room
  with_scalar(single_, [&]<class S>(S) {
    const Index n = n_rows_ * stride_;
    // Whose squares are numbers: no training has larger ones.
    const auto values = [&](const char *name, const Buffer &buffer, Index count) {
      constexpr double most = sizeof(S) == 4 ? 1e18 : 1e150;
      S *array = static_cast<S *>(buffer.get());
      state.values(name, array, count);
      for (Index i = 0; i < count; ++i)
        state.check(std::abs(static_cast<double>(array[i])) <= most, "weights that are no numbers, or too large");
    };
    values("W", W_, n + n_along() * stride_);
    if (kappa_ == 0) return;
    values("Z", Z_, n);
    values("previous", previous_, n);
  });
}

} // namespace mm
