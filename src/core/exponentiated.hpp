// Exponentiated gradient steps for the hinge loss (Collins, Globerson, Koo, Carreras, Bartlett 2008; what paper 000
// compares with), as policies beside the exact steps: an example's duals are a distribution p,
//
//   Crammer-Singer   a_m = C ([m = y] - p_m)
//   a binary lane    alpha = C p, over the two outcomes p and 1 - p
//
// and a step is p'_m ~ p_m exp(rate g_m), which keeps p inside the simplex: the constraints hold, none is tight but by rounding.
// Only differences of g matter: with those to the largest one every exponent is at most 0, and the sum of the p' is at
// least the p of that class. Probabilities are read as at least kLeast, a rounding of 1, and written as 0 below it: one
// that underflows comes back, and those that do not matter cost no move of W.
//
// f changes by g.delta + A/2 ||delta||^2, so a rate can be judged without another look at the row: it is halved until f
// does not rise, and grows by a twentieth for the next visit. Rates are in units of 1 / (C A). With ||delta||_2^2 <=
// ||delta||_1^2 / 2 and Pinsker's inequality f falls at every rate up to 4: no smaller one is tried.
//
// The violation is what the example adds to the duality gap, in units of its cap: sum p_m (max g - g_m).
#pragma once

#include "binary.hpp"
#include "exponential.hpp"
#include "subproblem_crammer_singer.hpp"

namespace mm::MM_ISA {

inline constexpr double kLeast = 1e-16; // probability

struct Rates {
  static constexpr double safe = kSlowestRate, most = kFastestRate, grow = 1.05, shrink = 0.5;
  static double unit(const Example &e) { return smaller(1 / (e.curvature * e.cap), 1e100); }
};

struct ExponentiatedCrammerSinger : CrammerSinger<false> {
  static Solved solve(double *s, const double *a, double *next, const Example &e, double threshold) {
    const Index y = e.label;
    const double inverse = 1 / e.cap, unit = Rates::unit(e);
    margins(s, e);
    Double4 top = splat<Double4>(-kInfinity);
    for (Index m = 0; m < e.lanes; m += 4) top = larger(top, load<Double4>(s + m));
    const double highest = horizontal_max(top);

    // Shortfalls max g - g_m in place of s; the class itself, for which a has another meaning, and padding are far off.
    constexpr double far = 1e300;
    const double own = highest - s[y], own_p = larger(1 - a[y] * inverse, kLeast);
    s[y] = -kInfinity;
    const auto p = [&](Index m) { return larger(-inverse * load<Double4>(a + m), splat<Double4>(kLeast)); };
    Double4 expected = {}, mass = {};
    for (Index m = 0; m < e.lanes; m += 4) {
      const Double4 short_by = highest - load<Double4>(s + m);
      const Double4 here = short_by < far ? p(m) : Double4{};
      mass += here;
      expected += short_by < far ? here * short_by : Double4{};
      store(s + m, smaller(short_by, splat<Double4>(far)));
    }
    const double violation = (own_p * own + horizontal_sum(expected)) / (own_p + horizontal_sum(mass));
    if (!(violation > threshold)) return {violation, false, false};

    double rate = *e.rate;
    const double least = -kLeast * e.cap;
    for (;; rate = larger(Rates::shrink * rate, Rates::safe)) {
      const double speed = -rate * unit;
      Double4 sum = {};
      for (Index m = 0; m < e.lanes; m += 4) {
        const Double4 short_by = load<Double4>(s + m), power = speed * short_by, before = p(m);
        // Below kLeast^2, and so below kLeast of the sum: not worth an exponential.
        const Double4 enough = before > kLeast ? splat<Double4>(-74) : splat<Double4>(-37);
        const Long4 nothing = power < enough || short_by >= far;
        Double4 moved = {};
        if (!all(nothing)) moved = nothing ? moved : before * quick_exp_of_negative(power);
        store(next + m, moved);
        sum += moved;
      }
      const double scale = -e.cap / (horizontal_sum(sum) + own_p * quick_exp_of_negative(speed * own));
      Double4 slope = {}, square = {}, total = {};
      for (Index m = 0; m < e.lanes; m += 4) {
        const Double4 short_by = load<Double4>(s + m), scaled = scale * load<Double4>(next + m);
        const Double4 moved = scaled < least ? scaled : Double4{};
        store(next + m, moved);
        const Double4 delta = short_by < far ? moved - load<Double4>(a + m) : Double4{};
        total += moved;
        slope += short_by * delta;
        square += delta * delta;
      }
      next[y] = smaller(-horizontal_sum(total), e.cap);
      const double delta = next[y] - a[y];
      const double falls_by = horizontal_sum(slope) + own * delta; // but for the curvature
      if (0.5 * e.curvature * (horizontal_sum(square) + delta * delta) <= falls_by) break;
      if (rate <= Rates::safe) return {violation, false, false}; // a matter of rounding
    }
    *e.rate = smaller(Rates::grow * rate, Rates::most);
    return {violation, true, false};
  }
};

struct ExponentiatedOneVsRest : OneVsRest<false> {
  // One lane, or four: alpha moves, and so does its rate. Returns the violation.
  template <class T> static T lane_step(T gradient, T &alpha, T &rate, const Example &e) {
    const double unit = Rates::unit(e);
    const T least = splat<T>(kLeast), start = alpha;
    const T p = larger(alpha * (1 / e.cap), least), rest = larger(1 - alpha * (1 / e.cap), least);
    const T size = larger(gradient, -gradient);
    using Mask = typename MaskOf<T>::type;
    const Mask falls = gradient > 0, rests = (falls ? p : rest) <= kLeast;
    if (all(rests)) return T{};
    Mask done = {};
    for (;;) {
      const T factor = quick_exp_of_negative(-rate * unit * size);
      const T inside = falls ? p * factor : p, outside = falls ? rest : rest * factor;
      const T share = inside / (inside + outside);
      const T moved = share > kLeast ? e.cap * share : T{}, delta = moved - start;
      const Mask good = delta * (gradient + 0.5 * e.curvature * delta) <= 0, last = rate <= Rates::safe;
      alpha = !done && good ? moved : alpha;
      const T faster = smaller(Rates::grow * rate, splat<T>(Rates::most));
      const T slower = larger(Rates::shrink * rate, splat<T>(Rates::safe));
      rate = done ? rate : good ? faster : slower;
      done = done || good || last;
      if (all(done)) return size * (falls ? p : rest);
    }
  }

  static Solved solve(double *s, const double *a, double *next, const Example &e, double threshold) {
    double violation = 0;
    if (e.lanes == 1) {
      const double z = e.label >= 0 ? 1 : -1;
      double alpha = z * a[0];
      violation = lane_step(z * s[0] - 1, alpha, e.rate[0], e);
      next[0] = z * alpha;
    } else {
      Double4 worst = {}, lane = {0, 1, 2, 3};
      const Double4 label = splat<Double4>(static_cast<double>(e.label)), one = splat<Double4>(1);
      for (Index m = 0; m < e.lanes; m += 4, lane += 4) {
        const Double4 z = lane == label ? one : -one, score = load<Double4>(s + m);
        Double4 alpha = z * load<Double4>(a + m), rate = load<Double4>(e.rate + m);
        const Double4 gradient = score > -kInfinity ? z * score - 1 : Double4{}; // padding is at rest
        worst = larger(worst, lane_step(gradient, alpha, rate, e));
        store(e.rate + m, rate);
        store(next + m, z * alpha);
      }
      violation = horizontal_max(worst);
    }
    return {violation, violation > threshold, false};
  }
};

} // namespace mm::MM_ISA
