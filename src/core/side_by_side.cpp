#include "side_by_side.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

namespace mm {

SideBySide::SideBySide(const std::vector<Block *> &blocks) : members_(blocks.size()) {
  for (std::size_t b = 0; b < blocks.size(); ++b) members_[b].block = blocks[b];
}

void SideBySide::visit_round(Member &member, Index round) const {
  MoveLog &log = member.log[round % 2];
  log.clear();
  const Index here = std::min(member.left, group_);
  if (here == 0 || member.failed) return;
  member.left -= here;
  try {
    member.block->visit(member.weights, scale_, here, &log);
  } catch (...) {
    member.failed = std::current_exception();
  }
}

void SideBySide::follow_round(Member &member, Index round) const {
  for (const Member &other : members_)
    if (&other != &member) member.block->follow(member.weights, other.log[round % 2]);
}

void SideBySide::in_threads(Index rounds) {
  enum class Gate { shut, open, off };
  std::atomic<Gate> gate{Gate::shut};
  std::barrier meeting(static_cast<std::ptrdiff_t>(members_.size()));
  const auto take_part = [&](Member &member) {
    for (Index round = 0; round < rounds; ++round) {
      visit_round(member, round);
      meeting.arrive_and_wait(); // with two logs a member, once a round is enough
      follow_round(member, round);
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(members_.size());
  const auto end = [&](Gate how) {
    gate = how;
    gate.notify_all();
    if (how == Gate::open) take_part(members_[0]);
    for (std::thread &thread : threads) thread.join();
  };
  try {
    for (std::size_t number = 1; number < members_.size(); ++number)
      threads.emplace_back([&, number] {
        (void)std::uncaught_exceptions(); // asks for the memory that exceptions of a thread need, while there is some
        gate.wait(Gate::shut);
        if (gate == Gate::open) take_part(members_[number]);
      });
  } catch (...) { // no more threads are to be had, or no memory for them
    end(Gate::off);
    throw std::bad_alloc();
  }
  end(Gate::open);
}

void SideBySide::visit(Weights &weights, double scale, const std::vector<Index> &counts, Index group) {
  scale_ = scale;
  group_ = group;
  for (std::size_t number = 0; number < members_.size(); ++number) {
    Member &member = members_[number];
    member.left = counts[number];
    member.weights = weights.view();
    member.block->hold_back(member.weights);
    if (number == 0) continue;
    if (member.bytes != weights.bytes()) member.copy = allocate_zeroed(weights.bytes());
    member.bytes = weights.bytes();
    member.weights.data = member.copy.get();
    std::memcpy(member.weights.data, weights.data(), member.bytes);
  }
  const Index most = *std::max_element(counts.begin(), counts.end());
  in_threads((most + group - 1) / group);
  for (Member &member : members_)
    if (member.failed) std::rethrow_exception(std::exchange(member.failed, nullptr));
}

} // namespace mm
