// What the files of the bindings share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "block.hpp"
#include "interpreter_lock.hpp"
#include "state.hpp"

namespace nb = nanobind;
using namespace nb::literals;

using mm::Index;
template <class T> using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using In2 = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;

// Rows and the Python arrays that own their memory.
struct PyRows {
  mm::Rows rows;
  nb::ndarray<> owners[3];
};

// A block with the rows it reads kept alive.
struct PyBlock {
  nb::object rows_owner;
  const mm::Rows *rows;
  std::unique_ptr<mm::Block> block;
};
void check_range(Index begin, Index end, Index size);
// Every part that a block and weights must agree on.
void check_pair(const mm::Block &block, const mm::Weights &weights, const mm::Rows &rows);

template <class T>
nb::ndarray<nb::numpy, T> owned_array(std::vector<T> &&values, std::initializer_list<std::size_t> shape = {}) {
  auto *kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
  if (shape.size() > 0) return nb::ndarray<nb::numpy, T>(kept->data(), shape, owner);
  return nb::ndarray<nb::numpy, T>(kept->data(), {kept->size()}, owner);
}

template <class T> std::vector<T> copied(const In<T> &array) { return {array.data(), array.data() + array.shape(0)}; }

// What an object goes on from, as a dict of arrays; and back. If that is refused, the object is as it was.
template <class Stateful> nb::dict state_of(Stateful &object) {
  mm::State state;
  object.state(state);
  nb::dict out;
  for (auto &[name, values] : state.all())
    std::visit([&, &key = name](auto &v) { out[key.c_str()] = owned_array(std::move(v)); }, values);
  return out;
}
mm::State state_from(nb::dict given);
template <class Stateful> void set_state(Stateful &object, nb::dict given) { mm::restore(object, state_from(given)); }

mm::Formulation formulation_of(const std::string &name);

void define_kernel_machines(nb::module_ &m);
void define_passes(nb::module_ &m);
void define_primal_methods(nb::module_ &m);
void define_sparse_weights(nb::module_ &m);
void define_svmlight(nb::module_ &m);
void define_weights(nb::module_ &m);
