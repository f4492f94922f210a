#include "duals.hpp"

#include <algorithm>

namespace mm {

void PooledLists::assign(Index list, const std::int32_t *classes, const double *values, Index size) {
  List &entry = lists_[static_cast<std::size_t>(list)];
  if (size > entry.capacity) {
    int log = 1;
    while ((Index{1} << log) < size) ++log;
    if (entry.capacity > 0) {
      int old_log = 1;
      while ((Index{1} << old_log) < entry.capacity) ++old_log;
      spare_[old_log].push_back(entry.offset);
    }
    if (!spare_[log].empty()) {
      entry.offset = spare_[log].back();
      spare_[log].pop_back();
    } else {
      entry.offset = static_cast<Index>(classes_.size());
      classes_.resize(classes_.size() + (std::size_t{1} << log));
      values_.resize(values_.size() + (std::size_t{1} << log));
    }
    entry.capacity = static_cast<std::int32_t>(Index{1} << log);
  }
  std::copy_n(classes, size, classes_.begin() + entry.offset);
  std::copy_n(values, size, values_.begin() + entry.offset);
  entry.size = static_cast<std::int32_t>(size);
}

} // namespace mm
