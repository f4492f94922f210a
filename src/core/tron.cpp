#include "tron.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mm {

namespace {
constexpr double kAccuracy = 0.1;            // of conjugate gradients, relative to ||g||
constexpr double kAccept = 1e-4;             // least share of the promised decrease (Lin, Weng and Keerthi: eta_0)
constexpr double kPoor = 0.25, kGood = 0.75; // eta_1, eta_2
constexpr double kShrink = 0.25, kHalve = 0.5, kGrow = 4; // sigma_1, sigma_2, sigma_3
constexpr double kNoise = 1e-11;             // relative to P: smaller promises are judged by the gradient
constexpr double kCostOfWeight = 4;          // of a phase over the weights, in multiply-adds an entry
constexpr Index kTogether = 64;              // features whose weights the lanes go through before the next

template <class Integer>
void mark(const Block &block, std::vector<bool> &occurs) {
  const auto *indptr = static_cast<const Integer *>(block.rows().indptr);
  const auto *indices = static_cast<const Integer *>(block.rows().indices);
  for (Index e = 0; e < block.n_examples(); ++e)
    for (Integer k = indptr[block.row(e)]; k < indptr[block.row(e) + 1]; ++k)
      occurs[static_cast<std::size_t>(indices[k])] = true;
}

// Rows of W that some example has a value for; the others stay zero.
std::vector<Index> occurring(const Block &block, Index n_weights) {
  const Rows &rows = block.rows();
  std::vector<bool> occurs(static_cast<std::size_t>(n_weights), rows.layout == Layout::dense);
  std::fill(occurs.begin() + rows.n_features, occurs.end(), true); // the intercept
  if (rows.layout == Layout::csr32) mark<std::int32_t>(block, occurs);
  if (rows.layout == Layout::csr64) mark<std::int64_t>(block, occurs);
  std::vector<Index> found;
  for (Index j = 0; j < n_weights; ++j)
    if (occurs[static_cast<std::size_t>(j)]) found.push_back(j);
  return found;
}
} // namespace

Tron::Tron(Block &block, Weights &weights, double tolerance)
    : block_(block), weights_(weights), tolerance_(tolerance), all_(static_cast<std::size_t>(weights.lanes())),
      n_weights_(weights.n_rows()), stride_(weights.stride()) {
  for (std::size_t m = 0; m < all_.size(); ++m) all_[m].lane = static_cast<std::int32_t>(m);
  live_ = all_;
  const auto size = static_cast<std::size_t>(n_weights_ * stride_);
  const double *w = static_cast<const double *>(weights.data());
  query_.assign(w, w + size);
  out_.resize(size);
  step_.resize(size);
  residual_.resize(size);
  occurring_ = occurring(block_, n_weights_);
}

Index Tron::phase_size() const {
  return phase_ == Phase::pass ? block_.n_examples() : static_cast<Index>(occurring_.size());
}

double Tron::phase_cost() const {
  const double lanes = static_cast<double>(stride_);
  if (phase_ != Phase::pass) return kCostOfWeight * lanes;
  // scores, and twice as much for what is added to weights that come from far
  return 3 * block_.cost_of_pass() / static_cast<double>(block_.n_examples()) * lanes /
         static_cast<double>(block_.alpha_stride());
}

std::vector<Tron::Record> Tron::run(double budget, Index max_passes) {
  std::vector<Record> records;
  while (budget > 0 && !finished() && static_cast<Index>(records.size()) < max_passes) {
    const double cost = phase_cost(), affordable = budget / cost + 1;
    const Index left = phase_size() - cursor_;
    const Index count = affordable < static_cast<double>(left) ? static_cast<Index>(affordable) : left;
    if (phase_ == Phase::pass) pass(cursor_, cursor_ + count);
    else
      for (Index begin = cursor_, end = cursor_ + count; begin < end; begin += kTogether)
        update(begin, std::min(end, begin + kTogether));
    cursor_ += count;
    budget -= static_cast<double>(count) * cost;
    if (cursor_ == phase_size()) end_phase(records);
  }
  return records;
}

void Tron::pass(Index begin, Index end) {
  std::vector<std::int32_t> lane;
  std::vector<unsigned char> evaluates;
  std::vector<double> loss;
  for (const Lane &one : live_) {
    lane.push_back(one.lane);
    evaluates.push_back(one.evaluates);
    loss.push_back(one.loss);
  }
  block_.respond({lane.data(), evaluates.data(), static_cast<Index>(live_.size()), stride_, query_.data(), out_.data(),
                  loss.data(), &visited_},
                 begin, end);
  for (std::size_t c = 0; c < live_.size(); ++c) live_[c].loss = loss[c];
}

// The work of the other phases on the features that occur, from the one at `begin` to the one before `end`.
void Tron::update(Index begin, Index end) {
  double *const W = static_cast<double *>(weights_.data());
  for (std::size_t c = 0; c < live_.size(); ++c) {
    Lane &lane = live_[c];
    const Index across = stride_, at = static_cast<Index>(c);
    double *const query = query_.data() + at, *const out = out_.data() + at, *const step = step_.data() + at,
           *const residual = residual_.data() + at, *const w = W + lane.lane;
    const auto each = [&](const auto &work) {
      for (Index k = begin; k < end; ++k) work(occurring_[static_cast<std::size_t>(k)]);
    };
    if (phase_ == Phase::sum) { // out <- H query, or -g at the query
      const double own = lane.evaluates ? -1 : 1;
      each([&](Index feature) {
        const Index j = feature * across;
        out[j] += own * query[j];
        lane.query_response += query[j] * out[j];
        lane.squared_query += query[j] * query[j];
        lane.squared_response += out[j] * out[j];
        lane.largest_response = std::max(lane.largest_response, std::abs(out[j]));
      });
    } else if (phase_ == Phase::move) {
      if (!lane.evaluates)
        each([&](Index feature) {
          const Index j = feature * across;
          step[j] += lane.length * query[j];
          residual[j] -= lane.length * out[j];
          lane.next_residual += residual[j] * residual[j];
        });
      else if (lane.accepted)
        each([&](Index feature) {
          const Index j = feature * across;
          w[feature * weights_.stride()] = query[j];
          residual[j] = out[j];
          step[j] = 0;
        });
      else
        each([&](Index feature) { step[feature * across] *= lane.length; });
    } else { // turn: the next query
      if (lane.evaluates)
        each([&](Index feature) {
          query[feature * across] = w[feature * weights_.stride()] + step[feature * across];
        });
      else
        each([&](Index feature) {
          const Index j = feature * across;
          query[j] = residual[j] + lane.length * query[j];
        });
    }
  }
  if (phase_ == Phase::turn)
    for (Index k = begin; k < end; ++k) {
      double *const cleared = out_.data() + occurring_[static_cast<std::size_t>(k)] * stride_;
      std::fill(cleared, cleared + stride_, 0.0);
    }
}

void Tron::end_phase(std::vector<Record> &records) {
  cursor_ = 0;
  switch (phase_) {
  case Phase::pass: phase_ = Phase::sum; return;
  case Phase::sum:
    for (Lane &lane : live_)
      if (lane.evaluates) judge_evaluation(lane);
      else plan_move(lane);
    phase_ = Phase::move;
    return;
  case Phase::move: {
    for (Lane &lane : live_) {
      plan_turn(lane);
      all_[static_cast<std::size_t>(lane.lane)] = lane;
    }
    Record record{visited_, 0, 0, 0, 0};
    for (const Lane &lane : all_) {
      const double gap = 0.5 * lane.squared_gradient;
      record.steepest = std::max(record.steepest, lane.steepest);
      record.primal += lane.primal;
      record.gap += gap;
      record.worst_gap = std::max(record.worst_gap, gap / std::max(lane.primal, 1e-300));
    }
    records.push_back(record);
    visited_ = 0;
    drop_finished();
    phase_ = Phase::turn;
    return;
  }
  case Phase::turn: phase_ = Phase::pass; return;
  }
}

// Moves to the query or not, and the radius for what follows.
void Tron::judge_evaluation(Lane &lane) const {
  const double primal = 0.5 * lane.squared_query + lane.loss, promised = -lane.model, gained = lane.primal - primal;
  const bool noise = promised <= kNoise * lane.primal;
  const double size = std::sqrt(lane.squared_step);
  lane.accepted = !lane.started || gained > kAccept * promised || (noise && lane.squared_response < lane.squared_gradient);
  if (lane.started && !noise) { // along s, P is about the parabola with its slope at w and its value at w + s
    if (std::isinf(lane.radius)) lane.radius = size; // the first step
    const double bend = -gained - lane.slope;
    const double best = bend <= 0 ? kGrow * size : std::max(kShrink, -0.5 * lane.slope / bend) * size;
    if (gained < kAccept * promised) lane.radius = std::min(best, kHalve * size);
    else if (gained < kPoor * promised) lane.radius = std::max(kShrink * lane.radius, std::min(best, kHalve * lane.radius));
    else if (gained < kGood * promised) lane.radius = std::max(kShrink * lane.radius, std::min(best, kGrow * lane.radius));
    else if (lane.at_radius) lane.radius *= kGrow;
    else lane.radius = std::max(lane.radius, std::min(best, kGrow * lane.radius));
  }
  if (lane.accepted) {
    lane.primal = primal;
    lane.squared_gradient = lane.squared_response;
    lane.steepest = lane.largest_response;
  } else {
    lane.length = noise ? 0 : lane.radius / size; // 0: no better w is left in float64
  }
}

// How far along the query: to the model's minimum, or to the radius.
void Tron::plan_move(Lane &lane) const {
  const double along = lane.along, squared_query = lane.squared_query, squared_radius = lane.radius * lane.radius;
  lane.length = lane.residual / lane.query_response;
  const auto squared = [&](double t) { return lane.squared_step + t * (2 * along + t * squared_query); };
  lane.at_radius = squared(lane.length) >= squared_radius;
  if (lane.at_radius) {
    const double room = std::max(0.0, squared_radius - lane.squared_step);
    lane.length = room / (along + std::sqrt(along * along + squared_query * room));
  }
  // r.query = ||r||^2 = -g.query: conjugate gradients
  lane.slope -= lane.length * lane.residual;
  lane.model -= lane.length * (lane.residual - 0.5 * lane.length * lane.query_response);
  lane.squared_step = squared(lane.length);
}

// What the lane asks next.
void Tron::plan_turn(Lane &lane) const {
  if (!lane.evaluates) {
    lane.evaluates = lane.at_radius || lane.next_residual <= kAccuracy * kAccuracy * lane.squared_gradient;
    const double turn = lane.next_residual / lane.residual;
    lane.along = turn * (lane.along + lane.length * lane.squared_query);
    lane.residual = lane.next_residual;
    lane.length = turn;
  } else if (lane.accepted) {
    lane.started = true;
    lane.evaluates = lane.at_radius = false;
    lane.residual = lane.squared_gradient;
    lane.slope = lane.model = lane.squared_step = lane.along = lane.length = 0;
  } else {
    const double bend = lane.model - lane.slope, t = lane.length; // 1/2 s.H s
    lane.slope *= t;
    lane.model = lane.slope + t * t * bend;
    lane.squared_step *= t * t;
  }
  lane.loss = lane.query_response = lane.squared_query = lane.squared_response = lane.largest_response = 0;
  lane.next_residual = 0;
}

void Tron::drop_finished() {
  std::vector<Index> kept;
  std::vector<Lane> lanes;
  for (std::size_t c = 0; c < live_.size(); ++c) {
    const Lane &lane = live_[c];
    const bool refused = lane.evaluates && lane.squared_step == 0;
    // Of a state that nobody has computed: conjugate gradients would go on for ever.
    const bool lost = !std::isfinite(lane.primal + lane.residual + lane.length + lane.squared_step);
    if (0.5 * lane.squared_gradient <= tolerance_ * lane.primal || refused || lost) continue;
    kept.push_back(static_cast<Index>(c));
    lanes.push_back(lane);
  }
  if (kept.size() == live_.size()) return;
  const Index count = static_cast<Index>(kept.size()), stride = padded(std::max<Index>(count, 1), 4);
  for (std::vector<double> *values : {&query_, &step_, &residual_, &out_}) {
    double *v = values->data();
    for (Index j = 0; j < n_weights_; ++j) {
      for (Index c = 0; c < count; ++c) v[j * stride + c] = v[j * stride_ + kept[static_cast<std::size_t>(c)]];
      for (Index c = count; c < stride; ++c) v[j * stride + c] = 0;
    }
    values->resize(static_cast<std::size_t>(n_weights_ * stride));
  }
  live_ = std::move(lanes);
  stride_ = stride;
}

// Lanes as arrays by name, one entry a lane.
struct Tron::Lanes {
  std::vector<Lane> &lanes;

  void state(State &state) {
    constexpr std::pair<const char *, bool Lane::*> answers[] = {{"started", &Lane::started},
                                                                 {"evaluates", &Lane::evaluates},
                                                                 {"at_radius", &Lane::at_radius},
                                                                 {"accepted", &Lane::accepted}};
    constexpr std::pair<const char *, double Lane::*> numbers[] = {{"primal", &Lane::primal},
                                                                   {"squared_gradient", &Lane::squared_gradient},
                                                                   {"steepest", &Lane::steepest},
                                                                   {"radius", &Lane::radius},
                                                                   {"slope", &Lane::slope},
                                                                   {"model", &Lane::model},
                                                                   {"squared_step", &Lane::squared_step},
                                                                   {"residual", &Lane::residual},
                                                                   {"along", &Lane::along},
                                                                   {"loss", &Lane::loss},
                                                                   {"query_response", &Lane::query_response},
                                                                   {"squared_query", &Lane::squared_query},
                                                                   {"squared_response", &Lane::squared_response},
                                                                   {"largest_response", &Lane::largest_response},
                                                                   {"length", &Lane::length},
                                                                   {"next_residual", &Lane::next_residual}};
    const std::size_t n = lanes.size();
    std::vector<unsigned char> answer(n);
    for (const auto &[name, member] : answers) {
      for (std::size_t c = 0; c < n; ++c) answer[c] = lanes[c].*member;
      state.array(name, answer);
      for (std::size_t c = 0; c < n; ++c) {
        state.check(answer[c] <= 1, "what is neither true nor false of a lane");
        lanes[c].*member = answer[c] != 0;
      }
    }
    std::vector<double> number(n);
    for (const auto &[name, member] : numbers) {
      for (std::size_t c = 0; c < n; ++c) number[c] = lanes[c].*member;
      state.array(name, number);
      for (std::size_t c = 0; c < n; ++c) {
        state.check(member == &Lane::radius ? number[c] > 0 : std::isfinite(number[c]), "a number of a lane out of range");
        lanes[c].*member = number[c];
      }
    }
  }
};

void Tron::state(State &state) {
  std::vector<std::int32_t> lane;
  for (const Lane &one : live_) lane.push_back(one.lane);
  state.indices("lane", lane, weights_.lanes(), weights_.lanes());
  for (std::size_t c = 1; c < lane.size(); ++c) state.check(lane[c] > lane[c - 1], "lanes that do not increase");
  if (state.loads()) {
    live_.assign(lane.size(), Lane{});
    for (std::size_t c = 0; c < lane.size(); ++c) live_[c].lane = lane[c];
    stride_ = padded(std::max<Index>(static_cast<Index>(lane.size()), 1), 4);
    for (std::vector<double> *values : {&query_, &step_, &residual_, &out_})
      values->resize(static_cast<std::size_t>(n_weights_ * stride_));
  }
  Lanes live{live_}, all{all_};
  state.part("live", live);
  state.part("all", all);
  constexpr double most = 1e150; // whose squares are numbers, as of weights
  const auto vectors = [&](const char *name, std::vector<double> &values) {
    state.array(name, values);
    for (const double value : values) state.check(std::abs(value) <= most, "a vector with numbers that are too large");
  };
  vectors("query", query_);
  vectors("out", out_);
  vectors("step", step_);
  vectors("residual", residual_);
  int phase = static_cast<int>(phase_);
  state.number("phase", phase);
  state.check(phase <= static_cast<int>(Phase::turn), "a phase that there is not");
  phase_ = static_cast<Phase>(phase);
  state.number("cursor", cursor_);
  state.check(cursor_ <= phase_size(), "a phase that has gone past its end");
  state.number("visited", visited_);
  state.check(visited_ <= block_.n_examples(), "more visits than there are examples");
}

} // namespace mm
