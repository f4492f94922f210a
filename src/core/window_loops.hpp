// The effect of changed duals on the scores of all examples, and windows that their scores stay in.
//
// The decomposition methods seek the examples that violate optimality most, again and again. To read all scores for that
// would cost more than the step. So, while scores are updated, two numbers an example are kept: `top`, at least the
// largest score over the lanes that count from above, and `low`, at most the smallest over those that count from below.
// Both are exact until a score that is an extreme one draws back. Whether an example needs to be looked at is read off
// its window.
#pragma once

#include "kernel_loops.hpp"

namespace mm::MM_ISA {

// Of the windows: a lane of four examples, or of one, whose score s has changed.
inline void widen(const Windows &windows, const signed char *state, Index j, Double4 s) {
  static_assert(Windows::above == 1 && Windows::below == 2 && Windows::less == 4); // shifted to the sign
  const Long4 bits = load_bits(state + j);
  const Double4 g = bits << 61 < 0 ? s - 1 : s;
  const Double4 top = load<Double4>(windows.top + j), low = load<Double4>(windows.low + j);
  store(windows.top + j, larger(bits << 63 < 0 ? g : top, top));
  store(windows.low + j, smaller(bits << 62 < 0 ? g : low, low));
}
inline void widen(const Windows &windows, const signed char *state, Index j, double s) {
  const double g = s - (state[j] & Windows::less ? 1 : 0);
  if (state[j] & Windows::above) windows.top[j] = larger(windows.top[j], g);
  if (state[j] & Windows::below) windows.low[j] = smaller(windows.low[j], g);
}

// Scores and, where there are any, windows. Panels of columns, so that all lanes find the rows in cache.
template <bool Windowed, class T>
void spread_with(const LaneChanges<T> &changes, Index lanes, Index n, double *scores, Index ld,
                 const Windows *windows) {
  constexpr Index panel = 512;
  constexpr int together = 8, line = 64 / sizeof(T);
  for (Index from = 0; from < n; from += panel) {
    const Index end = n - from < panel ? n : from + panel;
    for (Index m = 0; m < lanes; ++m) {
      const Index first = changes.first[m], last = changes.first[m + 1];
      if (first == last) continue;
      double *const s = scores + m * ld;
      const signed char *const state = Windowed ? windows->state + m * ld : nullptr;
      Index j = from;
      for (; j + 4 * together <= end; j += 4 * together) {
        Double4 sum[together];
        for (int v = 0; v < together; ++v) sum[v] = load<Double4>(s + j + 4 * v);
        for (Index t = first; t < last; ++t) {
          const double by = changes.by[t];
          const T *const row = changes.row[t] + j;
          for (int p = 0; p < 4 * together; p += line) __builtin_prefetch(row + panel + p);
          for (int v = 0; v < together; ++v) sum[v] += by * load_four(row + 4 * v);
        }
        for (int v = 0; v < together; ++v) {
          store(s + j + 4 * v, sum[v]);
          if constexpr (Windowed) widen(*windows, state, j + 4 * v, sum[v]);
        }
      }
      for (; j < end; ++j) {
        for (Index t = first; t < last; ++t) s[j] += changes.by[t] * static_cast<double>(changes.row[t][j]);
        if constexpr (Windowed) widen(*windows, state, j, s[j]);
      }
    }
  }
}

template <class T>
void spread(const LaneChanges<T> &changes, Index lanes, Index n, double *scores, Index ld, const Windows *windows) {
  if (windows) spread_with<true>(changes, lanes, n, scores, ld, windows);
  else spread_with<false>(changes, lanes, n, scores, ld, windows);
}

// The first of examples [from, n) whose window, if they are `among` (a mask), is wider than `than`; n: none.
inline Index next_wider(const Windows &windows, const signed char *among, Index from, Index n, double than) {
  const auto wider = [&](Index j) { return among[j] && windows.top[j] - windows.low[j] > than; };
  Index j = from;
  for (; j + 4 <= n; j += 4) {
    const Double4 width = load<Double4>(windows.top + j) - load<Double4>(windows.low + j);
    if (any((width > than) & load_bits(among + j))) break;
  }
  for (; j < n; ++j)
    if (wider(j)) return j;
  return n;
}

// The example with the widest window, or -1 when there is none of any width.
inline Index widest(const Windows &windows, const signed char *among, Index n) {
  constexpr Index panel = 64; // that the maximum is in is searched again for its place
  double top = 0;
  Index found = n;
  const auto width = [&](Index j) { return among[j] ? windows.top[j] - windows.low[j] : 0; };
  for (Index from = 0; from < n; from += panel) {
    const Index end = n - from < panel ? n : from + panel;
    Double4 most = {};
    Index j = from;
    for (; j + 4 <= end; j += 4) {
      const Double4 apart = load<Double4>(windows.top + j) - load<Double4>(windows.low + j);
      most = load_bits(among + j) != 0 && apart > most ? apart : most;
    }
    double highest = horizontal_max(most);
    for (; j < end; ++j) highest = larger(highest, width(j));
    if (highest > top) {
      top = highest;
      found = from;
    }
  }
  for (; found < n; ++found)
    if (width(found) == top) return found;
  return -1;
}

// The first of examples [from, n) whose window reaches more than `than` beyond own - 1, on either side; n: none.
inline Index next_beyond(const Windows &windows, const double *own, Index from, Index n, double than) {
  const auto beyond = [&](Index j) {
    const double centre = own[j] - 1;
    return larger(windows.top[j] - centre, centre - windows.low[j]) > than;
  };
  Index j = from;
  for (; j + 4 <= n; j += 4) {
    const Double4 centre = load<Double4>(own + j) - 1;
    if (any((load<Double4>(windows.top + j) - centre > than) | (centre - load<Double4>(windows.low + j) > than))) break;
  }
  for (; j < n; ++j)
    if (beyond(j)) return j;
  return n;
}

} // namespace mm::MM_ISA
