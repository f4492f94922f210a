// Rows as svmlight text (svmlight.hpp) that reads back bit by bit: every number in the shortest form that does.
#pragma once

#include <string>

#include "rows.hpp"

namespace mm {

struct LabelledRows {
  Rows rows; // zeros of dense rows are left out, stored zeros of CSR rows are not
  const double *labels;
  const Index *query_ids; // null: none
  Index first_index;      // of the first feature: 0 or 1
};

// Appends the lines of rows begin..end. Ends early, with the row, if a value is not finite; -1 otherwise.
Index write_lines(const LabelledRows &from, Index begin, Index end, std::string &text);

} // namespace mm
