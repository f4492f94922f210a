// Trust-region Newton method for the squared hinge (Lin, Weng and Keerthi 2008), for all lanes of a block at once.
//
// A lane minimises P (primal_loops.hpp): from w it goes along conjugate gradients (Steihaug) to an approximate minimiser
// s, ||s|| <= radius, of the model  g.s + 1/2 s.H s,  until the residual ||g + H s|| <= 0.1 ||g||; it moves there if P
// falls by enough of what the model promised, and the radius follows the quality of the model. Here, unlike in their
// Algorithm 1, a step that is refused is shortened to the new radius rather than computed again.
//
// Whatever a lane does next, it needs one thing of X: sum_i c_i x_i for some c_i that depends on i and query.x_i, where
// the query is a direction of conjugate gradients or a point at which to evaluate P and its gradient. So one pass over
// X serves all lanes, wherever each of them is, and none waits for another. Lanes that are finished drop out.
#pragma once

#include <cmath>
#include <vector>

#include "block.hpp"

namespace mm {

class Tron {
public:
  // From `weights`, in double precision, where w stays; both outlive this. A lane is finished when its gap,
  // 1/2 ||g||^2, is at most `tolerance` P, or when float64 has no better w.
  Tron(Block &block, Weights &weights, double tolerance);

  // After a pass: sums over the lanes, at their last w.
  struct Record {
    Index visited;      // examples
    double steepest;    // largest entry of a gradient
    double primal, gap;
    double worst_gap;   // of a lane, relative to its primal value
  };

  // Works for about `budget` multiply-adds, at most `max_passes` passes.
  std::vector<Record> run(double budget, Index max_passes);
  bool finished() const { return live_.empty(); }
  void state(State &); // without that of the block and of the weights

private:
  struct Lane {
    std::int32_t lane;
    bool started = false;   // P is known at w
    bool evaluates = true;  // the query is w + s; else a direction of conjugate gradients
    double primal = 0, squared_gradient = 0, steepest = 0, radius = INFINITY;
    double slope = 0, model = 0;          // g.s, and g.s + 1/2 s.H s
    double squared_step = 0;              // ||s||^2
    double residual = 0, along = 0;       // ||r||^2, r = -g - H s;  s.query
    bool at_radius = false;
    // of the pass, and what follows from them
    double loss = 0, query_response = 0, squared_query = 0, squared_response = 0, largest_response = 0;
    double length = 0, next_residual = 0; // along the query; a step that is shortened: what remains of it
    bool accepted = false;
  };
  enum class Phase : int { pass, sum, move, turn };
  struct Lanes;

  void pass(Index begin, Index end);
  void update(Index begin, Index end);
  void end_phase(std::vector<Record> &records);
  void judge_evaluation(Lane &lane) const;
  void plan_move(Lane &lane) const;
  void plan_turn(Lane &lane) const;
  void drop_finished();
  Index phase_size() const;
  double phase_cost() const; // of one example or feature

  Block &block_;
  Weights &weights_;
  double tolerance_;
  std::vector<Lane> live_, all_;
  Index n_weights_, stride_;
  std::vector<double> query_, out_, step_, residual_; // n_weights x stride
  std::vector<Index> occurring_;                      // rows of W that the examples have values for
  Phase phase_ = Phase::pass;
  Index cursor_ = 0, visited_ = 0;
};

} // namespace mm
