// Decimal text: the fast way, the slow way and the C library agree to the last bit, and none reads too far.
#include "decimal.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "require.hpp"

namespace {

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

// What the C library makes of the whole of a text.
double expected(const std::string &text) {
  char *end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  REQUIRE(end == text.c_str() + text.size());
  return value;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  // The fast way may look at 7 bytes behind the number.
  const std::unique_ptr<char[]> padded(new char[size + 8]);
  std::copy_n(data, size, padded.get());
  std::memset(padded.get() + size, '\n', 8);
  double fast = 0, slow = 0;
  const char *const after = mm::read_decimal(padded.get(), fast);
  if (after != nullptr) {
    const std::string text(static_cast<const char *>(padded.get()), after);
    REQUIRE(after <= padded.get() + size);
    REQUIRE(std::isfinite(fast) && same_bits(fast, expected(text)));
    const std::unique_ptr<char[]> exact(new char[text.size()]);
    text.copy(exact.get(), text.size());
    REQUIRE(mm::read_decimal_slowly(exact.get(), exact.get() + text.size(), slow) == mm::Decimal::number);
    REQUIRE(same_bits(fast, slow));
  }
  const std::unique_ptr<char[]> exact(new char[size]);
  std::copy_n(data, size, exact.get());
  const std::string text(data, data + size);
  switch (mm::read_decimal_slowly(exact.get(), exact.get() + size, slow)) {
  case mm::Decimal::number: REQUIRE(std::isfinite(slow) && same_bits(slow, expected(text))); break;
  case mm::Decimal::too_large: REQUIRE(std::isinf(expected(text))); break;
  case mm::Decimal::not_finite: REQUIRE(!std::isfinite(expected(text))); break;
  case mm::Decimal::not_a_number: break;
  }
  return 0;
}
