#include "svmlight.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "decimal.hpp"

namespace mm {

namespace {

constexpr std::ptrdiff_t most_digits = 18; // of an index: it cannot overflow then
constexpr std::ptrdiff_t lookahead = 8;

inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }
inline bool ends_token(char c) { return is_blank(c) || c == '\n' || c == '#'; }

const char *token_end(const char *p) {
  while (!ends_token(*p)) ++p;
  return p;
}

bool begins_with_qid(const char *p) { return p[0] == 'q' && p[1] == 'i' && p[2] == 'd' && p[3] == ':'; }

const char *line_feed(const char *p, const char *end) {
  return static_cast<const char *>(std::memchr(p, '\n', static_cast<std::size_t>(end - p)));
}

// Reads lines of a text that ends with a line feed and has `lookahead` bytes behind it.
template <class X, class I> class Reader {
public:
  Reader(Text text, Index first_index, bool zero_is_fault, const PartArrays<X, I> &out, SvmlightPart &part)
      : begin_(text.begin), end_(text.end), first_index_(first_index), zero_is_fault_(zero_is_fault), out_(out),
        part_(part) {}

  void read() {
    for (const char *p = begin_; p != end_; ++line_) {
      p = read_line(p);
      if (p == nullptr) return;
    }
  }
  Index lines() const { return line_; }

private:
  // Behind the line, or null after a fault.
  const char *read_line(const char *p) {
    while (is_blank(*p)) ++p;
    if (*p == '\n') return p + 1;
    if (*p == '#') return line_feed(p, end_) + 1;
    if (part_.rows == out_.rows) return fault(SvmlightFault::text_changed, p);
    const Index row = part_.rows;
    p = read_label(p, out_.labels[row]);
    if (p == nullptr) return nullptr;
    while (is_blank(*p)) ++p;
    if (begins_with_qid(p)) {
      p = read_query(p, row);
      if (p == nullptr) return nullptr;
    } else if (out_.query_ids != nullptr) {
      return fault(SvmlightFault::query_is_missing, p);
    }
    p = read_entries(p);
    if (p == nullptr) return nullptr;
    out_.row_end[row] = static_cast<I>(out_.first_entry + part_.entries);
    ++part_.rows;
    return *p == '#' ? line_feed(p, end_) + 1 : p + 1;
  }

  const char *read_label(const char *p, double &label) {
    const char *after = read_decimal(p, label);
    if (after != nullptr && ends_token(*after)) return after;
    after = token_end(p);
    switch (read_decimal_slowly(p, after, label)) {
    case Decimal::number: return after;
    case Decimal::not_finite: return fault(SvmlightFault::label_is_not_finite, p);
    case Decimal::too_large: return fault(SvmlightFault::label_is_too_large, p);
    case Decimal::not_a_number: break;
    }
    if (std::find(p, after, ':') != after) return fault(SvmlightFault::label_is_missing, p);
    const bool several = (is_digit(*p) || *p == '-' || *p == '+') && std::find(p, after, ',') != after;
    return fault(several ? SvmlightFault::several_labels : SvmlightFault::label_is_no_number, p);
  }

  const char *read_query(const char *p, Index row) {
    const char *number = p + 4, *const after = token_end(p);
    if (*number == '+') ++number;
    Index id = 0;
    const auto [stopped, error] = std::from_chars(number, after, id);
    if (error != std::errc() || stopped != after || (number[-1] == '+' && *number == '-'))
      return fault(SvmlightFault::query_is_no_number, p);
    if (out_.query_ids != nullptr) out_.query_ids[row] = id;
    return after;
  }

  // Entries of a line; ends at its line feed or comment.
  const char *read_entries(const char *p) {
    Index at = part_.entries, previous = zero_is_fault_ ? 0 : -1;
    for (;;) {
      if (!is_digit(*p)) {
        while (is_blank(*p)) ++p;
        if (*p == '\n' || *p == '#') break;
      }
      const char *const token = p;
      std::uint64_t written = 0;
      p = take_digits(p, written);
      if (*p != ':' || p == token) return fault(fault_of_index(token), token);
      if (p - token > most_digits) return fault(SvmlightFault::index_is_too_large, token);
      const Index index = static_cast<Index>(written);
      if (index <= previous)
        return fault(index == 0 && zero_is_fault_ ? SvmlightFault::index_is_zero : SvmlightFault::indices_do_not_increase,
                     token);
      if constexpr (sizeof(I) == 4)
        if (index >= std::numeric_limits<I>::max()) return fault(SvmlightFault::wide_index, token);
      if (at == out_.entries) return fault(SvmlightFault::text_changed, token);
      double value = 0;
      const char *const digits = p + 1;
      p = read_decimal(digits, value);
      if (p == nullptr || !ends_token(*p)) [[unlikely]] {
        p = read_value_slowly(token, digits, value);
        if (p == nullptr) return nullptr;
      }
      out_.values[at] = static_cast<X>(value);
      if constexpr (std::is_same_v<X, float>)
        if (std::isinf(out_.values[at])) return fault(SvmlightFault::value_is_too_large, token);
      out_.indices[at] = static_cast<I>(index - first_index_);
      if (previous <= 0) part_.has_index_zero |= index == 0; // only the first can be 0
      previous = index;
      ++at;
      p += *p == ' ';
    }
    if (at != part_.entries) part_.largest_index = std::max(part_.largest_index, previous);
    part_.entries = at;
    return p;
  }

  const char *read_value_slowly(const char *token, const char *digits, double &value) {
    const char *const after = token_end(digits);
    if (digits == after) return fault(SvmlightFault::value_is_missing, token);
    switch (read_decimal_slowly(digits, after, value)) {
    case Decimal::number: return after;
    case Decimal::not_finite: return fault(SvmlightFault::value_is_not_finite, token);
    case Decimal::too_large: return fault(SvmlightFault::value_is_too_large, token);
    case Decimal::not_a_number: break;
    }
    return fault(SvmlightFault::value_is_no_number, token);
  }

  // Why this token does not begin with digits and a colon.
  SvmlightFault fault_of_index(const char *token) const {
    if (begins_with_qid(token)) return SvmlightFault::query_is_late;
    const char *const after = token_end(token), *const colon = std::find(token, after, ':');
    if (colon == after) return SvmlightFault::no_colon;
    const bool negative = *token == '-' && token + 1 != colon && std::all_of(token + 1, colon, is_digit);
    return negative ? SvmlightFault::index_is_negative : SvmlightFault::index_is_no_number;
  }

  std::nullptr_t fault(SvmlightFault what, const char *token) {
    part_.fault = what;
    part_.fault_line = line_;
    part_.token_begin = token - begin_;
    part_.token_end = token_end(token) - begin_;
    return nullptr;
  }

  const char *const begin_, *const end_;
  const Index first_index_;
  const bool zero_is_fault_;
  const PartArrays<X, I> out_;
  SvmlightPart &part_;
  Index line_ = 0;
};

} // namespace

const char *line_end(Text text, const char *from) {
  const char *feed = from == text.end ? nullptr : line_feed(from, text.end);
  return feed == nullptr ? text.end : feed + 1;
}

TextSize measure(Text part) {
  TextSize size{0, 0};
  // Sums of single bytes, which compilers turn into vectors; 255 of them cannot overflow.
  constexpr std::ptrdiff_t width = 32;
  const char *p = part.begin;
  while (part.end - p >= width) {
    unsigned char lines[width] = {}, colons[width] = {};
    const std::ptrdiff_t blocks = std::min<std::ptrdiff_t>(255, (part.end - p) / width);
    for (std::ptrdiff_t block = 0; block < blocks; ++block, p += width)
      for (std::ptrdiff_t i = 0; i < width; ++i) {
        lines[i] = static_cast<unsigned char>(lines[i] + (p[i] == '\n'));
        colons[i] = static_cast<unsigned char>(colons[i] + (p[i] == ':'));
      }
    for (std::ptrdiff_t i = 0; i < width; ++i) size.lines += lines[i], size.colons += colons[i];
  }
  for (; p != part.end; ++p) size.lines += *p == '\n', size.colons += *p == ':';
  if (part.begin != part.end && part.end[-1] != '\n') ++size.lines;
  return size;
}

const char *description(SvmlightFault fault) {
  switch (fault) {
  case SvmlightFault::none: return "is right";
  case SvmlightFault::wide_index: return "has an index beyond 32 bits";
  case SvmlightFault::label_is_no_number: return "is no label (a number is expected)";
  case SvmlightFault::label_is_missing: return "stands where the label should be (a line begins with its label)";
  case SvmlightFault::label_is_not_finite: return "is no label (a finite number is expected)";
  case SvmlightFault::label_is_too_large: return "is no label (it is beyond the range of float64)";
  case SvmlightFault::several_labels:
    return "is more than one label; sklearn.datasets.load_svmlight_file(..., multilabel=True) reads multi-label files";
  case SvmlightFault::no_colon: return "is not index:value (there is no colon)";
  case SvmlightFault::index_is_no_number: return "is not index:value (the index is no whole number)";
  case SvmlightFault::index_is_negative: return "is not index:value (the index is negative)";
  case SvmlightFault::index_is_too_large: return "is not index:value (the index has more than 18 digits)";
  case SvmlightFault::index_is_zero: return "has index 0, but zero_based=False says that indices begin with 1";
  case SvmlightFault::indices_do_not_increase:
    return "comes after an index that is as large or larger (the indices of a line must increase)";
  case SvmlightFault::value_is_missing: return "is not index:value (the value is missing)";
  case SvmlightFault::value_is_no_number: return "is not index:value (the value is no number)";
  case SvmlightFault::value_is_not_finite: return "is not index:value (the value is not finite)";
  case SvmlightFault::value_is_too_large: return "is not index:value (the value is too large for the dtype)";
  case SvmlightFault::query_is_no_number: return "is not qid:N (a whole number is expected)";
  case SvmlightFault::query_is_late: return "is in the wrong place (qid:N comes straight after the label, once)";
  case SvmlightFault::query_is_missing: return "stands where qid:N should be (query_id=True asks for it in every line)";
  case SvmlightFault::text_changed: return "was not there before: the file has changed while it was read";
  }
  return "is wrong";
}

template <class X, class I>
SvmlightPart read_part(Text part, const char *readable_end, Index first_index, bool zero_is_fault,
                       const PartArrays<X, I> &out) {
  SvmlightPart result;
  // Lines so near to the end of the memory that the lookahead would leave it are read from a copy, and so is a last
  // line without its line feed.
  const char *tail = part.end;
  if (part.begin != part.end && (readable_end - part.end < lookahead || part.end[-1] != '\n')) {
    tail = std::max(part.begin, std::min(part.end - 1, readable_end - lookahead));
    while (tail != part.begin && tail[-1] != '\n') --tail;
  }
  Reader<X, I> in_place({part.begin, tail}, first_index, zero_is_fault, out, result);
  in_place.read();
  if (tail == part.end || result.fault != SvmlightFault::none) return result;

  std::string copy(tail, part.end);
  if (copy.back() != '\n') copy.push_back('\n');
  const std::size_t length = copy.size();
  copy.append(static_cast<std::size_t>(lookahead), '\n');
  Reader<X, I> in_copy({copy.data(), copy.data() + length}, first_index, zero_is_fault, out, result);
  in_copy.read();
  if (result.fault != SvmlightFault::none) {
    result.fault_line += in_place.lines();
    result.token_begin += tail - part.begin;
    result.token_end = std::min(result.token_end + (tail - part.begin), part.end - part.begin);
  }
  return result;
}

template SvmlightPart read_part(Text, const char *, Index, bool, const PartArrays<float, std::int32_t> &);
template SvmlightPart read_part(Text, const char *, Index, bool, const PartArrays<float, std::int64_t> &);
template SvmlightPart read_part(Text, const char *, Index, bool, const PartArrays<double, std::int32_t> &);
template SvmlightPart read_part(Text, const char *, Index, bool, const PartArrays<double, std::int64_t> &);

} // namespace mm
