// Compiled once for each instruction set, with MM_ISA naming it (see CMakeLists.txt).
#include "decomposition_loops.hpp"
#include "epoch.hpp"
#include "exponentiated.hpp"
#include "kernel_functions.hpp"
#include "kernel_loops.hpp"
#include "pegasos_loops.hpp"
#include "primal_loops.hpp"
#include "smo_loops.hpp"
#include "sparse_kernels.hpp"
#include "weight_kernels.hpp"
#include "window_loops.hpp"

#define MM_JOIN_(a, b) a##b
#define MM_JOIN(a, b) MM_JOIN_(a, b)
#define MM_QUOTE_(a) #a
#define MM_QUOTE(a) MM_QUOTE_(a)

namespace mm {

namespace MM_ISA {
template <class T> KernelLoops<T> kernel_loops() {
  return {kernel_values<T>,
          add_tiles<T>,
          {sweep<CrammerSinger<false>, T>, sweep<WestonWatkins<false>, T>, sweep<OneVsRest<false>, T>},
          smo<T>,
          spread<T>,
          second<T>,
          pull<T>,
          pull_one<T>};
}
} // namespace MM_ISA

const Kernels &MM_JOIN(kernels_, MM_ISA)() {
  using namespace MM_ISA;
  static const Kernels table = {
      MM_QUOTE(MM_ISA),
      {{visit<CrammerSinger<false>>, visit<CrammerSinger<true>>},
       {visit<WestonWatkins<false>>, visit<WestonWatkins<true>>},
       {visit<OneVsRest<false>>, visit<OneVsRest<true>>}},
      {visit<ExponentiatedCrammerSinger>, nullptr, visit<ExponentiatedOneVsRest>},
      {pegasos<CrammerSinger<false>>, nullptr, pegasos<OneVsRest<false>>},
      {{evaluate<CrammerSinger<false>>, evaluate<CrammerSinger<true>>},
       {evaluate<WestonWatkins<false>>, evaluate<WestonWatkins<true>>},
       {evaluate<OneVsRest<false>>, evaluate<OneVsRest<true>>}},
      {{propose<CrammerSinger<false>>, propose<CrammerSinger<true>>},
       {propose<WestonWatkins<false>>, propose<WestonWatkins<true>>},
       {propose<OneVsRest<false>>, propose<OneVsRest<true>>}},
      follow,
      accumulate,
      respond,
      imply,
      descend,
      MM_ISA::scores,
      MM_ISA::squared_norms,
      MM_ISA::norms,
      MM_ISA::extrapolate,
      {scan<CrammerSinger<false>>, scan<WestonWatkins<false>>, scan<OneVsRest<false>>},
      {worth<kkt>, worth<amg>, worth<bmg>},
      {step<exact>, step<fixed_point>, step<smo_like>, step<basic_smo>},
      next_wider,
      widest,
      next_beyond,
      kernel_loops<float>(),
      kernel_loops<double>(),
      {visit_sparse<CrammerSinger<false>>, visit_sparse<CrammerSinger<true>>},
      {evaluate_sparse<CrammerSinger<false>>, evaluate_sparse<CrammerSinger<true>>},
      accumulate_sparse,
      top_of_sparse,
      scores_of_sparse,
  };
  return table;
}

} // namespace mm
