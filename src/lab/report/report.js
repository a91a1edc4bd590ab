"use strict";
const results = JSON.parse(document.getElementById("results").textContent);
const charts = [];
const COLOURS = {
  light: ["#1f6f9c", "#c4562b", "#2f7d4f", "#7a4fa3", "#b8860b", "#4a4a4a", "#b03060", "#2a9d9d", "#8c6d46", "#6b8e23", "#556fb5"],
  dark: ["#6cb2d8", "#ef9368", "#6cc48f", "#b794dd", "#e0b64a", "#c4c2bc", "#e583ab", "#63cfcf", "#c9a97c", "#a9c95f", "#9fb1e6"],
};

function make(tag, attributes = {}, ...children) {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...children);
  return element;
}

const isNumber = (text) => /^[-+]?[\d.,]+( ?[×%x]| ?[A-Za-z/]{1,6})?$/.test(text);
const axisTitle = (axis) => (axis.unit ? `${axis.name} (${axis.unit})` : axis.name);

function readable(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(1);
  return value.toLocaleString("en", { maximumSignificantDigits: 4 });
}

// Whiskers from low to high, and labels beside points.
const whiskers = {
  id: "whiskers",
  afterDatasetsDraw(chart) {
    const { ctx, chartArea } = chart;
    chart.data.datasets.forEach((dataset, i) => {
      const meta = chart.getDatasetMeta(i);
      if (meta.hidden) return;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = dataset.borderColor;
      ctx.lineWidth = 1.2;
      meta.data.forEach((element, k) => {
        const point = dataset.source[k];
        if (point.high > point.low) {
          const scale = chart.scales.y;
          const clamp = (y) => Math.min(Math.max(y, chartArea.top), chartArea.bottom);
          const low = clamp(scale.type === "logarithmic" && point.low <= 0 ? chartArea.bottom : scale.getPixelForValue(point.low));
          const high = clamp(scale.getPixelForValue(point.high));
          ctx.beginPath();
          ctx.moveTo(element.x, low);
          ctx.lineTo(element.x, high);
          for (const y of [low, high]) {
            ctx.moveTo(element.x - 4, y);
            ctx.lineTo(element.x + 4, y);
          }
          ctx.stroke();
        }
        if (point.label) {
          ctx.font = "11px system-ui, sans-serif";
          const right = element.x + 8 + ctx.measureText(point.label).width < chartArea.right;
          ctx.textAlign = right ? "left" : "right";
          ctx.fillText(point.label, element.x + (right ? 7 : -7), element.y - 6);
        }
      });
      ctx.restore();
    });
  },
};

const printing = () => matchMedia("print").matches;
const isDark = () => !printing() && matchMedia("(prefers-color-scheme: dark)").matches;

function colour(datasets, dark) {
  const palette = COLOURS[dark ? "dark" : "light"];
  datasets.forEach((dataset, i) => {
    const main = dataset.reference ? (dark ? "#cfccc4" : "#44423d") : palette[i % palette.length];
    dataset.borderColor = dataset.pointBackgroundColor = main;
    dataset.backgroundColor = dataset.type === "bar" ? main + "b0" : main;
  });
}

function paint(chart, dark) {
  const text = dark ? "#cfccc4" : "#44423d";
  colour(chart.data.datasets, dark);
  for (const scale of Object.values(chart.options.scales)) {
    scale.ticks.color = scale.title.color = text;
    scale.grid.color = dark ? "#3a3833" : "#e4e0d8";
  }
  chart.options.plugins.legend.labels.color = text;
  chart.update("none");
}

function scaleOf(axis, categories) {
  const scale = {
    type: categories ? "category" : axis.logarithmic ? "logarithmic" : "linear",
    title: { display: true, text: axisTitle(axis) },
    grid: {},
    ticks: { maxRotation: 60 },
  };
  if (categories) {
    scale.labels = categories;
    scale.offset = true;
  } else if (axis.logarithmic) {
    // Ticks at 1, 2 and 5, so that they stay apart.
    scale.ticks.callback = (value) => ([1, 2, 5].includes(Math.round(value / 10 ** Math.floor(Math.log10(value) + 1e-9))) ? readable(value) : "");
  } else {
    scale.ticks.callback = readable;
  }
  return scale;
}

function drawChart(description) {
  const categories = description.categories;
  const canvas = make("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${description.title}: ${axisTitle(description.y)} over ${axisTitle(description.x)}`);
  const datasets = description.series.map((series, i) => {
    const reference = series.style === "reference";
    return {
      type: series.style === "bars" ? "bar" : "line",
      label: series.name,
      source: series.points,
      reference,
      data: series.points.map((p) => ({ x: categories ? categories[p.x] : p.x, y: p.y })),
      showLine: series.style === "line" || reference,
      borderWidth: 2,
      borderDash: reference ? [6, 4] : [],
      pointRadius: reference ? 0 : series.points.length > 40 ? 0 : 3.5,
      pointStyle: ["circle", "rect", "triangle", "rectRot", "star", "crossRot"][i % 6],
      tension: 0,
    };
  });
  const figure = make("figure", {}, make("h3", { textContent: description.title }), make("div", { className: "canvas" }, canvas));
  if (description.note) figure.append(make("p", { className: "note", textContent: description.note }));
  colour(datasets, isDark());  // before the first drawing: bars keep the colours they were made with
  requestAnimationFrame(() => {
    const chart = new Chart(canvas, {
      data: { datasets },
      options: {
        animation: false,
        maintainAspectRatio: false,
        layout: { padding: { top: 8, right: 10 } },
        scales: { x: scaleOf(description.x, categories), y: { ...scaleOf(description.y), grace: "6%" } },
        plugins: {
          legend: { display: datasets.length > 1, position: "bottom", labels: { usePointStyle: true, boxHeight: 7 } },
          tooltip: {
            callbacks: {
              label(item) {
                const point = item.dataset.source[item.dataIndex];
                const bar = point.high > point.low ? ` (${readable(point.low)} to ${readable(point.high)})` : "";
                return `${item.dataset.label}: ${readable(point.y)}${bar}`;
              },
            },
          },
        },
      },
      plugins: [whiskers],
    });
    charts.push(chart);
    paint(chart, isDark());
  });
  return figure;
}

function drawHeatMap(map) {
  const flat = map.values.flat().filter((v) => v !== null);
  const least = Math.min(...flat), most = Math.max(...flat);
  const table = make("table", { className: "heat" });
  table.append(make("tr", {}, make("th", { className: "row", textContent: `${map.y.name} \\ ${map.x.name}` }), ...map.columns.map((c) => make("th", { textContent: c }))));
  map.values.forEach((row, i) => {
    table.append(make("tr", {}, make("th", { className: "row", textContent: map.rows[i] }), ...row.map((value) => {
      const part = value === null ? 0 : most > least ? (value - least) / (most - least) : 0.5;
      const cell = make("td", { textContent: readable(value) });
      cell.style.background = `rgb(31 111 156 / ${(0.06 + 0.84 * part).toFixed(2)})`;
      if (part > 0.55) cell.style.color = "#fff";
      return cell;
    })));
  });
  return make("figure", {}, make("h3", { textContent: map.title }), make("div", { className: "scroll" }, table),
    make("p", { className: "note", textContent: map.value }));
}

function drawTable(description) {
  const numeric = description.columns.map((_, i) => description.rows.length > 0 && description.rows.every((row) => row[i] === "" || row[i] === "-" || isNumber(row[i])));
  const cells = (row, tag) => row.map((text, i) => make(tag, { textContent: text, className: numeric[i] ? "number" : "" }));
  const table = make("table", {}, make("tr", {}, ...cells(description.columns, "th")));
  for (const row of description.rows) table.append(make("tr", {}, ...cells(row, "td")));
  return make("figure", {}, make("h3", { textContent: description.title }), make("div", { className: "scroll" }, table));
}

function drawTexts(texts) {
  const columns = texts.versions.map((version) => make("div", {}, make("b", { textContent: version.name }), version.same, version.rest ? make("mark", { textContent: version.rest }) : ""));
  return make("figure", {}, make("h3", { textContent: texts.title }), make("p", { className: "beginning", textContent: "… " + texts.beginning }),
    make("div", { className: "texts" }, ...columns), make("p", { className: "note", textContent: "Marked: from the first token that differs." }));
}

function drawExperiment(experiment) {
  const section = make("section", { id: experiment.name }, make("h2", { textContent: experiment.title }), make("p", { className: "question", textContent: experiment.question }));
  section.append(make("ul", { className: "findings" }, ...experiment.findings.map((text) => make("li", { textContent: text }))));
  if (experiment.checks.length > 0) {
    section.append(make("ul", { className: "checks" }, ...experiment.checks.map((check) => make("li", { textContent: check.what, className: check.met ? "" : "failed" }))));
  }
  const grid = make("div", { className: "figures" });
  grid.append(...experiment.charts.map(drawChart), ...experiment.heat_maps.map(drawHeatMap), ...experiment.tables.map(drawTable));
  section.append(grid, ...experiment.texts.map(drawTexts));
  section.append(make("p", { className: "note", textContent: `Took ${Math.round(experiment.seconds)} s.` }));
  return section;
}

const c = results.conditions;
document.getElementById("conditions").textContent =
  `${c.model} on ${c.machine}. Text: ${c.text}. Quire ${c.version}${c.quick ? ", quick: fewer and shorter measurements" : ""}.`;
document.title = `Quire lab: ${c.model}`;
for (const experiment of results.experiments) {
  document.getElementById("contents").append(make("a", { href: `#${experiment.name}`, textContent: experiment.name }));
  document.getElementById("experiments").append(drawExperiment(experiment));
}
const repaint = (dark) => charts.forEach((chart) => { chart.resize(); paint(chart, dark); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint(isDark()));
addEventListener("beforeprint", () => repaint(false));
addEventListener("afterprint", () => repaint(isDark()));
