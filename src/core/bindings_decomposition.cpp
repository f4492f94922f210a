// What Python sees of the decomposition methods.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings_kernel.hpp"
#include "box_decomposition.hpp"
#include "decomposition.hpp"

namespace {

template <class Choice> Choice choice_of(const char *what, const std::string &name, std::initializer_list<const char *> names) {
  int at = 0;
  std::string allowed;
  for (const char *known : names) {
    if (name == known) return static_cast<Choice>(at);
    allowed += (at++ ? ", " : "") + std::string(known);
  }
  throw nb::value_error((std::string(what) + " is one of " + allowed + ", not '" + name + "'").c_str());
}

PyMachine decomposition_machine(nb::object store, const std::string &formulation, Index lanes, In<std::int32_t> label,
                                In<double> cap, const std::string &selection, const std::string &threshold,
                                const std::string &step, double threshold_factor, bool shrinking, bool cooling,
                                double tol, Index working_set, std::uint64_t seed) {
  using mm::Strategy;
  const mm::Strategy strategy{
      choice_of<Strategy::Selection>("selection", selection, {"cyclic", "random", "kkt", "amg", "bmg"}),
      choice_of<Strategy::Threshold>("threshold", threshold, {"exponential", "linear", "logarithmic", "max", "mean"}),
      choice_of<mm::Step>("step", step, {"exact", "fixed_point", "smo", "basic_smo"}),
      threshold_factor,
      shrinking,
      cooling,
      tol};
  const mm::Formulation f = formulation_of(formulation);
  if (f == mm::Formulation::one_vs_rest) throw nb::value_error("decomposition is for joint formulations");
  if (!(threshold_factor >= 0 && threshold_factor <= 1)) throw nb::value_error("threshold_factor must be in [0, 1]");
  if (!(tol >= 0)) throw nb::value_error("tol must not be negative");
  if (lanes < 2) throw nb::value_error("this formulation needs at least two lanes");
  for (std::size_t i = 0; i < label.shape(0); ++i)
    if (label.data()[i] >= lanes || label.data()[i] < 0) throw nb::value_error("a label is not a lane");
  return std::visit(
      [&]<class T>(const Store<T> &s) -> PyMachine {
        if (s->n_groups() != 1) throw nb::value_error("decomposition needs a store of whole rows: one group");
        mm::StoreView<T> view = view_of(s, {0});
        check_examples(view.n(), cap, label);
        if (f == mm::Formulation::weston_watkins) {
          if (view.n() * lanes > 2147483647) throw nb::value_error("too many examples and classes for this method");
          return {store, std::make_unique<mm::BoxDecomposition<T>>(std::move(view), lanes, copied(label), copied(cap),
                                                                   working_set, shrinking, tol)};
        }
        return {store, std::make_unique<mm::Decomposition<T>>(std::move(view), lanes, copied(label), copied(cap),
                                                              strategy, seed)};
      },
      nb::cast<const PyStore &>(store).store);
}

} // namespace

void define_decomposition(nb::module_ &, nb::class_<PyMachine> &machine) {
  machine.def_static("decomposition", &decomposition_machine, "store"_a, "formulation"_a, "lanes"_a, "label"_a, "cap"_a,
                     "selection"_a, "threshold"_a, "step"_a, "threshold_factor"_a, "shrinking"_a, "cooling"_a, "tol"_a,
                     "working_set"_a, "seed"_a,
                     "The papers' methods for joint machines (decomposition.hpp, box_decomposition.hpp).");
}
