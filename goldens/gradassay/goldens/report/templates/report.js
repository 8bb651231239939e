for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("thead button").forEach((button, column) => {
    button.addEventListener("click", () => {
      const heading = button.closest("th");
      const rising = heading.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const compare = (one, two) => {
        const [first, second] = [key(one), key(two)];
        const numeric = Number(first) - Number(second);
        return Number.isNaN(numeric) || first === "" || second === "" ? first.localeCompare(second) : numeric;
      };
      const rows = [...table.tBodies[0].rows].sort((one, two) => (rising ? compare(one, two) : compare(two, one)));
      table.tBodies[0].append(...rows);
    });
  });
}
