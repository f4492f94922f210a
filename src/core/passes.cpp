#include "passes.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

namespace mm {

// Spins: a round lasts about a microsecond. Yields when a partner is late, as on a busy machine.
struct Barrier {
  explicit Barrier(int size) : n_threads(size) {}
  const int n_threads;
  alignas(64) std::atomic<int> arrived{0};
  alignas(64) std::atomic<unsigned> generation{0};
};

void wait_at(Barrier &barrier) {
  const unsigned before = barrier.generation.load(std::memory_order_relaxed);
  if (barrier.arrived.fetch_add(1, std::memory_order_acq_rel) == barrier.n_threads - 1) {
    barrier.arrived.store(0, std::memory_order_relaxed);
    barrier.generation.store(before + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; barrier.generation.load(std::memory_order_acquire) == before; ++spins) {
    if (spins > 1000) std::this_thread::yield();
#if defined(__x86_64__)
    else __builtin_ia32_pause();
#endif
  }
}

namespace {
// Cuts features into ranges with about equally many non-zeros each (of a sample of the rows).
std::vector<Index> cut_features(const Rows &rows, std::size_t n_ranges) {
  std::vector<Index> cuts{0};
  std::vector<Index> seen;
  const auto sample = [&]<class I>(I) {
    const I *indptr = static_cast<const I *>(rows.indptr), *indices = static_cast<const I *>(rows.indices);
    const Index step = std::max<Index>(1, rows.n_rows / 1000);
    for (Index i = 0; i < rows.n_rows; i += step)
      for (Index t = static_cast<Index>(indptr[i]); t < static_cast<Index>(indptr[i + 1]); ++t)
        seen.push_back(static_cast<Index>(indices[t]));
  };
  if (rows.layout == Layout::csr32) sample(std::int32_t{});
  if (rows.layout == Layout::csr64) sample(std::int64_t{});
  std::sort(seen.begin(), seen.end());
  for (std::size_t t = 1; t < n_ranges; ++t) {
    const Index even = rows.n_features * static_cast<Index>(t) / static_cast<Index>(n_ranges);
    cuts.push_back(seen.empty() ? even : std::max(cuts.back(), seen[seen.size() * t / n_ranges]));
  }
  cuts.push_back(rows.n_features);
  return cuts;
}
} // namespace

Passes::Passes(std::vector<Block *> blocks) : blocks_(std::move(blocks)) {
  double cost = 0;
  for (const Block *block : blocks_) {
    n_examples_ += block->n_examples();
    cost += block->cost_of_pass();
  }
  cost_of_row_ = n_examples_ > 0 ? cost / static_cast<double>(n_examples_) : 1;
  if (blocks_.size() > 1) cuts_ = cut_features(blocks_[0]->rows(), blocks_.size());
}

bool Passes::between_passes() const {
  return std::all_of(blocks_.begin(), blocks_.end(), [](const Block *block) { return block->visits_left() == 0; });
}

void Passes::visit(Weights &weights, Index rounds) {
  const double scale = 1 / weights.lambda();
  if (blocks_.size() == 1) {
    blocks_[0]->visit(weights.view(), scale, scale, rounds, nullptr);
    return;
  }
  const double curvature = scale * std::max(1.0, 0.5 * static_cast<double>(blocks_.size()));
  constexpr unsigned retry = 16;
  bool as_team = team_speed_ >= alone_speed_;
  if (++n_visits_ % retry == 2) as_team = !as_team; // try the other one now and then
  const auto started = std::chrono::steady_clock::now();
  if (as_team) visit_as_team(weights, curvature, scale, rounds);
  else Block::visit_alone(blocks_, weights.view(), curvature, scale, rounds);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  (as_team ? team_speed_ : alone_speed_) = static_cast<double>(rounds) / std::max(seconds, 1e-9);
}

void Passes::visit_as_team(Weights &weights, double curvature, double scale, Index rounds) {
  const int size = static_cast<int>(blocks_.size());
  Barrier barrier(size);
  std::vector<Move> moves(blocks_.size());
  const auto work = [&](int index) {
    const auto at = static_cast<std::size_t>(index);
    const Team team{&barrier, moves.data(), size, index, rounds, cuts_[at], cuts_[at + 1]};
    blocks_[at]->visit(weights.view(), curvature, scale, rounds, &team);
  };
  std::vector<std::thread> others;
  for (int index = 1; index < size; ++index) others.emplace_back(work, index);
  work(0);
  for (std::thread &other : others) other.join();
}

namespace {
struct BestScale {
  double primal;
  int scale;
};

// The primal value at the best of the scales of W, from the losses at every scale.
BestScale best_of(const Scales &scales, double squared_norm, const double *loss, Index apart) {
  BestScale best{INFINITY, 0};
  for (int j = 0; j < Scales::count; ++j) {
    const double primal = 0.5 * scales.at[j] * scales.at[j] * squared_norm + loss[j * apart];
    if (primal < best.primal) best = {primal, j};
  }
  return best;
}
} // namespace

PassRecord Passes::end_pass(const Weights &weights) {
  PassRecord record{full_, 0, 0, 0, NAN, NAN, NAN};
  const Index lanes = weights.lanes();
  std::vector<double> loss(static_cast<std::size_t>(loss_size(lanes))), dual(static_cast<std::size_t>(lanes));
  for (const Block *block : blocks_) {
    const Block::Sums &sums = block->sums();
    record.violation = std::max(record.violation, sums.violation);
    record.visited += block->visits();
    record.updates += sums.updates;
    for (std::size_t m = 0; m < loss.size(); ++m) loss[m] += sums.loss[m];
    for (std::size_t m = 0; m < dual.size(); ++m) dual[m] += sums.dual[m];
  }
  if (!full_) return record;
  std::vector<double> w(static_cast<std::size_t>(weights.stride())), v(w.size());
  const double distance = weights.squared_norms(w.data(), v.data());
  const double squared_norm = std::accumulate(w.begin(), w.end(), 0.0);
  if (!blocks_[0]->problem().separable()) { // one part
    w[0] = squared_norm;
    v[0] = std::accumulate(v.begin(), v.end(), 0.0);
  }
  const Scales scales(scale_step_);
  double primal = 0, f = 0;
  record.worst_gap = -INFINITY;
  int best_scale = 0; // of the part with the largest gap
  const auto relative = [](double p, double d) { return (p + d) / std::max(std::abs(p), 1e-300); };
  for (Index m = 0; m < blocks_[0]->problem().n_parts(); ++m) {
    const auto part = static_cast<std::size_t>(m);
    const BestScale best = best_of(scales, w[part], loss.data() + m, parts_size(lanes));
    const double d = 0.5 * v[part] + dual[part];
    primal += best.primal;
    f += d;
    if (relative(best.primal, d) > record.worst_gap) {
      record.worst_gap = relative(best.primal, d);
      best_scale = best.scale;
    }
  }
  constexpr double follow[Scales::count] = {0.5, 0.7, 1, 2};
  scale_step_ = std::clamp(scale_step_ * follow[best_scale], 1e-8, 0.25);
  record.primal = primal;
  record.dual = -f;
  record.worst_gap = std::max(record.worst_gap, relative(primal, f));
  const double kappa = weights.kappa();
  if (kappa > 0) next_kappa_ = acceleration_.steer(kappa, {primal, -f, 0.5 * squared_norm, 0.5 * kappa * distance});
  return record;
}

// A stage is a full pass and the shrunk ones that follow it.
void Passes::end_stage(Weights &weights) {
  if (weights.kappa() > 0) weights.extrapolate(Acceleration::momentum(weights.kappa()), next_kappa_);
}

Stopped Passes::run(Weights &weights, const RunOptions &options, std::vector<PassRecord> &records) {
  double budget = options.budget, epochs = 0;
  while (epochs < options.max_epochs) {
    if (between_passes()) {
      full_ = next_full_;
      if (full_) shrunk_effort_ = 0;
      for (Block *block : blocks_) block->begin_pass(full_, options.permute, options.rest_share, scale_step_);
    }
    Index longest = 0;
    for (const Block *block : blocks_) longest = std::max(longest, block->visits_left());
    const double affordable = std::max(budget, 0.0) / (cost_of_row_ * static_cast<double>(blocks_.size())) + 1;
    const Index rounds = affordable < static_cast<double>(longest) ? static_cast<Index>(affordable) : longest;
    if (rounds > 0) visit(weights, rounds);
    budget -= static_cast<double>(rounds) * static_cast<double>(blocks_.size()) * cost_of_row_;
    if (rounds < longest) return Stopped::budget;

    const PassRecord record = end_pass(weights);
    records.push_back(record);
    const double effort = static_cast<double>(record.visited) / static_cast<double>(n_examples_);
    epochs += effort;
    if (full_) {
      const bool met = record.violation < options.tolerance;
      next_full_ = !options.shrinking || met;
      if (!met && record.worst_gap <= options.certify_below) return Stopped::certify;
      if (met) {
        end_stage(weights); // or Z would never move again
        return Stopped::tolerance;
      }
    } else {
      shrunk_effort_ += effort;
      next_full_ =
          record.visited == 0 || record.violation < options.tolerance || shrunk_effort_ >= options.shrunk_effort;
    }
    if (next_full_) end_stage(weights);
    if (budget <= 0) return Stopped::budget;
  }
  return Stopped::epochs;
}

} // namespace mm
