#include "kernel_source.hpp"

#include <algorithm>

#include "gemm_places.hpp"

namespace mm {

namespace {

constexpr Index kPanel = kColumnsOfBlock;

template <class T> class DenseSource final : public KernelSource<T> {
public:
  DenseSource(const T *x, Index n, Index n_features, const KernelFunction &function, Gemm<T> gemm)
      : x_(x), n_features_(n_features), function_(function), gemm_(gemm), places_(gemm, n_features),
        norm_(static_cast<std::size_t>(n)) {
    this->diagonal_.resize(static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i) {
      double sum = 0;
      for (Index j = 0; j < n_features; ++j) sum += static_cast<double>(x[i * n_features + j]) * x[i * n_features + j];
      norm_[static_cast<std::size_t>(i)] = static_cast<T>(sum);
      this->diagonal_[static_cast<std::size_t>(i)] = kernel_value(sum, sum, sum, function_);
    }
  }

  double cost_of_value() const override { return static_cast<double>(n_features_) + 40; }

  void block(const Index *rows, Index count, Index begin, Index end, T *const *out) const override {
    std::vector<Index> place;
    const Index full = places_.assign(rows, count, place);
    compute(rows, count, place.data(), full, begin, end, out);
  }
  void row(Index i, Index begin, Index end, T *out) const override {
    const Index place = 0;
    compute(&i, 1, &place, 1, begin, end, &out);
  }

private:
  // Rows by their place among `full` ones, of which those that nobody has are zero.
  void compute(const Index *rows, Index count, const Index *place, Index full, Index begin, Index end,
               T *const *out) const {
    const auto gathered = std::make_unique<T[]>(static_cast<std::size_t>(full * n_features_));
    for (Index r = 0; r < count; ++r)
      std::copy_n(x_ + rows[r] * n_features_, n_features_, gathered.get() + place[r] * n_features_);
    const auto products =
        std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(full * std::min(kPanel, end - begin)));
    for (Index at = begin; at < end; at += kPanel) {
      const Index width = std::min(kPanel, end - at), step = places_.of_call(full, width, n_features_);
      if (n_features_ > 0) {
        char transposed = 'T', plain = 'N';
        int m = static_cast<int>(width), n = static_cast<int>(step), k = static_cast<int>(n_features_);
        T one = 1, zero = 0;
        for (Index r = 0; r < full; r += step)
          gemm_(&transposed, &plain, &m, &n, &k, &one, const_cast<T *>(x_ + at * n_features_), &k,
                gathered.get() + r * n_features_, &k, &zero, products.get() + r * width, &m);
      } else {
        std::fill_n(products.get(), full * width, T{0});
      }
      for (Index r = 0; r < count; ++r)
        kernels().loops<T>().values(products.get() + place[r] * width, norm_.data() + at,
                                    norm_[static_cast<std::size_t>(rows[r])], width, function_, out[r] + (at - begin));
    }
  }

  const T *x_;
  Index n_features_;
  KernelFunction function_;
  Gemm<T> gemm_;
  GemmPlaces<T> places_;
  std::vector<T> norm_;
};

template <class T> class SparseSource final : public KernelSource<T> {
public:
  SparseSource(const Rows &rows, const KernelFunction &function) : rows_(rows), function_(function) {
    const std::size_t n = static_cast<std::size_t>(rows.n_rows);
    std::vector<double> norm(n);
    kernels().squared_norms(rows_, norm.data());
    norm_.assign(norm.begin(), norm.end());
    this->diagonal_.resize(n);
    for (std::size_t i = 0; i < n; ++i) this->diagonal_[i] = kernel_value(norm[i], norm[i], norm[i], function_);
    const Index entries = rows.layout == Layout::csr32
                              ? static_cast<const std::int32_t *>(rows.indptr)[rows.n_rows]
                              : static_cast<const std::int64_t *>(rows.indptr)[rows.n_rows];
    density_ = n == 0 ? 0 : static_cast<double>(entries) / static_cast<double>(n);
  }

  double cost_of_value() const override { return 40 * density_ + 100; }

  void block(const Index *rows, Index count, Index begin, Index end, T *const *out) const override {
    if (rows_.layout == Layout::csr32) block_of<std::int32_t>(rows, count, begin, end, out);
    else block_of<std::int64_t>(rows, count, begin, end, out);
  }

private:
  static constexpr Index kLanes = 16;
  static constexpr Index kDirect = 1 << 16; // features of which all have a row of W

  // W has a row for every feature or, if there are many, for those of the rows at hand; row 0 then is that of all others,
  // and the columns' indices are translated.
  template <class I> void block_of(const Index *rows, Index count, Index begin, Index end, T *const *out) const {
    const I *const indptr = static_cast<const I *>(rows_.indptr), *const indices = static_cast<const I *>(rows_.indices);
    const bool direct = rows_.n_features <= kDirect;
    const std::size_t features = static_cast<std::size_t>(rows_.n_features), panel = static_cast<std::size_t>(kPanel);
    std::vector<T> W(direct ? features * kLanes : 0), products(panel);
    std::vector<std::int32_t> place(direct ? 0 : features); // of a feature in W
    std::vector<I> translated, offset(panel + 1);
    std::vector<double> scores(panel * kLanes), padded_scores(kLanes);
    const auto each = [&](Index row, auto entry) { // entry(t, feature)
      for (I t = indptr[row]; t < indptr[row + 1]; ++t) entry(t, static_cast<std::size_t>(indices[t]));
    };
    const auto row_of_W = [&](std::size_t f) { return (direct ? f : static_cast<std::size_t>(place[f])) * kLanes; };
    for (Index from = 0; from < count; from += kLanes) {
      const Index lanes = std::min(kLanes, count - from);
      if (!direct) {
        std::int32_t used = 1;
        for (Index r = 0; r < lanes; ++r)
          each(rows[from + r], [&](I, std::size_t f) { place[f] = place[f] > 0 ? place[f] : used++; });
        W.assign(static_cast<std::size_t>(used) * kLanes, T{0});
      }
      for (Index r = 0; r < lanes; ++r)
        each(rows[from + r], [&](I t, std::size_t f) { W[row_of_W(f) + static_cast<std::size_t>(r)] = value(t); });
      for (Index at = begin; at < end; at += kPanel) {
        const Index width = std::min(kPanel, end - at);
        Rows columns = rows_;
        Index first = at;
        if (!direct) {
          const I base = indptr[at];
          translated.resize(static_cast<std::size_t>(indptr[at + width] - base));
          for (Index j = 0; j <= width; ++j) offset[static_cast<std::size_t>(j)] = indptr[at + j] - base;
          for (std::size_t t = 0; t < translated.size(); ++t)
            translated[t] = place[static_cast<std::size_t>(indices[static_cast<std::size_t>(base) + t])];
          columns.values = static_cast<const char *>(rows_.values) + base * (rows_.single_precision ? 4 : 8);
          columns.indices = translated.data();
          columns.indptr = offset.data();
          first = 0;
        }
        kernels().scores(columns, {W.data(), sizeof(T) == 4, kLanes}, first, first + width, lanes, padded_scores.data(),
                         scores.data());
        for (Index r = 0; r < lanes; ++r) {
          for (Index j = 0; j < width; ++j)
            products[static_cast<std::size_t>(j)] = static_cast<T>(scores[static_cast<std::size_t>(j * lanes + r)]);
          kernels().loops<T>().values(products.data(), norm_.data() + at,
                                      norm_[static_cast<std::size_t>(rows[from + r])], width, function_,
                                      out[from + r] + (at - begin));
        }
      }
      for (Index r = 0; r < lanes; ++r)
        each(rows[from + r], [&](I, std::size_t f) {
          if (direct) W[row_of_W(f) + static_cast<std::size_t>(r)] = 0;
          else place[f] = 0;
        });
    }
  }

  template <class I> T value(I t) const {
    return rows_.single_precision ? static_cast<T>(static_cast<const float *>(rows_.values)[t])
                                  : static_cast<T>(static_cast<const double *>(rows_.values)[t]);
  }

  Rows rows_;
  KernelFunction function_;
  std::vector<T> norm_;
  double density_ = 0;
};

template <class T> class ForeignSource final : public KernelSource<T> {
public:
  ForeignSource(std::vector<double> diagonal, double bias, Fill<T> fill) : bias_(bias), fill_(std::move(fill)) {
    this->diagonal_ = std::move(diagonal);
    for (double &value : this->diagonal_) value += bias;
  }

  double cost_of_value() const override { return 1000; }

  void block(const Index *rows, Index count, Index begin, Index end, T *const *out) const override {
    const Index width = end - begin;
    std::vector<T> values(static_cast<std::size_t>(count * width));
    fill_(rows, count, begin, end, values.data());
    for (Index r = 0; r < count; ++r)
      for (Index j = 0; j < width; ++j)
        out[r][j] = static_cast<T>(values[static_cast<std::size_t>(r * width + j)] + bias_);
  }

private:
  double bias_;
  Fill<T> fill_;
};

} // namespace

template <class T>
std::unique_ptr<KernelSource<T>> dense_source(const T *x, Index n, Index n_features, const KernelFunction &function,
                                              Gemm<T> gemm) {
  return std::make_unique<DenseSource<T>>(x, n, n_features, function, gemm);
}
template <class T> std::unique_ptr<KernelSource<T>> sparse_source(const Rows &rows, const KernelFunction &function) {
  return std::make_unique<SparseSource<T>>(rows, function);
}
template <class T>
std::unique_ptr<KernelSource<T>> foreign_source(std::vector<double> diagonal, double bias, Fill<T> fill) {
  return std::make_unique<ForeignSource<T>>(std::move(diagonal), bias, std::move(fill));
}

template std::unique_ptr<KernelSource<float>> dense_source(const float *, Index, Index, const KernelFunction &,
                                                           Gemm<float>);
template std::unique_ptr<KernelSource<double>> dense_source(const double *, Index, Index, const KernelFunction &,
                                                            Gemm<double>);
template std::unique_ptr<KernelSource<float>> sparse_source(const Rows &, const KernelFunction &);
template std::unique_ptr<KernelSource<double>> sparse_source(const Rows &, const KernelFunction &);
template std::unique_ptr<KernelSource<float>> foreign_source(std::vector<double>, double, Fill<float>);
template std::unique_ptr<KernelSource<double>> foreign_source(std::vector<double>, double, Fill<double>);

} // namespace mm
