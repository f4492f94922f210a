// Blocks of one problem, visited side by side: each by a thread of its own, which moves its own copy of W.
//
// Rounds of some visits of every block: a thread sees its own moves at once, those of the others when the round is over
// and it follows them. So what comes of it depends on the number of blocks, never on timing. Copies of W differ in the
// order in which they add the moves up; they begin anew from W with every call.
//
// Steps of different blocks that do not see each other can overshoot together: the fewer visits a round has, the less
// (Passes watches over it). Rounds should take long beside a meeting of threads, some ten microseconds, and
// following must be cheap beside scoring: so this is for rows of W with many lanes, of which a step moves a few.
#pragma once

#include <exception>
#include <vector>

#include "block.hpp"
#include "moves.hpp"
#include "weights.hpp"

namespace mm {

class SideBySide {
public:
  explicit SideBySide(const std::vector<Block *> &blocks);

  // counts[b] visits of block b, in rounds of `group` visits a block; W is an array.
  void visit(Weights &weights, double scale, const std::vector<Index> &counts, Index group);

private:
  struct Member {
    Block *block = nullptr;
    MoveLog log[2]; // of this round, and of the last one, which others may still read
    Buffer copy;    // of W; the first member has W itself
    std::size_t bytes = 0;
    WeightsView weights{};
    Index left = 0; // visits
    std::exception_ptr failed;
  };

  void visit_round(Member &member, Index round) const;
  void follow_round(Member &member, Index round) const;
  void in_threads(Index rounds);

  std::vector<Member> members_;
  double scale_ = 1;
  Index group_ = 0;
};

} // namespace mm
