// What Python sees of the core. Everything that comes in is checked here: the core itself trusts its callers.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>

#include "bindings.hpp"
#include "instruction_set.hpp"

namespace {

template <class I> void check_csr(const I *indices, const I *indptr, Index n_rows, Index n_values, Index n_features) {
  if (indptr[0] != 0) throw nb::value_error("CSR indptr must start at 0");
  for (Index i = 0; i < n_rows; ++i)
    if (indptr[i + 1] < indptr[i])
      throw nb::value_error(("CSR indptr decreases at row " + std::to_string(i)).c_str());
  if (static_cast<Index>(indptr[n_rows]) > n_values)
    throw nb::value_error("CSR indptr reaches past the end of data and indices");
  // The sign of an index, or of its distance to the last one, in operations that every processor has for vectors.
  using Unsigned = std::make_unsigned_t<I>;
  constexpr Index most = std::numeric_limits<I>::max();
  const auto last = static_cast<Unsigned>(std::min(n_features - 1, most));
  Unsigned signs = 0;
  for (Index t = 0; t < static_cast<Index>(indptr[n_rows]); ++t) {
    const auto index = static_cast<Unsigned>(indices[t]);
    signs |= index | (last - index);
  }
  if (signs <= static_cast<Unsigned>(most)) return;
  for (Index i = 0; i < n_rows; ++i) // which one?
    for (Index t = indptr[i]; t < static_cast<Index>(indptr[i + 1]); ++t)
      if (indices[t] < 0 || static_cast<Index>(indices[t]) >= n_features)
        throw nb::value_error(("CSR column index " + std::to_string(indices[t]) + " in row " + std::to_string(i) +
                               " is outside 0.." + std::to_string(n_features - 1))
                                  .c_str());
}

// Arrays over buffers of others, such as a message's, may begin anywhere.
template <class... Arrays> void check_aligned(const Arrays &...arrays) {
  const auto aligned = []<class A>(const A &array) {
    return array.size() == 0 || reinterpret_cast<std::uintptr_t>(array.data()) % alignof(typename A::Scalar) == 0;
  };
  if (!(aligned(arrays) && ...)) throw nb::value_error("arrays must be aligned");
}

void check_intercept(double intercept) {
  if (!std::isfinite(intercept)) throw nb::value_error("the intercept's feature must be finite");
}

template <class X, class I>
PyRows csr_rows(In<X> values, In<I> indices, In<I> indptr, Index n_features, double intercept) {
  check_intercept(intercept);
  check_aligned(values, indices, indptr);
  if (n_features < 0) throw nb::value_error("n_features is negative");
  if (indptr.shape(0) < 1) throw nb::value_error("CSR indptr is empty");
  if (values.shape(0) != indices.shape(0)) throw nb::value_error("CSR data and indices differ in length");
  const Index n_rows = static_cast<Index>(indptr.shape(0)) - 1;
  check_csr(indices.data(), indptr.data(), n_rows, static_cast<Index>(indices.shape(0)), n_features);
  return {{sizeof(I) == 4 ? mm::Layout::csr32 : mm::Layout::csr64, sizeof(X) == 4, values.data(), indices.data(),
           indptr.data(), n_rows, n_features, 0, intercept},
          {nb::ndarray<>(values), nb::ndarray<>(indices), nb::ndarray<>(indptr)}};
}

template <class X> PyRows dense_rows(In2<X> values, double intercept) {
  check_intercept(intercept);
  check_aligned(values);
  const Index n_rows = static_cast<Index>(values.shape(0)), n_features = static_cast<Index>(values.shape(1));
  if (n_rows > 0 && n_features > 1 && values.stride(1) != 1) throw nb::value_error("dense rows must be contiguous");
  return {{mm::Layout::dense, sizeof(X) == 4, values.data(), nullptr, nullptr, n_rows, n_features,
           static_cast<Index>(values.stride(0)), intercept},
          {nb::ndarray<>(values)}};
}

// The non-zeros of a dense array as CSR parts (data, indices, indptr).
template <class X> std::optional<nb::tuple> gather_nonzeros(In2<X> dense, double most) {
  const Index n_rows = static_cast<Index>(dense.shape(0)), n_features = static_cast<Index>(dense.shape(1));
  check_aligned(dense);
  if (n_rows > 0 && n_features > 1 && dense.stride(1) != 1) throw nb::value_error("dense rows must be contiguous");
  if (n_features > 2147483647) throw nb::value_error("too many features for int32 indices");
  std::vector<X> values;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> indptr{0};
  bool few = false;
  {
    const Released released;
    std::size_t count = 0;
    for (Index i = 0; i < n_rows; ++i) {
      const X *row = dense.data() + i * static_cast<Index>(dense.stride(0));
      for (Index j = 0; j < n_features; ++j) count += row[j] != 0;
    }
    few = static_cast<double>(count) <= most * static_cast<double>(n_rows) * static_cast<double>(n_features);
    if (few) {
      values.resize(count + 1); // room for a store after the last one
      indices.resize(count + 1);
      std::size_t at = 0;
      for (Index i = 0; i < n_rows; ++i) {
        const X *row = dense.data() + i * static_cast<Index>(dense.stride(0));
        for (Index j = 0; j < n_features; ++j) {
          values[at] = row[j];
          indices[at] = static_cast<std::int32_t>(j);
          at += row[j] != 0;
        }
        indptr.push_back(static_cast<std::int64_t>(at));
      }
      values.resize(count);
      indices.resize(count);
    }
  }
  if (!few) return std::nullopt;
  return nb::make_tuple(owned_array(std::move(values)), owned_array(std::move(indices)), owned_array(std::move(indptr)));
}

template <class X, class I> void define_csr(nb::class_<PyRows> &rows) {
  rows.def_static("csr", &csr_rows<X, I>, "data"_a.noconvert(), "indices"_a.noconvert(), "indptr"_a.noconvert(),
                  "n_features"_a, "intercept"_a);
}
template <class X> void define_dense(nb::class_<PyRows> &rows) {
  rows.def_static("dense", &dense_rows<X>, "X"_a.noconvert(), "intercept"_a);
}

nb::ndarray<nb::numpy, double> squared_norms(const PyRows &self) {
  std::vector<double> out(static_cast<std::size_t>(self.rows.n_rows));
  {
    const Released released;
    mm::kernels().squared_norms(self.rows, out.data());
  }
  return owned_array(std::move(out));
}

} // namespace

void check_range(Index begin, Index end, Index size) {
  if (begin < 0 || end < begin || end > size) throw nb::index_error("range outside of the block");
}

void check_pair(const mm::Block &block, const mm::Weights &weights, const mm::Rows &rows) {
  if (weights.lanes() != block.problem().lanes) throw nb::value_error("block and weights differ in lanes");
  if (weights.n_rows() != rows.n_features + (rows.intercept != 0 ? 1 : 0))
    throw nb::value_error("block and weights differ in features");
  if (weights.held() && !weights.held()->fits(rows)) throw nb::value_error("directions of other rows");
  if (weights.sparse() == nullptr) return;
  if (block.problem().formulation != mm::Formulation::crammer_singer || !block.pooled())
    throw nb::value_error("sparse weights are for Crammer-Singer, with duals as lists");
  if (weights.sparse()->intercept() != (rows.intercept != 0) || rows.intercept < 0)
    throw nb::value_error("block and sparse weights differ in the intercept, or it is negative");
}

mm::Formulation formulation_of(const std::string &name) {
  if (name == "crammer_singer") return mm::Formulation::crammer_singer;
  if (name == "weston_watkins") return mm::Formulation::weston_watkins;
  if (name == "one_vs_rest") return mm::Formulation::one_vs_rest;
  throw nb::value_error(("unknown core formulation '" + name + "'").c_str());
}

namespace {
template <class T> bool taken(nb::handle value, mm::State::Values &out) {
  In<T> array;
  if (!nb::try_cast<In<T>>(value, array, false)) return false;
  out = copied(array);
  return true;
}

// nanobind keeps a table of the objects that it gave out, and ends the program when memory for a larger one cannot be had.
// The table never shrinks: it is made large enough while nothing is at stake yet.
void make_room_for_objects() {
  std::vector<nb::object> objects(1024);
  for (nb::object &object : objects) object = nb::cast(PyRows{});
}

} // namespace

mm::State state_from(nb::dict given) {
  std::map<std::string, mm::State::Values> values;
  for (const auto [key, value] : given) {
    const std::string name = nb::cast<std::string>(key);
    mm::State::Values &out = values[name];
    if (!taken<double>(value, out) && !taken<float>(value, out) && !taken<std::int64_t>(value, out) &&
        !taken<std::int32_t>(value, out) && !taken<std::uint64_t>(value, out) && !taken<std::uint8_t>(value, out))
      throw nb::value_error(("inconsistent state: '" + name + "' is not an array of one dimension of a known type").c_str());
  }
  return mm::State(std::move(values));
}

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false); // models that live until the interpreter ends are no leak
  m.doc() = "The compiled core of multimargin.";
  define_kernel_machines(m);
  define_svmlight(m);
  m.def("make_room_for_exceptions", [] { return std::uncaught_exceptions(); },
        "Ask for the memory that the first exception of a thread needs; it ends the program where there is none.");
  m.def("instruction_sets", &mm::instruction_sets, "Instruction sets that this processor runs.");
  m.def("instruction_set", &mm::instruction_set, "The instruction set in use.");
  m.def("use_instruction_set", &mm::use_instruction_set, "name"_a, "Force one; False when it is not available.");

  m.def("gather_nonzeros", &gather_nonzeros<float>, "X"_a.noconvert(), "most"_a);
  m.def("gather_nonzeros", &gather_nonzeros<double>, "X"_a.noconvert(), "most"_a,
        "CSR parts (data, indices, indptr) of a dense array, or None if more than this share of it is not zero.");

  nb::class_<PyRows> rows(m, "Rows", "Rows of X, read in place.");
  define_csr<float, std::int32_t>(rows);
  define_csr<float, std::int64_t>(rows);
  define_csr<double, std::int32_t>(rows);
  define_csr<double, std::int64_t>(rows);
  define_dense<float>(rows);
  define_dense<double>(rows);
  rows.def_prop_ro("n_rows", [](const PyRows &self) { return self.rows.n_rows; })
      .def_prop_ro("n_features", [](const PyRows &self) { return self.rows.n_features; })
      .def_prop_ro("intercept", [](const PyRows &self) { return self.rows.intercept; })
      .def_prop_ro("n_weights", [](const PyRows &self) { return self.rows.n_features + (self.rows.intercept != 0); })
      .def("squared_norms", &squared_norms)
      .def(
          "scores",
          [](const PyRows &self, nb::ndarray<nb::ndim<2>, nb::ro, nb::c_contig, nb::device::cpu> W,
             nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out, Index begin) {
            const bool single = W.dtype() == nb::dtype<float>();
            if (!single && W.dtype() != nb::dtype<double>()) throw nb::value_error("W must be float32 or float64");
            const Index stride = static_cast<Index>(W.shape(1)), end = begin + static_cast<Index>(out.shape(0));
            if (stride != 1 && stride % (single ? 8 : 4) != 0) throw nb::value_error("W is not padded");
            const Index lanes = static_cast<Index>(out.shape(1));
            if (lanes > stride) throw nb::value_error("out has more columns than W");
            if (static_cast<Index>(W.shape(0)) != self.rows.n_features + (self.rows.intercept != 0 ? 1 : 0))
              throw nb::value_error("W and X differ in features");
            check_range(begin, end, self.rows.n_rows);
            const Released released;
            std::vector<double> padded_scores(static_cast<std::size_t>(stride));
            mm::kernels().scores(self.rows, {const_cast<void *>(W.data()), single, stride}, begin, end, lanes,
                                  padded_scores.data(), out.data());
          },
          "W"_a.noconvert(), "out"_a.noconvert(), "begin"_a, "out = the first columns of X[begin:begin + len(out)] @ W, W padded.");

  define_weights(m);
  define_passes(m);
  define_primal_methods(m);
  define_sparse_weights(m);
  make_room_for_objects();
}
