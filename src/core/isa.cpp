// Compiled once for each instruction set, with MM_ISA naming it (see CMakeLists.txt).
#include "epoch.hpp"
#include "weight_kernels.hpp"

#define MM_JOIN_(a, b) a##b
#define MM_JOIN(a, b) MM_JOIN_(a, b)
#define MM_QUOTE_(a) #a
#define MM_QUOTE(a) MM_QUOTE_(a)

namespace mm {

const Kernels &MM_JOIN(kernels_, MM_ISA)() {
  using namespace MM_ISA;
  static const Kernels table = {
      MM_QUOTE(MM_ISA),
      {{visit<CrammerSinger<false>>, visit<CrammerSinger<true>>},
       {visit<WestonWatkins<false>>, visit<WestonWatkins<true>>},
       {visit<OneVsRest<false>>, visit<OneVsRest<true>>}},
      {{evaluate<CrammerSinger<false>>, evaluate<CrammerSinger<true>>},
       {evaluate<WestonWatkins<false>>, evaluate<WestonWatkins<true>>},
       {evaluate<OneVsRest<false>>, evaluate<OneVsRest<true>>}},
      {{propose<CrammerSinger<false>>, propose<CrammerSinger<true>>},
       {propose<WestonWatkins<false>>, propose<WestonWatkins<true>>},
       {propose<OneVsRest<false>>, propose<OneVsRest<true>>}},
      accumulate,
      MM_ISA::scores,
      MM_ISA::squared_norms,
      MM_ISA::norms,
      MM_ISA::extrapolate,
  };
  return table;
}

} // namespace mm
