#include "duals.hpp"

#include <algorithm>

namespace mm {

void PooledLists::grow(List &entry, Index size) {
  const auto logarithm = [](Index capacity) {
    int log = 2;
    while ((Index{1} << log) < capacity) ++log;
    return log;
  };
  const int log = logarithm(size);
  if (entry.capacity > 0) spare_[logarithm(entry.capacity)].push_back(entry.offset);
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

void PooledLists::assign(Index list, const std::int32_t *classes, const double *values, Index size) {
  const Places to = resize(list, size);
  const Index filled = (size + 3) / 4 * 4;
  std::fill_n(std::copy_n(classes, size, to.classes), filled - size, 0);
  std::fill_n(std::copy_n(values, size, to.values), filled - size, 0.0);
}

void PooledLists::state(State &state, Index lanes) {
  std::vector<std::int64_t> sizes;
  std::vector<std::int32_t> classes;
  std::vector<double> values;
  const Index n = static_cast<Index>(lists_.size());
  for (Index e = 0; e < n; ++e) {
    sizes.push_back(size(e));
    if (state.loads()) continue;
    classes.insert(classes.end(), this->classes(e), this->classes(e) + size(e));
    values.insert(values.end(), this->values(e), this->values(e) + size(e));
  }
  state.array("list_sizes", sizes);
  state.indices("list_classes", classes, n * lanes, lanes);
  state.list("list_values", values, n * lanes);
  if (!state.loads()) return;
  std::vector<Index> last(static_cast<std::size_t>(lanes), -1); // example that had the class
  std::size_t at = 0;
  for (Index e = 0; e < n; ++e) {
    const std::int64_t size = sizes[static_cast<std::size_t>(e)];
    state.check(size >= 0 && size <= lanes && at + static_cast<std::size_t>(size) <= classes.size(), "lists of duals that end elsewhere");
    for (std::int64_t c = 0; c < size; ++c, ++at) {
      Index &had = last[static_cast<std::size_t>(classes[at])];
      state.check(had != e, "a list of duals with a class twice");
      had = e;
    }
  }
  state.check(at == classes.size() && at == values.size(), "lists of duals that end elsewhere");
  at = 0;
  for (Index e = 0; e < n; ++e) {
    assign(e, classes.data() + at, values.data() + at, sizes[static_cast<std::size_t>(e)]);
    at += static_cast<std::size_t>(sizes[static_cast<std::size_t>(e)]);
  }
}

} // namespace mm
