// What Python sees of svmlight text: parts of it, read into arrays and written from rows.
#include <nanobind/stl/string.h>

#include <stdexcept>

#include "bindings.hpp"
#include "svmlight.hpp"
#include "svmlight_writer.hpp"

namespace {

template <class T> using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = In<std::uint8_t>;

mm::Text text_of(const Bytes &bytes) {
  const char *begin = reinterpret_cast<const char *>(bytes.data());
  return {begin, begin + bytes.shape(0)};
}

mm::Text part_of(const Bytes &bytes, Index begin, Index end) {
  if (begin < 0 || end < begin || end > static_cast<Index>(bytes.shape(0))) throw nb::index_error("no such part of the text");
  const mm::Text text = text_of(bytes);
  return {text.begin + begin, text.begin + end};
}

std::vector<std::int64_t> cuts(const Bytes &bytes, Index part_bytes) {
  if (part_bytes < 1) throw nb::value_error("parts need at least one byte");
  const mm::Text text = text_of(bytes);
  std::vector<std::int64_t> out{0};
  for (const char *p = text.begin; p != text.end;) {
    p = text.end - p <= part_bytes ? text.end : mm::line_end(text, p + part_bytes - 1);
    out.push_back(p - text.begin);
  }
  return out;
}

template <class X, class I>
mm::SvmlightPart read_part(Bytes bytes, Index begin, Index end, Out<X> values, Out<I> indices, Out<I> row_end,
                           Out<double> labels, Out<std::int64_t> query_ids, Index first_entry, Index first_index,
                           bool zero_is_fault) {
  const mm::Text part = part_of(bytes, begin, end);
  if (values.shape(0) != indices.shape(0)) throw nb::value_error("values and indices differ in length");
  if (row_end.shape(0) != labels.shape(0)) throw nb::value_error("row ends and labels differ in length");
  const bool queries = query_ids.shape(0) != 0;
  if (queries && query_ids.shape(0) != labels.shape(0)) throw nb::value_error("labels and query ids differ in length");
  if (first_index != 0 && first_index != 1) throw nb::value_error("the first index is 0 or 1");
  if (first_entry < 0) throw nb::value_error("the first entry is negative");
  const mm::PartArrays<X, I> out{values.data(),
                                 indices.data(),
                                 static_cast<Index>(values.shape(0)),
                                 row_end.data(),
                                 labels.data(),
                                 queries ? query_ids.data() : nullptr,
                                 static_cast<Index>(labels.shape(0)),
                                 first_entry};
  const Released released;
  return mm::read_part(part, text_of(bytes).end, first_index, zero_is_fault, out);
}

nb::bytes write_lines(const PyRows &rows, Index begin, Index end, In<double> labels, In<std::int64_t> query_ids,
                      Index first_index) {
  if (begin < 0 || end < begin || end > rows.rows.n_rows) throw nb::index_error("no such rows");
  if (static_cast<Index>(labels.shape(0)) != rows.rows.n_rows) throw nb::value_error("labels must be one for each row");
  const bool queries = query_ids.shape(0) != 0;
  if (queries && query_ids.shape(0) != labels.shape(0)) throw nb::value_error("query ids must be one for each row");
  std::string text;
  Index bad = -1;
  {
    const Released released;
    bad = mm::write_lines({rows.rows, labels.data(), queries ? query_ids.data() : nullptr, first_index}, begin, end, text);
  }
  if (bad >= 0) throw nb::value_error(("row " + std::to_string(bad) + " has a label or value that is not finite").c_str());
  return nb::bytes(text.data(), text.size());
}

template <class X, class I> void define_read_part(nb::module_ &m) {
  m.def("read_svmlight_part", &read_part<X, I>, "text"_a.noconvert(), "begin"_a, "end"_a, "values"_a.noconvert(),
        "indices"_a.noconvert(), "row_end"_a.noconvert(), "labels"_a.noconvert(), "query_ids"_a.noconvert(), "first_entry"_a,
        "first_index"_a, "zero_is_fault"_a,
        "Read bytes begin..end into arrays that have room for what svmlight_size says; query_ids may be empty.");
}

} // namespace

void define_svmlight(nb::module_ &m) {
  nb::class_<mm::SvmlightPart>(m, "SvmlightPart", "What was found in a part of svmlight text.")
      .def_ro("rows", &mm::SvmlightPart::rows)
      .def_ro("entries", &mm::SvmlightPart::entries)
      .def_ro("largest_index", &mm::SvmlightPart::largest_index)
      .def_ro("has_index_zero", &mm::SvmlightPart::has_index_zero)
      .def_prop_ro("needs_wide_indices",
                   [](const mm::SvmlightPart &self) { return self.fault == mm::SvmlightFault::wide_index; })
      .def_prop_ro("is_faulty", [](const mm::SvmlightPart &self) { return self.fault != mm::SvmlightFault::none; })
      .def_prop_ro("fault", [](const mm::SvmlightPart &self) { return std::string(mm::description(self.fault)); })
      .def_ro("fault_line", &mm::SvmlightPart::fault_line)
      .def_ro("token_begin", &mm::SvmlightPart::token_begin)
      .def_ro("token_end", &mm::SvmlightPart::token_end);
  m.def(
      "svmlight_cuts", [](Bytes text, Index part_bytes) { return owned_array(cuts(text, part_bytes)); },
      "text"_a.noconvert(), "part_bytes"_a, "Where to cut a text into parts of whole lines, of about so many bytes.");
  m.def(
      "svmlight_size",
      [](Bytes text, Index begin, Index end) {
        const mm::Text part = part_of(text, begin, end);
        mm::TextSize size;
        {
          const Released released;
          size = mm::measure(part);
        }
        return nb::make_tuple(size.lines, size.colons);
      },
      "text"_a.noconvert(), "begin"_a, "end"_a, "Lines and colons in bytes begin..end: bounds on rows and entries.");
  define_read_part<float, std::int32_t>(m);
  define_read_part<float, std::int64_t>(m);
  define_read_part<double, std::int32_t>(m);
  define_read_part<double, std::int64_t>(m);
  m.def("write_svmlight_lines", &write_lines, "rows"_a, "begin"_a, "end"_a, "labels"_a.noconvert(),
        "query_ids"_a.noconvert(), "first_index"_a, "Text of rows begin..end; query_ids may be empty.");
}
