// What Python sees of blocks of examples and the passes over them.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "bindings.hpp"
#include "passes.hpp"

namespace {
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
} // namespace

void define_passes(nb::module_ &m) {
  nb::class_<mm::PassRecord>(m, "PassRecord", "One pass over the examples of a block.")
      .def_ro("full", &mm::PassRecord::full)
      .def_ro("violation", &mm::PassRecord::violation)
      .def_ro("visited", &mm::PassRecord::visited)
      .def_ro("updates", &mm::PassRecord::updates)
      .def_ro("primal", &mm::PassRecord::primal, "An estimate, from full passes: scores are seen before their steps.")
      .def_ro("dual", &mm::PassRecord::dual)
      .def_ro("worst_gap", &mm::PassRecord::worst_gap)
      .def_ro("w_norm", &mm::PassRecord::w_norm, "||W||^2 at the end of a full pass.")
      .def_ro("v_norm", &mm::PassRecord::v_norm, "||V||^2.");

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
          [](const PyBlock &self, mm::Weights &weights, Index begin, Index end, double scale_step,
             std::pair<double, double> rounding) {
            check_pair(*self.block, weights, *self.rows);
            check_range(begin, end, self.block->n_examples());
            if (!(scale_step >= 0 && std::isfinite(scale_step))) throw nb::value_error("scale_step must not be negative");
            if (!(rounding.first >= 0 && rounding.second >= 0)) throw nb::value_error("rounding must not be negative");
            const mm::Problem &problem = self.block->problem();
            std::vector<double> loss(static_cast<std::size_t>(mm::loss_size(problem.lanes)));
            std::vector<double> dual(static_cast<std::size_t>(mm::parts_size(problem.lanes)));
            {
              const Released released;
              self.block->evaluate(weights.view(), begin, end, scale_step, {rounding.first, rounding.second}, loss.data(),
                                   dual.data());
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
          "weights"_a, "begin"_a, "end"_a, "scale_step"_a = 0.0, "rounding"_a = std::pair(0.0, 0.0),
          "Sums of the loss, for the scales 1 + scale_step * (0, 1, 2, 4) of W by part, and of the dual's linear and "
          "diagonal terms, by part. Margins are taken to be smaller by rounding[0] + rounding[1] ||x|| for every "
          "term of their sums.")
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
              const Released released;
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
            const Released released;
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
               const Released released;
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

  nb::class_<PyPasses>(m, "Passes", "The schedule of passes over one block, or several, one after the other or side by side.")
      .def(
          "__init__",
          [](PyPasses *self, nb::list blocks, bool first_full, bool side_by_side) {
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
            if (side_by_side && inner.size() > 1 && inner[0]->problem().separable())
              throw nb::value_error("separable lanes are not visited side by side");
            new (self) PyPasses{std::move(kept), mm::Passes(inner, first_full, side_by_side)};
          },
          "blocks"_a, "first_full"_a = true, "side_by_side"_a = false,
          "The first pass is full, or else a shrunk one. Side by side: a thread visits each block, on a copy of W.")
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
              const Released released;
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
}
