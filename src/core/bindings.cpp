// What Python sees of the core. Everything that comes in is checked here: the core itself trusts its callers.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "bindings.hpp"
#include "instruction_set.hpp"
#include "passes.hpp"

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

void check_intercept(double intercept) {
  if (!std::isfinite(intercept)) throw nb::value_error("the intercept's feature must be finite");
}

template <class X, class I>
PyRows csr_rows(In<X> values, In<I> indices, In<I> indptr, Index n_features, double intercept) {
  check_intercept(intercept);
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
  const Index n_rows = static_cast<Index>(values.shape(0)), n_features = static_cast<Index>(values.shape(1));
  if (n_rows > 0 && n_features > 1 && values.stride(1) != 1) throw nb::value_error("dense rows must be contiguous");
  return {{mm::Layout::dense, sizeof(X) == 4, values.data(), nullptr, nullptr, n_rows, n_features,
           static_cast<Index>(values.stride(0)), intercept},
          {nb::ndarray<>(values)}};
}

// The non-zeros of a dense array as CSR parts (data, indices, indptr).
template <class X> std::optional<nb::tuple> gather_nonzeros(In2<X> dense, double most) {
  const Index n_rows = static_cast<Index>(dense.shape(0)), n_features = static_cast<Index>(dense.shape(1));
  if (n_rows > 0 && n_features > 1 && dense.stride(1) != 1) throw nb::value_error("dense rows must be contiguous");
  if (n_features > 2147483647) throw nb::value_error("too many features for int32 indices");
  std::vector<X> values;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> indptr{0};
  bool few = false;
  {
    nb::gil_scoped_release release;
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
    nb::gil_scoped_release release;
    mm::kernels().squared_norms(self.rows, out.data());
  }
  return owned_array(std::move(out));
}

constexpr const char *kNoArray = "sparse weights have no array; see to_csr()";

std::unique_ptr<mm::Weights> sparse_weights(Index n_rows, Index lanes, bool single_precision, bool intercept) {
  if (n_rows < (intercept ? 1 : 0) || lanes < 2 || lanes > 2147483000)
    throw nb::value_error("sparse weights need two lanes or more, and the row of the intercept if there is one");
  return std::make_unique<mm::Weights>(n_rows, lanes, single_precision, mm::Weights::Sparse{intercept});
}

nb::tuple weights_to_csr(mm::Weights &self, bool take) {
  if (!self.sparse()) throw nb::value_error("these weights are an array");
  std::vector<std::int64_t> indptr;
  std::vector<std::int32_t> lane;
  std::vector<double> value;
  {
    nb::gil_scoped_release release;
    self.sparse()->to_csr(indptr, lane, value, take);
  }
  return nb::make_tuple(owned_array(std::move(value)), owned_array(std::move(lane)), owned_array(std::move(indptr)));
}

struct PyPasses {
  std::vector<nb::object> blocks;
  mm::Passes passes;
};

// What takes other steps than the exact ones.
void check_other_steps(const mm::Block &block) {
  if (block.problem().formulation == mm::Formulation::weston_watkins || block.problem().squared)
    throw nb::value_error("only for the hinge loss of Crammer-Singer and of binary machines");
  if (block.pooled()) throw nb::value_error("needs the dense layout");
}

void check_range(Index begin, Index end, Index size) {
  if (begin < 0 || end < begin || end > size) throw nb::index_error("range outside of the block");
}

} // namespace

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
            nb::gil_scoped_release release;
            std::vector<double> padded_scores(static_cast<std::size_t>(stride));
            mm::kernels().scores(self.rows, {const_cast<void *>(W.data()), single, stride}, begin, end, lanes,
                                  padded_scores.data(), out.data());
          },
          "W"_a.noconvert(), "out"_a.noconvert(), "begin"_a, "out = the first columns of X[begin:begin + len(out)] @ W, W padded.");

  nb::class_<mm::Directions>(m, "Directions", "Directions along which accelerated weights are held back (directions.hpp).")
      .def(
          "__init__",
          [](mm::Directions *self, Index count, In<double> U, In<double> coordinates) {
            const auto n = static_cast<std::size_t>(count);
            if (count < 1 || U.shape(0) % n || coordinates.shape(0) % n)
              throw nb::value_error("directions and coordinates differ in number");
            for (std::size_t i = 0; i < U.shape(0); ++i)
              if (!(std::abs(U.data()[i]) <= 1 + 1e-6)) throw nb::value_error("directions must have unit length");
            for (std::size_t i = 0; i < coordinates.shape(0); ++i)
              if (!std::isfinite(coordinates.data()[i])) throw nb::value_error("coordinates must be finite");
            new (self) mm::Directions(count, copied(U), copied(coordinates));
          },
          "count"_a, "U"_a, "coordinates"_a,
          "U: n_weights x count, orthonormal columns; coordinates: X U of every row, of one that stands for all, or none, when "
          "blocks find their own; flat.")
      .def(
          "with_ratios",
          [](const mm::Directions &self, In<double> ratios) {
            if (static_cast<Index>(ratios.shape(0)) != self.count()) throw nb::value_error("a ratio a direction is needed");
            for (std::size_t t = 0; t < ratios.shape(0); ++t)
              if (!(ratios.data()[t] >= 1 && ratios.data()[t] <= 1e6))
                throw nb::value_error("ratios must be between 1 and 1e6");
            return self.with(copied(ratios));
          },
          "ratios"_a, "The same directions, with how much stiffer the metric is along each; at first it is not.")
      .def(
          "sums_of_squares",
          [](const mm::Directions &self, In<std::int64_t> row, In<double> weight) {
            if (row.shape(0) != weight.shape(0)) throw nb::value_error("row and weight differ in length");
            std::vector<double> out(static_cast<std::size_t>(self.count()));
            for (std::size_t e = 0; e < row.shape(0); ++e) {
              if (!self.has(row.data()[e])) throw nb::index_error("row outside of the coordinates");
              const double *a = self.coordinates(row.data()[e]);
              for (std::size_t t = 0; t < out.size(); ++t) out[t] += weight.data()[e] * a[t] * a[t];
            }
            return owned_array(std::move(out));
          },
          "row"_a, "weight"_a, "Weighted squares of the coordinates of rows, summed by direction.")
      .def_prop_ro("count", &mm::Directions::count)
      .def_prop_ro(
          "U", [](const mm::Directions &self) { return owned_array(self.U()); }, nb::rv_policy::move,
          "As it was given.")
      .def(
          "curvatures",
          [](const mm::Directions &self, In<std::int64_t> row, In<double> norm) {
            if (row.shape(0) != norm.shape(0)) throw nb::value_error("row and norm differ in length");
            std::vector<double> out;
            for (std::size_t e = 0; e < row.shape(0); ++e) {
              if (!self.has(row.data()[e])) throw nb::index_error("row outside of the coordinates");
              out.push_back(self.curvature(row.data()[e], norm.data()[e]));
            }
            return owned_array(std::move(out));
          },
          "row"_a, "norm"_a, "Squared norms of rows, less what is held back.");

  nb::class_<mm::Weights>(m, "Weights", "Feature-major W, padded, and the state of its acceleration.")
      .def(
          "__init__",
          [](mm::Weights *self, Index n_rows, Index lanes, bool single_precision,
             std::shared_ptr<mm::Directions> directions) {
            if (n_rows < 0 || lanes < 1) throw nb::value_error("weights need at least one lane");
            if (directions && directions->n_weights() != n_rows) throw nb::value_error("directions of other features");
            new (self) mm::Weights(n_rows, lanes, single_precision, std::move(directions));
          },
          "n_rows"_a, "lanes"_a, "single_precision"_a, "directions"_a = nb::none())
      .def_static("sparse", &sparse_weights, "n_rows"_a, "lanes"_a, "single_precision"_a, "intercept"_a,
                  "Weights for very many lanes, of which a feature knows few. intercept: whether the last row is its.")
      .def_prop_ro("is_sparse", [](const mm::Weights &self) { return self.sparse() != nullptr; })
      .def_prop_ro("lanes", &mm::Weights::lanes)
      .def_prop_ro("single_precision", &mm::Weights::single_precision)
      .def_prop_ro("kappa", &mm::Weights::kappa)
      .def(
          "set_kappa",
          [](mm::Weights &self, double kappa) {
            if (!(kappa >= 0 && std::isfinite(kappa))) throw nb::value_error("kappa must be finite and not negative");
            nb::gil_scoped_release release;
            self.set_kappa(kappa);
          },
          "kappa"_a)
      .def(
          "extrapolate",
          [](mm::Weights &self, double beta, double next_kappa) {
            if (!(self.kappa() > 0 && next_kappa > 0)) throw nb::value_error("only accelerated weights extrapolate");
            nb::gil_scoped_release release;
            self.extrapolate(beta, next_kappa);
          },
          "beta"_a, "next_kappa"_a)
      .def(
          "averaged",
          [](mm::Weights &self, mm::Weights &out) {
            if (out.single_precision() || out.n_rows() != self.n_rows() || out.lanes() != self.lanes())
              throw nb::value_error("averaged needs float64 weights of the same shape");
            if (self.sparse() || out.sparse()) throw nb::value_error(kNoArray);
            nb::gil_scoped_release release;
            self.averaged(out);
          },
          "out"_a, "out = W, or with acceleration the mean of W and W at the last extrapolation.")
      .def_prop_ro(
          "array",
          [](mm::Weights &self) {
            if (self.sparse()) throw nb::value_error(kNoArray);
            self.fold();
            const std::size_t shape[2] = {static_cast<std::size_t>(self.n_rows()),
                                          static_cast<std::size_t>(self.stride())};
            return nb::ndarray<nb::numpy>(self.data(), 2, shape, nb::find(self), nullptr,
                                          self.single_precision() ? nb::dtype<float>() : nb::dtype<double>());
          },
          "A view of W, n_rows x padded lanes.")
      .def("to_csr", &weights_to_csr, "take"_a,
           "Sparse weights as CSR parts (data, indices, indptr), features x lanes; take: they are zero thereafter.")
      .def("state", &state_of<mm::Weights>, "What it goes on from, as arrays by name.")
      .def("set_state", &set_state<mm::Weights>, "state"_a)
      .def("squared_norms", [](mm::Weights &self) {
        std::vector<double> w(static_cast<std::size_t>(self.stride())), v(w.size());
        {
          nb::gil_scoped_release release;
          self.squared_norms(w.data(), v.data());
        }
        w.resize(static_cast<std::size_t>(self.lanes()));
        v.resize(w.size());
        return nb::make_tuple(owned_array(std::move(w)), owned_array(std::move(v)));
      });

  nb::class_<mm::Acceleration>(m, "Acceleration", "How strongly stages are accelerated (acceleration.hpp).")
      .def(nb::init<>())
      .def(
          "end_stage",
          [](mm::Acceleration &self, mm::Weights &weights, double primal, double dual) {
            const double kappa = weights.kappa();
            if (!(kappa > 0)) throw nb::value_error("only accelerated weights have stages");
            nb::gil_scoped_release release;
            std::vector<double> w(static_cast<std::size_t>(weights.stride())), v(w.size());
            const double distance = weights.squared_norms(w.data(), v.data());
            const double squared_norm = std::accumulate(w.begin(), w.end(), 0.0);
            const double next = self.steer(kappa, {primal, dual, 0.5 * squared_norm, distance});
            weights.extrapolate(mm::Acceleration::momentum(kappa), next);
          },
          "weights"_a, "primal"_a, "dual"_a, "Move Z, and kappa by what full passes saw of the objectives.");

  nb::class_<mm::PassRecord>(m, "PassRecord", "One pass over the examples of a block.")
      .def_ro("full", &mm::PassRecord::full)
      .def_ro("violation", &mm::PassRecord::violation)
      .def_ro("visited", &mm::PassRecord::visited)
      .def_ro("updates", &mm::PassRecord::updates)
      .def_ro("primal", &mm::PassRecord::primal, "An estimate, from full passes: scores are seen before their steps.")
      .def_ro("dual", &mm::PassRecord::dual)
      .def_ro("worst_gap", &mm::PassRecord::worst_gap);

  nb::class_<PyBlock>(m, "Block", "Examples with their duals and their place in the schedule of passes.")
      .def(
          "__init__",
          [](PyBlock *self, nb::object rows, const std::string &formulation, bool squared, Index lanes,
             In<std::int64_t> row, In<std::int32_t> label, In<double> cap, In<double> norm, bool pooled,
             std::uint64_t seed) {
            const PyRows &x = nb::cast<const PyRows &>(rows);
            const mm::Problem problem{formulation_of(formulation), squared, lanes};
            const bool separable = problem.formulation == mm::Formulation::one_vs_rest;
            const std::size_t n = row.shape(0);
            if (lanes < (separable ? 1 : 2) || lanes > 2147483000) throw nb::value_error("too few or too many lanes");
            if (n > 2147483000) throw nb::value_error("a block holds at most 2^31 examples");
            if (separable && pooled) throw nb::value_error("separable lanes have no pooled layout");
            if (label.shape(0) != n || cap.shape(0) != n || norm.shape(0) != n)
              throw nb::value_error("row, label, cap and norm differ in length");
            for (std::size_t e = 0; e < n; ++e) {
              if (row.data()[e] < 0 || row.data()[e] >= x.rows.n_rows) throw nb::index_error("row outside of X");
              if (label.data()[e] < (separable ? -1 : 0) || label.data()[e] >= lanes)
                throw nb::index_error("label outside of the lanes");
              if (!(cap.data()[e] > 0 && std::isfinite(cap.data()[e])))
                throw nb::value_error("caps must be positive and finite");
              if (!(norm.data()[e] > 0 && std::isfinite(norm.data()[e])))
                throw nb::value_error("squared norms must be positive and finite");
            }
            new (self) PyBlock{rows, &x.rows,
                               std::make_unique<mm::Block>(problem, x.rows, copied(row), copied(label), copied(cap),
                                                           copied(norm), pooled, seed)};
          },
          "rows"_a, "formulation"_a, "squared"_a, "lanes"_a, "row"_a, "label"_a, "cap"_a, "norm"_a, "pooled"_a,
          "seed"_a)
      .def_prop_ro("n_examples", [](const PyBlock &self) { return self.block->n_examples(); })
      .def_prop_ro("n_parts", [](const PyBlock &self) { return self.block->problem().n_parts(); })
      .def_prop_ro("pooled", [](const PyBlock &self) { return self.block->pooled(); })
      .def_prop_ro("cost_of_pass", [](const PyBlock &self) { return self.block->cost_of_pass(); })
      .def(
          "expect_lanes",
          [](PyBlock &self, Index count) {
            if (count < 1) throw nb::value_error("at least one lane is scored");
            self.block->expect_lanes(count);
          },
          "count"_a, "About how many lanes a visit scores, with sparse weights; before Passes are made.")
      .def(
          "use_exponentiated_gradient",
          [](PyBlock &self) {
            check_other_steps(*self.block);
            self.block->use_exponentiated_gradient();
          },
          "From now on passes take exponentiated gradient steps; no dual may be at a bound for good.")
      .def(
          "use_pegasos",
          [](PyBlock &self, Index batch, bool projection, Index passes) {
            check_other_steps(*self.block);
            if (batch < 1 || passes < 0) throw nb::value_error("batch must be positive, passes not negative");
            self.block->use_pegasos(batch, projection, passes);
          },
          "batch"_a, "projection"_a, "passes"_a,
          "From now on passes are those of Pegasos, as if so many had led to the duals that there are.")
      .def(
          "evaluate",
          [](const PyBlock &self, mm::Weights &weights, Index begin, Index end, double scale_step) {
            check_pair(*self.block, weights, *self.rows);
            check_range(begin, end, self.block->n_examples());
            if (!(scale_step >= 0 && std::isfinite(scale_step))) throw nb::value_error("scale_step must not be negative");
            const mm::Problem &problem = self.block->problem();
            std::vector<double> loss(static_cast<std::size_t>(mm::loss_size(problem.lanes)));
            std::vector<double> dual(static_cast<std::size_t>(mm::parts_size(problem.lanes)));
            {
              nb::gil_scoped_release release;
              self.block->evaluate(weights.view(), begin, end, scale_step, loss.data(), dual.data());
            }
            const auto n_parts = static_cast<std::size_t>(problem.n_parts());
            std::vector<double> kept; // without the padding
            for (int j = 0; j < mm::Scales::count; ++j) {
              const auto scale = loss.begin() + static_cast<std::ptrdiff_t>(j * mm::parts_size(problem.lanes));
              kept.insert(kept.end(), scale, scale + static_cast<std::ptrdiff_t>(n_parts));
            }
            dual.resize(n_parts);
            return nb::make_tuple(owned_array(std::move(kept), {std::size_t{mm::Scales::count}, n_parts}),
                                  owned_array(std::move(dual)));
          },
          "weights"_a, "begin"_a, "end"_a, "scale_step"_a = 0.0,
          "Sums of the loss, for the scales 1 + scale_step * (0, 1, 2, 4) of W by part, and of the dual's linear and "
          "diagonal terms, by part.")
      .def(
          "propose",
          [](const PyBlock &self, mm::Weights &weights, Index begin, double curvature,
             nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
            check_pair(*self.block, weights, *self.rows);
            const Index end = begin + static_cast<Index>(out.shape(0));
            check_range(begin, end, self.block->n_examples());
            if (self.block->pooled()) throw nb::value_error("propose needs the dense layout");
            if (static_cast<Index>(out.shape(1)) != self.block->alpha_stride())
              throw nb::value_error("out differs from alpha in columns");
            if (!(curvature > 0 && std::isfinite(curvature))) throw nb::value_error("curvature must be positive");
            std::vector<double> loss(static_cast<std::size_t>(mm::loss_size(self.block->problem().lanes)));
            std::vector<double> dual(static_cast<std::size_t>(mm::parts_size(self.block->problem().lanes)));
            {
              nb::gil_scoped_release release;
              self.block->propose(weights.view(), begin, end, curvature, loss.data(), dual.data(), out.data());
            }
            loss.resize(static_cast<std::size_t>(self.block->problem().n_parts()));
            dual.resize(static_cast<std::size_t>(self.block->problem().n_parts()));
            return nb::make_tuple(owned_array(std::move(loss)), owned_array(std::move(dual)));
          },
          "weights"_a, "begin"_a, "curvature"_a, "out"_a.noconvert(),
          "Proximal minimisers around alpha at the scores of W, with the sums of loss (at W) and dual terms (at out).")
      .def_prop_ro(
          "alpha",
          [](nb::handle_t<PyBlock> handle) {
            PyBlock &self = nb::cast<PyBlock &>(handle);
            if (self.block->pooled()) throw nb::value_error("alpha is stored as lists; see duals()");
            const std::size_t shape[2] = {static_cast<std::size_t>(self.block->n_examples()),
                                          static_cast<std::size_t>(self.block->alpha_stride())};
            return nb::ndarray<nb::numpy, double>(self.block->alpha(), 2, shape, handle);
          },
          "A view of the dense duals, n_examples x padded lanes.")
      .def(
          "accumulate",
          [](const PyBlock &self, mm::Weights &weights, Index begin, Index end) {
            check_pair(*self.block, weights, *self.rows);
            check_range(begin, end, self.block->n_examples());
            nb::gil_scoped_release release;
            self.block->accumulate(weights.view(), begin, end);
          },
          "weights"_a, "begin"_a, "end"_a, "W += sum of alpha x.")
      .def("state", [](PyBlock &self) { return state_of(*self.block); }, "Duals and place in the pass, as arrays by name.")
      .def("set_state", [](PyBlock &self, nb::dict state) { set_state(*self.block, state); }, "state"_a)
      .def("duals",
           [](const PyBlock &self) {
             std::vector<std::int64_t> indptr;
             std::vector<std::int32_t> lane;
             std::vector<double> value;
             {
               nb::gil_scoped_release release;
               self.block->export_duals(indptr, lane, value);
             }
             return nb::make_tuple(owned_array(std::move(value)), owned_array(std::move(lane)),
                                   owned_array(std::move(indptr)));
           },
           "alpha as CSR parts (data, indices, indptr) over the examples.")
      .def(
          "set_duals",
          [](PyBlock &self, In<double> value, In<std::int32_t> lane, In<std::int64_t> indptr) {
            const Index n = self.block->n_examples();
            if (static_cast<Index>(indptr.shape(0)) != n + 1 || value.shape(0) != lane.shape(0))
              throw nb::value_error("duals differ from the block in size");
            for (Index e = 0; e < n; ++e)
              if (indptr.data()[e + 1] < indptr.data()[e]) throw nb::value_error("indptr of the duals decreases");
            if (indptr.data()[0] != 0 || indptr.data()[n] > static_cast<Index>(value.shape(0)))
              throw nb::value_error("indptr of the duals is out of range");
            for (std::size_t c = 0; c < lane.shape(0); ++c)
              if (lane.data()[c] < 0 || lane.data()[c] >= self.block->problem().lanes)
                throw nb::index_error("lane of a dual out of range");
            for (Index e = 0; e < n; ++e)
              for (Index c = indptr.data()[e] + 1; c < indptr.data()[e + 1]; ++c)
                if (lane.data()[c] <= lane.data()[c - 1])
                  throw nb::value_error("lanes of an example's duals must increase");
            self.block->import_duals(indptr.data(), lane.data(), value.data());
          },
          "data"_a, "indices"_a, "indptr"_a);

  nb::class_<PyPasses>(m, "Passes", "The schedule of passes over one block, or several one after the other.")
      .def(
          "__init__",
          [](PyPasses *self, nb::list blocks, bool first_full) {
            std::vector<mm::Block *> inner;
            std::vector<nb::object> kept;
            for (nb::handle item : blocks) {
              PyBlock &block = nb::cast<PyBlock &>(item);
              for (const mm::Block *known : inner)
                if (known == block.block.get()) throw nb::value_error("a block can be visited only once a pass");
              kept.push_back(nb::borrow(item));
              if (!inner.empty()) {
                const mm::Block &first = *inner[0];
                if (block.rows != nb::cast<PyBlock &>(blocks[0]).rows ||
                    block.block->problem().formulation != first.problem().formulation ||
                    block.block->problem().squared != first.problem().squared ||
                    block.block->problem().lanes != first.problem().lanes)
                  throw nb::value_error("blocks must share rows and problem");
              }
              inner.push_back(block.block.get());
            }
            if (inner.empty()) throw nb::value_error("passes need a block");
            new (self) PyPasses{std::move(kept), mm::Passes(inner, first_full)};
          },
          "blocks"_a, "first_full"_a = true, "The first pass is full, or else a shrunk one.")
      .def("state", [](PyPasses &self) { return state_of(self.passes); }, "As that of Weights, without the blocks.")
      .def("set_state", [](PyPasses &self, nb::dict state) { set_state(self.passes, state); }, "state"_a)
      .def("scale_step", [](const PyPasses &self, const mm::Weights &weights) { return self.passes.scale_step(weights); },
           "weights"_a, "Scales 1 + scale_step * (0, 1, 2, 4) of W are tried.")
      .def(
          "run",
          [](PyPasses &self, mm::Weights &weights, double tolerance, double certify_below, double budget,
             double max_epochs, bool shrinking, bool permute, double rest_share, double shrunk_effort, bool stages,
             double scale) {
            const PyBlock &first = nb::cast<const PyBlock &>(self.blocks[0]);
            check_pair(*first.block, weights, *first.rows);
            if (!(budget > 0) || !(max_epochs >= 0)) throw nb::value_error("budget and max_epochs must be positive");
            if (!(scale > 0 && std::isfinite(scale))) throw nb::value_error("scale must be positive and finite");
            std::vector<mm::PassRecord> records;
            mm::Stopped stopped;
            {
              nb::gil_scoped_release release;
              stopped = self.passes.run(weights,
                                        {tolerance, certify_below, budget, max_epochs, shrinking, permute,
                                         rest_share, shrunk_effort, stages, scale},
                                        records);
            }
            static const char *const names[] = {"budget", "tolerance", "certify", "epochs"};
            return nb::make_tuple(names[static_cast<int>(stopped)], records);
          },
          "weights"_a, nb::kw_only(), "tolerance"_a, "certify_below"_a, "budget"_a, "max_epochs"_a, "shrinking"_a,
          "permute"_a, "rest_share"_a = 0.0, "shrunk_effort"_a = 5.0, "stages"_a = true, "scale"_a = 1.0,
          "Work for about a budget of multiply-adds. Returns why it stopped, and a record a finished pass.");
  define_primal_methods(m);
  define_sparse_weights(m);
  make_room_for_objects();
}
