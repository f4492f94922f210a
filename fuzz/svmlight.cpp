// svmlight text: never a byte outside of the text or of the arrays; the same whether it is read as one part or as
// several; what was read is what the format promises, and reads back bit by bit after it was written.
//
// The first two bytes of the input are the options, the rest is the text.
#include "svmlight.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "require.hpp"
#include "svmlight_writer.hpp"

namespace {

using mm::Index;

struct Options {
  bool queries, zero_is_fault;
  Index first_index, part_bytes, behind; // bytes behind the text that may be read
};

template <class X, class I> struct Read {
  std::vector<X> values;
  std::vector<I> indices, row_end;
  std::vector<double> labels;
  std::vector<Index> queries;
  mm::SvmlightFault fault = mm::SvmlightFault::none;
  bool has_index_zero = false;
  bool operator==(const Read &) const = default;
};

template <class T> void append(std::vector<T> &to, const std::unique_ptr<T[]> &from, Index count) {
  to.insert(to.end(), from.get(), from.get() + count);
}

// Part by part, each into arrays of exactly the sizes that the first pass found.
template <class X, class I> Read<X, I> read(mm::Text text, const char *readable_end, const Options &options) {
  Read<X, I> all;
  for (const char *begin = text.begin; begin != text.end;) {
    const char *const end = text.end - begin <= options.part_bytes ? text.end : mm::line_end(text, begin + options.part_bytes - 1);
    REQUIRE(end > begin && end <= text.end);
    const mm::Text part{begin, end};
    const mm::TextSize size = mm::measure(part);
    const auto rows = static_cast<std::size_t>(size.lines), entries = static_cast<std::size_t>(size.colons);
    const std::unique_ptr<X[]> values(new X[entries]);
    const std::unique_ptr<I[]> indices(new I[entries]), row_end(new I[rows]);
    const std::unique_ptr<double[]> labels(new double[rows]);
    const std::unique_ptr<Index[]> queries(options.queries ? new Index[rows] : nullptr);
    const Index before = static_cast<Index>(all.values.size());
    const mm::SvmlightPart got =
        mm::read_part<X, I>(part, readable_end, options.first_index, options.zero_is_fault,
                            {values.get(), indices.get(), size.colons, row_end.get(), labels.get(), queries.get(),
                             size.lines, before});
    REQUIRE(got.rows >= 0 && got.rows <= size.lines && got.entries >= 0 && got.entries <= size.colons);
    REQUIRE(got.token_begin >= 0 && got.token_begin <= got.token_end && got.token_end <= end - begin);
    REQUIRE(got.fault_line >= 0 && got.fault_line <= size.lines);
    REQUIRE(got.fault != mm::SvmlightFault::text_changed && std::strlen(mm::description(got.fault)) > 0);
    append(all.values, values, got.entries);
    append(all.indices, indices, got.entries);
    append(all.row_end, row_end, got.rows);
    append(all.labels, labels, got.rows);
    if (options.queries) append(all.queries, queries, got.rows);
    all.has_index_zero |= got.has_index_zero;
    all.fault = got.fault;
    if (got.fault != mm::SvmlightFault::none) break;
    begin = end;
  }
  return all;
}

template <class X, class I> void check(const Read<X, I> &all, const Options &options) {
  Index begin = 0;
  for (std::size_t row = 0; row < all.labels.size(); ++row) {
    REQUIRE(std::isfinite(all.labels[row]));
    const Index end = all.row_end[row];
    REQUIRE(end >= begin && end <= static_cast<Index>(all.values.size()));
    for (Index at = begin; at < end; ++at) {
      const auto place = static_cast<std::size_t>(at);
      REQUIRE(std::isfinite(all.values[place]));
      REQUIRE(all.indices[place] >= (options.zero_is_fault ? 1 : 0) - options.first_index);
      if (at > begin) REQUIRE(all.indices[place] > all.indices[place - 1]);
    }
    begin = end;
  }
  REQUIRE(begin == static_cast<Index>(all.values.size()));
}

template <class X, class I> void write_and_read(const Read<X, I> &all, const Options &options) {
  if (options.first_index == 1 && all.has_index_zero) return; // the caller would say zero-based now
  std::vector<I> indptr{0};
  indptr.insert(indptr.end(), all.row_end.begin(), all.row_end.end());
  const Index n_rows = static_cast<Index>(all.labels.size());
  const mm::Rows rows{sizeof(I) == 4 ? mm::Layout::csr32 : mm::Layout::csr64, sizeof(X) == 4, all.values.data(),
                      all.indices.data(), indptr.data(), n_rows, std::int64_t{1} << 60, 0, 0};
  std::string text;
  REQUIRE(mm::write_lines({rows, all.labels.data(), options.queries ? all.queries.data() : nullptr, options.first_index},
                          0, n_rows, text) == -1);
  const Read<X, I> again = read<X, I>({text.data(), text.data() + text.size()}, text.data() + text.size(), options);
  REQUIRE(again.fault == mm::SvmlightFault::none);
  REQUIRE(again.indices == all.indices && again.row_end == all.row_end && again.queries == all.queries);
  REQUIRE(again.values.size() == all.values.size() && again.labels.size() == all.labels.size());
  if (!all.values.empty())
    REQUIRE(std::memcmp(again.values.data(), all.values.data(), all.values.size() * sizeof(X)) == 0);
  if (!all.labels.empty())
    REQUIRE(std::memcmp(again.labels.data(), all.labels.data(), all.labels.size() * sizeof(double)) == 0);
}

template <class X, class I> void fuzz(mm::Text text, const char *readable_end, Options options) {
  const Read<X, I> in_parts = read<X, I>(text, readable_end, options);
  options.part_bytes = text.end - text.begin + 1;
  const Read<X, I> whole = read<X, I>(text, readable_end, options);
  REQUIRE(in_parts == whole);
  if (whole.fault != mm::SvmlightFault::none) return;
  check(whole, options);
  write_and_read(whole, options);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  if (size < 2) return 0;
  const unsigned bits = data[0];
  const bool zero_is_fault = (bits & 8) != 0;
  const Options options{(bits & 4) != 0, zero_is_fault, zero_is_fault || (bits & 16) != 0, 1 + (data[1] & 63), data[1] >> 6};
  const std::size_t length = size - 2;
  const std::unique_ptr<char[]> memory(new char[length + static_cast<std::size_t>(options.behind)]);
  std::memcpy(memory.get(), data + 2, length);
  std::memset(memory.get() + length, '7', static_cast<std::size_t>(options.behind)); // which a line must not run into
  const mm::Text text{memory.get(), memory.get() + length};
  const char *const readable_end = text.end + options.behind;
  switch (bits & 3) {
  case 0: fuzz<float, std::int32_t>(text, readable_end, options); break;
  case 1: fuzz<float, std::int64_t>(text, readable_end, options); break;
  case 2: fuzz<double, std::int32_t>(text, readable_end, options); break;
  default: fuzz<double, std::int64_t>(text, readable_end, options);
  }
  return 0;
}
