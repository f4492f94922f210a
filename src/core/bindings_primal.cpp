// What Python sees of the primal methods. Everything that comes in is checked here.
#include <nanobind/stl/vector.h>

#include <cmath>

#include "bindings.hpp"
#include "tron.hpp"

namespace {

using Matrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void check_problem(const PyBlock &self, const mm::Weights &weights) {
  check_pair(*self.block, weights, *self.rows);
  if (!self.block->problem().separable() || !self.block->problem().squared)
    throw nb::value_error("primal methods are for separable lanes with the squared hinge");
  if (weights.single_precision() || weights.kappa() != 0)
    throw nb::value_error("primal methods need plain float64 weights");
}

void check_residual(const PyBlock &self, const Matrix &residual) {
  if (static_cast<Index>(residual.shape(0)) != self.block->n_examples() ||
      static_cast<Index>(residual.shape(1)) != self.block->alpha_stride())
    throw nb::value_error("residuals and alpha differ in shape");
}

struct PyTron {
  nb::object block, weights;
  std::unique_ptr<mm::Tron> tron;
};

// Steps along features of X, in the order given. Returns the squared gradient by lane and its largest entry, of every
// feature as it was visited.
nb::tuple descend(const PyBlock &self, mm::Weights &weights, const PyRows &columns, const Matrix &residual,
                  In<std::int32_t> features) {
  check_problem(self, weights);
  check_residual(self, residual);
  if (columns.rows.n_rows != weights.n_rows() || columns.rows.n_features != self.block->n_examples() ||
      columns.rows.intercept != 0)
    throw nb::value_error("columns must be the transpose of the examples, the intercept's column included");
  for (std::size_t f = 0; f < features.shape(0); ++f)
    if (features.data()[f] < 0 || features.data()[f] >= columns.rows.n_rows)
      throw nb::index_error("feature outside of X");
  mm::Descent descent = self.block->descent();
  std::vector<double> squared_gradient(static_cast<std::size_t>(descent.stride));
  double steepest = 0;
  descent.columns = &columns.rows;
  descent.W = static_cast<double *>(weights.data());
  descent.residual = residual.data();
  descent.squared_gradient = squared_gradient.data();
  descent.steepest = &steepest;
  {
    const Released released;
    mm::kernels().descend(descent, features.data(), static_cast<Index>(features.shape(0)));
  }
  squared_gradient.resize(static_cast<std::size_t>(weights.lanes()));
  return nb::make_tuple(owned_array(std::move(squared_gradient)), steepest);
}

nb::ndarray<nb::numpy, double> imply(const PyBlock &self, const Matrix &residual) {
  if (!self.block->problem().separable() || !self.block->problem().squared)
    throw nb::value_error("residuals imply duals of separable lanes with the squared hinge only");
  check_residual(self, residual);
  std::vector<double> loss(static_cast<std::size_t>(self.block->problem().lanes));
  {
    const Released released;
    self.block->imply(residual.data(), loss.data());
  }
  return owned_array(std::move(loss));
}

} // namespace

void define_primal_methods(nb::module_ &m) {
  nb::class_<mm::Tron::Record>(m, "TronRecord", "A pass of the trust-region method; objectives at the last w.")
      .def_ro("visited", &mm::Tron::Record::visited)
      .def_ro("steepest", &mm::Tron::Record::steepest, "Largest entry of the gradient.")
      .def_ro("primal", &mm::Tron::Record::primal)
      .def_ro("gap", &mm::Tron::Record::gap)
      .def_ro("worst_gap", &mm::Tron::Record::worst_gap, "Of a lane, relative.");

  nb::class_<PyTron>(m, "Tron", "Trust-region Newton on the lanes of a block: weights are the start and stay the best.")
      .def(
          "__init__",
          [](PyTron *self, nb::object block, nb::object weights, double tolerance) {
            const PyBlock &b = nb::cast<const PyBlock &>(block);
            mm::Weights &w = nb::cast<mm::Weights &>(weights);
            check_problem(b, w);
            if (!(tolerance >= 0 && std::isfinite(tolerance))) throw nb::value_error("tolerance must not be negative");
            if (b.block->n_examples() == 0) throw nb::value_error("the block has no examples");
            new (self) PyTron{block, weights, std::make_unique<mm::Tron>(*b.block, w, tolerance)};
          },
          "block"_a, "weights"_a, "tolerance"_a)
      .def(
          "run",
          [](PyTron &self, double budget, Index max_passes) {
            if (!(budget > 0) || max_passes < 0) throw nb::value_error("budget and max_passes must be positive");
            const Released released;
            return self.tron->run(budget, max_passes);
          },
          "budget"_a, "max_passes"_a, "Work for about a budget of multiply-adds: a record a finished pass.")
      .def("state", [](PyTron &self) { return state_of(*self.tron); }, "As that of Weights, without block and weights.")
      .def("set_state", [](PyTron &self, nb::dict state) { set_state(*self.tron, state); }, "state"_a)
      .def_prop_ro("finished", [](const PyTron &self) { return self.tron->finished(); });

  m.def("descend", &descend, "block"_a, "weights"_a, "columns"_a, "residual"_a.noconvert(), "features"_a,
        "Primal coordinate descent along features. Moves weights and residual (1 - z s); returns the squared gradient by "
        "lane and its largest entry.");
  m.def("imply", &imply, "block"_a, "residual"_a.noconvert(),
        "The block's alpha <- the duals that residuals imply; returns the loss by lane.");
}
