// What Python sees of the decomposition methods.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings_kernel.hpp"
#include "box_decomposition.hpp"
#include "decomposition.hpp"
#include "plain_smo.hpp"

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

mm::Step step_named(const std::string &name) {
  return choice_of<mm::Step>("step", name, {"exact", "fixed_point", "smo", "basic_smo"});
}

PyMachine decomposition_machine(nb::object store, const std::string &formulation, Index lanes, In<std::int32_t> label,
                                In<double> cap, const std::string &selection, const std::string &threshold,
                                const std::string &step, double threshold_factor, bool shrinking, bool cooling,
                                double tol, Index working_set, std::uint64_t seed) {
  using mm::Strategy;
  const mm::Strategy strategy{
      choice_of<Strategy::Selection>("selection", selection, {"cyclic", "random", "kkt", "amg", "bmg"}),
      choice_of<Strategy::Threshold>("threshold", threshold, {"exponential", "linear", "logarithmic", "max", "mean"}),
      step_named(step),
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

PyMachine plain_smo_machine(nb::object store, const std::vector<Index> &groups, In<std::int32_t> sign, In<double> cap,
                            bool free_bias, bool shrinking, double tol) {
  if (!(tol >= 0)) throw nb::value_error("tol must not be negative");
  check_signs(sign);
  return std::visit(
      [&]<class T>(const Store<T> &s) -> PyMachine {
        mm::StoreView<T> view = view_of(s, groups);
        check_examples(view.n(), cap, sign);
        return {store, std::make_unique<mm::PlainSmo<T>>(std::move(view), copied(sign), copied(cap), free_bias,
                                                         shrinking, tol)};
      },
      nb::cast<const PyStore &>(store).store);
}

// One example on its own, with the workspace that the hot loops want.
struct LoneExample {
  std::vector<double> alpha, workspace;
  std::int32_t label;
  double cap, curvature;
  Index lanes;

  LoneExample(const In<double> &scores, const In<double> &duals, std::int32_t y, double C, double A)
      : alpha(copied(duals)), label(y), cap(C), curvature(A), lanes(static_cast<Index>(scores.shape(0))) {
    if (lanes < 2 || alpha.size() != scores.shape(0)) throw nb::value_error("a score and a dual for each of two or more lanes");
    if (y < 0 || y >= lanes || !(C > 0) || !(A > 0)) throw nb::value_error("label, cap or curvature out of range");
    alpha.resize(static_cast<std::size_t>(mm::padded(lanes, 4)));
    workspace.resize(static_cast<std::size_t>(mm::workspace_size(lanes)));
  }
  mm::KernelExamples view() {
    return {1, lanes, 1, &label, &cap, &curvature, alpha.data(), mm::padded(lanes, 4), workspace.data()};
  }
};

nb::tuple step_of(const std::string &name, In<double> scores, In<double> duals, std::int32_t label, double cap,
                  double curvature, double accuracy) {
  LoneExample example(scores, duals, label, cap, curvature);
  const auto step = static_cast<int>(step_named(name));
  const mm::Stepped stepped = mm::kernels().step[step](example.view(), scores.data(), 0, accuracy);
  std::vector<double> next(stepped.next, stepped.next + example.lanes);
  return nb::make_tuple(stepped.gain, owned_array(stepped.gain > 0 ? std::move(next) : copied(duals)));
}

double worth_of(const std::string &name, In<double> scores, In<double> duals, std::int32_t label, double cap,
                double curvature) {
  LoneExample example(scores, duals, label, cap, curvature);
  return mm::kernels().worth[choice_of<int>("value", name, {"kkt", "amg", "bmg"})](example.view(), scores.data(), 0).value;
}

// A column of Q, as class-major as the variables: (i, m) at m * n + i.
nb::ndarray<nb::numpy, double> column_of_q(In<double> kernel_row, In<std::int32_t> label, std::int32_t lanes, Index j,
                                           std::int32_t s) {
  const std::size_t n = kernel_row.shape(0);
  if (label.shape(0) != n || j < 0 || j >= static_cast<Index>(n) || s < 0 || s >= lanes)
    throw nb::value_error("no such column");
  std::vector<double> column(n * static_cast<std::size_t>(lanes));
  for (std::int32_t m = 0; m < lanes; ++m)
    for (std::size_t i = 0; i < n; ++i)
      column[static_cast<std::size_t>(m) * n + i] =
          kernel_row.data()[i] * mm::q_factor(label.data()[i], m, label.data()[j], s);
  return owned_array(std::move(column));
}

nb::tuple solve_box(In<double> Q, In<double> upper, In<double> x, In<double> g) {
  const std::size_t q = x.shape(0);
  if (Q.shape(0) != q * q || upper.shape(0) != q || g.shape(0) != q) throw nb::value_error("sizes do not match");
  std::vector<double> solution = copied(x), gradient = copied(g);
  mm::BoxQp().solve(copied(Q), copied(upper), solution, gradient);
  return nb::make_tuple(owned_array(std::move(solution)), owned_array(std::move(gradient)));
}

} // namespace

void define_decomposition(nb::module_ &m, nb::class_<PyMachine> &machine) {
  machine.def_static("decomposition", &decomposition_machine, "store"_a, "formulation"_a, "lanes"_a, "label"_a, "cap"_a,
                     "selection"_a, "threshold"_a, "step"_a, "threshold_factor"_a, "shrinking"_a, "cooling"_a, "tol"_a,
                     "working_set"_a, "seed"_a,
                     "The papers' methods for joint machines (decomposition.hpp, box_decomposition.hpp).");
  machine.def_static("plain_smo", &plain_smo_machine, "store"_a, "groups"_a, "sign"_a, "cap"_a, "free_bias"_a,
                     "shrinking"_a, "tol"_a, "Binary SMO over all examples (plain_smo.hpp).");
  // Their parts, for tests.
  m.def("decomposition_step", &step_of, "step"_a, "scores"_a, "duals"_a, "label"_a, "cap"_a, "curvature"_a,
        "accuracy"_a, "What a step on one example gains, and its new duals (decomposition_loops.hpp).");
  m.def("decomposition_value", &worth_of, "value"_a, "scores"_a, "duals"_a, "label"_a, "cap"_a, "curvature"_a,
        "The value that an example is selected by.");
  m.def("weston_watkins_column", &column_of_q, "kernel_row"_a, "label"_a, "lanes"_a, "j"_a, "s"_a,
        "Column (j, s) of the Hessian of Weston-Watkins' dual (box_decomposition.hpp).");
  m.def("box_qp", &solve_box, "Q"_a, "upper"_a, "x"_a, "g"_a, "Solution and gradient of a small box problem (box_qp.hpp).");
}
