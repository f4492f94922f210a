// A small quadratic problem in a box, solved exactly: the subproblem (12) of paper 002.
//
//   min_x 1/2 (x - x0)'Q(x - x0) + g'(x - x0),   0 <= x <= upper
// Q is positive semidefinite, row-major. Single variables are minimised over, one after the other, until about those
// are free that will be. Then an active set method: Newton's step in the variables that are free, as far as
// the box allows; one that meets its bound leaves; when the free ones are at their minimum, the bound variable whose
// gradient points inside most enters. Variables at a bound are at it exactly.
#pragma once

#include <vector>

namespace mm {

class BoxQp {
public:
  // x: x0 in, the solution out. g: gradient at x0 in, at the solution out.
  void solve(const std::vector<double> &Q, const std::vector<double> &upper, std::vector<double> &x,
             std::vector<double> &g);

private:
  bool newton(const std::vector<double> &Q, const std::vector<double> &g, std::size_t q);

  std::vector<char> free_;
  std::vector<std::size_t> which_;
  std::vector<double> factor_, column_, direction_;
};

} // namespace mm
