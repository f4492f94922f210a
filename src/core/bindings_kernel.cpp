// What Python sees of the kernel machines. Everything that comes in is checked here.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <set>

#include "bindings_kernel.hpp"
#include "kernel_block.hpp"
#include "pair_batch.hpp"
#include "smo.hpp"

namespace {

mm::KernelFunction function_of(const std::string &kind, double gamma, double coef0, int degree, double bias) {
  using Kind = mm::KernelFunction::Kind;
  if (!std::isfinite(gamma) || !std::isfinite(coef0) || !std::isfinite(bias) || degree < 0)
    throw nb::value_error("parameters of the kernel must be finite and its degree not negative");
  for (const auto &[name, value] : {std::pair{"linear", Kind::linear}, std::pair{"rbf", Kind::rbf},
                                    std::pair{"poly", Kind::poly}, std::pair{"sigmoid", Kind::sigmoid}})
    if (kind == name) return {value, gamma, coef0, degree, bias};
  throw nb::value_error(("unknown kernel '" + kind + "' in the core").c_str());
}

// SciPy's BLAS comes as a capsule whose name is its C signature.
template <class T> mm::Gemm<T> gemm_of(const nb::object &capsule) {
  const char *name = PyCapsule_CheckExact(capsule.ptr()) ? PyCapsule_GetName(capsule.ptr()) : nullptr;
  if (name == nullptr || std::strncmp(name, "void (char *, char *, int *, int *, int *,", 42) != 0)
    throw nb::type_error("gemm must be a capsule of scipy.linalg.cython_blas");
  return reinterpret_cast<mm::Gemm<T>>(PyCapsule_GetPointer(capsule.ptr(), name));
}

std::vector<Index> groups_of(const In<std::int64_t> &begin, Index n) {
  std::vector<Index> groups = copied(begin);
  bool good = groups.size() >= 2 && groups.front() == 0 && groups.back() == n;
  for (std::size_t g = 1; g < groups.size(); ++g) good = good && groups[g] >= groups[g - 1];
  if (!good) throw nb::value_error("groups of columns must begin at 0, not decrease, and end at the number of examples");
  return groups;
}

template <class T>
PyStore store_of(std::unique_ptr<mm::KernelSource<T>> source, const In<std::int64_t> &group_begin, std::size_t budget,
                 std::vector<nb::object> owners) {
  std::vector<Index> groups = groups_of(group_begin, source->n());
  return {std::make_shared<mm::RowStore<T>>(std::move(source), std::move(groups), budget), std::move(owners)};
}

template <class T>
PyStore dense_store(nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu> X, const std::string &kind, double gamma,
                    double coef0, int degree, double bias, nb::object gemm, In<std::int64_t> group_begin,
                    std::size_t budget) {
  const Index n = static_cast<Index>(X.shape(0)), n_features = static_cast<Index>(X.shape(1));
  if (n > 2147483647 || n_features > 2147483647) throw nb::value_error("X is too large for BLAS");
  return store_of<T>(mm::dense_source<T>(X.data(), n, n_features, function_of(kind, gamma, coef0, degree, bias), gemm_of<T>(gemm)),
                     group_begin, budget, {nb::cast(X), gemm});
}

template <class T> mm::Fill<T> fill_of(nb::callable function) {
  return [function](const Index *rows, Index count, Index begin, Index end, T *out) {
    const Acquired acquired;
    std::vector<std::int64_t> asked(rows, rows + count);
    const nb::object answer = unless_it_ends([&] { return function(owned_array(std::move(asked)), begin, end); });
    using Values = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
    Values values;
    if (!nb::try_cast<Values>(answer, values, false) || static_cast<Index>(values.shape(0)) != count ||
        static_cast<Index>(values.shape(1)) != end - begin)
      throw nb::value_error("the kernel did not answer with an array of the shape and type asked for");
    std::copy_n(values.data(), count * (end - begin), out);
  };
}

PyStore foreign_store(In<double> diagonal, nb::callable fill, bool single_precision, double bias,
                      In<std::int64_t> group_begin, std::size_t budget) {
  if (single_precision)
    return store_of<float>(mm::foreign_source<float>(copied(diagonal), bias, fill_of<float>(fill)), group_begin, budget, {fill});
  return store_of<double>(mm::foreign_source<double>(copied(diagonal), bias, fill_of<double>(fill)), group_begin, budget, {fill});
}

PyStore sparse_store(nb::object rows, bool single_precision, const std::string &kind, double gamma, double coef0, int degree,
                     double bias, In<std::int64_t> group_begin, std::size_t budget) {
  const mm::Rows &r = nb::cast<const PyRows &>(rows).rows;
  if (r.layout == mm::Layout::dense || r.intercept != 0) throw nb::value_error("CSR rows without an intercept are needed");
  const mm::KernelFunction function = function_of(kind, gamma, coef0, degree, bias);
  if (single_precision) return store_of<float>(mm::sparse_source<float>(r, function), group_begin, budget, {rows});
  return store_of<double>(mm::sparse_source<double>(r, function), group_begin, budget, {rows});
}

void check_lanes(mm::Formulation f, Index lanes, const In<std::int32_t> &label) {
  if (lanes < 1) throw nb::value_error("a machine needs at least one lane");
  if (lanes < 2 && f != mm::Formulation::one_vs_rest) throw nb::value_error("this formulation needs at least two lanes");
  for (std::size_t i = 0; i < label.shape(0); ++i)
    if (label.data()[i] >= lanes || label.data()[i] < (f == mm::Formulation::one_vs_rest ? -1 : 0))
      throw nb::value_error("a label is not a lane");
}

PyMachine block_machine(nb::object store, const std::vector<Index> &groups, const std::string &formulation, Index lanes,
                        In<std::int32_t> label, In<double> cap, Index working_set, bool shrinking, std::uint64_t seed) {
  const mm::Formulation f = formulation_of(formulation);
  check_lanes(f, lanes, label);
  return std::visit(
      [&]<class T>(const Store<T> &s) -> PyMachine {
        mm::StoreView<T> view = view_of(s, groups);
        check_examples(view.n(), cap, label);
        return {store, std::make_unique<mm::KernelBlock<T>>(std::move(view), f, lanes, copied(label), copied(cap),
                                                            working_set, shrinking, seed)};
      },
      nb::cast<const PyStore &>(store).store);
}

PyMachine smo_machine(nb::object store, const std::vector<Index> &groups, In<std::int32_t> sign, In<double> cap,
                      Index working_set) {
  check_signs(sign);
  return std::visit(
      [&]<class T>(const Store<T> &s) -> PyMachine {
        mm::StoreView<T> view = view_of(s, groups);
        check_examples(view.n(), cap, sign);
        return {store, std::make_unique<mm::Smo<T>>(std::move(view), copied(sign), copied(cap), working_set)};
      },
      nb::cast<const PyStore &>(store).store);
}

struct PyPairs {
  nb::object store;
  std::variant<std::unique_ptr<mm::PairBatch<float>>, std::unique_ptr<mm::PairBatch<double>>> batch;
};

PyPairs pair_batch(nb::object store, nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> pairs,
                   In<double> cap, Index working_set, In<std::int64_t> start_pair, In<std::int64_t> start_row,
                   In<double> start_value) {
  const PyStore &py = nb::cast<const PyStore &>(store);
  if (pairs.shape(1) != 2) throw nb::value_error("pairs must have two columns");
  std::vector<std::pair<Index, Index>> groups;
  for (std::size_t p = 0; p < pairs.shape(0); ++p) {
    const Index a = pairs.data()[2 * p], b = pairs.data()[2 * p + 1];
    if (a < 0 || b <= a || b >= py.n_groups()) throw nb::value_error("a pair must be two groups in ascending order");
    groups.emplace_back(a, b);
  }
  if (static_cast<Index>(cap.shape(0)) != py.n()) throw nb::value_error("caps must be one for each row of the store");
  for (std::size_t i = 0; i < cap.shape(0); ++i)
    if (!(cap.data()[i] > 0) || !std::isfinite(cap.data()[i])) throw nb::value_error("caps must be positive and finite");
  if (start_pair.shape(0) != start_row.shape(0) || start_pair.shape(0) != start_value.shape(0))
    throw nb::value_error("duals to start from need a pair, a row and a value each");
  mm::PairEntries start{copied(start_pair), copied(start_row), copied(start_value)};
  for (std::size_t t = 0; t < start.pair.size(); ++t) {
    const Index p = start.pair[t], i = start.row[t];
    if (p < 0 || p >= static_cast<Index>(groups.size()) || (t > 0 && p < start.pair[t - 1]))
      throw nb::value_error("duals to start from must be in the order of their pairs");
    const bool member =
        std::visit([&](const auto &s) { return mm::learns_from(*s, groups[static_cast<std::size_t>(p)], i); }, py.store);
    if (!member) throw nb::value_error("a dual to start from is of a row that its pair does not have");
  }
  return std::visit(
      [&]<class T>(const Store<T> &s) -> PyPairs {
        return {store, std::make_unique<mm::PairBatch<T>>(s, std::move(groups), copied(cap), working_set,
                                                          std::move(start))};
      },
      py.store);
}

nb::tuple entries_of(const mm::PairEntries &entries) {
  return nb::make_tuple(owned_array(std::vector<std::int64_t>(entries.pair)),
                        owned_array(std::vector<std::int64_t>(entries.row)),
                        owned_array(std::vector<double>(entries.value)));
}

// Certificates of scores that come from elsewhere.
using Table = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>; // examples x lanes

void check_scored(Index n, const Table &duals, const Table &scores) {
  if (static_cast<Index>(duals.shape(0)) != n || static_cast<Index>(scores.shape(0)) != n ||
      duals.shape(1) != scores.shape(1))
    throw nb::value_error("duals and scores must be examples x lanes");
}

nb::tuple lane_certificate(const std::string &formulation, In<std::int32_t> label, In<double> cap, Table duals,
                           Table scores) {
  const mm::Formulation f = formulation_of(formulation);
  const Index n = static_cast<Index>(label.shape(0)), lanes = static_cast<Index>(scores.shape(1));
  check_lanes(f, lanes, label);
  check_examples(n, cap, label);
  check_scored(n, duals, scores);
  const Index stride = mm::padded(lanes, 4);
  std::vector<double> violation(label.shape(0)), curvature(label.shape(0), 1.0); // violations do not depend on it
  std::vector<double> alpha(static_cast<std::size_t>(n * stride)), by_lane(static_cast<std::size_t>(n * lanes));
  std::vector<double> workspace(static_cast<std::size_t>(mm::workspace_size(lanes)));
  for (Index i = 0; i < n; ++i) {
    std::copy_n(duals.data() + i * lanes, lanes, alpha.data() + i * stride);
    for (Index m = 0; m < lanes; ++m) by_lane[static_cast<std::size_t>(m * n + i)] = scores.data()[i * lanes + m];
  }
  const mm::KernelExamples x{n,      lanes, n, label.data(), cap.data(), curvature.data(), alpha.data(),
                             stride, workspace.data()};
  const mm::Round round = mm::lane_certificate(f, x, by_lane.data(), violation.data());
  return nb::make_tuple(round, owned_array(std::move(violation)));
}

// Of many machines, whose examples stand one machine after the other.
std::vector<mm::Round> binary_certificates(In<std::int64_t> begin, In<std::int32_t> sign, In<double> cap,
                                           In<double> duals, In<double> scores) {
  const Index n = static_cast<Index>(sign.shape(0));
  check_signs(sign);
  check_examples(n, cap, sign);
  if (duals.shape(0) != sign.shape(0) || scores.shape(0) != sign.shape(0))
    throw nb::value_error("duals and scores must be one for each example");
  const std::vector<Index> groups = groups_of(begin, n);
  std::vector<mm::Round> rounds;
  for (std::size_t g = 1; g < groups.size(); ++g) {
    const Index from = groups[g - 1], end = groups[g];
    const auto own = [&](const auto *values) { return std::vector(values + from, values + end); };
    const std::vector<double> caps = own(cap.data());
    std::vector<double> v(caps.size());
    rounds.push_back(mm::binary_certificate(caps, mm::BinaryBounds(own(sign.data()), caps), own(duals.data()),
                                            own(scores.data()), true, v).round);
  }
  return rounds;
}

template <class T> void define_dense(nb::class_<PyStore> &store) {
  store.def_static("dense", &dense_store<T>, "X"_a.noconvert(), "kind"_a, "gamma"_a, "coef0"_a, "degree"_a, "bias"_a,
                   "gemm"_a, "group_begin"_a, "budget"_a,
                   "Rows of a kernel of dense X (contiguous; its precision is the store's), by SciPy's gemm.");
}

} // namespace

void define_kernel_machines(nb::module_ &m) {
  nb::class_<PyStore> store(m, "KernelStore", "Rows of a kernel matrix within a memory budget.");
  define_dense<float>(store);
  define_dense<double>(store);
  store
      .def_static("sparse", &sparse_store, "rows"_a, "single_precision"_a, "kind"_a, "gamma"_a, "coef0"_a, "degree"_a,
                  "bias"_a, "group_begin"_a, "budget"_a, "Rows of a kernel of CSR rows.")
      .def_static("foreign", &foreign_store, "diagonal"_a, "fill"_a, "single_precision"_a, "bias"_a, "group_begin"_a,
                  "budget"_a,
                  "Rows that `fill(rows, begin, end)` computes: an array of rows against columns begin..end.")
      .def("share",
           [](PyStore &self, Index machines) {
             if (machines < 1) throw nb::value_error("a store is shared by at least one machine");
             std::visit([&](auto &s) { s->share(static_cast<std::size_t>(machines)); }, self.store);
           },
           "machines"_a, "How many machines run at once: their working sets share the budget. Before they are made.")
      .def("state",
           [](PyStore &self) {
             return std::visit([](auto &s) { return state_of(*s); }, self.store);
           },
           "Which tiles it has, and what it counted, as arrays by name.")
      .def("set_state",
           [](PyStore &self, nb::dict state) {
             std::visit([&](auto &s) { set_state(*s, state); }, self.store);
           },
           "state"_a, "Computes the tiles again.")
      .def_prop_ro("n_examples", &PyStore::n)
      .def_prop_ro("n_groups", &PyStore::n_groups)
      .def_prop_ro("single_precision", [](const PyStore &self) { return self.store.index() == 0; })
      .def_prop_ro("diagonal",
                   [](const PyStore &self) {
                     return owned_array(std::visit([](const auto &s) { return s->source().diagonal(); }, self.store));
                   },
                   nb::rv_policy::automatic)
      .def(
          "counts",
          [](const PyStore &self) {
            const mm::StoreCounts c = std::visit([](const auto &s) { return s->counts(); }, self.store);
            return nb::make_tuple(c.hits, c.misses, c.evaluations);
          },
          "Hits, misses and kernel values computed.")
      .def(
          "rows",
          [](PyStore &self, std::vector<Index> rows, Index group) {
            if (group < 0 || group >= self.n_groups()) throw nb::index_error("no such group");
            for (const Index i : rows)
              if (i < 0 || i >= self.n()) throw nb::index_error("no such row");
            if (std::set(rows.begin(), rows.end()).size() < rows.size()) throw nb::value_error("a row is asked for twice");
            return std::visit(
                [&]<class T>(Store<T> &s) {
                  std::vector<typename mm::RowStore<T>::Tile> tiles(rows.size());
                  {
                    const Released released;
                    s->fetch(rows.data(), static_cast<Index>(rows.size()), group, tiles.data());
                  }
                  const Index width = s->group_size(group);
                  std::vector<double> values;
                  for (const auto &tile : tiles) values.insert(values.end(), tile.get(), tile.get() + width);
                  return owned_array(std::move(values), {rows.size(), static_cast<std::size_t>(width)});
                },
                self.store);
          },
          "rows"_a, "group"_a,
          "Kernel values of rows, computed in one block as far as they are not there, in a group of columns, as float64.");

  nb::class_<mm::Round>(m, "Round", "What a kernel machine tells after a round.")
      .def_ro("complete", &mm::Round::complete)
      .def_ro("stuck", &mm::Round::stuck)
      .def_ro("violation", &mm::Round::violation)
      .def_ro("visited", &mm::Round::visited)
      .def_ro("primal", &mm::Round::primal)
      .def_ro("dual", &mm::Round::dual)
      .def_ro("worst_gap", &mm::Round::worst_gap)
      .def_ro("bias", &mm::Round::bias);

  nb::class_<PyMachine> machine(m, "KernelMachine", "A machine that keeps the scores of its examples.");
  machine
      .def_static("block", &block_machine, "store"_a, "groups"_a, "formulation"_a, "lanes"_a, "label"_a, "cap"_a,
                  "working_set"_a, "shrinking"_a, "seed"_a, "Exact steps on working sets, no free bias (kernel_block.hpp).")
      .def_static("smo", &smo_machine, "store"_a, "groups"_a, "sign"_a, "cap"_a, "working_set"_a,
                  "Binary SMO on working sets, with a free bias (smo.hpp).")
      .def(
          "advance",
          [](PyMachine &self) {
            const Released released;
            return self.machine->advance();
          },
          "About 50 ms of work.")
      .def("state", [](PyMachine &self) { return state_of(*self.machine); }, "What it goes on from, as arrays by name.")
      .def("set_state", [](PyMachine &self, nb::dict state) { set_state(*self.machine, state); }, "state"_a)
      .def_prop_ro("n_examples", [](const PyMachine &self) { return self.machine->n_examples(); })
      .def_prop_ro("lanes", [](const PyMachine &self) { return self.machine->lanes(); })
      .def_prop_ro("travelled", [](const PyMachine &self) { return self.machine->travelled(); })
      .def("duals",
           [](const PyMachine &self) {
             const std::size_t n = static_cast<std::size_t>(self.machine->n_examples());
             const std::size_t lanes = static_cast<std::size_t>(self.machine->lanes());
             std::vector<double> out(n * lanes);
             self.machine->duals(out.data());
             return owned_array(std::move(out), {n, lanes});
           })
      .def(
          "scores",
          [](const PyMachine &self, In<std::int64_t> examples) {
            const std::size_t lanes = static_cast<std::size_t>(self.machine->lanes());
            const std::vector<Index> which = copied(examples);
            for (const Index i : which)
              if (i < 0 || i >= self.machine->n_examples()) throw nb::index_error("no such example");
            std::vector<double> out(which.size() * lanes);
            self.machine->scores(which.data(), static_cast<Index>(which.size()), out.data());
            return owned_array(std::move(out), {which.size(), lanes});
          },
          "examples"_a, "Scores of examples as the machine keeps them, without the free bias.")
      .def(
          "set_duals",
          [](PyMachine &self, nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu> duals) {
            if (static_cast<Index>(duals.shape(0)) != self.machine->n_examples() ||
                static_cast<Index>(duals.shape(1)) != self.machine->lanes())
              throw nb::value_error("duals must be examples x lanes");
            self.machine->set_duals(duals.data());
          },
          "duals"_a, "Start from feasible duals, before the first round.");

  nb::class_<mm::TrainedPair>(m, "TrainedPair", "What came of a machine of a pair.")
      .def_ro("pair", &mm::TrainedPair::pair)
      .def_ro("converged", &mm::TrainedPair::converged)
      .def_ro("violation", &mm::TrainedPair::violation)
      .def_ro("primal", &mm::TrainedPair::primal)
      .def_ro("dual", &mm::TrainedPair::dual)
      .def_ro("worst_gap", &mm::TrainedPair::worst_gap)
      .def_ro("bias", &mm::TrainedPair::bias)
      .def_ro("visited", &mm::TrainedPair::visited)
      .def_ro("travelled", &mm::TrainedPair::travelled)
      .def_prop_ro("duals", [](const mm::TrainedPair &self) { return owned_array(std::vector(self.duals)); },
                   nb::rv_policy::automatic)
      .def_prop_ro("scores", [](const mm::TrainedPair &self) { return owned_array(std::vector(self.scores)); },
                   nb::rv_policy::automatic);

  nb::class_<PyPairs>(m, "PairBatch", "Machines of pairs of groups, trained one after the other (pair_batch.hpp).")
      .def(nb::new_(&pair_batch), "store"_a, "pairs"_a, "cap"_a, "working_set"_a, "start_pair"_a, "start_row"_a,
           "start_value"_a)
      .def_prop_ro("done",
                   [](const PyPairs &self) {
                     return std::visit([](const auto &b) { return b->done(); }, self.batch);
                   })
      .def(
          "advance",
          [](PyPairs &self, double tol, bool by_violation, double max_epochs) {
            const Released released;
            return std::visit([&](const auto &b) { return b->advance({tol, by_violation, max_epochs}); }, self.batch);
          },
          "tol"_a, "by_violation"_a, "max_epochs"_a, "About 50 ms of work: the pairs that were finished in it.")
      .def("state",
           [](PyPairs &self) {
             return std::visit([](auto &b) { return state_of(*b); }, self.batch);
           },
           "What it goes on from, as arrays by name.")
      .def("set_state",
           [](PyPairs &self, nb::dict state) {
             std::visit([&](auto &b) { set_state(*b, state); }, self.batch);
           },
           "state"_a)
      .def("abandon",
           [](PyPairs &self) {
             return std::visit([](const auto &b) { return b->abandon(); }, self.batch);
           },
           "Take the machine that is being trained as it is: the pair that was finished by it, if any.")
      .def("duals",
           [](const PyPairs &self) {
             return std::visit([](const auto &b) { return entries_of(b->duals()); }, self.batch);
           },
           "Pair, row of the store and value of every dual that is not zero.");
  m.def("lane_certificate", &lane_certificate, "formulation"_a, "label"_a, "cap"_a, "duals"_a, "scores"_a,
        "What the machines without a free bias tell of examples with such scores, and the violation of every example.");
  m.def("binary_certificates", &binary_certificates, "begin"_a, "sign"_a, "cap"_a, "duals"_a, "scores"_a,
        "What machines with a free bias tell of examples with such scores: those of each begin where `begin` says.");
  define_decomposition(m, machine);
}
