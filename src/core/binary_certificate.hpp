// The certificate of a binary machine with duals signed by their label (see smo.hpp for the problem).
#pragma once

#include <vector>

#include "kernel_machine.hpp"

namespace mm {

// Bounds of the duals: 0 and y C in one order or the other.
struct BinaryBounds {
  std::vector<double> upper, lower;

  BinaryBounds(const std::vector<std::int32_t> &sign, const std::vector<double> &cap);
};

// max v over {a < upper} and min v over {a > lower}; without a bias, zero is what v is compared with.
struct BinaryLevels {
  double top, low;
};

// v receives y - scores.
BinaryLevels binary_levels(const BinaryBounds &, const std::vector<double> &a, const std::vector<double> &scores,
                           bool free_bias, std::vector<double> &v);

struct BinaryCertificate {
  Round round; // complete
  BinaryLevels levels;
};

BinaryCertificate binary_certificate(const std::vector<double> &cap, const BinaryBounds &, const std::vector<double> &a,
                                     const std::vector<double> &scores, bool free_bias, std::vector<double> &v);

} // namespace mm
