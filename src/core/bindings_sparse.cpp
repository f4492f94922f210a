// What Python sees of sparse weights beside Weights: prediction by a CSR matrix W, features x lanes, and the tables on
// their own, for tests.
#include <nanobind/stl/vector.h>

#include <cmath>

#include "bindings.hpp"

namespace {

using Out = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutLanes = nb::ndarray<std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// What the two predictions ask of their arguments; the intercepts, ranked.
mm::LaneRanking checked_ranking(const PyRows &x, const PyRows &W, const In<double> &intercept, Index begin, Index end) {
  if (x.rows.n_features != W.rows.n_rows) throw nb::value_error("W and X differ in features");
  if (W.rows.layout == mm::Layout::dense || W.rows.single_precision) throw nb::value_error("W must be CSR in float64");
  if (W.rows.n_features < 1 || W.rows.n_features > 2147483000) throw nb::value_error("too few or too many lanes");
  if (x.rows.intercept != 0) throw nb::value_error("the intercepts are given, X must be without");
  if (static_cast<Index>(intercept.shape(0)) != W.rows.n_features) throw nb::value_error("as many intercepts as lanes");
  if (begin < 0 || end < begin || end > x.rows.n_rows) throw nb::index_error("range outside of the rows");
  mm::LaneRanking ranking(W.rows.n_features);
  for (Index m = 0; m < W.rows.n_features; ++m) {
    if (!std::isfinite(intercept.data()[m])) throw nb::value_error("intercepts must be finite");
    ranking.set(m, intercept.data()[m]);
  }
  return ranking;
}

void top_of_sparse(const PyRows &x, const PyRows &W, In<double> intercept, OutLanes lane, Out score, Index begin) {
  const Index end = begin + static_cast<Index>(lane.shape(0)), n = static_cast<Index>(lane.shape(1));
  const mm::LaneRanking ranking = checked_ranking(x, W, intercept, begin, end);
  if (score.shape(0) != lane.shape(0) || score.shape(1) != lane.shape(1))
    throw nb::value_error("lanes and scores differ in shape");
  if (n < 1 || n > W.rows.n_features) throw nb::value_error("there are not so many lanes");
  const Released released;
  mm::kernels().top_of_sparse(x.rows, W.rows, ranking, begin, end, n, lane.data(), score.data());
}

void scores_of_sparse(const PyRows &x, const PyRows &W, In<double> intercept, Out out, Index begin) {
  const Index end = begin + static_cast<Index>(out.shape(0));
  const mm::LaneRanking ranking = checked_ranking(x, W, intercept, begin, end);
  if (static_cast<Index>(out.shape(1)) != W.rows.n_features) throw nb::value_error("a column of out a lane");
  const Released released;
  mm::kernels().scores_of_sparse(x.rows, W.rows, ranking, begin, end, out.data());
}

} // namespace

void define_sparse_weights(nb::module_ &m) {
  m.def("top_of_sparse", &top_of_sparse, "rows"_a, "W"_a, "intercept"_a, "lanes"_a.noconvert(), "scores"_a.noconvert(),
        "begin"_a, "The lanes with the largest scores of X[begin:begin + len(lanes)] @ W + intercept, in order.");
  m.def("scores_of_sparse", &scores_of_sparse, "rows"_a, "W"_a, "intercept"_a, "out"_a.noconvert(), "begin"_a,
        "out = X[begin:begin + len(out)] @ W + intercept.");

  nb::class_<mm::SparseWeights>(m, "LaneTables", "Sparse weights on their own.")
      .def(
          "__init__",
          [](mm::SparseWeights *self, Index n_rows, Index lanes, bool single_precision) {
            if (n_rows < 0 || lanes < 1 || lanes > 2147483000) throw nb::value_error("at least one lane");
            new (self) mm::SparseWeights(n_rows, lanes, single_precision, false);
          },
          "n_rows"_a, "lanes"_a, "single_precision"_a)
      .def(
          "add",
          [](mm::SparseWeights &self, Index row, Index lane, double change) {
            const auto add = [&]<class S>(std::vector<mm::LaneTable<S>> &tables) {
              if (row < 0 || row >= static_cast<Index>(tables.size()) || lane < 0 || lane >= self.lanes())
                throw nb::index_error("no such row or lane");
              tables[static_cast<std::size_t>(row)].add(static_cast<std::int32_t>(lane), static_cast<S>(change),
                                                        static_cast<std::int32_t>(self.lanes()));
            };
            if (self.single_precision()) add(self.tables<float>());
            else add(self.tables<double>());
          },
          "row"_a, "lane"_a, "change"_a)
      .def(
          "get",
          [](mm::SparseWeights &self, Index row, Index lane) {
            const auto get = [&]<class S>(const std::vector<mm::LaneTable<S>> &tables) -> double {
              if (row < 0 || row >= static_cast<Index>(tables.size()) || lane < 0 || lane >= self.lanes())
                throw nb::index_error("no such row or lane");
              return static_cast<double>(tables[static_cast<std::size_t>(row)].get(
                  static_cast<std::int32_t>(lane), static_cast<std::int32_t>(self.lanes())));
            };
            return self.single_precision() ? get(self.tables<float>()) : get(self.tables<double>());
          },
          "row"_a, "lane"_a)
      .def_prop_ro("n_entries", &mm::SparseWeights::n_entries)
      .def("state", &state_of<mm::SparseWeights>)
      .def("set_state", &set_state<mm::SparseWeights>, "state"_a);
}
