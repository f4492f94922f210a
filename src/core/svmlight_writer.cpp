#include "svmlight_writer.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>

#include "decimal.hpp"

namespace mm {

namespace {

constexpr std::size_t longest_number = 32;

template <class T> char *write_number(char *to, T value) { return std::to_chars(to, to + longest_number, value).ptr; }

// 1 rather than 1.0, 100000 rather than 1e+05.
char *write_value(char *to, double value) {
  if (std::abs(value) < 1e15 && value == std::trunc(value) && (value != 0 || !std::signbit(value)))
    return write_number(to, static_cast<std::int64_t>(value));
  return write_number(to, value);
}

// The shortest form that names this float32 is read by way of a float64, and a few in billions then round to a
// neighbour: those are written as float64.
char *write_value(char *to, float value) {
  if (std::abs(value) < 1e7f && value == std::trunc(value)) return write_value(to, static_cast<double>(value));
  char *const end = write_number(to, value);
  double read = 0;
  const bool same = read_decimal_slowly(to, end, read) == Decimal::number && static_cast<float>(read) == value;
  return same ? end : write_number(to, static_cast<double>(value));
}

template <class X, class Feature>
bool write_entries(std::string &text, const X *values, Index count, Feature feature, bool skip_zeros) {
  char entry[2 * longest_number];
  for (Index t = 0; t < count; ++t) {
    const X value = values[t];
    if (skip_zeros && value == 0) continue;
    if (!std::isfinite(value)) return false;
    char *end = entry;
    *end++ = ' ';
    end = write_number(end, feature(t));
    *end++ = ':';
    end = write_value(end, value);
    text.append(entry, end);
  }
  return true;
}

template <class X, class I> bool write_csr_row(const LabelledRows &from, Index row, std::string &text) {
  const I *indptr = static_cast<const I *>(from.rows.indptr);
  const Index begin = static_cast<Index>(indptr[row]);
  const I *index = static_cast<const I *>(from.rows.indices) + begin;
  return write_entries(
      text, static_cast<const X *>(from.rows.values) + begin, static_cast<Index>(indptr[row + 1]) - begin,
      [&](Index t) { return static_cast<Index>(index[t]) + from.first_index; }, false);
}

template <class X> bool write_row(const LabelledRows &from, Index row, std::string &text) {
  if (from.rows.layout == Layout::csr32) return write_csr_row<X, std::int32_t>(from, row, text);
  if (from.rows.layout == Layout::csr64) return write_csr_row<X, std::int64_t>(from, row, text);
  return write_entries(
      text, static_cast<const X *>(from.rows.values) + row * from.rows.row_stride, from.rows.n_features,
      [&](Index t) { return t + from.first_index; }, true);
}

} // namespace

Index write_lines(const LabelledRows &from, Index begin, Index end, std::string &text) {
  char number[longest_number];
  for (Index row = begin; row < end; ++row) {
    if (!std::isfinite(from.labels[row])) return row;
    text.append(number, write_value(number, from.labels[row]));
    if (from.query_ids != nullptr) {
      text.append(" qid:");
      text.append(number, write_number(number, from.query_ids[row]));
    }
    if (!(from.rows.single_precision ? write_row<float>(from, row, text) : write_row<double>(from, row, text))) return row;
    text.push_back('\n');
  }
  return -1;
}

} // namespace mm
