// svmlight text: one example a line,
//   label [qid:N] index:value index:value ... [# comment]
// with blanks or tabs between, indices increasing, blank lines and lines of comments left out.
//
// The text is read in parts that begin and end with a line. A first pass bounds how many rows and entries a part can
// have, so that every part then goes to its place in the final arrays, whoever reads it and in whatever order.
#pragma once

#include <cstddef>

#include "rows.hpp"

namespace mm {

struct Text {
  const char *begin, *end;
};

// The end of the first line that ends at or behind `from`.
const char *line_end(Text text, const char *from);

struct TextSize {
  Index lines;  // rows, or more: lines may be blank
  Index colons; // entries, or more: comments and qid have them too
};
TextSize measure(Text part);

// Where a part goes. `first_entry` is how many entries the arrays have before it: row ends count from there.
template <class X, class I> struct PartArrays {
  X *values;
  I *indices;
  Index entries; // room in the two above
  I *row_end;
  double *labels;
  Index *query_ids; // null: not wanted
  Index rows;       // room in the three above
  Index first_entry;
};

enum class SvmlightFault {
  none,
  wide_index, // no fault: the indices need 64 bits
  label_is_no_number,
  label_is_missing,
  label_is_not_finite,
  label_is_too_large,
  several_labels,
  no_colon,
  index_is_no_number,
  index_is_negative,
  index_is_too_large,
  index_is_zero,
  indices_do_not_increase,
  value_is_missing,
  value_is_no_number,
  value_is_not_finite,
  value_is_too_large,
  query_is_no_number,
  query_is_late,
  query_is_missing,
  text_changed, // more lines or entries than there were in the first pass
};

const char *description(SvmlightFault fault);

struct SvmlightPart {
  Index rows = 0, entries = 0;
  Index largest_index = -1; // as written; -1 without entries
  bool has_index_zero = false;
  SvmlightFault fault = SvmlightFault::none;
  Index fault_line = 0;                    // from 0, in this part
  std::ptrdiff_t token_begin = 0, token_end = 0; // in this part
};

// Reads a part into its arrays and stops at the first fault. Indices are stored less `first_index`, which is 0 or 1;
// an index 0 is a fault if `zero_is_fault`, else it is stored as -first_index.
// `readable_end` is where the memory that the part lies in ends: at most 8 bytes behind a line are looked at, not used.
template <class X, class I>
SvmlightPart read_part(Text part, const char *readable_end, Index first_index, bool zero_is_fault,
                       const PartArrays<X, I> &out);

} // namespace mm
