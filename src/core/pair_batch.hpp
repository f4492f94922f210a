// Many small machines of pairs in one call: one-vs-one with 200 classes has 19,900 of them, and what Python does for a
// machine of its own costs more than its training.
#pragma once

#include <optional>

#include "smo.hpp"

namespace mm {

struct TrainedPair {
  Index pair;
  bool converged;
  double violation, primal, dual, worst_gap, bias;
  Index visited;      // examples, in all rounds
  double travelled;   // see KernelMachine
  std::vector<double> duals, scores; // of its examples
};

// Entries of a table of pairs and rows of the store.
struct PairEntries {
  std::vector<std::int64_t> pair, row;
  std::vector<double> value;
};

struct PairTarget {
  double tol;
  bool by_violation;  // else by the gap
  double max_epochs;  // of a machine
};

// Whether a row of the store is an example of a pair of groups.
template <class Store> bool learns_from(const Store &store, std::pair<Index, Index> pair, Index row) {
  const auto in = [&](Index g) { return row >= store.group_begin(g) && row < store.group_begin(g + 1); };
  return in(pair.first) || in(pair.second);
}

template <class T> class PairBatch {
public:
  // caps of all rows of the store; `start`: duals to start from, in the order of the pairs.
  PairBatch(std::shared_ptr<RowStore<T>> store, std::vector<std::pair<Index, Index>> pairs, std::vector<double> cap,
            Index working_set, PairEntries start)
      : store_(std::move(store)), pairs_(std::move(pairs)), cap_(std::move(cap)), working_set_(working_set),
        start_(std::move(start)) {}

  bool done() const { return next_ == static_cast<Index>(pairs_.size()) && !machine_; }

  // About 50 ms of work: the pairs that were finished in it.
  std::vector<TrainedPair> advance(const PairTarget &target) {
    std::vector<TrainedPair> finished;
    const double cost = 1 + 0.02 * store_->source().cost_of_value(); // of a value in a round, in nanoseconds
    double work = 0;
    while (!done() && work < kNanoseconds) {
      if (!machine_) begin();
      const Index n = machine_->n_examples();
      const Round told = n > 0 ? machine_->advance() : Round{.complete = true, .stuck = true};
      work += kOfRound + cost * static_cast<double>(told.visited * n);
      if (!told.complete) break;
      last_ = told;
      visited_ += told.visited;
      const bool met = target.by_violation ? told.violation <= target.tol : told.worst_gap <= target.tol;
      if (met || told.stuck || static_cast<double>(visited_) >= target.max_epochs * static_cast<double>(n))
        finished.push_back(finish(met || n == 0));
    }
    return finished;
  }

  // Take the machine that is being trained as it is, if any.
  std::vector<TrainedPair> abandon() {
    if (!machine_) return {};
    return {finish(false)};
  }

  void state(State &state) {
    bool training = machine_.has_value();
    Index next = next_, visited = visited_;
    std::size_t started = started_;
    Round last = last_;
    state.number("training", training);
    state.number("next", next);
    state.number("started", started);
    state.number("visited", visited);
    state.number("complete", last.complete);
    state.number("stuck", last.stuck);
    state.number("violation", last.violation);
    state.number("visited_last", last.visited);
    state.number("primal", last.primal);
    state.number("dual", last.dual);
    state.number("worst_gap", last.worst_gap);
    state.number("bias", last.bias);
    const Index n_pairs = static_cast<Index>(pairs_.size());
    state.check(next + training <= n_pairs && started <= start_.pair.size(), "more pairs than there are");
    constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
    state.indices("duals_pair", duals_.pair, any, n_pairs);
    state.indices("duals_row", duals_.row, any, store_->n());
    state.list("duals_value", duals_.value, any);
    state.check(duals_.pair.size() == duals_.row.size() && duals_.pair.size() == duals_.value.size(),
                "entries of different length");
    for (std::size_t t = 0; t < duals_.pair.size(); ++t)
      state.check(learns_from(*store_, pairs_[static_cast<std::size_t>(duals_.pair[t])], duals_.row[t]),
                  "duals of rows that another machine learns from");
    if (state.loads()) {
      next_ = next;
      machine_.reset();
      if (training) begin();
      started_ = started;
      last_ = last;
      visited_ = visited;
    }
    if (training) state.part("machine", *machine_);
  }

  const PairEntries &duals() const { return duals_; }

private:
  static constexpr double kNanoseconds = 3e7, kOfRound = 2e4;

  void begin() {
    const auto [a, b] = pairs_[static_cast<std::size_t>(next_)];
    rows_.clear();
    std::vector<std::int32_t> sign;
    std::vector<double> cap;
    for (const Index g : {a, b})
      for (Index i = store_->group_begin(g); i < store_->group_begin(g + 1); ++i) {
        rows_.push_back(i);
        sign.push_back(g == a ? 1 : -1);
        cap.push_back(cap_[static_cast<std::size_t>(i)]);
      }
    machine_.emplace(StoreView<T>(store_, {a, b}), std::move(sign), std::move(cap), working_set_);
    std::vector<double> duals;
    for (; started_ < start_.pair.size() && start_.pair[started_] == next_; ++started_) {
      duals.resize(rows_.size());
      const auto local = std::lower_bound(rows_.begin(), rows_.end(), start_.row[started_]); // a < b: ascending
      duals[static_cast<std::size_t>(local - rows_.begin())] = start_.value[started_];
    }
    if (!duals.empty()) machine_->set_duals(duals.data());
    last_ = {};
    visited_ = 0;
  }

  TrainedPair finish(bool converged) {
    std::vector<double> a(rows_.size()), scores(rows_.size());
    std::vector<Index> all(rows_.size());
    std::iota(all.begin(), all.end(), 0);
    machine_->duals(a.data());
    machine_->scores(all.data(), static_cast<Index>(all.size()), scores.data());
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == 0) continue;
      duals_.pair.push_back(next_);
      duals_.row.push_back(rows_[i]);
      duals_.value.push_back(a[i]);
    }
    const double travelled = machine_->travelled();
    machine_.reset();
    return {next_++,    converged, last_.violation, last_.primal, last_.dual,       last_.worst_gap,
            last_.bias, visited_,  travelled,       std::move(a), std::move(scores)};
  }

  std::shared_ptr<RowStore<T>> store_;
  std::vector<std::pair<Index, Index>> pairs_;
  std::vector<double> cap_;
  Index working_set_;
  PairEntries start_;
  Index next_ = 0;          // pair
  std::size_t started_ = 0; // entries of start_ that are used up
  std::optional<Smo<T>> machine_;
  std::vector<Index> rows_; // of the store, of the machine's examples
  Round last_;
  Index visited_ = 0;
  PairEntries duals_;
};

} // namespace mm
