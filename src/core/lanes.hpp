// The lanes of one example that take part in its step: all of them, or few, gathered from its list of duals and from the
// scores of the others.
#pragma once

#include "kernels.hpp"
#include "subproblem_crammer_singer.hpp"
#include "vec.hpp"

namespace mm::MM_ISA {

// Buffers of one visit, cut from the block's workspace.
struct Buffers {
  double *s, *next, *a, *change;
  std::int32_t *classes;
  Index *changed;
  explicit Buffers(const Examples &x) {
    const Index room = x.lanes + 16;
    s = x.workspace;
    next = s + room;
    a = next + room;
    change = a + room;
    changed = reinterpret_cast<Index *>(change + room);
    classes = reinterpret_cast<std::int32_t *>(changed + room);
  }
};

inline void pad(double *s, Index lanes, Index padded_lanes) {
  for (Index m = lanes; m < padded_lanes; ++m) s[m] = -kInfinity;
}

struct Top {
  Index lane;
  double score;
};

// The largest score, and the first lane that has it. Two chains of comparisons hide each other's latency.
inline Top top_lane(const double *s, Index lanes) {
  Double4 best[2] = {splat<Double4>(-kInfinity), splat<Double4>(-kInfinity)}, where[2] = {};
  Double4 here = {0, 1, 2, 3};
  const auto compare = [&](int chain, Index m) __attribute__((always_inline)) {
    const Double4 v = load<Double4>(s + m);
    const Long4 above = v > best[chain];
    where[chain] = above ? here : where[chain];
    best[chain] = above ? v : best[chain];
    here += 4;
  };
  Index m = 0;
  for (; m + 4 < lanes; m += 8) {
    compare(0, m);
    compare(1, m + 4);
  }
  if (m < lanes) compare(0, m);
  const double score = horizontal_max(larger(best[0], best[1]));
  const Double4 far = splat<Double4>(kInfinity);
  const Double4 first = smaller(best[0] == score ? where[0] : far, best[1] == score ? where[1] : far);
  return {static_cast<Index>(horizontal_min(first)), score};
}

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
};

// Restricted step (paper 000, sections 2 and 3): the lanes whose dual is not zero, the label's, and of the others
// arg max g (Crammer-Singer) or every violated one (Weston-Watkins). The lanes left out have no loss either.
// In: scores of all n_lanes in s, the non-zero duals as (classes, a)[0..n), the best other lane if there are none; of
// Crammer-Singer's violated lanes up to `admitted` are taken. Out: the gathered scores in s.
template <class Policy>
inline Lanes gather(Index n_lanes, int admitted, Index label, double *s, double *a, std::int32_t *classes, Index n,
                    Top other, double *gathered) {
  const double own = s[label];
  Index label_at = -1;
  for (Index c = 0; c < n; ++c) {
    if (classes[c] == label) label_at = c;
    gathered[c] = s[classes[c]];
    s[classes[c]] = -kInfinity; // taken
  }
  const auto take = [&](Index m, double score) {
    gathered[n] = score;
    a[n] = 0;
    classes[n++] = static_cast<std::int32_t>(m);
  };
  if (label_at < 0) {
    label_at = n;
    s[label] = -kInfinity;
    take(label, own);
  }
  if constexpr (kTopClassOnly<Policy>) {
    const Top top = n == 1 ? other : top_lane(s, n_lanes);
    if (top.score > -kInfinity) take(top.lane, top.score);
    for (int more = 1; more < admitted; ++more) {
      s[classes[n - 1]] = -kInfinity;
      const Top following = top_lane(s, n_lanes);
      if (!(following.score > own - 1)) break;
      take(following.lane, following.score);
    }
  } else {
    for (Index m = 0; m < n_lanes; ++m)
      if (s[m] > own - 1) take(m, s[m]);
  }
  for (Index c = 0; c < n; ++c) s[c] = gathered[c];
  return {classes, n, 0, label_at};
}

// Pads gathered lanes for the policy.
inline void pad_gathered(Lanes &lanes, double *s, double *a) {
  lanes.padded_count = (lanes.count + 3) / 4 * 4;
  pad(s, lanes.count, lanes.padded_count);
  for (Index c = lanes.count; c < lanes.padded_count; ++c) a[c] = 0;
}

// The duals of an example that has a list, as (classes, a) of the buffer.
inline Lanes listed_lanes(const Examples &x, Index e, const Buffers &buffer) {
  const Index n = x.lists->size(e);
  const std::int32_t *listed = x.lists->classes(e);
  const double *values = x.lists->values(e);
  for (Index c = 0; c < n; ++c) {
    buffer.classes[c] = listed[c];
    buffer.a[c] = values[c];
  }
  return {buffer.classes, n, 0, 0};
}

// The label among the lanes of a list, at its end if it was not there.
inline void find_label(Lanes &lanes, Index label, const Buffers &buffer) {
  while (lanes.label < lanes.count && buffer.classes[lanes.label] != label) ++lanes.label;
  if (lanes.label == lanes.count) {
    buffer.classes[lanes.count] = static_cast<std::int32_t>(label);
    buffer.a[lanes.count++] = 0;
  }
}

// From the scores of all n_lanes to the lanes of the restricted step; false: the example is at rest at zero, with nothing
// to solve, no loss, no dual.
template <class Policy>
inline bool restrict_lanes(Lanes &lanes, Index n_lanes, int admitted, Index label, Index e, const Buffers &buffer,
                           PassArgs &pass) {
  double *s = buffer.s;
  Top other{0, -kInfinity};
  if (lanes.count == 0) {
    const double own = s[label];
    s[label] = -kInfinity;
    other = top_lane(s, n_lanes);
    s[label] = own;
    if (other.score <= own - 1) {
      const double beyond = (own - 1 - other.score) / pass.margin_unit;
      pass.rests[e] = static_cast<unsigned char>(1 + smaller(beyond, kMostSkipped));
      return false;
    }
  }
  lanes = gather<Policy>(n_lanes, admitted, label, s, buffer.a, buffer.classes, lanes.count, other, buffer.change);
  return true;
}

// An example's list <- the new duals of its lanes that are not zero.
inline void keep_list(const Examples &x, Index e, const Lanes &lanes, double *next, const Buffers &buffer) {
  Index kept = 0;
  for (Index c = 0; c < lanes.count; ++c) {
    next[kept] = next[c];
    buffer.classes[kept] = buffer.classes[c];
    kept += next[c] != 0;
  }
  x.lists->assign(e, buffer.classes, next, kept);
}

} // namespace mm::MM_ISA
