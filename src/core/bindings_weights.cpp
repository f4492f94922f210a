// What Python sees of W: directions, weights and the stages of their acceleration.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "acceleration.hpp"
#include "bindings.hpp"

namespace {
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
    const Released released;
    self.sparse()->to_csr(indptr, lane, value, take);
  }
  return nb::make_tuple(owned_array(std::move(value)), owned_array(std::move(lane)), owned_array(std::move(indptr)));
}
} // namespace

void define_weights(nb::module_ &m) {
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
          "ratios",
          [](const mm::Directions &self) {
            std::vector<double> ratios;
            for (Index t = 0; t < self.count(); ++t) ratios.push_back(self.ratio(t));
            return owned_array(std::move(ratios));
          },
          nb::rv_policy::move, "How much stiffer the metric is along each.")
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
            const Released released;
            self.set_kappa(kappa);
          },
          "kappa"_a)
      .def(
          "extrapolate",
          [](mm::Weights &self, double beta, double next_kappa) {
            if (!(self.kappa() > 0 && next_kappa > 0)) throw nb::value_error("only accelerated weights extrapolate");
            const Released released;
            self.extrapolate(beta, next_kappa);
          },
          "beta"_a, "next_kappa"_a)
      .def(
          "averaged",
          [](mm::Weights &self, mm::Weights &out) {
            if (out.single_precision() || out.n_rows() != self.n_rows() || out.lanes() != self.lanes())
              throw nb::value_error("averaged needs float64 weights of the same shape");
            if (self.sparse() || out.sparse()) throw nb::value_error(kNoArray);
            const Released released;
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
          const Released released;
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
            const Released released;
            double next = kappa;
            if (mm::Acceleration::says_something(primal, dual)) {
              std::vector<double> w(static_cast<std::size_t>(weights.stride())), v(w.size());
              const double distance = weights.squared_norms(w.data(), v.data());
              const double squared_norm = std::accumulate(w.begin(), w.end(), 0.0);
              next = self.steer(kappa, {primal, dual, 0.5 * squared_norm, distance});
            }
            weights.extrapolate(mm::Acceleration::momentum(kappa), next);
          },
          "weights"_a, "primal"_a, "dual"_a, "Move Z, and kappa by what full passes saw of the objectives.")
      .def("state", &state_of<mm::Acceleration>, "As that of Weights.")
      .def("set_state", &set_state<mm::Acceleration>, "state"_a);
}
