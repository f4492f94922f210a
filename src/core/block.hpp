// A block of examples with its duals and its place in the schedule of passes (paper 000, section 2.1):
// a full pass over all examples, then shrunk passes over those whose duals are not all at bounds, until
// they meet the tolerance or have cost five full passes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels.hpp"
#include "weights.hpp"

namespace mm {

// xoshiro256++ (Blackman and Vigna, public domain), seeded by splitmix64.
class Random {
public:
  explicit Random(std::uint64_t seed);
  std::uint64_t next();
  std::uint32_t below(std::uint32_t bound); // unbiased

private:
  std::uint64_t state_[4];
};

struct Problem {
  Formulation formulation;
  bool squared;
  Index lanes;
};

struct PassRecord {
  bool full;
  double violation;
  Index visited;
  Index updates;
  double primal, dual;  // full passes: estimates from the scores seen on the way; dual is -f
  double worst_gap;     // of the sum and of every separable part, relative; an estimate too
};

struct RunOptions {
  double tolerance;       // on the violation: a full pass below it ends the run
  double certify_below;   // so does a full pass whose estimated relative gap is below this
  double budget;          // about how many multiply-adds to spend
  double max_epochs;      // n_examples visits are one epoch
  bool shrinking, permute;
  double curvature_scale; // sigma' of distributed rounds, else 1
  double shrunk_effort;   // what shrunk passes may cost between full ones, in full passes
  double momentum;        // beta of the acceleration (weights.kappa() > 0)
};

enum class Stopped : int { budget, tolerance, certify, epochs };

class Block {
public:
  Block(Problem problem, const Rows &rows, std::vector<std::int64_t> row, std::vector<std::int32_t> label,
        std::vector<double> cap, std::vector<double> norm, bool pooled, std::uint64_t seed);

  Index n_examples() const { return static_cast<Index>(row_.size()); }
  const Problem &problem() const { return problem_; }
  Index n_parts() const { return problem_.formulation == Formulation::one_vs_rest ? problem_.lanes : 1; }
  bool pooled() const { return lists_ != nullptr; }

  Stopped run(Weights &weights, const RunOptions &options, std::vector<PassRecord> &records);
  bool between_passes() const { return cursor_ == static_cast<Index>(order_.size()); }

  // Terms of the objectives for examples [begin, end), added to the parts.
  void evaluate(const WeightsView &weights, Index begin, Index end, double *loss, double *dual) const;
  // Proximal minimisers, see Kernels::propose; dense layout only.
  void propose(const WeightsView &weights, Index begin, Index end, double curvature, double *loss, double *dual,
               double *out) const;
  // W += sum alpha x over examples [begin, end).
  void accumulate(const WeightsView &weights, Index begin, Index end) const;
  double cost_of_pass() const { return cost_; } // in multiply-adds

  // alpha as CSR over the examples, and back.
  void export_duals(std::vector<std::int64_t> &indptr, std::vector<std::int32_t> &lane, std::vector<double> &value) const;
  void import_duals(const std::int64_t *indptr, const std::int32_t *lane, const double *value);
  double *alpha() { return alpha_ ? static_cast<double *>(alpha_.get()) : nullptr; }
  Index alpha_stride() const { return alpha_stride_; }

private:
  Examples examples() const;
  void begin_pass(bool full, const RunOptions &options);
  PassRecord end_pass(const Weights &weights) const;

  Problem problem_;
  Rows rows_;
  std::vector<std::int64_t> row_;
  std::vector<std::int32_t> label_;
  std::vector<double> cap_, norm_;
  Buffer alpha_;
  Index alpha_stride_;
  std::unique_ptr<PooledLists> lists_;
  std::vector<unsigned char> bound_;
  double cost_;

  Random random_;
  std::vector<std::int32_t> order_; // of the current pass
  Index cursor_ = 0;
  bool full_ = false;
  bool next_full_ = true;
  double shrunk_effort_ = 0; // in full passes, since the last full one
  double violation_ = 0;
  Index updates_ = 0;
  std::vector<double> loss_, dual_;

  mutable RowScratch scratch_;
  std::vector<std::int32_t> scratch_index_;
  std::vector<double> scratch_value_;
  Buffer workspace_;
};

} // namespace mm
