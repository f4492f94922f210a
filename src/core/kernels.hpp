// The table of hot loops. Each instruction set compiles isa.cpp once and fills one table.
#pragma once

#include <cmath>

#include "duals.hpp"
#include "rows.hpp"

namespace mm {

enum class Formulation : int { crammer_singer, weston_watkins, one_vs_rest };
enum class Step : int { exact, fixed_point, smo, basic_smo }; // of the decomposition of Crammer-Singer

// The examples of a block, as the hot loops see them. An example is a row of X with a label and a cap;
// rows without influence (zero norm or zero cap) are no examples.
struct Examples {
  const Rows *rows;
  Index lanes;                // classes, or separable machines
  const std::int64_t *row;    // which row of X
  const std::int32_t *label;
  const double *cap;
  const double *norm;         // A = ||x||^2, the intercept included; less where W is held back (directions.hpp)
  double *alpha;              // dense layout: count x alpha_stride, or null
  Index alpha_stride;
  PooledLists *lists;         // pooled layout, or null
  double *workspace;          // workspace_size(lanes) doubles, 64-byte aligned
};

class Directions;
class LaneRanking;
class MoveLog;
class SparseWeights;

// W: (n_features + intercept) x stride, float32 or float64, and a row for every direction; or sparse, and there is no
// array.
struct WeightsView {
  void *data;
  bool single_precision;
  Index stride;
  const Directions *directions = nullptr; // in which it is held back
  SparseWeights *sparse = nullptr;
};

// What one step asks of W; it lives until the next step.
struct Move {
  Index row = -1;              // of X; -1: nothing
  const void *change = nullptr;       // by vectors: `stride` scalars; by lanes: doubles
  const Index *changed = nullptr;     // by vectors: which
  const std::int32_t *lanes = nullptr; // by lanes: which
  Index n_changed = 0;
};

// Weights can be scaled for free: the loss at s W is a matter of the scores that are known anyway. A W that misses
// many margins by a little has a much better primal value at s a little above 1.
struct Scales {
  static constexpr int count = 4;
  double at[count];
  explicit Scales(double step) : at{1, 1 + step, 1 + 2 * step, 1 + 4 * step} {}
};

// By how much a margin that was computed may be too large, for every term of its sum: constant + length * ||x||.
struct Rounding {
  double constant = 0, length = 0;
  double of(const Rows &rows, Index i, double squared_norm) const {
    constexpr double others = 4; // the intercept, the difference of scores
    return (others + static_cast<double>(rows.n_terms(i))) * (constant + length * std::sqrt(squared_norm));
  }
};

struct PassArgs {
  const std::int32_t *order;  // examples in the order of the visits
  Index begin, end;
  double scale;               // 1 / lambda: A becomes scale * A in the step, and W moves by scale * (change of alpha) x
  double threshold;           // smaller violations are left alone
  bool listed_classes_only;   // lists: score only the classes of the example's list (a shrunk pass)
  // Per example: 0, or 1 and more when shrunk passes leave it out, for its duals are all at bounds or its violation was
  // below `rests_below`. Each one more is a full pass that leaves it out too: examples without loss and duals whose
  // margins exceed 1 by far, in units of `margin_unit`.
  unsigned char *rests;
  double rests_below;
  double margin_unit;
  bool objectives;            // whether to sum the terms of the objectives too
  Scales scales;
  double *rates;              // exponentiated gradient: learning rates, `rate_stride` an example; else null
  Index rate_stride;
  // results, added to
  double *violation;          // maximum
  double *sum_of_violations;
  double *loss;               // by scale and part, see loss_size; at the moment of the visit, before the step
  double *dual;               // by part, after the step
  Index *updates;
  MoveLog *log = nullptr;     // of the moves of W
};

// Between which learning rates of the exponentiated gradient stay (exponentiated.hpp), in units of 1 / (C A).
inline constexpr double kSlowestRate = 4, kFastestRate = 1e6;

// A pass of the trust-region method (tron.hpp): out_m += sum_i c_im x_i, where with s_im = query_m . x_i
//   lanes that evaluate   c = the dual that s implies, which becomes alpha; their losses are summed
//   the others            c = 2 C s where alpha is not zero: the generalised Hessian times the query, less the query
// Columns of query and out are those lanes of the block that `lane` lists.
struct Responses {
  const std::int32_t *lane;
  const unsigned char *evaluates;
  Index count;                // of lanes
  Index stride;               // of query and out: the padded count
  const double *query;
  double *out, *loss;
  Index *visited;
};

// Primal coordinate descent over columns of X (primal_loops.hpp).
struct Descent {
  const Rows *columns;        // the transpose of X: an example is a feature here
  double *W;                  // columns x stride
  double *residual;           // examples x stride: 1 - z s
  Index stride;               // padded lanes; the padding of W and residual is zero
  const std::int32_t *label;
  const double *cap;
  double *workspace;          // 5 * stride doubles
  // results, added to
  double *squared_gradient;   // by lane, of every feature as it was visited
  double *steepest;           // maximum
};

// Steps of Pegasos (see pegasos_loops.hpp), sums and states by part.
struct PegasosArgs {
  const std::int32_t *order;
  Index begin, end;           // in the order of the pass
  Index batch;
  double seen;                // examples visited in the passes before this one
  double horizon;             // examples visited at the end of this one
  double share;               // of the cap that a violation is worth, 1 / (this pass's number)
  double bound;               // on ||W||^2 of a part; infinite: no projection
  double *projected;          // by which factor projections have scaled W since the last fold
  double *norm;               // of the array, squared
  // Room for the steps of a batch: `most` an example.
  Index most;
  std::int32_t *lane;
  double *change;
  Index *count;
  // results, added to
  double *loss;               // at the moment of the visit
  double *violation;          // largest slack
  Index *updates;
};
inline constexpr double kFoldBelow = 1e-12; // `projected` smaller than this has to be folded into array and duals

// K(x, z) as a function of x.z, ||x||^2 and ||z||^2, plus a bias.
struct KernelFunction {
  enum class Kind : int { linear, rbf, poly, sigmoid } kind;
  double gamma, coef0;
  int degree;
  double bias;
};

// Curvatures count as at least this: those of kernels that are not positive definite may be zero or less.
inline constexpr double kLeastCurvature = 1e-12;

// The examples of a kernel machine, or of its working set (see kernel_loops.hpp).
struct KernelExamples {
  Index n, lanes;
  Index ld;                   // of the scores, and of the working set's K
  const std::int32_t *label;
  const double *cap;
  const double *curvature;    // A = K(x, x)
  double *alpha;
  Index stride;               // of alpha
  double *workspace;          // workspace_size(lanes) doubles
};

struct Scanned {
  double *violation;          // of every example
  double *loss, *dual, *quadratic; // sums by part: primal loss, linear terms of f, alpha'K alpha
};

struct Swept {
  double *violation;          // of every example, before its step
  Index updates;
};

// Changes of duals and the kernel rows that they move the scores by: entries first[p]..first[p + 1] are those of row p.
template <class T> struct TileChanges {
  const T *const *tile;
  Index count;
  const Index *first;
  const std::int32_t *lane;
  const T *change;
  T *workspace; // kTilePanel values a lane
};
inline constexpr Index kTilePanel = 256; // columns

// One example of the decomposition methods (see decomposition_loops.hpp).
struct Worth {
  double value;               // by which it is selected
  double top, low;            // of its gradients: largest, and smallest over the duals below their cap
};

struct Stepped {
  double gain;                // of the step, 0: none was found
  const double *next;         // the new duals
};

// Changes of duals by lane, each with its kernel row: entries first[m]..first[m + 1] are those of lane m.
template <class T> struct LaneChanges {
  const Index *first;
  const T *const *row;
  const double *by;
};

// Between which bounds the scores of every example are (see window_loops.hpp).
struct Windows {
  static constexpr signed char above = 1, below = 2, less = 4;
  const signed char *state;   // lanes x n: how the lane counts
  double *top, *low;
};

// What a pass of plain SMO found (see smo_loops.hpp).
struct SmoChoice {
  static constexpr signed char rises = 1, falls = 2; // states of a dual
  Index at;                   // its choice, -1: none
  double top, low;            // largest v that may rise, smallest that may fall
};

template <class T> struct KernelLoops {
  void (*values)(const T *product, const T *norm, T own, Index n, const KernelFunction &, T *out);
  void (*add_tiles)(const TileChanges<T> &, Index columns, Index lanes, double *scores, Index ld);
  void (*sweep[3])(const KernelExamples &, const T *K, double *scores, const std::int32_t *order, Index count,
                   double scale, double threshold, Swept &);
  Index (*smo)(const T *K, Index ld, Index q, const double *curvature, const double *upper, const double *lower,
               double *a, double *v, signed char *state, double tolerance, Index most);
  void (*spread)(const LaneChanges<T> &, Index lanes, Index n, double *scores, Index ld, const Windows *);
  SmoChoice (*second)(const T *Ki, Index n, const double *curvature, double own, double top, const double *v,
                      const signed char *state);
  SmoChoice (*pull)(const T *Ki, const T *Kj, Index n, double change, double *v, const signed char *state);
  SmoChoice (*pull_one)(const T *Ki, Index n, double change, const double *curvature, double *v,
                        const signed char *state);
};

struct Kernels {
  const char *name;
  void (*visit[3][2])(const Examples &, const WeightsView &, PassArgs &); // [formulation][squared]
  void (*visit_exponentiated[3])(const Examples &, const WeightsView &, PassArgs &); // the hinge; not Weston-Watkins
  Index (*pegasos[3])(const Examples &, const WeightsView &, const PegasosArgs &);   // so here; returns where it stopped
  void (*evaluate[3][2])(const Examples &, const WeightsView &, Index begin, Index end, const Scales &, const Rounding &,
                         double *loss, double *dual);
  // Minimisers of curvature/2 ||a - alpha||^2 + g.(a - alpha) + diagonal terms, g at the scores of W, for
  // examples [begin, end): the proximal step of the Newton solver. alpha stays. out: rows of alpha_stride.
  void (*propose[3][2])(const Examples &, const WeightsView &, Index begin, Index end, double curvature, double *loss,
                        double *dual, double *out);
  void (*follow)(const Examples &, const WeightsView &, const MoveLog &); // moves W as others did theirs
  void (*accumulate)(const Examples &, const WeightsView &, Index begin, Index end); // W += alpha' x
  void (*respond)(const Examples &, const Responses &, Index begin, Index end);
  void (*imply)(const Examples &, Index n_examples, const double *residual, double *loss);
  void (*descend)(const Descent &, const std::int32_t *features, Index count);
  void (*scores)(const Rows &, const WeightsView &, Index begin, Index end, Index lanes,
                 double *padded_scores, double *out);
  void (*squared_norms)(const Rows &, double *out);
  void (*norms)(const void *W, const void *Z, bool single_precision, Index n_rows, Index stride, double kappa,
                double *w, double *v, double *apart);
  void (*extrapolate)(void *W, void *Z, void *previous, bool single_precision, Index size, double beta, double kappa,
                      double next_kappa);
  void (*scan[3])(const KernelExamples &, const double *scores, Index begin, Index end, Scanned &); // [formulation]
  Worth (*worth[3])(const KernelExamples &, const double *scores, Index i); // kkt, amg, bmg
  Stepped (*step[4])(const KernelExamples &, const double *scores, Index i, double accuracy); // [Step]
  Index (*next_wider)(const Windows &, const signed char *among, Index from, Index n, double than);
  Index (*widest)(const Windows &, const signed char *among, Index n);
  Index (*next_beyond)(const Windows &, const double *own, Index from, Index n, double than);
  KernelLoops<float> of_float;
  KernelLoops<double> of_double;
  // Sparse weights (sparse_loops.hpp), Crammer-Singer: [squared]. For prediction W is a CSR matrix, features x lanes.
  void (*visit_sparse[2])(const Examples &, SparseWeights &, PassArgs &);
  void (*evaluate_sparse[2])(const Examples &, SparseWeights &, Index begin, Index end, const Scales &, const Rounding &,
                             double *loss, double *dual);
  void (*accumulate_sparse)(const Examples &, SparseWeights &, Index begin, Index end);
  void (*top_of_sparse)(const Rows &, const Rows &W, const LaneRanking &, Index begin, Index end, Index n,
                        std::int32_t *lane, double *score);
  void (*scores_of_sparse)(const Rows &, const Rows &W, const LaneRanking &, Index begin, Index end, double *out);

  template <class T> const KernelLoops<T> &loops() const {
    if constexpr (sizeof(T) == 4) return of_float;
    else return of_double;
  }
};

constexpr Index padded(Index lanes, Index width) {
  return lanes == 1 ? 1 : (lanes + width - 1) / width * width;
}
// From here on single lanes are cheaper to touch than whole rows of W.
inline constexpr Index kManyLanes = 256;

// Sums by part have room for padded lanes, those of the loss for every scale of them.
constexpr Index parts_size(Index lanes) { return lanes + 8; }
constexpr Index loss_size(Index lanes) { return Scales::count * parts_size(lanes); }

constexpr Index workspace_size(Index lanes) { return 10 * (lanes + 16); }

const Kernels &kernels_baseline();
#if defined(MM_HAVE_AVX2)
const Kernels &kernels_avx2();
#endif

// One kernel value, in float64.
double kernel_value(double product, double norm_x, double norm_z, const KernelFunction &);

// The fastest table that this processor runs, or the forced one (see kernels.cpp).
const Kernels &kernels();

} // namespace mm
