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
  double felt;        // sum of the caps of examples with duals
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
  // caps of all rows of the store; `start`: duals to start from, in the order of the pairs; `sample`: rows of the store
  // whose scores are wanted, in ascending order.
  PairBatch(std::shared_ptr<RowStore<T>> store, std::vector<std::pair<Index, Index>> pairs, std::vector<double> cap,
            Index working_set, PairEntries start, std::vector<Index> sample)
      : store_(std::move(store)), pairs_(std::move(pairs)), cap_(std::move(cap)), working_set_(working_set),
        start_(std::move(start)), sample_(std::move(sample)) {}

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
    const Index n_pairs = static_cast<Index>(pairs_.size());
    state.check(next + training <= n_pairs && started <= start_.pair.size(), "more pairs than there are");
    entries(state, "duals", duals_, store_->n());
    for (std::size_t t = 0; t < duals_.pair.size(); ++t)
      state.check(learns_from(*store_, pairs_[static_cast<std::size_t>(duals_.pair[t])], duals_.row[t]),
                  "duals of rows that another machine learns from");
    entries(state, "scores", scores_, static_cast<Index>(sample_.size()));
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
  const PairEntries &scores() const { return scores_; } // of the sample; row: index in the sample

private:
  void entries(State &state, const std::string &name, PairEntries &of, Index n_rows) {
    constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
    state.indices((name + "_pair").c_str(), of.pair, any, static_cast<Index>(pairs_.size()));
    state.indices((name + "_row").c_str(), of.row, any, n_rows);
    state.list((name + "_value").c_str(), of.value, any);
    state.check(of.pair.size() == of.row.size() && of.pair.size() == of.value.size(), "entries of different length");
  }

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
      duals[static_cast<std::size_t>(local(start_.row[started_]))] = start_.value[started_];
    }
    if (!duals.empty()) machine_->set_duals(duals.data());
    last_ = {};
    visited_ = 0;
  }

  Index local(Index row) const { // of a row that is an example of the pair; else -1
    const auto found = std::lower_bound(rows_.begin(), rows_.end(), row); // a < b: ascending
    return found != rows_.end() && *found == row ? found - rows_.begin() : -1;
  }

  TrainedPair finish(bool converged) {
    std::vector<double> a(rows_.size());
    machine_->duals(a.data());
    TrainedPair trained{next_,           converged, last_.violation, last_.primal, last_.dual,
                        last_.worst_gap, machine_->bias(), visited_, 0};
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == 0) continue;
      duals_.pair.push_back(next_);
      duals_.row.push_back(rows_[i]);
      duals_.value.push_back(a[i]);
      trained.felt += cap_[static_cast<std::size_t>(rows_[i])];
    }
    for (std::size_t s = 0; s < sample_.size(); ++s)
      if (const Index i = local(sample_[s]); i >= 0) {
        double score = 0;
        machine_->scores(&i, 1, &score);
        scores_.pair.push_back(next_);
        scores_.row.push_back(static_cast<Index>(s));
        scores_.value.push_back(score);
      }
    machine_.reset();
    ++next_;
    return trained;
  }

  std::shared_ptr<RowStore<T>> store_;
  std::vector<std::pair<Index, Index>> pairs_;
  std::vector<double> cap_;
  Index working_set_;
  PairEntries start_;
  std::vector<Index> sample_;
  Index next_ = 0;          // pair
  std::size_t started_ = 0; // entries of start_ that are used up
  std::optional<Smo<T>> machine_;
  std::vector<Index> rows_; // of the store, of the machine's examples
  Round last_;
  Index visited_ = 0;
  PairEntries duals_, scores_;
};

} // namespace mm
