// The loops over sparse weights that the table of hot loops has (see Kernels). They are in sparse_loops.hpp, and compiled in
// isa_sparse.cpp: apart from the others, whose compilation takes long.
#pragma once

#include "kernels.hpp"

namespace mm::MM_ISA {

template <class Policy> void visit_sparse(const Examples &, SparseWeights &, PassArgs &);
template <class Policy>
void evaluate_sparse(const Examples &, SparseWeights &, Index begin, Index end, const Scales &, const Rounding &,
                     double *loss, double *dual);
void accumulate_sparse(const Examples &, SparseWeights &, Index begin, Index end);
void top_of_sparse(const Rows &, const Rows &W, const LaneRanking &, Index begin, Index end, Index n, std::int32_t *lane,
                   double *score);
void scores_of_sparse(const Rows &, const Rows &W, const LaneRanking &, Index begin, Index end, double *out);

} // namespace mm::MM_ISA
