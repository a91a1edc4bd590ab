// The cache, live: every page as a cell, the tree of prefixes, and what happened over the last minutes.
'use strict';

const kEvery = 1000, kKept = 180;  // milliseconds between looks; looks on the charts
const looks = [];
let charts = null;

const mib = (bytes) => bytes / 1048576;
const count = (n) => n.toLocaleString();

function drawGauges(cache) {
  const gauges = [
    ['running', count(cache.running)], ['waiting', count(cache.waiting)],
    ['in use', `${mib(cache.bytes.used).toFixed(1)} MiB`], ['cached', `${mib(cache.bytes.cached).toFixed(1)} MiB`],
    ['prompt tokens', count(cache.tokens.prompt)], ['of those found', count(cache.tokens.cached)],
    ['generated', count(cache.tokens.generated)], ['preempted', count(cache.preemptions)],
  ];
  byId('gauges').replaceChildren(...gauges.map(([name, value]) => {
    const box = document.createElement('div');
    box.className = 'gauge';
    const number = document.createElement('b');
    number.textContent = value;
    const label = document.createElement('span');
    label.textContent = name;
    box.append(number, label);
    return box;
  }));
}

function drawPages(pages) {
  const board = byId('pages');
  while (board.children.length < pages.length) {
    const cell = document.createElement('i');
    cell.className = 'cell';
    board.append(cell);
  }
  while (board.children.length > pages.length) board.lastElementChild.remove();
  pages.forEach((page, i) => {
    const cell = board.children[i];
    cell.className = `cell ${page.state}`;
    const owners = page.sequences ?? [];
    const held = owners.length ? `, held by ${owners.length === 1 ? 'sequence' : 'sequences'} ${owners.join(', ')}` : '';
    cell.title = page.state === 'free' ? 'free' : `${page.state}, ${page.tokens} tokens${held}${page.named ? ', in the index' : ''}`;
  });
}
byId('pages').onmouseover = (event) => { if (event.target.title) byId('page-note').textContent = event.target.title; };

function drawTree(nodes) {
  const children = new Map();
  for (const node of nodes) {
    const parent = node.parent ?? '';
    children.set(parent, [...(children.get(parent) ?? []), node]);
  }
  const list = (parent) => {
    const ul = document.createElement('ul');
    for (const node of children.get(parent) ?? []) {
      const li = document.createElement('li');
      const bar = document.createElement('span');
      bar.className = 'bar';
      bar.style.width = `${Math.min(12, node.tokens / 64)}rem`;
      li.append(bar, `${count(node.tokens)} tokens, used ${node.uses === 1 ? 'once' : `${node.uses} times`}, ${node.in_use ? 'in use' : `${node.idle_s.toFixed(0)} s ago`}`);
      if (children.has(node.id)) li.append(list(node.id));
      ul.append(li);
    }
    return ul;
  };
  byId('tree').replaceChildren(nodes.length ? list('') : 'Nothing is cached yet.');
}

function makeCharts() {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const make = (id, sets) => new Chart(byId(id), {
    type: 'line',
    data: { labels: [], datasets: sets.map(([label, name]) => ({ label, data: [], borderColor: colour(name), backgroundColor: colour(name), borderWidth: 1.5, pointRadius: 1.5, spanGaps: true })) },
    options: {
      animation: false, maintainAspectRatio: false,
      plugins: { legend: { display: sets.length > 1, labels: { color: colour('--soft'), boxWidth: 10 } } },
      scales: {
        x: { title: { display: true, text: 'seconds ago', color: colour('--soft') }, ticks: { color: colour('--soft'), maxTicksLimit: 7 }, grid: { color: colour('--line') } },
        y: { beginAtZero: true, ticks: { color: colour('--soft') }, grid: { color: colour('--line') } },
      },
    },
  });
  charts = {
    speed: make('chart-speed', [['generated', '--accent'], ['prompt', '--open']]),
    first: make('chart-first', [['time to first token', '--accent']]),
    hits: make('chart-hits', [['found in the cache', '--cached']]),
    memory: make('chart-memory', [['in use', '--sealed'], ['cached', '--cached']]),
  };
}
function drawCharts() {
  if (!charts) makeCharts();
  const labels = looks.map((_, i) => looks.length - 1 - i);
  const fill = (chart, ...series) => {
    chart.data.labels = labels;
    series.forEach((data, i) => { chart.data.datasets[i].data = data; });
    chart.update();
  };
  fill(charts.speed, looks.map((h) => h.generated), looks.map((h) => h.prompt));
  fill(charts.first, looks.map((h) => h.first));
  fill(charts.hits, looks.map((h) => h.hits));
  fill(charts.memory, looks.map((h) => h.used), looks.map((h) => h.cached));
}
document.addEventListener('theme', () => {
  if (!charts) return;
  Object.values(charts).forEach((chart) => chart.destroy());
  charts = null;
  drawCharts();
});

let before = null;
function remember(cache) {
  const now = performance.now();
  if (before) {
    const seconds = (now - before.now) / 1000, t = cache.tokens, b = before.cache.tokens;
    const prompt = t.prompt - b.prompt;
    const answered = cache.first_tokens - before.cache.first_tokens;
    looks.push({
      generated: (t.generated - b.generated) / seconds, prompt: prompt / seconds,
      first: answered > 0 ? (cache.first_token_ms - before.cache.first_token_ms) / answered : null, hits: prompt > 0 ? (100 * (t.cached - b.cached)) / prompt : null,
      used: mib(cache.bytes.used), cached: mib(cache.bytes.cached),
    });
    if (looks.length > kKept) looks.shift();
  }
  before = { now, cache };
}

async function look() {
  if (byId('cache').hidden) return;
  try {
    const chosen = byId('model').value;
    const reply = await fetch(`/v1/cache?detail=pages&model=${encodeURIComponent(chosen)}`);
    if (!reply.ok) throw new Error((await reply.json()).error.message);
    const { models: [cache] } = await reply.json();
    if (chosen !== byId('model').value) return;
    if (before && before.cache.model !== cache.model) {
      looks.length = 0;
      before = null;
    }
    remember(cache);
    drawGauges(cache);
    drawPages(cache.page_list ?? []);
    drawTree(cache.tree ?? []);
    drawCharts();
  } catch (error) {
    byId('page-note').textContent = error.message;
  }
}
setInterval(look, kEvery);
document.addEventListener('tab', look);
byId('model').addEventListener('change', look);
if (location.hash === '#cache') choose(byId('tab-cache'));
