// What the bindings of the kernel machines share.
#pragma once

#include <cmath>
#include <memory>
#include <variant>

#include "bindings.hpp"
#include "kernel_machine.hpp"

template <class T> using Store = std::shared_ptr<mm::RowStore<T>>;

// A store with the Python objects that its source reads.
struct PyStore {
  std::variant<Store<float>, Store<double>> store;
  std::vector<nb::object> owners;

  Index n() const {
    return std::visit([](const auto &s) { return s->n(); }, store);
  }
  Index n_groups() const {
    return std::visit([](const auto &s) { return s->n_groups(); }, store);
  }
};

struct PyMachine {
  nb::object store;
  std::unique_ptr<mm::KernelMachine> machine;
};

// The examples of a machine, checked: one or two groups, and one entry of `per_example` arrays for each example.
template <class T> mm::StoreView<T> view_of(const Store<T> &store, const std::vector<Index> &groups) {
  if (groups.empty() || groups.size() > 2) throw nb::value_error("a machine has one or two groups of examples");
  for (const Index g : groups)
    if (g < 0 || g >= store->n_groups()) throw nb::value_error("no such group of examples");
  return mm::StoreView<T>(store, groups);
}

inline void check_examples(Index n, const In<double> &cap, const In<std::int32_t> &label) {
  if (static_cast<Index>(cap.shape(0)) != n || static_cast<Index>(label.shape(0)) != n)
    throw nb::value_error("labels and caps must be one for each example");
  for (Index i = 0; i < n; ++i)
    if (!(cap.data()[i] > 0) || !std::isfinite(cap.data()[i])) throw nb::value_error("caps must be positive and finite");
}

inline void check_signs(const In<std::int32_t> &sign) {
  for (std::size_t i = 0; i < sign.shape(0); ++i)
    if (sign.data()[i] != 1 && sign.data()[i] != -1) throw nb::value_error("signs must be 1 or -1");
}

void define_decomposition(nb::module_ &m, nb::class_<PyMachine> &machine);
