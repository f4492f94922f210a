// States of blocks, weights, schedules and the trust-region method, as checkpoints bring them: what was changed is refused
// by std::invalid_argument and everything is as before, or training goes on from it. Never a byte outside of an array.
//
// The first two bytes of the input choose the problem and the steps: to the minimiser, of the exponentiated gradient, of
// Pegasos (whose states are parts of a block's), or the trust-region method. (Primal coordinate descent keeps nothing
// here.) Then come the changes, 13 bytes each: part, name, kind, place (2) and value (8).
#include "state.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "passes.hpp"
#include "require.hpp"
#include "tron.hpp"

namespace {

using mm::Index;
using Values = std::map<std::string, mm::State::Values>;

constexpr Index n = 12, lanes = 5, features = 3;

enum class Steps { exact, exponentiated, pegasos, tron };

// Which steps the bits ask for, where the problem has them.
Steps steps_of(unsigned bits, const mm::Problem &problem) {
  const auto steps = static_cast<Steps>(bits >> 6);
  const bool hinge_only = steps == Steps::exponentiated || steps == Steps::pegasos;
  if (hinge_only && (problem.squared || problem.formulation == mm::Formulation::weston_watkins)) return Steps::exact;
  if (steps == Steps::tron && !(problem.squared && problem.separable())) return Steps::exact;
  return steps;
}

struct Training {
  std::vector<double> X;
  mm::Rows rows;
  std::optional<mm::Block> block;
  std::optional<mm::Passes> passes;
  std::optional<mm::Weights> weights;
  std::optional<mm::Tron> tron;

  Training(unsigned bits, unsigned more) : X(n * features), rows{mm::Layout::dense, false, X.data(), nullptr, nullptr, n, features, features, 1} {
    const auto formulation = static_cast<mm::Formulation>(bits % 3);
    const mm::Problem problem{formulation, (bits & 4) != 0, lanes};
    const Steps steps = steps_of(bits, problem);
    const bool pooled = steps == Steps::exact && !problem.separable() && (bits & 8) != 0;
    const bool sparse = pooled && formulation == mm::Formulation::crammer_singer && (more & 4) != 0;
    mm::Random random(more & 3);
    for (double &x : X) x = static_cast<double>(random.below(2001)) / 1000 - 1;
    std::vector<std::int64_t> row(n);
    std::iota(row.begin(), row.end(), 0);
    std::vector<std::int32_t> label(n);
    std::vector<double> norm(n);
    for (std::size_t e = 0; e < n; ++e) label[e] = static_cast<std::int32_t>(e) % lanes;
    mm::kernels().squared_norms(rows, norm.data());
    block.emplace(problem, rows, row, label, std::vector<double>(n, 1.0), norm, pooled, 1);
    const bool plain = sparse || steps != Steps::exact;
    if (sparse) weights.emplace(features + 1, lanes, (bits & 16) != 0, mm::Weights::Sparse{true});
    else weights.emplace(features + 1, lanes, !plain && (bits & 16) != 0);
    if (!plain && (bits & 32) != 0) weights->set_kappa(1);
    if (steps == Steps::exponentiated) {
      begin_inside(problem, label);
      block->use_exponentiated_gradient();
    }
    if (steps == Steps::pegasos) block->use_pegasos((bits & 16) != 0 ? 4 : 1, (bits & 32) != 0, 0);
    if (steps == Steps::tron) tron.emplace(*block, *weights, 1e-9);
    passes.emplace(std::vector<mm::Block *>{&*block});
    run(600.0 * (more >> 4)); // a pass may be under way
  }
  // Duals inside of their simplex, where alone the exponentiated gradient can move them.
  void begin_inside(const mm::Problem &problem, const std::vector<std::int32_t> &label) {
    const Index stride = block->alpha_stride();
    const double share = 1.0 / static_cast<double>(problem.separable() ? 2 : problem.lanes);
    for (Index i = 0; i < n; ++i)
      for (Index m = 0; m < problem.lanes; ++m)
        block->alpha()[i * stride + m] = (m == label[static_cast<std::size_t>(i)]) - share;
    block->accumulate(weights->view(), 0, n);
  }
  void run(double budget) {
    std::vector<mm::PassRecord> records;
    if (budget > 0 && tron) tron->run(budget, 20);
    else if (budget > 0) passes->run(*weights, {1e-9, -INFINITY, budget, 20, true, true, 0.5, 5, true, 1}, records);
  }
  template <class F> void with_part(unsigned part, F f) {
    if (part == 0) f(*block);
    else if (part == 1) f(*weights);
    else if (part == 2) f(*passes);
    else f(*tron);
  }
  unsigned n_parts() const { return tron ? 4 : 3; }
};

template <class Part> Values state_of(Part &part) {
  mm::State state;
  part.state(state);
  return state.all();
}

struct Change {
  std::uint8_t part, name, kind, place[2], value[8];
};

template <class V> void change_values(std::vector<V> &v, const Change &change) {
  const std::size_t at = change.place[0] + std::size_t{256} * change.place[1];
  V value{};
  std::memcpy(&value, change.value, sizeof value);
  switch (change.kind % 8) {
  case 0: v.resize(std::min<std::size_t>(at, 2000), value); break;
  case 1: v.assign(v.size(), value); break;
  case 2: if (!v.empty()) v[at % v.size()] = static_cast<V>(change.value[0]); break; // a small number
  case 3: if (!v.empty()) v[at % v.size()] = static_cast<V>(-1); break;
  case 4: if (v.size() > 1) std::swap(v[at % v.size()], v[change.value[0] % v.size()]); break;
  default: if (!v.empty()) v[at % v.size()] = value;
  }
}

void make(Values &values, const Change &change) {
  if (values.empty()) return;
  auto named = values.begin();
  std::advance(named, change.name % values.size());
  if (change.kind == 255) values.erase(named);
  else if (change.kind == 254) values["more"] = named->second;
  else if (change.kind == 253) named->second = std::vector<std::uint64_t>(3, change.value[0]);
  else std::visit([&](auto &v) { change_values(v, change); }, named->second);
}

bool same(const Values &a, const Values &b) { // bit by bit
  const auto bytes = [](const mm::State::Values &values) {
    return std::visit([](const auto &v) {
      const auto *begin = reinterpret_cast<const char *>(v.data());
      return v.empty() ? std::string() : std::string(begin, begin + v.size() * sizeof v[0]);
    }, values);
  };
  if (a.size() != b.size()) return false;
  for (const auto &[name, values] : a) {
    const auto found = b.find(name);
    if (found == b.end() || found->second.index() != values.index() || bytes(found->second) != bytes(values)) return false;
  }
  return true;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  if (size < 2) return 0;
  Training training(data[0], data[1]);
  data += 2, size -= 2;
  for (unsigned part = 0; part < training.n_parts(); ++part)
    training.with_part(part, [&](auto &object) {
      const Values before = state_of(object);
      Values values = before;
      for (std::size_t at = 0; at + sizeof(Change) <= size; at += sizeof(Change)) {
        Change change;
        std::memcpy(&change, data + at, sizeof change);
        if (change.part % training.n_parts() == part) make(values, change);
      }
      try {
        mm::restore(object, mm::State(std::move(values)));
      } catch (const std::invalid_argument &) {
        REQUIRE(same(state_of(object), before));
      }
    });
  training.run(4000);
  std::vector<std::int64_t> indptr;
  std::vector<std::int32_t> lane;
  std::vector<double> value;
  training.block->export_duals(indptr, lane, value);
  REQUIRE(indptr.size() == n + 1 && indptr.back() == static_cast<Index>(lane.size()) && lane.size() == value.size());
  for (const std::int32_t m : lane) REQUIRE(m >= 0 && m < lanes);
  return 0;
}
