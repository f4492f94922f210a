#include "block.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace mm {

namespace {
constexpr Index kBucket = 16;        // rows that are visited together, for the sake of the caches
constexpr double kMarginUnit = 2;    // mean violations a full pass that can be left out
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
      norm_(std::move(norm)), alpha_stride_(padded(problem.lanes, 4)), rests_(row_.size(), 1), random_(seed),
      workspace_(allocate_zeroed(static_cast<std::size_t>(workspace_size(problem.lanes)) * sizeof(double))) {
  if (pooled) lists_ = std::make_unique<PooledLists>(n_examples());
  else alpha_ = allocate_zeroed(row_.size() * static_cast<std::size_t>(alpha_stride_) * sizeof(double));
  const double per_row = rows_.n_rows > 0 ? n_nonzeros(rows_) / static_cast<double>(rows_.n_rows) : 0;
  begin_sums();
  cost_ = static_cast<double>(n_examples()) * static_cast<double>(alpha_stride_) * (per_row + kRowOverhead);
}

void Block::expect_lanes(Index count) {
  cost_ *= std::min(1.0, static_cast<double>(count) / static_cast<double>(alpha_stride_));
}

Examples Block::examples() const {
  return {&rows_,
          problem_.lanes,
          row_.data(),
          label_.data(),
          cap_.data(),
          norm_.data(),
          static_cast<double *>(alpha_.get()),
          alpha_stride_,
          lists_.get(),
          static_cast<double *>(workspace_.get())};
}

void Block::begin_pass(Kind kind, bool permute, double rest_share, double scale_step) {
  full_ = kind != Kind::shrunk;
  // The mean violation says by how much scores still move.
  const double mean = sums_.sum_of_violations / static_cast<double>(std::max<Index>(1, visits()));
  rests_below_ = rest_share * mean;
  margin_unit_ = rest_share > 0 && mean > 0 ? kMarginUnit * mean : INFINITY; // infinity: none is left out
  scale_step_ = scale_step;
  order_.clear();
  for (std::size_t e = 0; e < row_.size(); ++e) {
    if (kind == Kind::full && rests_[e] > 1) --rests_[e];
    else if (full_ || rests_[e] == 0) order_.push_back(static_cast<std::int32_t>(e));
  }
  if (permute) shuffle_buckets(order_, random_);
  cursor_ = 0;
  begin_sums();
}

void Block::begin_sums() {
  sums_.violation = sums_.sum_of_violations = 0;
  sums_.updates = 0;
  sums_.loss.assign(static_cast<std::size_t>(loss_size(problem_.lanes)), 0.0);
  sums_.dual.assign(static_cast<std::size_t>(parts_size(problem_.lanes)), 0.0);
}

void Block::use_exponentiated_gradient() {
  constexpr double fast = 64; // in units of 1 / (C A): the first visit halves it to what is good
  const Index n_rates = problem_.separable() ? alpha_stride_ : 1;
  rates_.assign(row_.size() * static_cast<std::size_t>(n_rates), fast);
}

void Block::use_pegasos(Index batch, bool projection, Index passes) {
  const double sum_of_caps = std::accumulate(cap_.begin(), cap_.end(), 0.0);
  pegasos_ = std::make_unique<Pegasos>(problem_.formulation, problem_.lanes, n_examples(), sum_of_caps, batch, projection,
                                       passes);
}

void Block::visit_pegasos(const WeightsView &weights, Index count) {
  const Index begin = cursor_, batch = pegasos_->batch();
  cursor_ += std::min((count + batch - 1) / batch * batch, visits_left());
  pegasos_->visit(examples(), weights, order_.data(), begin, cursor_,
                  {sums_.loss.data(), &sums_.violation, &sums_.updates});
  if (visits_left() > 0) return;
  // The scale of W is not tried: the losses at the others are the same.
  const auto parts = static_cast<std::ptrdiff_t>(parts_size(problem_.lanes));
  for (int j = 1; j < Scales::count; ++j) std::copy_n(sums_.loss.begin(), parts, sums_.loss.begin() + j * parts);
  // The linear term of f: a lane's sum of |alpha|, and of Crammer-Singer's half of it.
  const double *a = alpha();
  for (Index e = 0; e < n_examples(); ++e, a += alpha_stride_)
    for (Index m = 0; m < problem_.lanes; ++m) {
      if (problem_.separable()) sums_.dual[static_cast<std::size_t>(m)] -= std::abs(a[m]);
      else sums_.dual[0] -= 0.5 * std::abs(a[m]);
    }
}

void Block::state(State &state) {
  if (lists_) lists_->state(state, problem_.lanes);
  else state.values("alpha", alpha(), n_examples() * alpha_stride_);
  state.array("rests", rests_);
  state.random(random_);
  state.indices("order", order_, n_examples(), n_examples());
  state.number("cursor", cursor_);
  state.check(cursor_ <= visits(), "a pass that has gone past its end");
  state.number("full", full_);
  state.number("rests_below", rests_below_);
  state.number("margin_unit", margin_unit_);
  state.number("scale_step", scale_step_);
  state.number("violation", sums_.violation);
  state.number("sum_of_violations", sums_.sum_of_violations);
  state.number("updates", sums_.updates);
  state.array("loss", sums_.loss);
  state.array("dual", sums_.dual);
  if (!rates_.empty()) {
    state.array("rates", rates_);
    for (const double rate : rates_)
      state.check(rate >= kSlowestRate && rate <= kFastestRate, "a learning rate out of range");
  }
  if (pegasos_) state.part("pegasos", *pegasos_);
}

void Block::visit(const WeightsView &weights, double scale, Index count, MoveLog *log) {
  if (pegasos_) return visit_pegasos(weights, count);
  constexpr double at_rest = 1e-12; // violations below are rounding
  const Index begin = cursor_;
  cursor_ += std::min(count, visits_left());
  PassArgs pass{order_.data(),
                begin,
                cursor_,
                scale,
                at_rest,
                lists_ != nullptr && !full_ && (problem_.lanes >= kManyLanes || weights.sparse),
                rests_.data(),
                rests_below_,
                margin_unit_,
                full_,
                Scales(scale_step_),
                rates_.empty() ? nullptr : rates_.data(),
                problem_.separable() ? alpha_stride_ : 1,
                &sums_.violation,
                &sums_.sum_of_violations,
                sums_.loss.data(),
                sums_.dual.data(),
                &sums_.updates,
                log};
  if (weights.sparse) return kernels().visit_sparse[problem_.squared](examples(), *weights.sparse, pass);
  const auto formulation = static_cast<int>(problem_.formulation);
  const auto visit = rates_.empty() ? kernels().visit[formulation][problem_.squared]
                                    : kernels().visit_exponentiated[formulation];
  visit(followed(weights), weights, pass);
}

void Block::follow(const WeightsView &weights, const MoveLog &log) { kernels().follow(followed(weights), weights, log); }

// The examples, their rows followed by coordinates where the weights are held back.
Examples Block::followed(const WeightsView &weights) {
  Examples visited = examples();
  hold_back(weights);
  if (weights.directions) {
    visited.rows = &held_rows_;
    visited.norm = held_norm_.data();
  }
  return visited;
}

void Block::hold_back(const WeightsView &weights) {
  if (!weights.directions || held_back_.get() == weights.directions) return;
  const Directions &directions = *weights.directions;
  held_back_ = directions.shared_from_this();
  own_directions_ = directions.of(rows_);
  held_rows_ = own_directions_->followed(rows_);
  held_norm_.resize(norm_.size());
  for (std::size_t e = 0; e < norm_.size(); ++e) held_norm_[e] = own_directions_->curvature(row_[e], norm_[e]);
}

void Block::evaluate(const WeightsView &weights, Index begin, Index end, double scale_step, const Rounding &rounding,
                     double *loss, double *dual) const {
  if (weights.sparse)
    return kernels().evaluate_sparse[problem_.squared](examples(), *weights.sparse, begin, end, Scales(scale_step),
                                                      rounding, loss, dual);
  kernels().evaluate[static_cast<int>(problem_.formulation)][problem_.squared](
      examples(), weights, begin, end, Scales(scale_step), rounding, loss, dual);
}

void Block::propose(const WeightsView &weights, Index begin, Index end, double curvature, double *loss, double *dual,
                    double *out) const {
  kernels().propose[static_cast<int>(problem_.formulation)][problem_.squared](examples(), weights, begin, end,
                                                                             curvature, loss, dual, out);
}

void Block::accumulate(const WeightsView &weights, Index begin, Index end) const {
  if (weights.sparse) return kernels().accumulate_sparse(examples(), *weights.sparse, begin, end);
  kernels().accumulate(examples(), weights, begin, end);
}

void Block::export_duals(std::vector<std::int64_t> &indptr, std::vector<std::int32_t> &lane,
                         std::vector<double> &value) const {
  indptr.assign(1, 0);
  indptr.reserve(row_.size() + 1);
  std::vector<std::pair<std::int32_t, double>> entries;
  for (Index e = 0; e < n_examples(); ++e) {
    if (lists_) {
      entries.clear();
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
    rests_[static_cast<std::size_t>(e)] = size == 0;
  }
}

} // namespace mm
