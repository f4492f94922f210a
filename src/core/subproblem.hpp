// What every formulation's policy speaks: one example, its scores and its duals in, new duals out.
//
// Conventions
//   s     scores of the example's lanes, padded with -infinity to a multiple of four (a single lane: none)
//   a     its duals in the same lanes, padded with zeros and signed so that w_m = sum_i a_i^m x_i
//   label lane of its class; for separable lanes it may be absent (-1): every lane is then a negative
//
// A policy has
//   separable              whether lanes are problems of their own (their objectives are summed apart)
//   loss(s, e, scale, parts)  separable: adds the primal loss of every lane, at a scale of s, to parts[lane]
//   losses(s, e, scales)      else: the primal loss at four scales of s at once
//   dual(a, e, parts)      adds the linear and diagonal terms of the dual f, to parts[lane] or, not separable, parts[0]
//   solve(s, a, next, e, threshold)  minimises f over the example's duals; overwrites s
#pragma once

#include "vec.hpp"

namespace mm::MM_ISA {

struct Example {
  double curvature; // A = ||x||^2, scaled by the loop (acceleration)
  double cap;       // C_i
  Index label;
  Index lanes;      // padded number of lanes
  double *rate = nullptr; // exponentiated gradient: its learning rates, one, or one a separable lane
  // Crammer-Singer: the largest score of lanes that are not here, as they have no duals.
  double outside = -kInfinity;
  double doubt = 0; // of its losses: by how much its margins may be too large
};

struct Solved {
  double violation; // of optimality before the step
  bool changed;     // `next` was written
  bool bound;       // every dual is at a bound: shrinking may leave the example out
  bool short_of_lanes = false; // one of the lanes outside is to have a dual, and nothing was written
};

} // namespace mm::MM_ISA
