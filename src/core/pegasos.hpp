// Pegasos (Shalev-Shwartz, Singer, Srebro 2007): stochastic subgradient steps of length 1 / (lambda t) on
//
//   lambda/2 ||W||^2 + (sum_i C_i loss_i) / (sum_i C_i),    lambda = 1 / sum_i C_i.
//
// With t counted in examples (batches may end a pass short), a step over a batch B at time t -> t + |B| is
//
//   W <- t / (t + |B|) W + l / (t + |B|) sum_{i in B violating} C_i x_i',    then W <- min(1, sqrt(sum C) / ||W||) W,
//
// so that without projection W = l/t sum of all C_i x_i' of violations so far. Examples are visited in passes, T of them
// before this one. Kept are the array U and the duals alpha with
//
//   U = sum_i alpha_i x_i',     W = (T + 1) l / t  projected  U,
//
// which begin a pass as T / (T + 1) of what they were; a violation adds C_i / (T + 1) / projected to alpha. projected
// times alpha is then never above C_i, at any time: it was at most C_i T / (T + 1), and in a pass there is one visit.
// `projected` <= 1 is folded into U and alpha at the end of a pass, of a call, and before it gets too small. So whoever
// looks from outside finds feasible duals and U = sum alpha x; at the end of a pass U is Pegasos' W itself, within a pass
// W shrunk by t / ((T + 1) l). Separable lanes have projections of their own.
#pragma once

#include <vector>

#include "kernels.hpp"
#include "state.hpp"

namespace mm {

class Pegasos {
public:
  // As if `passes` passes had led to the duals that there are.
  Pegasos(Formulation formulation, Index lanes, Index n_examples, double sum_of_caps, Index batch, bool projection,
          Index passes);

  struct Sums { // of the pass so far, by part; see PegasosArgs
    double *loss, *violation;
    Index *updates;
  };
  // Visits order[begin..end), a share of a pass; whole batches, but for the last.
  void visit(const Examples &, const WeightsView &, const std::int32_t *order, Index begin, Index end, const Sums &);

  Index batch() const { return batch_; }
  // Between calls nothing else is left of them: `projected` is folded, and norms are taken at the beginning of a call.
  void state(State &state) { state.number("passes", passes_); }

private:
  void fold(const Examples &, const WeightsView &, double factor);

  Formulation formulation_;
  Index lanes_, n_examples_;
  double bound_;
  Index batch_, passes_, most_;
  std::vector<double> projected_, norm_, change_;
  std::vector<std::int32_t> lane_;
  std::vector<Index> count_;
};

} // namespace mm
