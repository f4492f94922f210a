#include "decimal.hpp"

#include <charconv>
#include <cmath>

namespace mm {

namespace {

// Whether a number that no double holds is too large, rather than too small: by the decimal exponent of its first
// digit that is not 0.
bool is_large(const char *p, const char *end) {
  long long exponent = 0, leading = -1;
  bool point = false, found = false;
  for (; p != end && (is_digit(*p) || *p == '.'); ++p) {
    if (*p == '.') {
      point = true;
      continue;
    }
    found |= *p != '0';
    if (!found && point) --exponent;
    if (found && !point) ++leading;
  }
  if (leading > 0) exponent = leading;
  if (p != end && (*p == 'e' || *p == 'E')) {
    const bool down = ++p != end && *p == '-';
    if (p != end && (*p == '-' || *p == '+')) ++p;
    long long written = 0;
    for (; p != end && is_digit(*p); ++p)
      if (written < 1000000000000) written = written * 10 + (*p - '0');
    exponent += down ? -written : written;
  }
  return exponent > 0;
}

} // namespace

Decimal read_decimal_slowly(const char *begin, const char *end, double &value) {
  const bool negative = begin != end && *begin == '-';
  if (begin != end && (*begin == '-' || *begin == '+')) ++begin;
  if (begin == end || *begin == '-') return Decimal::not_a_number; // from_chars would take a second sign
  double magnitude = 0;
  const auto [stopped, error] = std::from_chars(begin, end, magnitude);
  if (error == std::errc::invalid_argument || stopped != end) return Decimal::not_a_number;
  if (error == std::errc::result_out_of_range) {
    if (is_large(begin, end)) return Decimal::too_large;
    magnitude = 0;
  } else if (!is_digit(*begin) && *begin != '.') {
    return Decimal::not_finite; // nan, inf
  } else if (!std::isfinite(magnitude)) {
    return Decimal::too_large;
  }
  value = negative ? -magnitude : magnitude;
  return Decimal::number;
}

} // namespace mm
