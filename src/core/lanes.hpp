// The lanes of one example that take part in its step: all of them, or few, gathered from its list of duals and from the
// scores of the others.
#pragma once

#include <bit>

#include "kernels.hpp"
#include "subproblem_crammer_singer.hpp"
#include "vec.hpp"

namespace mm::MM_ISA {

// Buffers of one visit, cut from the block's workspace.
struct Buffers {
  double *s, *next, *a, *change, *wide;
  std::int32_t *classes;
  Index *changed;
  explicit Buffers(const Examples &x) {
    const Index room = x.lanes + 16;
    s = x.workspace;
    next = s + room;
    a = next + room;
    change = a + room;
    changed = reinterpret_cast<Index *>(change + room);
    wide = reinterpret_cast<double *>(changed + room);
    classes = reinterpret_cast<std::int32_t *>(wide + room);
  }
  // Scores of all lanes, in the precision of W.
  template <class S> S *all_scores() const { return reinterpret_cast<S *>(wide); }
};

inline void pad(double *s, Index lanes, Index padded_lanes) {
  for (Index m = lanes; m < padded_lanes; ++m) s[m] = -kInfinity;
}

// Scores of lanes, vector by vector as they were stored: a vector that is loaded just after a store of one number into it
// waits for that store.
template <class S> struct ScoreVectors {
  using V = typename VectorOf<S>::type;
  static constexpr int width = VectorOf<S>::width;
  static constexpr S inf = std::numeric_limits<S>::infinity();

  // Makes the scores from m on, one or all in its vector, the lowest.
  static void lower(S *s, Index m, bool all) {
    static_assert(width <= 8);
    static constexpr S one[16] = {inf, inf, inf, inf, inf, inf, inf, inf, -inf, inf, inf, inf, inf, inf, inf, inf};
    static constexpr S rest[16] = {inf,  inf,  inf,  inf,  inf,  inf,  inf,  inf,
                                   -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf};
    S *vector = s + m / width * width;
    store(vector, smaller(load<V>(vector), load<V>((all ? rest : one) + 8 - m % width)));
  }

  static S largest(const S *s, Index lanes) {
    V best = splat_of<V>(-inf);
    for (Index m = 0; m < lanes; m += width) best = larger(best, load<V>(s + m));
    S top = best[0];
    for (int c = 1; c < width; ++c) top = larger(top, best[c]);
    return top;
  }
};

// With very many lanes a full pass is dear: let it admit a few of the violated ones, not only the first.
inline constexpr int kAdmitted = 6;
inline constexpr double kMostSkipped = 7; // full passes

template <class Policy> inline constexpr bool kTopClassOnly = false;
template <bool Squared> inline constexpr bool kTopClassOnly<CrammerSinger<Squared>> = true;

// The lanes of one example that take part in a step: all of them, or (restricted) a few of them gathered
// into neighbouring lanes.
struct Lanes {
  const std::int32_t *classes; // null: all
  Index count;
  Index padded_count;
  Index label;                 // where the example's class stands
  double outside = -kInfinity; // Crammer-Singer: the largest score of the others
};

// Fills gathered lanes up for the policy.
inline void pad_gathered(Lanes &lanes, const Buffers &buffer) {
  lanes.padded_count = padded(lanes.count, 4);
  pad(buffer.s, lanes.count, lanes.padded_count);
  for (Index c = lanes.count; c < lanes.padded_count; ++c) buffer.a[c] = 0;
}

// The duals of an example that has a list, as (classes, a) of the buffer, filled up with zeros.
inline Lanes listed_lanes(const Examples &x, Index e, const Buffers &buffer) {
  const Index n = x.lists->size(e), filled = padded(n, 4);
  const std::int32_t *listed = x.lists->classes(e);
  const double *values = x.lists->values(e);
  for (Index c = 0; c < filled; c += 4) {
    store(buffer.classes + c, load<Int4>(listed + c));
    store(buffer.a + c, load<Double4>(values + c));
  }
  return {buffer.classes, n, filled, 0};
}

// The label among the lanes of a list (first, unless the list came from elsewhere), at its end if it was not there.
inline void find_label(Lanes &lanes, Index label, const Buffers &buffer) {
  while (lanes.label < lanes.count && buffer.classes[lanes.label] != label) ++lanes.label;
  if (lanes.label < lanes.count) return;
  for (Index c = lanes.count; c < lanes.count + 4; ++c) {
    buffer.classes[c] = 0;
    buffer.a[c] = 0;
  }
  buffer.classes[lanes.count++] = static_cast<std::int32_t>(label);
}

// One more lane, whose dual is zero.
template <class S> inline void take_lane(Lanes &lanes, Index m, S *all, const Buffers &buffer) {
  buffer.s[lanes.count] = static_cast<double>(all[m]);
  buffer.a[lanes.count] = 0;
  buffer.classes[lanes.count++] = static_cast<std::int32_t>(m);
  ScoreVectors<S>::lower(all, m, false);
}

// Crammer-Singer: the lane with the largest score, and up to `admitted` in all while they are violated.
template <class S>
inline void admit_lanes(Lanes &lanes, S *all, Index n_lanes, int admitted, const Buffers &buffer) {
  for (Index c = 0; c < lanes.padded_count; c += 4) store(buffer.s + c, load<Double4>(buffer.change + c));
  const double own = buffer.s[lanes.label];
  for (int n = 0; n < admitted; ++n) {
    const S top = n == 0 ? static_cast<S>(lanes.outside) : ScoreVectors<S>::largest(all, n_lanes);
    if (n > 0 && !(static_cast<double>(top) > own - 1)) break;
    Index m = 0;
    while (m < n_lanes && !(all[m] >= top)) ++m;
    if (m == n_lanes) break;
    take_lane(lanes, m, all, buffer);
  }
  lanes.outside = -kInfinity;
  pad_gathered(lanes, buffer);
}

// Restricted step (paper 000, sections 2 and 3): the lanes whose dual is not zero, the label's, and of the others
// arg max g (Crammer-Singer: if the step turns out to need it, see step_on_lanes) or every violated one (Weston-Watkins).
// The lanes left out have no loss either.
// In: scores of all n_lanes, the non-zero duals as (classes, a). Out: the gathered scores in s; those of lanes that were
// taken are gone. False: the example is at rest at zero, with nothing to solve, no loss, no dual.
template <class Policy, class S>
inline bool restrict_lanes(Lanes &lanes, S *all, Index n_lanes, int admitted, Index label, Index e,
                           const Buffers &buffer, PassArgs &pass) {
  using Scores = ScoreVectors<S>;
  const bool had_duals = lanes.count > 0;
  const double own = static_cast<double>(all[label]);
  find_label(lanes, label, buffer);
  if (n_lanes % Scores::width) Scores::lower(all, n_lanes, true);
  const Double4 count = splat<Double4>(static_cast<double>(lanes.count));
  lanes.padded_count = padded(lanes.count, 4);
  Double4 lane = {0, 1, 2, 3};
  for (Index c = 0; c < lanes.padded_count; c += 4, lane += 4) {
    const std::int32_t *m = buffer.classes + c; // fillings: class 0
    const Double4 s = {static_cast<double>(all[m[0]]), static_cast<double>(all[m[1]]), static_cast<double>(all[m[2]]),
                       static_cast<double>(all[m[3]])};
    const Double4 filled = lane < count ? s : splat<Double4>(-kInfinity);
    store(buffer.s + c, filled);
    store(buffer.change + c, filled); // a step may overwrite the others before it asks for more lanes
  }
  for (Index c = 0; c < lanes.count; ++c) Scores::lower(all, buffer.classes[c], false);
  if (kTopClassOnly<Policy> || !had_duals) lanes.outside = static_cast<double>(Scores::largest(all, n_lanes));
  if (!had_duals && lanes.outside <= own - 1) {
    const double beyond = (own - 1 - lanes.outside) / pass.margin_unit;
    pass.rests[e] = static_cast<unsigned char>(1 + smaller(beyond, kMostSkipped));
    return false;
  }
  if constexpr (!kTopClassOnly<Policy>) {
    for (Index m = 0; m < n_lanes; ++m)
      if (static_cast<double>(all[m]) > own - 1) take_lane(lanes, m, all, buffer);
    lanes.outside = -kInfinity;
    pad_gathered(lanes, buffer);
  } else if (!had_duals) {
    admit_lanes(lanes, all, n_lanes, admitted, buffer);
  }
  return true;
}

// An example's list <- the new duals of its lanes that are not zero; mostly that is all of them.
inline void keep_list(const Examples &x, Index e, const Lanes &lanes, double *next, const Buffers &buffer) {
  const Double4 first = {0, 1, 2, 3};
  const auto among = [&](Index c, Index n) -> Long4 { return first < splat<Double4>(static_cast<double>(n - c)); };
  Index kept = 0;
  for (Index c = 0; c < lanes.count; c += 4)
    kept += std::popcount(static_cast<unsigned>(bits((load<Double4>(next + c) != 0) & among(c, lanes.count))));
  if (kept < lanes.count) {
    kept = 0;
    for (Index c = 0; c < lanes.count; ++c) {
      next[kept] = next[c];
      buffer.classes[kept] = buffer.classes[c];
      kept += next[c] != 0;
    }
  }
  const PooledLists::Places to = x.lists->resize(e, kept);
  for (Index c = 0; c < kept; c += 4) {
    const Long4 in = among(c, kept);
    store(to.classes + c, load<Int4>(buffer.classes + c) & __builtin_convertvector(in, Int4));
    store(to.values + c, in ? load<Double4>(next + c) : Double4{});
  }
}

} // namespace mm::MM_ISA
