// The schedule of passes (paper 000, section 2.1): a full pass, then shrunk passes over the examples that do not rest,
// until they meet the tolerance or have cost `shrunk_effort` full passes. Who is left out: Block::begin_pass.
// One block, or several, one after the other or side by side.
#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "acceleration.hpp"
#include "block.hpp"
#include "side_by_side.hpp"

namespace mm {

struct PassRecord {
  bool full;            // not shrunk; see Block::begin_pass
  double violation;
  Index visited;
  Index updates;
  double primal, dual;  // full passes: estimates from the scores seen on the way; primal at the best scale, dual is -f
  double worst_gap;     // of the sum and of every separable part, relative; an estimate too
  double w_norm, v_norm; // full passes: ||W||^2 and ||V||^2 at the end
};

struct RunOptions {
  double tolerance;       // on the violation: a full pass below it ends the run
  double certify_below;   // so does a full pass whose estimated relative gap is below this
  double budget;          // about how many multiply-adds to spend
  double max_epochs;      // as many visits as there are examples are one epoch
  bool shrinking, permute;
  double rest_share;      // see Block::begin_pass; 0: full passes are over all examples, as in the paper
  double shrunk_effort;   // what shrunk passes may cost between full ones, in full passes
  bool stages;            // whether Z moves at the end of a stage; else that is the caller's, who has more blocks
  // By which W moves for a change of alpha, and curvatures count, besides 1 / lambda. Not 1 when others change other
  // duals at the same time (CoCoA+: sigma'): W is then not V, and what records say of the dual means nothing.
  double scale;
};

enum class Stopped : int { budget, tolerance, certify, epochs };

class Passes {
public:
  explicit Passes(std::vector<Block *> blocks, bool first_full = true, bool side_by_side = false);

  Stopped run(Weights &weights, const RunOptions &options, std::vector<PassRecord> &records);
  // Scales 1, 1 + step, 1 + 2 step and 1 + 4 step of W are tried; the step follows the best one. Plain passes take W
  // as it is: it is the sum of the duals.
  double scale_step(const Weights &weights) const { return weights.kappa() > 0 ? scale_step_ : 0; }

  void state(State &); // without that of the blocks

private:
  bool visit(Weights &weights, double scale, Index count);
  bool visit_side_by_side(Weights &weights, double scale, Index count, Index left);
  void watch_violations();
  Index visits_left() const;
  PassRecord end_pass(Weights &weights);
  void end_stage(Weights &weights, const RunOptions &options);

  std::vector<Block *> blocks_;
  Index n_examples_ = 0;
  double cost_of_row_;
  double scale_step_ = 0.02;
  Acceleration acceleration_;
  double next_kappa_ = 0;
  bool pass_ended_ = true; // and the next begins
  bool full_ = true;
  bool next_full_ = true;
  bool next_thorough_ = false;
  double shrunk_effort_ = 0; // in full passes, since the last full one
  std::unique_ptr<SideBySide> side_by_side_; // null: one after the other
  Index group_ = 0;                          // visits of a block between two meetings, below kLeastGroup: never
  double least_violation_ = std::numeric_limits<double>::max(); // mean of a full pass
};

} // namespace mm
