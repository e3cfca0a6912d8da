// The page is complete without this script. With it, charts answer to the pointer and tables can be copied.
(() => {
  const { specs, charts } = JSON.parse(document.getElementById("charts").textContent);
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "presentation");
  document.body.append(tip);

  function showTip(handler, event, item, value) {
    if (!value || typeof value !== "object") {
      tip.classList.remove("on");
      return;
    }
    tip.replaceChildren(...Object.entries(value).filter(([, text]) => text !== "null" && text !== "").map(line));
    tip.classList.add("on");
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = Math.max(8, event.clientY - tip.offsetHeight - 12) + "px";
  }

  function rows([name, columns]) {
    const keys = Object.keys(columns);
    const count = keys.length ? columns[keys[0]].length : 0;
    const row = (_, index) => Object.fromEntries(keys.map((key) => [key, columns[key][index]]));
    return [name, Array.from({ length: count }, row)];
  }

  function line([name, text]) {
    const row = document.createElement("div");
    const label = document.createElement("span");
    const number = document.createElement("b");
    label.textContent = name;
    number.textContent = text;
    row.append(label, number);
    return row;
  }

  const options = { actions: false, ast: true, renderer: "svg", defaultStyle: false, tooltip: showTip, mode: "vega-lite" };

  async function draw(figure, scale, shown) {
    const chart = charts[figure.dataset.chart];
    const spec = { ...specs[chart.scales[scale]], datasets: Object.fromEntries(Object.entries(chart.data).map(rows)) };
    const place = figure.querySelector(".live");
    figure.view?.finalize();
    figure.classList.add("drawing");
    const { view } = await vegaEmbed(place, spec, options);
    figure.view = view;
    if (shown) await view.signal("shown", shown).runAsync();
    figure.classList.remove("drawing");
    figure.classList.add("drawn");
  }

  function chosen(figure) {
    const boxes = [...figure.querySelectorAll(".legend input")];
    return boxes.length ? boxes.filter((box) => box.checked).map((box) => box.value) : null;
  }

  function toggles(figure) {
    for (const item of figure.querySelectorAll("li[data-series]")) {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = true;
      box.value = item.dataset.series;
      box.addEventListener("change", () => figure.view?.signal("shown", chosen(figure)).runAsync());
      label.append(box, ...item.childNodes);
      item.append(label);
    }
  }

  function scales(figure, names) {
    if (names.length < 2) return;
    const group = document.createElement("div");
    group.className = "scales";
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "Scale of the axes");
    for (const name of names) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name === "log" ? "logarithmic" : name;
      button.setAttribute("aria-pressed", String(name === names[0]));
      button.addEventListener("click", () => {
        for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
        draw(figure, name, chosen(figure));
      });
      group.append(button);
    }
    figure.querySelector("figcaption").append(group);
  }

  function copyable(box) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy the table: " + box.querySelector("caption").textContent);
    button.addEventListener("click", async () => {
      const rows = [...box.querySelectorAll("tr")];
      const text = rows.map((row) => [...row.cells].map((cell) => cell.textContent.trim()).join("\t")).join("\n");
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    });
    box.querySelector(".tools").append(button);
  }

  const started = performance.now();
  const figures = [...document.querySelectorAll("figure[data-chart]")];
  if (navigator.clipboard) document.querySelectorAll(".tablebox").forEach(copyable);
  const all = figures.map((figure) => {
    const names = Object.keys(charts[figure.dataset.chart].scales);
    toggles(figure);
    scales(figure, names);
    return draw(figure, names[0], null);
  });
  Promise.all(all).then(() => {
    document.documentElement.dataset.drawn = String(Math.round(performance.now() - started));
  });
})();
