#include "passes.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mm {

namespace {
// Side by side: visits that others make before a block hears of them; the least visits of a block between two meetings;
// of how many visits on threads are worth it. The more are unheard, the more passes a fit takes.
constexpr Index kUnheard = 256, kLeastGroup = 4, kFewVisits = 512;
constexpr double kTooViolated = 2; // times the least violation of a full pass
constexpr double kLongerCalls = 4; // threads have to be woken up
} // namespace

Passes::Passes(std::vector<Block *> blocks, bool first_full, bool side_by_side)
    : blocks_(std::move(blocks)), next_full_(first_full) {
  if (side_by_side && blocks_.size() > 1) {
    side_by_side_ = std::make_unique<SideBySide>(blocks_);
    group_ = std::max(kLeastGroup, kUnheard / (static_cast<Index>(blocks_.size()) - 1));
  }
  double cost = 0;
  for (const Block *block : blocks_) {
    n_examples_ += block->n_examples();
    cost += block->cost_of_pass();
  }
  cost_of_row_ = n_examples_ > 0 ? cost / static_cast<double>(n_examples_) : 1;
}

Index Passes::visits_left() const {
  Index left = 0;
  for (const Block *block : blocks_) left += block->visits_left();
  return left;
}

// Up to `count` visits; false when some of the pass are left.
bool Passes::visit(Weights &weights, double scale, Index count) {
  const Index left = visits_left();
  if (side_by_side_ && group_ >= kLeastGroup && std::min(count, left) >= kFewVisits && !weights.sparse())
    return visit_side_by_side(weights, scale, count, left);
  for (Block *block : blocks_) {
    const Index here = std::min(count, block->visits_left());
    if (here > 0) block->visit(weights.view(), scale, here);
    count -= here;
    if (block->visits_left() > 0) return false;
  }
  return true;
}

// Every block its share, as many of what it has left.
bool Passes::visit_side_by_side(Weights &weights, double scale, Index count, Index left) {
  std::vector<Index> counts;
  for (const Block *block : blocks_) {
    const double share = static_cast<double>(count) / static_cast<double>(left);
    const Index here = block->visits_left();
    counts.push_back(share >= 1 ? here : static_cast<Index>(share * static_cast<double>(here)));
  }
  side_by_side_->visit(weights, scale, counts, group_);
  return count >= left;
}

// After a full pass: violations that grow are those of steps that overshoot together.
void Passes::watch_violations() {
  double sum = 0, visits = 0;
  for (const Block *block : blocks_) {
    sum += block->sums().sum_of_violations;
    visits += static_cast<double>(block->visits());
  }
  const double mean = sum / std::max(visits, 1.0);
  if (mean > kTooViolated * least_violation_) group_ /= 2;
  least_violation_ = std::min(least_violation_, mean);
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

PassRecord Passes::end_pass(Weights &weights) {
  PassRecord record{full_, 0, 0, 0, NAN, NAN, NAN, NAN, NAN};
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
  if (side_by_side_) watch_violations();
  std::vector<double> w(static_cast<std::size_t>(weights.stride())), v(w.size());
  const double distance = weights.squared_norms(w.data(), v.data());
  record.w_norm = std::accumulate(w.begin(), w.end(), 0.0);
  record.v_norm = std::accumulate(v.begin(), v.end(), 0.0);
  if (!blocks_[0]->problem().separable()) { // one part
    w[0] = record.w_norm;
    v[0] = record.v_norm;
  }
  const Scales scales(scale_step(weights));
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
  if (weights.kappa() > 0) scale_step_ = std::clamp(scale_step_ * follow[best_scale], 1e-8, 0.25);
  record.primal = primal;
  record.dual = -f;
  record.worst_gap = std::isfinite(primal + f) ? std::max(record.worst_gap, relative(primal, f)) : NAN;
  const double kappa = weights.kappa();
  if (kappa > 0) next_kappa_ = acceleration_.steer(kappa, {primal, -f, 0.5 * record.w_norm, distance});
  return record;
}

// A stage is a full pass and the shrunk ones that follow it.
void Passes::end_stage(Weights &weights, const RunOptions &options) {
  if (weights.kappa() > 0 && options.stages) {
    const double kappa = weights.kappa();
    weights.extrapolate(Acceleration::momentum(kappa), next_kappa_ > 0 ? next_kappa_ : kappa);
  }
}

// Of the end of a pass, in multiply-adds: shrunk passes over a row or two would otherwise cost nothing.
constexpr double kCostOfPassEnd = 1e4;
constexpr double kLooksAtWeights = 4; // norms, stages

Stopped Passes::run(Weights &weights, const RunOptions &options, std::vector<PassRecord> &records) {
  const bool threads = side_by_side_ && group_ >= kLeastGroup;
  double budget = options.budget * (threads ? kLongerCalls : 1), epochs = 0;
  while (epochs < options.max_epochs) {
    if (pass_ended_) {
      full_ = next_full_;
      if (full_) shrunk_effort_ = 0;
      for (Block *block : blocks_)
        block->begin_pass(full_ ? next_thorough_ ? Block::Kind::thorough : Block::Kind::full : Block::Kind::shrunk,
                          options.permute, options.rest_share, scale_step(weights));
      next_thorough_ = false;
    }
    const double affordable = std::max(budget, 0.0) / cost_of_row_ + 1;
    const Index left = visits_left();
    if (left == 0 && n_examples_ > 0) { // all are left out: on to those that shrunk, or even full passes leave out
      next_thorough_ = full_;
      if (!full_) end_stage(weights, options);
      next_full_ = pass_ended_ = true;
      continue;
    }
    const Index visits = affordable < static_cast<double>(left) ? static_cast<Index>(affordable) : left;
    pass_ended_ = visit(weights, options.scale / weights.lambda(), visits);
    budget -= static_cast<double>(visits) * cost_of_row_;
    if (!pass_ended_) return Stopped::budget;
    budget -= kCostOfPassEnd + kLooksAtWeights * static_cast<double>(weights.n_rows() * weights.stride());

    const PassRecord record = end_pass(weights);
    records.push_back(record);
    const double effort = static_cast<double>(record.visited) / static_cast<double>(n_examples_);
    epochs += effort;
    if (full_) {
      const bool quiet = record.violation < options.tolerance;
      const bool met = quiet && record.visited == n_examples_;
      next_thorough_ = quiet && !met;
      next_full_ = !options.shrinking || quiet;
      const bool far_off = record.worst_gap < -0.1 * options.certify_below; // the steps of the pass were large
      if (!met && !far_off && record.worst_gap <= options.certify_below) return Stopped::certify;
      if (met) {
        end_stage(weights, options); // or Z would never move again
        return Stopped::tolerance;
      }
    } else {
      shrunk_effort_ += effort;
      next_full_ = record.violation < options.tolerance || shrunk_effort_ >= options.shrunk_effort;
    }
    if (next_full_) end_stage(weights, options);
    if (budget <= 0) return Stopped::budget;
  }
  return Stopped::epochs;
}

void Passes::state(State &state) {
  state.number("scale_step", scale_step_);
  state.part("acceleration", acceleration_);
  state.number("next_kappa", next_kappa_);
  state.number("pass_ended", pass_ended_);
  state.number("full", full_);
  state.number("next_full", next_full_);
  state.number("next_thorough", next_thorough_);
  state.number("shrunk_effort", shrunk_effort_);
  if (side_by_side_) {
    state.number("group", group_);
    state.number("least_violation", least_violation_);
    state.check(group_ >= 0 && group_ <= kUnheard && least_violation_ >= 0, "threads out of step");
  }
  state.check(scale_step_ > 0 && scale_step_ <= 0.25 && next_kappa_ >= 0 && std::isfinite(next_kappa_),
              "a schedule out of range");
}

} // namespace mm
