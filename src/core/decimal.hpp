// Decimal text to the nearest double, exactly rounded, at a few nanoseconds a number.
//
// A number is w 10^q with w an integer of at most 19 digits. Its digits are read eight at a time. Then, in this order:
//   1. w times the first 128 bits of 10^q. What was cut off makes the product uncertain by less than two units in its
//      128th bit: if that cannot change how it is rounded to 53 bits, the result is right.
//   2. Products that lie on or beside a rounding boundary, mostly numbers such as 0.25 that a double holds exactly:
//      if w < 2^53 and |q| <= 22, then w and 10^|q| are doubles, and one multiplication or division rounds once.
//   3. Everything else (more digits, extreme exponents, true ties): std::from_chars.
#pragma once

#include <array>
#include <bit>
#include <cfloat>
#include <cstdint>
#include <cstring>

namespace mm {

static_assert(FLT_EVAL_METHOD == 0, "step 2 needs double arithmetic that rounds once");

// 10^q as significand * 2^exponent, the significand's top bit set and bits after the 128th cut off.
struct PowerOfTen {
  std::uint64_t high, low;
  int exponent;
};

// 5^54 is the last power that fits into 126 bits, which keeps the divisions below in 128.
inline constexpr int largest_power = 54;

__extension__ typedef unsigned __int128 Wide;

constexpr std::array<PowerOfTen, 2 * largest_power + 1> powers_of_ten() {
  std::array<PowerOfTen, 2 * largest_power + 1> table{};
  Wide five = 1; // 5^q
  for (int q = 0; q <= largest_power; ++q, five *= 5) {
    int bits = 0;
    while (bits < 128 && (five >> bits) != 0) ++bits;
    const Wide top = five << (128 - bits);
    table[static_cast<std::size_t>(largest_power + q)] = {static_cast<std::uint64_t>(top >> 64),
                                                         static_cast<std::uint64_t>(top), bits - 128 + q};
    if (q == 0) continue;
    // 2^(bits - 1) < 5^q < 2^bits, so 2^(127 + bits) / 5^q has 128 bits: long division, bit by bit.
    Wide quotient = 0, remainder = Wide(1) << (bits - 1);
    for (int step = 0; step < 128; ++step) {
      remainder <<= 1;
      quotient <<= 1;
      if (remainder >= five) {
        remainder -= five;
        quotient |= 1;
      }
    }
    table[static_cast<std::size_t>(largest_power - q)] = {static_cast<std::uint64_t>(quotient >> 64),
                                                         static_cast<std::uint64_t>(quotient), -(127 + bits) - q};
  }
  return table;
}
inline constexpr auto power_of_ten = powers_of_ten();

inline constexpr double exact_power_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
inline constexpr std::uint64_t small_power_of_ten[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

inline std::uint64_t load_eight(const char *p) {
  std::uint64_t bytes;
  std::memcpy(&bytes, p, 8);
  if constexpr (std::endian::native == std::endian::big) bytes = __builtin_bswap64(bytes);
  return bytes;
}

// The number that eight bytes 0..9 spell, the first digit in the lowest byte.
inline std::uint64_t eight_digits(std::uint64_t digits) {
  digits = digits * 10 + (digits >> 8); // pairs, in every other byte
  const std::uint64_t mask = 0x000000FF000000FF;
  return ((digits & mask) * (100 + (1000000ull << 32)) + ((digits >> 16) & mask) * (1 + (10000ull << 32))) >> 32;
}

// Reads digits behind those that are in `number` already; modulo 2^64. Reads up to 7 bytes behind the last digit.
inline const char *take_digits(const char *p, std::uint64_t &number) {
  for (;;) {
    const std::uint64_t digits = load_eight(p) ^ 0x3030303030303030; // '0'..'9' become 0..9
    // The first byte that is above 9 has its top bit set here; those behind it may be wrong.
    const std::uint64_t others = ((digits + 0x7676767676767676) | digits) & 0x8080808080808080;
    if (others == 0) {
      number = number * 100000000 + eight_digits(digits);
      p += 8;
      continue;
    }
    // Shifted up, so that the missing digits are leading zeros: no branch on the number of digits.
    const int count = std::countr_zero(others) >> 3;
    number = number * small_power_of_ten[count] + eight_digits((digits << 8) << (56 - 8 * count));
    return p + count;
  }
}

// w 10^q, rounded to nearest, ties to even; false if it cannot tell.
inline bool scaled(std::uint64_t w, int q, double &value) {
  if (w == 0) {
    value = 0;
    return true;
  }
  if (q < -largest_power || q > largest_power) return false;
  const PowerOfTen &power = power_of_ten[static_cast<std::size_t>(q + largest_power)];
  const int shift = std::countl_zero(w);
  const std::uint64_t top = w << shift;
  const Wide product = Wide(top) * power.high + static_cast<std::uint64_t>((Wide(top) * power.low) >> 64);
  const std::uint64_t high = static_cast<std::uint64_t>(product >> 64), low = static_cast<std::uint64_t>(product);
  const int upper = static_cast<int>(high >> 63); // bit 127 or bit 126 is the first one
  const std::uint64_t mask = (std::uint64_t(1) << (9 + upper)) - 1, rest = high & mask;
  const std::uint64_t round = (high >> (9 + upper)) & 1;
  // The product is in [product, product + 2): does the next boundary lie in there, or is this a tie?
  if ((rest == mask && low >= ~std::uint64_t(1)) || ((rest | low) == 0 && round)) {
    if (w > (std::uint64_t(1) << 53) || q < -22 || q > 22) return false;
    value = q < 0 ? static_cast<double>(w) / exact_power_of_ten[-q] : static_cast<double>(w) * exact_power_of_ten[q];
    return true;
  }
  const std::uint64_t significand = high >> (10 + upper); // 53 bits; its top bit adds 1 to the exponent below
  const std::uint64_t exponent = static_cast<std::uint64_t>(64 + 10 + upper + 64 - shift + power.exponent + 52 + 1022);
  value = std::bit_cast<double>((exponent << 52) + significand + round); // a carry goes into the exponent, as it should
  return true;
}

// Reads [+-]digits[.digits][e[+-]digits] and returns what follows it; null if it is something else, or for step 3.
// Reads up to 7 bytes behind the first byte that is no part of a number.
inline const char *read_decimal(const char *p, double &value) {
  const bool negative = *p == '-';
  p += negative | (*p == '+');
  const char *const begin = p;
  std::uint64_t w = 0;
  p = take_digits(p, w);
  std::ptrdiff_t count = p - begin;
  int q = 0;
  if (*p == '.') {
    const char *const point = ++p;
    p = take_digits(p, w);
    count += p - point;
    if (count > 400) return nullptr;
    q = static_cast<int>(point - p);
  }
  if (count > 19) { // zeros in front do not count
    if (count > 400) return nullptr;
    for (const char *zero = begin; *zero == '0' || *zero == '.'; ++zero) count -= *zero == '0';
    if (count > 19) return nullptr;
    if (count <= 0) count = 1; // nothing but zeros
  }
  if (count == 0) return nullptr;
  if ((*p | 0x20) == 'e') {
    ++p;
    const bool down = *p == '-';
    p += down | (*p == '+');
    const char *const digits = p;
    std::uint64_t exponent = 0;
    p = take_digits(p, exponent);
    if (p == digits || p - digits > 4) return nullptr;
    q += down ? -static_cast<int>(exponent) : static_cast<int>(exponent);
  }
  if (!scaled(w, q, value)) return nullptr;
  value = std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) | std::uint64_t(negative) << 63);
  return p;
}

enum class Decimal { number, not_a_number, not_finite, too_large };

// Step 3, and what is wrong with a text that is no number: for the whole of [begin, end).
Decimal read_decimal_slowly(const char *begin, const char *end, double &value);

} // namespace mm
