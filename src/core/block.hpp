// A block of examples: rows of X with labels and caps, their duals, and the order in which they are visited.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels.hpp"
#include "pegasos.hpp"
#include "random.hpp"
#include "weights.hpp"

namespace mm {

struct Problem {
  Formulation formulation;
  bool squared;
  Index lanes;

  // Separable lanes have objectives of their own.
  bool separable() const { return formulation == Formulation::one_vs_rest; }
  Index n_parts() const { return separable() ? lanes : 1; }
};

class Block {
public:
  Block(Problem problem, const Rows &rows, std::vector<std::int64_t> row, std::vector<std::int32_t> label,
        std::vector<double> cap, std::vector<double> norm, bool pooled, std::uint64_t seed);

  Index n_examples() const { return static_cast<Index>(row_.size()); }
  const Rows &rows() const { return rows_; }
  Index row(Index example) const { return row_[static_cast<std::size_t>(example)]; } // of X
  const Problem &problem() const { return problem_; }
  bool pooled() const { return lists_ != nullptr; }
  double cost_of_pass() const { return cost_; } // in multiply-adds
  // With sparse weights a visit scores few of the lanes, about as many as are given here.
  void expect_lanes(Index count);

  // Steps other than to the minimiser, for the hinge loss and the dense layout, in passes over all examples.
  void use_exponentiated_gradient();
  void use_pegasos(Index batch, bool projection, Index passes);

  // One pass: over all examples (thorough), without those that are far from having a loss or a dual (full), or only
  // over those that do not rest: whose duals are not all at bounds and whose violation, when last visited, was not below
  // `rest_share` of the mean (shrunk). `visit` takes a share of the pass and adds to the sums.
  enum class Kind { thorough, full, shrunk };
  void begin_pass(Kind kind, bool permute, double rest_share, double scale_step);
  void visit(const WeightsView &weights, double scale, Index count, MoveLog *log = nullptr);
  void follow(const WeightsView &weights, const MoveLog &log); // moves W as a visit elsewhere has moved its copy
  void hold_back(const WeightsView &weights);                  // before these weights are followed or visited, in threads
  Index visits() const { return static_cast<Index>(order_.size()); }
  Index visits_left() const { return visits() - cursor_; }

  struct Sums { // over the visits of the pass
    double violation = 0, sum_of_violations = 0;
    Index updates = 0;
    std::vector<double> loss, dual; // see PassArgs
  };
  const Sums &sums() const { return sums_; }

  // Terms of the objectives for examples [begin, end), added to the parts.
  void evaluate(const WeightsView &weights, Index begin, Index end, double scale_step, const Rounding &rounding, double *loss,
                double *dual) const;
  // Proximal minimisers, see Kernels::propose; dense layout only.
  void propose(const WeightsView &weights, Index begin, Index end, double curvature, double *loss, double *dual,
               double *out) const;
  // W += sum alpha x over examples [begin, end).
  void accumulate(const WeightsView &weights, Index begin, Index end) const;

  // The primal methods, on separable lanes with the squared hinge. See Responses.
  void respond(const Responses &pass, Index begin, Index end) const { kernels().respond(examples(), pass, begin, end); }
  // alpha <- the duals that residuals (1 - z s, examples x alpha_stride) imply; losses are added by lane.
  void imply(const double *residual, double *loss) const {
    kernels().imply(examples(), n_examples(), residual, loss);
  }
  // What coordinate descent needs to know of the examples; the rest of it is the caller's.
  Descent descent() const {
    return {nullptr, nullptr, nullptr, alpha_stride_, label_.data(), cap_.data(), static_cast<double *>(workspace_.get()),
            nullptr, nullptr};
  }

  // alpha as CSR over the examples, and back.
  void export_duals(std::vector<std::int64_t> &indptr, std::vector<std::int32_t> &lane,
                    std::vector<double> &value) const;
  void import_duals(const std::int64_t *indptr, const std::int32_t *lane, const double *value);
  void state(State &);
  double *alpha() { return static_cast<double *>(alpha_.get()); } // dense layout
  Index alpha_stride() const { return alpha_stride_; }

private:
  Examples examples() const;
  Examples followed(const WeightsView &weights);
  void visit_pegasos(const WeightsView &weights, Index count);
  void begin_sums();

  Problem problem_;
  Rows rows_;
  std::vector<std::int64_t> row_;
  std::vector<std::int32_t> label_;
  std::vector<double> cap_, norm_;
  std::shared_ptr<const Directions> held_back_;      // the directions that these are of:
  std::shared_ptr<const Directions> own_directions_; // with the coordinates of the rows
  Rows held_rows_{};
  std::vector<double> held_norm_;
  Buffer alpha_;
  Index alpha_stride_;
  std::unique_ptr<PooledLists> lists_;
  std::vector<unsigned char> rests_; // per example
  double cost_;
  std::vector<double> rates_;        // exponentiated gradient; else empty
  std::unique_ptr<Pegasos> pegasos_;

  Random random_;
  std::vector<std::int32_t> order_; // of the current pass
  Index cursor_ = 0;
  bool full_ = true;
  double rests_below_ = 0, margin_unit_ = 0;
  double scale_step_ = 0;
  Sums sums_;

  Buffer workspace_;
};

} // namespace mm
