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

// Of the windows: lane m, examples [from, end), whose scores have changed. They are of s, or s - 1 where marked `less`.
inline void widen(const Windows &windows, const signed char *state, const double *s, Index from, Index end) {
  Index j = from;
  for (; j + 4 <= end; j += 4) {
    const Long4 bits = load_bits(state + j);
    const Double4 score = load<Double4>(s + j);
    const Double4 g = (bits & Windows::less) != 0 ? score - 1 : score;
    const Double4 top = load<Double4>(windows.top + j), low = load<Double4>(windows.low + j);
    store(windows.top + j, (bits & Windows::above) != 0 && g > top ? g : top);
    store(windows.low + j, (bits & Windows::below) != 0 && g < low ? g : low);
  }
  for (; j < end; ++j) {
    const double g = s[j] - (state[j] & Windows::less ? 1 : 0);
    if (state[j] & Windows::above) windows.top[j] = larger(windows.top[j], g);
    if (state[j] & Windows::below) windows.low[j] = smaller(windows.low[j], g);
  }
}

// Scores and, where there are any, windows. Panels of columns, so that all lanes find the rows in cache.
template <class T>
void spread(const Changed<T> *changed, Index count, Index lanes, Index n, double *scores, Index ld,
            const Windows *windows) {
  constexpr Index panel = 512;
  for (Index from = 0; from < n; from += panel) {
    const Index end = n - from < panel ? n : from + panel;
    for (Index m = 0; m < lanes; ++m) {
      bool any_change = false;
      for (Index r = 0; r < count; ++r)
        if (const double change = changed[r].by[m]; change != 0) {
          add_multiple(change, changed[r].row + from, end - from, scores + m * ld + from);
          any_change = true;
        }
      if (any_change && windows) widen(*windows, windows->state + m * ld, scores + m * ld, from, end);
    }
  }
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
