// Sorts a table by the column whose heading is pressed; cells without a value stay at the end.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = heading.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const text = heading.dataset.kind === "text";
      const small = text || heading.dataset.kind === "rank"; // the first letter, or the best rank, on top
      const first = small ? "ascending" : "descending";
      const other = small ? "descending" : "ascending";
      const order = heading.getAttribute("aria-sort") === first ? other : first;
      const sign = order === "ascending" ? 1 : -1;
      const key = (row) => row.cells[column].dataset.value ?? "";
      const compare = (a, b) => {
        if (key(a) === "" || key(b) === "") return (key(a) === "") - (key(b) === "");
        return sign * (text ? key(a).localeCompare(key(b)) : Number(key(a)) - Number(key(b)));
      };
      body.append(...[...body.rows].sort(compare));
      headings.forEach((cell) => cell.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", order);
    });
  });
}
