// Sort tables by the buttons in their heads. Without this the tables are there all the same, worst first.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const said = document.createElement("p");
  said.className = "unseen";
  said.setAttribute("aria-live", "polite");
  table.parentElement.after(said);
  const key = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  heads.forEach((head, column) => {
    const name = head.textContent.trim();
    const numeric = head.classList.contains("number");
    const compare = numeric
      ? (a, b) => Number(a) - Number(b)
      : (a, b) => a.localeCompare(b, undefined, { numeric: true });
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    head.replaceChildren(button);
    if (!head.hasAttribute("aria-sort")) head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      const sign = order === "ascending" ? 1 : -1;
      for (const other of heads) other.setAttribute("aria-sort", other === head ? order : "none");
      // Cells without a number come last, whichever way.
      const missing = (row) => numeric && key(row, column) === "";
      const rows = [...body.rows].sort((a, b) =>
        missing(a) - missing(b) || sign * compare(key(a, column), key(b, column)));
      body.append(...rows);
      said.textContent = `sorted by ${name}, ${order}`;
    });
  });
}
