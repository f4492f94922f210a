// alpha, the duals of a block's examples, in one of two layouts:
//   dense   one row of `stride` doubles an example
//   pooled  a short list (class, value) an example, only non-zeros: with very many classes an
//           examples x classes array must not exist
#pragma once

#include <cstdint>
#include <vector>

#include "rows.hpp"
#include "state.hpp"

namespace mm {

// Lists that grow and shrink inside one pool. A list lives in a chunk of a power of two entries, at least four, so that
// it is read and written by vectors of four, filled up with zeros; outgrown chunks are kept for the next list that needs
// their size.
class PooledLists {
public:
  explicit PooledLists(Index n_lists) : lists_(static_cast<std::size_t>(n_lists)) {}

  Index size(Index list) const { return lists_[static_cast<std::size_t>(list)].size; }
  const std::int32_t *classes(Index list) const { return classes_.data() + at(list).offset; }
  const double *values(Index list) const { return values_.data() + at(list).offset; }

  MM_PREFETCH void prefetch_place(Index list) const { __builtin_prefetch(lists_.data() + list); }
  MM_PREFETCH void prefetch(Index list) const {
    __builtin_prefetch(classes(list));
    __builtin_prefetch(values(list));
  }

  // Lists one after the other, as they stand: their order is that of the steps.
  void state(State &, Index lanes);

  // Replaces a list; the arguments may not point into the pool.
  void assign(Index list, const std::int32_t *classes, const double *values, Index size);

  // The same in two steps: places for a list of this size and what fills it up, to be written by the caller.
  struct Places {
    std::int32_t *classes;
    double *values;
  };
  Places resize(Index list, Index size) {
    List &entry = lists_[static_cast<std::size_t>(list)];
    if (size > entry.capacity) grow(entry, size);
    entry.size = static_cast<std::int32_t>(size);
    return {classes_.data() + entry.offset, values_.data() + entry.offset};
  }

private:
  struct List {
    Index offset = 0;
    std::int32_t size = 0;
    std::int32_t capacity = 0;
  };
  const List &at(Index list) const { return lists_[static_cast<std::size_t>(list)]; }
  void grow(List &entry, Index size);

  std::vector<List> lists_;
  std::vector<std::int32_t> classes_;
  std::vector<double> values_;
  std::vector<Index> spare_[32]; // offsets of free chunks, by the logarithm of their capacity
};

} // namespace mm
