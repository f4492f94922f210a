#include "block.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mm {

Random::Random(std::uint64_t seed) {
  for (std::uint64_t &word : state_) {
    std::uint64_t z = (seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    word = z ^ (z >> 31);
  }
}

std::uint64_t Random::next() {
  const auto rotate = [](std::uint64_t x, int by) { return (x << by) | (x >> (64 - by)); };
  const std::uint64_t result = rotate(state_[0] + state_[3], 23) + state_[0];
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = rotate(state_[3], 45);
  return result;
}

std::uint32_t Random::below(std::uint32_t bound) {
  std::uint64_t product = (next() >> 32) * bound;
  if (static_cast<std::uint32_t>(product) < bound) {
    const std::uint32_t reject = (0u - bound) % bound;
    while (static_cast<std::uint32_t>(product) < reject) product = (next() >> 32) * bound;
  }
  return static_cast<std::uint32_t>(product >> 32);
}

namespace {
constexpr Index kBucket = 16;        // rows that are visited together, for the sake of the caches
constexpr double kRowOverhead = 24;  // a visit's cost beside its multiply-adds, in multiply-adds a lane

template <class T> void shuffle(T *items, Index n, Random &random) {
  for (Index i = n - 1; i > 0; --i)
    std::swap(items[i], items[random.below(static_cast<std::uint32_t>(i + 1))]);
}

// Buckets of neighbouring rows in random order, shuffled inside.
void shuffle_buckets(std::vector<std::int32_t> &order, Random &random) {
  const Index n = static_cast<Index>(order.size());
  const Index n_buckets = (n + kBucket - 1) / kBucket;
  std::vector<std::int32_t> bucket(static_cast<std::size_t>(n_buckets)), shuffled;
  for (Index b = 0; b < n_buckets; ++b) bucket[static_cast<std::size_t>(b)] = static_cast<std::int32_t>(b);
  shuffle(bucket.data(), n_buckets, random);
  shuffled.reserve(order.size());
  for (const std::int32_t b : bucket) {
    const Index begin = b * kBucket, end = std::min(n, begin + kBucket);
    const Index at = static_cast<Index>(shuffled.size());
    shuffled.insert(shuffled.end(), order.begin() + begin, order.begin() + end);
    shuffle(shuffled.data() + at, end - begin, random);
  }
  order.swap(shuffled);
}

double n_nonzeros(const Rows &rows) {
  if (rows.layout == Layout::csr32)
    return static_cast<double>(static_cast<const std::int32_t *>(rows.indptr)[rows.n_rows]);
  if (rows.layout == Layout::csr64)
    return static_cast<double>(static_cast<const std::int64_t *>(rows.indptr)[rows.n_rows]);
  return static_cast<double>(rows.n_rows) * static_cast<double>(rows.n_features);
}
} // namespace

Block::Block(Problem problem, const Rows &rows, std::vector<std::int64_t> row, std::vector<std::int32_t> label,
             std::vector<double> cap, std::vector<double> norm, bool pooled, std::uint64_t seed)
    : problem_(problem), rows_(rows), row_(std::move(row)), label_(std::move(label)), cap_(std::move(cap)),
      norm_(std::move(norm)), alpha_stride_(padded(problem.lanes, 4)), bound_(row_.size(), 1), random_(seed),
      loss_(static_cast<std::size_t>(problem.lanes + 8)), dual_(loss_.size()),
      workspace_(allocate_zeroed(static_cast<std::size_t>(workspace_size(problem.lanes)) * sizeof(double))) {
  if (pooled) lists_ = std::make_unique<PooledLists>(n_examples());
  else alpha_ = allocate_zeroed(row_.size() * static_cast<std::size_t>(alpha_stride_) * sizeof(double));
  if (rows_.layout == Layout::dense_with_zeros) {
    scratch_index_.resize(static_cast<std::size_t>(rows_.n_features) + 1);
    scratch_value_.resize(static_cast<std::size_t>(rows_.n_features) + 1);
    scratch_.index = scratch_index_.data();
    scratch_.value = scratch_value_.data();
  }
  const double per_row = rows_.n_rows > 0 ? n_nonzeros(rows_) / static_cast<double>(rows_.n_rows) : 0;
  cost_ = static_cast<double>(n_examples()) * static_cast<double>(alpha_stride_) * (per_row + kRowOverhead);
}

Examples Block::examples() const {
  return {&rows_,
          n_examples(),
          problem_.lanes,
          row_.data(),
          label_.data(),
          cap_.data(),
          norm_.data(),
          static_cast<double *>(alpha_.get()),
          alpha_stride_,
          lists_.get(),
          &scratch_,
          static_cast<double *>(workspace_.get())};
}

void Block::begin_pass(bool full, const RunOptions &options) {
  full_ = full;
  if (full) {
    order_.resize(row_.size());
    for (std::size_t e = 0; e < order_.size(); ++e) order_[e] = static_cast<std::int32_t>(e);
    shrunk_effort_ = 0;
  } else {
    order_.clear();
    for (std::size_t e = 0; e < row_.size(); ++e)
      if (!bound_[e]) order_.push_back(static_cast<std::int32_t>(e));
  }
  if (options.permute) shuffle_buckets(order_, random_);
  cursor_ = 0;
  violation_ = 0;
  updates_ = 0;
  std::fill(loss_.begin(), loss_.end(), 0.0);
  std::fill(dual_.begin(), dual_.end(), 0.0);
}

PassRecord Block::end_pass(const Weights &weights) const {
  PassRecord record{full_, violation_, static_cast<Index>(order_.size()), updates_, NAN, NAN, NAN};
  if (!full_) return record;
  std::vector<double> w(static_cast<std::size_t>(weights.stride())), v(w.size());
  weights.squared_norms(w.data(), v.data());
  const bool separable = problem_.formulation == Formulation::one_vs_rest;
  double primal = 0, f = 0, worst = 0;
  for (std::size_t m = 0; m < static_cast<std::size_t>(problem_.lanes); ++m) {
    const double p = 0.5 * w[m] + loss_[m], d = 0.5 * v[m] + dual_[m];
    primal += p;
    f += d;
    if (separable) worst = std::max(worst, (p + d) / std::max(std::abs(p), 1e-300));
  }
  record.primal = primal;
  record.dual = -f;
  record.worst_gap = std::max(worst, (primal + f) / std::max(std::abs(primal), 1e-300));
  return record;
}

Stopped Block::run(Weights &weights, const RunOptions &options, std::vector<PassRecord> &records) {
  const Examples x = examples();
  double budget = options.budget;
  const double cost_of_row = n_examples() > 0 ? cost_ / static_cast<double>(n_examples()) : 1;
  const auto visit =
      kernels().visit[static_cast<int>(problem_.formulation)][problem_.squared];
  double epochs = 0;
  while (epochs < options.max_epochs) {
    if (between_passes()) begin_pass(next_full_, options);
    const Index rows_left = static_cast<Index>(order_.size()) - cursor_;
    const Index chunk = std::min(rows_left, static_cast<Index>(budget / cost_of_row) + 1);
    PassArgs pass{order_.data(),
                  cursor_,
                  cursor_ + chunk,
                  options.curvature_scale / weights.lambda(),
                  options.curvature_scale / weights.lambda(),
                  1e-12,
                  lists_ != nullptr && !full_ && problem_.lanes >= kManyLanes,
                  bound_.data(),
                  &violation_,
                  loss_.data(),
                  dual_.data(),
                  &updates_};
    visit(x, weights.view(), pass);
    cursor_ += chunk;
    budget -= static_cast<double>(chunk) * cost_of_row;
    if (chunk < rows_left) return Stopped::budget;

    const PassRecord record = end_pass(weights);
    records.push_back(record);
    const double effort = static_cast<double>(order_.size()) / static_cast<double>(row_.size());
    epochs += effort;
    if (full_) {
      const bool met = record.violation < options.tolerance;
      next_full_ = !options.shrinking || met;
      if (met) return Stopped::tolerance;
      if (record.worst_gap <= options.certify_below) return Stopped::certify;
    } else {
      shrunk_effort_ += effort;
      next_full_ = record.violation < options.tolerance || shrunk_effort_ >= options.shrunk_effort;
    }
    if (next_full_) weights.extrapolate(options.momentum);
    if (budget <= 0) return Stopped::budget;
  }
  return Stopped::epochs;
}

void Block::evaluate(const WeightsView &weights, Index begin, Index end, double *loss, double *dual) const {
  kernels().evaluate[static_cast<int>(problem_.formulation)][problem_.squared](examples(), weights, begin, end, loss,
                                                                              dual);
}

void Block::propose(const WeightsView &weights, Index begin, Index end, double curvature, double *loss, double *dual,
                    double *out) const {
  kernels().propose[static_cast<int>(problem_.formulation)][problem_.squared](examples(), weights, begin, end,
                                                                             curvature, loss, dual, out);
}

void Block::accumulate(const WeightsView &weights, Index begin, Index end) const {
  kernels().accumulate(examples(), weights, begin, end);
}

void Block::export_duals(std::vector<std::int64_t> &indptr, std::vector<std::int32_t> &lane,
                         std::vector<double> &value) const {
  indptr.assign(1, 0);
  for (Index e = 0; e < n_examples(); ++e) {
    if (lists_) {
      std::vector<std::pair<std::int32_t, double>> entries;
      for (Index c = 0; c < lists_->size(e); ++c) entries.emplace_back(lists_->classes(e)[c], lists_->values(e)[c]);
      std::sort(entries.begin(), entries.end());
      for (const auto &[m, a] : entries) {
        lane.push_back(m);
        value.push_back(a);
      }
    } else {
      const double *a = static_cast<const double *>(alpha_.get()) + e * alpha_stride_;
      for (Index m = 0; m < problem_.lanes; ++m)
        if (a[m] != 0) {
          lane.push_back(static_cast<std::int32_t>(m));
          value.push_back(a[m]);
        }
    }
    indptr.push_back(static_cast<std::int64_t>(lane.size()));
  }
}

void Block::import_duals(const std::int64_t *indptr, const std::int32_t *lane, const double *value) {
  for (Index e = 0; e < n_examples(); ++e) {
    const Index begin = indptr[e], size = indptr[e + 1] - begin;
    if (lists_) {
      lists_->assign(e, lane + begin, value + begin, size);
    } else {
      double *a = static_cast<double *>(alpha_.get()) + e * alpha_stride_;
      std::fill_n(a, alpha_stride_, 0.0);
      for (Index c = begin; c < begin + size; ++c) a[lane[c]] = value[c];
    }
    bound_[static_cast<std::size_t>(e)] = size == 0;
  }
}

} // namespace mm
