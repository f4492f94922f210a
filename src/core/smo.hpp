// The block solver of a binary machine with a free bias, as LIBSVM has it: SMO on a working set at a time.
//
//   primal   min_{w,b} 1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i (w.x_i + b))
//   dual     min_a f = 1/2 a'Ka - y'a,   sum a = 0,   a_i between 0 and y_i C_i     (a = y alpha, scores = K a)
// With v = y - scores: optimal when max v over {a < upper} <= min v over {a > lower}. The bias that minimises the
// primal at given scores is a weighted quantile of v, so every round ends with a certificate.
#pragma once

#include "binary_certificate.hpp"
#include "working_set.hpp"

namespace mm {

template <class T> class Smo final : public WorkingSetMachine<T> {
public:
  // sign: +1 or -1 for every local example.
  Smo(StoreView<T> rows, std::vector<std::int32_t> sign, std::vector<double> cap, Index working_set);

  void state(State &) override;

private:
  void select() override;
  bool solve() override;
  Round certified() override;
  void refresh() override;

  BinaryBounds bounds_;
  BinaryLevels levels_{0, 0};
  std::vector<double> v_;
};

} // namespace mm
