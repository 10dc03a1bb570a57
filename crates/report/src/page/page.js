"use strict";
for (const figure of document.querySelectorAll("figure")) {
  const pictures = [...figure.querySelectorAll(".picture")], views = [...figure.querySelectorAll(".view")];
  views.forEach((button, at) => button.onclick = () => {
    pictures.forEach((picture, other) => picture.hidden = other !== at);
    views.forEach((view, other) => view.setAttribute("aria-pressed", other === at));
  });
  pictures.forEach(point);
  figure.querySelector(".save").onclick = () => save(figure, pictures.find(picture => !picture.hidden));
}
function point(picture) {
  const data = picture.querySelector("script");
  if (!data) return;
  let told, tip, cursor;
  const leave = () => { if (tip) tip.remove(), cursor.remove(), tip = null; };
  picture.addEventListener("pointerleave", leave);
  picture.addEventListener("pointermove", event => {
    told = told || JSON.parse(data.textContent);
    const svg = picture.querySelector("svg"), box = svg.getBoundingClientRect(), scale = box.width / told.width;
    const x = (event.clientX - box.left) / scale;
    let best = null;
    for (const line of told.lines) for (const at of line.at)
      if (best === null || Math.abs(at - x) < Math.abs(best - x)) best = at;
    if (best === null || Math.abs(best - x) > 60) return leave();
    if (!tip) {
      tip = picture.appendChild(document.createElement("div")); tip.className = "tip";
      cursor = picture.appendChild(document.createElement("div")); cursor.className = "cursor";
    }
    tip.textContent = "";
    for (const line of told.lines) {
      // Last point at or before the pointer.
      let at = 0;
      while (at + 1 < line.at.length && line.at[at + 1] <= best) at++;
      const row = tip.appendChild(document.createElement("div")), mark = row.appendChild(document.createElement("b"));
      mark.style.background = `var(--s${line.style})`;
      row.append((line.name ? line.name + "  " : "") + line.text[at]);
    }
    const top = box.top - picture.getBoundingClientRect().top;
    cursor.style.cssText = `left:${best * scale}px;top:${top + told.top * scale}px;height:${(told.bottom - told.top) * scale}px`;
    const right = best * scale > box.width / 2;
    tip.style.left = right ? "auto" : `${best * scale + 10}px`;
    tip.style.right = right ? `${box.width - best * scale + 10}px` : "auto";
  });
}
function save(figure, picture) {
  const svg = picture.querySelector("svg").cloneNode(true), [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const style = document.createElementNS("http://www.w3.org/2000/svg", "style"), scale = 3;
  style.textContent = document.getElementById("paper").textContent;
  svg.prepend(style);
  svg.setAttribute("width", width * scale); svg.setAttribute("height", height * scale);
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = width * scale; canvas.height = height * scale;
    const draw = canvas.getContext("2d");
    draw.fillStyle = "#fff"; draw.fillRect(0, 0, canvas.width, canvas.height); draw.drawImage(image, 0, 0);
    download(canvas, figure.dataset.name);
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(svg));
}
function download(canvas, name) {
  const link = document.createElement("a");
  link.download = name + ".png"; link.href = canvas.toDataURL("image/png"); link.click();
}
for (const input of document.querySelectorAll("input.filter")) input.addEventListener("input", () => {
  const words = input.value.toLowerCase().split(/\s+/).filter((word) => word);
  let shown = 0;
  for (const row of input.parentElement.querySelectorAll("tbody tr")) {
    const parts = [...row.cells].flatMap((cell) => cell.textContent.toLowerCase().split(/\s+/));
    // A number must be equal; of a name a part is enough.
    row.hidden = !words.every((word) => parts.some((part) => isNaN(word) ? part.includes(word) : part === word));
    if (!row.hidden) shown++;
  }
  input.parentElement.querySelector(".nothing").hidden = shown > 0;
});
// The number that a cell begins with ("3.31", "+2 %", "< 0.001"), or its text. Empty cells come last.
function sortKey(text) {
  const number = /^[<*]?\s*([+-]?\d+(\.\d+)?(e[+-]?\d+)?)\*?(\s|%|$)/i.exec(text.trim().replace("−", "-"));
  return number ? +number[1] : text.trim() === "-" ? "" : text.trim();
}
function compareCells(one, other) {
  if (one === "" || other === "") return (one === "") - (other === "");
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}
for (const button of document.querySelectorAll("table.sorted .sort")) button.onclick = () => {
  const head = button.parentElement, at = head.cellIndex, body = head.closest("table").tBodies[0];
  const isDown = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
  const keyed = [...body.rows].map((row) => [sortKey(row.cells[at].textContent), row]);
  // Empty cells stay last in both directions.
  const order = (one, other) => isDown && one !== "" && other !== "" ? compareCells(other, one) : compareCells(one, other);
  keyed.sort(([one], [other]) => order(one, other)).forEach(([, row]) => body.append(row));
};
