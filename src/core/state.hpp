// What a solver knows, by name: written to a checkpoint, read back from it.
//
// A class lists what it keeps once, in `state(State &)`; the same list saves and restores. Nothing that comes from
// outside is trusted: sizes, indices and numbers that the class could not have written are refused, by an exception, in
// `array` and its kin or by `check` at the end of the list.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "random.hpp"

namespace mm {

class State {
public:
  using Values = std::variant<std::vector<double>, std::vector<float>, std::vector<std::int64_t>,
                              std::vector<std::int32_t>, std::vector<std::uint64_t>, std::vector<std::uint8_t>>;

  State() = default;                                              // to save
  explicit State(std::map<std::string, Values> values) : values_(std::move(values)), loads_(true) {} // to restore

  bool loads() const { return loads_; }
  std::map<std::string, Values> &all() { return values_; }
  [[noreturn]] static void refuse(const std::string &what) { throw std::invalid_argument("inconsistent state: " + what); }
  void check(bool good, const char *what) const {
    if (loads_ && !good) refuse(what);
  }
  // All that was given has been asked for.
  void check_used() const {
    for (const auto &[name, values] : values_)
      if (!used_.contains(name)) refuse("nobody knows '" + name + "'");
  }

  // A part's names begin with that of the part.
  template <class Part> void part(const std::string &name, Part &of) {
    const std::string outer = prefix_;
    prefix_ += name + ".";
    of.state(*this);
    prefix_ = outer;
  }

  template <class N> void number(const char *name, N &value) {
    using Stored = std::conditional_t<std::is_floating_point_v<N>, double, std::int64_t>;
    Stored one[1] = {static_cast<Stored>(value)};
    values(name, one, 1);
    if (!loads_) return;
    if constexpr (std::is_same_v<N, bool>) {
      if (one[0] != 0 && one[0] != 1) refuse("'" + prefix_ + name + "' is neither true nor false");
    } else if constexpr (std::is_integral_v<N>) {
      if (one[0] < 0 || one[0] > std::numeric_limits<std::int64_t>::max() / 4 ||
          static_cast<std::uint64_t>(one[0]) > static_cast<std::uint64_t>(std::numeric_limits<N>::max()))
        refuse("'" + prefix_ + name + "' is out of range");
    }
    value = static_cast<N>(one[0]);
  }

  // Of the size that it has.
  template <class V> void array(const char *name, std::vector<V> &v) {
    values(name, v.data(), static_cast<std::int64_t>(v.size()));
  }
  // Of any size up to `most`.
  template <class V> void list(const char *name, std::vector<V> &v, std::int64_t most) {
    if (loads_) {
      const std::size_t size = given<stored<V>>(name).size();
      if (static_cast<std::int64_t>(size) > most) refuse("'" + prefix_ + name + "' is too long");
      v.resize(size);
    }
    array(name, v);
  }
  // A list of numbers from 0 to below `end`.
  template <class V> void indices(const char *name, std::vector<V> &v, std::int64_t most, std::int64_t end) {
    list(name, v, most);
    if (loads_)
      for (const V i : v)
        if (i < 0 || static_cast<std::int64_t>(i) >= end) refuse("'" + prefix_ + name + "' has an index out of range");
  }
  template <class V> void values(const char *name, V *data, std::int64_t n) {
    using S = stored<V>;
    if (!loads_) {
      values_[prefix_ + name] = std::vector<S>(data, data + n);
      return;
    }
    const std::vector<S> &from = given<S>(name);
    if (static_cast<std::int64_t>(from.size()) != n)
      refuse("'" + prefix_ + name + "' has " + std::to_string(from.size()) + " values, not " + std::to_string(n));
    if constexpr (std::is_floating_point_v<V>)
      for (const S value : from)
        if (std::isnan(value)) refuse("'" + prefix_ + name + "' has values that are not numbers");
    for (std::int64_t i = 0; i < n; ++i) data[i] = static_cast<V>(from[static_cast<std::size_t>(i)]);
  }
  void random(Random &random) {
    values("random", random.words(), Random::n_words);
    bool any = false;
    for (int i = 0; i < Random::n_words; ++i) any |= random.words()[i] != 0;
    check(any, "a random generator of zeros");
  }

private:
  template <class V> using stored = std::conditional_t<sizeof(V) == 1, std::uint8_t, V>;

  template <class S> const std::vector<S> &given(const char *name) {
    const auto found = values_.find(prefix_ + name);
    if (found == values_.end()) refuse("'" + prefix_ + name + "' is missing");
    const auto *const values = std::get_if<std::vector<S>>(&found->second);
    if (values == nullptr) refuse("'" + prefix_ + name + "' is of another type");
    used_[found->first] = true;
    return *values;
  }

  std::map<std::string, Values> values_;
  std::map<std::string, bool> used_;
  std::string prefix_;
  bool loads_ = false;
};

// Lets an object go on from a state. If that is refused, the object is as it was.
template <class Stateful> void restore(Stateful &object, State state) {
  State before;
  object.state(before);
  try {
    object.state(state);
    state.check_used();
  } catch (...) {
    State restored(std::move(before.all()));
    object.state(restored);
    throw;
  }
}

} // namespace mm
