// Compiled once for each instruction set, as isa.cpp.
#include "sparse_loops.hpp"

namespace mm::MM_ISA {

template void visit_sparse<CrammerSinger<false>>(const Examples &, SparseWeights &, PassArgs &);
template void visit_sparse<CrammerSinger<true>>(const Examples &, SparseWeights &, PassArgs &);
template void evaluate_sparse<CrammerSinger<false>>(const Examples &, SparseWeights &, Index, Index, const Scales &,
                                                    const Rounding &, double *, double *);
template void evaluate_sparse<CrammerSinger<true>>(const Examples &, SparseWeights &, Index, Index, const Scales &,
                                                   const Rounding &, double *, double *);

} // namespace mm::MM_ISA
