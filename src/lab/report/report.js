"use strict";
const results = JSON.parse(document.getElementById("results").textContent);
const drawn = [];  // charts: canvas, description, and what Chart.js made of them
const c = results.conditions;
const MACHINE = `${c.model} on ${c.machine}`;
const COLOURS = {
  light: ["#1f6f9c", "#c4562b", "#2f7d4f", "#7a4fa3", "#b8860b", "#4a4a4a", "#b03060", "#2a9d9d", "#8c6d46", "#6b8e23", "#556fb5"],
  dark: ["#6cb2d8", "#ef9368", "#6cc48f", "#b794dd", "#e0b64a", "#c4c2bc", "#e583ab", "#63cfcf", "#c9a97c", "#a9c95f", "#9fb1e6"],
};

function make(tag, attributes = {}, ...children) {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...children);
  return element;
}

const isNumber = (text) => /^[-+]?[\d.,]+(e[-+]?\d+)?( ± [\d.]+)?( ?[×%x]| ?[A-Za-z/]{1,6})?$/.test(text);
const axisTitle = (axis) => (axis.unit ? `${axis.name} (${axis.unit})` : axis.name);

function readable(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) {
    const [digits, power] = value.toExponential(1).split("e");
    const raised = String(Number(power)).replace("-", "⁻").replace(/\d/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]);
    return Number(digits) === 1 ? `10${raised}` : `${Number(digits)}·10${raised}`;
  }
  return value.toLocaleString("en", { maximumSignificantDigits: 4 });
}

// Whiskers from low to high, and labels beside points: where nothing is written yet.
const whiskers = {
  id: "whiskers",
  afterDatasetsDraw(chart) {
    const { ctx, chartArea } = chart;
    const taken = [];
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
        if (point.label) writeLabel(ctx, chartArea, element, point.label, taken);
      });
      ctx.restore();
    });
  },
};

function writeLabel(ctx, area, element, label, taken) {
  ctx.font = "11px system-ui, sans-serif";
  const width = ctx.measureText(label).width, height = 12;
  for (const [side, rise] of [[1, -6], [1, 14], [-1, -6], [-1, 14], [1, -20], [1, 28], [-1, -20], [-1, 28]]) {
    const left = side > 0 ? element.x + 7 : element.x - 7 - width, bottom = element.y + rise;
    if (left < area.left || left + width > area.right || bottom - height < area.top - 8 || bottom > area.bottom) continue;
    if (taken.some((t) => left < t.right && left + width > t.left && bottom - height < t.bottom && bottom > t.top)) continue;
    taken.push({ left, right: left + width, top: bottom - height, bottom });
    ctx.textAlign = "left";
    ctx.fillText(label, left, bottom - 2);
    return;
  }
}

const printing = () => matchMedia("print").matches;
const isDark = () => !printing() && matchMedia("(prefers-color-scheme: dark)").matches;

const inkOf = (dark) => (dark ? "#cfccc4" : "#44423d");

function colour(datasets, dark) {
  const palette = COLOURS[dark ? "dark" : "light"];
  let used = 0;  // what things are compared with has no colour of its own: the same series has the same one in every chart
  datasets.forEach((dataset) => {
    const main = dataset.reference ? inkOf(dark) : palette[used++ % palette.length];
    dataset.borderColor = dataset.pointBackgroundColor = main;
    dataset.backgroundColor = dataset.type === "bar" ? main + "b0" : main;
  });
}

// From the lowest whisker to the highest, and a little more.
function spanOf(axis, values, room) {
  const finite = values.filter((v) => Number.isFinite(v) && (!axis.logarithmic || v > 0));
  if (finite.length === 0) return {};
  let least = Math.min(...finite), most = Math.max(...finite);
  if (axis.logarithmic) {
    const more = Math.max((most / least) ** room, 1.1);
    return { min: least / more, max: most * more };
  }
  const more = room * (most - least || Math.abs(most) || 1);
  const fromZero = least >= 0 && least < 0.5 * most, toHundred = axis.unit === "percent" && most > 80 && most <= 100;
  return { min: fromZero ? 0 : least - more, max: toHundred ? 100 : most + more };
}

// Of ticks on a logarithmic axis, from the last on, those that leave room for what is written beside them.
function apart(ticks, scale, room) {
  const kept = [];
  for (const value of [...ticks].reverse()) {
    if (kept.length === 0 || Math.log(kept[0] / value) > room * Math.log(scale.max / scale.min)) kept.unshift(value);
  }
  return kept.map((value) => ({ value }));
}

function scaleOf(axis, values, dark, categories) {
  const scale = {
    type: categories ? "category" : axis.logarithmic ? "logarithmic" : "linear",
    title: { display: true, text: axisTitle(axis), color: inkOf(dark) },
    grid: { color: dark ? "#3a3833" : "#e4e0d8" },
    ticks: { maxRotation: 60, autoSkipPadding: 6, color: inkOf(dark) },
  };
  if (categories) {
    scale.labels = categories;
    scale.offset = true;
    scale.ticks.autoSkip = false;
  } else if (axis.logarithmic) {
    // Ticks at round numbers, so many that they stay apart.
    const positive = values.filter((v) => v > 0);
    const orders = Math.log10(Math.max(...positive) / Math.min(...positive));
    const shown = orders > 2.5 ? [1] : orders > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
    scale.afterBuildTicks = (built) => {
      const ticks = [];
      for (let power = Math.floor(Math.log10(built.min)); power <= Math.ceil(Math.log10(built.max)); ++power) {
        for (const digit of shown) {
          const value = Number(`${digit}e${power}`);
          if (value >= built.min && value <= built.max) ticks.push(value);
        }
      }
      if (ticks.length > 1) built.ticks = apart(ticks, built, built.axis === "x" ? 0.11 : 0.05);
    };
    scale.ticks.callback = readable;
  } else {
    scale.ticks.callback = readable;
    scale.ticks.includeBounds = false;
  }
  return scale;
}

// Where few lengths were measured, they are the ticks.
function ticksAtPoints(scale, axis, xs) {
  const different = [...new Set(xs)].sort((a, b) => a - b);
  if (different.length < 2 || different.length > 14 || !axis.logarithmic || !different.every(Number.isInteger)) return scale;
  if (different.every((x, i) => i === 0 || x / different[i - 1] >= 1.5)) {
    scale.afterBuildTicks = (built) => { built.ticks = apart(different, built, 0.11); };
  }
  return scale;
}

function buildChart(canvas, description, dark) {
  const categories = description.categories;
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
      pointStyle: reference ? "line" : series.style === "bars" ? "rect" : ["circle", "rect", "triangle", "rectRot", "star", "crossRot"][i % 6],
      tension: 0,
      clip: 6,
    };
  });
  const points = description.series.flatMap((series) => series.points);
  const bars = description.series.some((series) => series.style === "bars");
  const xs = points.map((p) => p.x), ys = points.flatMap((p) => [p.low, p.y, p.high]);
  const x = ticksAtPoints({ ...scaleOf(description.x, xs, dark, categories), ...(categories ? {} : spanOf(description.x, xs, 0.04)) }, description.x, xs);
  const y = { ...scaleOf(description.y, ys, dark), ...spanOf(description.y, bars && !description.y.logarithmic ? [0, ...ys] : ys, bars && description.y.logarithmic ? 0.2 : 0.06) };
  colour(datasets, dark);
  return new Chart(canvas, {
    data: { datasets },
    options: {
      animation: false,
      maintainAspectRatio: false,
      layout: { padding: { top: 8, right: 10 } },
      scales: { x, y },
      plugins: {
        legend: {
          display: datasets.length > 1,
          position: "bottom",
          labels: {
            usePointStyle: true,
            color: inkOf(dark),
            boxHeight: 7,
            filter: (item, data) => data.datasets.findIndex((d) => d.label === item.text) === item.datasetIndex,
          },
        },
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
}

function drawChart(description) {
  const canvas = make("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${description.title}: ${axisTitle(description.y)} over ${axisTitle(description.x)}`);
  drawn.push({ canvas, description });
  return make("figure", {}, make("h3", { textContent: description.title }), make("div", { className: "canvas" }, canvas),
    make("p", { className: "note", textContent: `${description.note} ${MACHINE}.`.trim() }));
}

function drawHeatMap(map) {
  const flat = map.values.flat().filter((v) => v !== null && (!map.logarithmic || v > 0));
  const height = map.logarithmic ? Math.log : (v) => v;
  const least = height(Math.min(...flat)), most = height(Math.max(...flat));
  // Digits that tell cells apart, and no more.
  const written = (value) => (value === null ? "" : Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 || Math.max(...flat) >= 100 ? Number(value.toFixed(1)).toString() : Number(value.toFixed(2)).toString());
  const table = make("table", { className: "heat" });
  table.append(make("tr", {}, make("th", { className: "row", textContent: `${map.y.name} \\ ${map.x.name}` }), ...map.columns.map((c) => make("th", { textContent: c }))));
  map.values.forEach((row, i) => {
    table.append(make("tr", {}, make("th", { className: "row", textContent: map.rows[i] }), ...row.map((value) => {
      const known = value !== null && (!map.logarithmic || value > 0);
      const part = !known ? 0 : most > least ? (height(value) - least) / (most - least) : 0.5;
      const cell = make("td", { textContent: written(value), className: part > 0.6 ? "deep" : "" });
      cell.style.setProperty("--part", (100 * (0.05 + 0.9 * part)).toFixed(0) + "%");
      return cell;
    })));
  });
  return make("figure", { className: map.columns.length > 11 ? "wide" : "" }, make("h3", { textContent: map.title }), make("div", { className: "scroll" }, table),
    make("p", { className: "note", textContent: `${map.value} ${MACHINE}.` }));
}

function drawTable(description) {
  const numeric = description.columns.map((_, i) => description.rows.length > 0 && description.rows.every((row) => row[i] === "" || row[i] === "-" || isNumber(row[i])));
  const cells = (row, tag) => row.map((text, i) => make(tag, { textContent: text, className: numeric[i] ? "number" : "" }));
  const table = make("table", {}, make("tr", {}, ...cells(description.columns, "th")));
  for (const row of description.rows) table.append(make("tr", {}, ...cells(row, "td")));
  const letters = description.columns.map((name, i) => Math.max(...[...name.split(" "), ...description.rows.map((row) => row[i])].map((t) => t.length)));
  const wide = letters.reduce((sum, n) => sum + n + 2, 0) > 60;
  return make("figure", { className: wide ? "wide" : "" }, make("h3", { textContent: description.title }), make("div", { className: "scroll" }, table));
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

document.getElementById("conditions").textContent =
  `${MACHINE}. Text: ${c.text}. Quire ${c.version}${c.quick ? ", quick: fewer and shorter measurements" : ""}.`;
document.title = `Quire lab: ${c.model}`;
for (const experiment of results.experiments) {
  document.getElementById("contents").append(make("a", { href: `#${experiment.name}`, textContent: experiment.name }));
  document.getElementById("experiments").append(drawExperiment(experiment));
}
// Anew each time: what Chart.js has drawn keeps the colours it was made with.
const paint = (dark, width, height) => drawn.forEach((d) => {
  d.chart?.destroy();
  d.chart = buildChart(d.canvas, d.description, dark);
  if (width) d.chart.resize(width, height);
});
requestAnimationFrame(() => paint(isDark()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => paint(isDark()));
// Paper has two columns, which nothing can measure before it is laid out: 190 mm without gaps and borders.
addEventListener("beforeprint", () => {
  Chart.defaults.font.size = 9;
  paint(false, 312, 250);
});
addEventListener("afterprint", () => {
  Chart.defaults.font.size = 12;
  paint(isDark());
});
