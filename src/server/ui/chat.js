// The conversation: asking, streaming, stopping, changing an earlier turn.
'use strict';

const byId = (id) => document.getElementById(id);
const storage = {
  get: (key) => { try { return localStorage.getItem(key); } catch { return null; } },
  set: (key, value) => { try { localStorage.setItem(key, value); } catch { /* private windows keep nothing */ } },
};

let turns = [];  // {role, content, note, failed}
let running = null;  // the AbortController of the answer under way

function applyTheme(theme) {
  document.documentElement.classList.toggle('dark', theme === 'dark');
  storage.set('theme', theme);
  document.dispatchEvent(new Event('theme'));
}
applyTheme(storage.get('theme') || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'));
byId('theme').onclick = () => applyTheme(document.documentElement.classList.contains('dark') ? 'light' : 'dark');

const tabs = [...document.querySelectorAll('[role=tab]')];
function choose(tab) {
  for (const other of tabs) {
    const chosen = other === tab;
    other.setAttribute('aria-selected', chosen);
    other.tabIndex = chosen ? 0 : -1;
    byId(other.getAttribute('aria-controls')).hidden = !chosen;
  }
  location.hash = tab.getAttribute('aria-controls');
  document.dispatchEvent(new Event('tab'));
}
for (const [i, tab] of tabs.entries()) {
  tab.onclick = () => choose(tab);
  tab.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(i + step + tabs.length) % tabs.length];
    choose(next);
    next.focus();
  };
}

async function loadModels() {
  const reply = await fetch('/v1/models');
  const { data } = await reply.json();
  byId('model').replaceChildren(...data.map(({ id }) => new Option(id, id)));
}

function drawTurn(turn, index) {
  const box = document.createElement('div');
  box.className = `turn ${turn.role}${turn.failed ? ' failed' : ''}`;
  box.append(turn.content);
  if (turn.note) {
    const note = document.createElement('span');
    note.className = 'note';
    note.textContent = turn.note;
    box.append(note);
  }
  if (turn.role === 'user') {
    const edit = document.createElement('button');
    edit.className = 'edit';
    edit.textContent = 'edit';
    edit.setAttribute('aria-label', `Change message ${index + 1} and ask again`);
    edit.onclick = () => editTurn(index);
    box.append(edit);
  }
  return box;
}
function draw() {
  byId('talk').replaceChildren(...turns.map(drawTurn));
  byId('send').hidden = running !== null;
  byId('stop').hidden = running === null;
}
function editTurn(index) {
  if (running) running.abort();
  byId('question').value = turns[index].content;
  turns = turns.slice(0, index);
  draw();
  byId('question').focus();
}

const number = (id) => (byId(id).value === '' ? undefined : Number(byId(id).value));
function requestBody() {
  const messages = turns.filter((turn) => !turn.failed).map(({ role, content }) => ({ role, content }));
  const system = byId('system').value.trim();
  if (system) messages.unshift({ role: 'system', content: system });
  return {
    model: byId('model').value, messages, stream: true, stream_options: { include_usage: true },
    temperature: number('temperature'), top_p: number('top_p'), top_k: number('top_k'), max_tokens: number('max_tokens'), seed: number('seed'),
  };
}

// Server-sent events from a response's body.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      if (block.startsWith('data: ') && block !== 'data: [DONE]') yield JSON.parse(block.slice(6));
    }
  }
}

function noteOf({ usage, timings }) {
  if (!usage || !timings) return '';
  const cached = usage.prompt_tokens_details.cached_tokens;
  return `${usage.prompt_tokens} tokens of prompt, ${cached} cached; first token ${timings.ttft_ms.toFixed(0)} ms; ` +
    `${usage.completion_tokens} tokens at ${timings.predicted_per_second.toFixed(1)} per second`;
}

async function answer() {
  const turn = { role: 'assistant', content: '', note: '' };
  const body = JSON.stringify(requestBody());
  turns.push(turn);
  running = new AbortController();
  draw();
  const box = byId('talk').lastElementChild;
  try {
    const response = await fetch('/v1/chat/completions', { method: 'POST', body, signal: running.signal, headers: { 'Content-Type': 'application/json' } });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const event of events(response)) {
      if (event.error) throw new Error(event.error.message);
      turn.content += event.choices[0]?.delta.content ?? '';
      turn.note = noteOf(event);
      box.textContent = turn.content;
      window.scrollTo(0, document.body.scrollHeight);
    }
  } catch (error) {
    if (error.name === 'AbortError') {
      turn.note = 'stopped';
    } else {
      turn.failed = true;
      turn.content ||= error.message;
    }
  }
  running = null;
  byId('figures').textContent = turn.note;
  byId('figures').className = 'heard';  // the turn shows it already
  draw();
}

byId('ask').onsubmit = (event) => {
  event.preventDefault();
  const question = byId('question').value.trim();
  if (!question || running) return;
  turns.push({ role: 'user', content: question });
  byId('question').value = '';
  answer();
};
byId('question').onkeydown = (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    byId('ask').requestSubmit();
  }
};
byId('stop').onclick = () => running?.abort();
byId('reset').onclick = () => { running?.abort(); turns = []; draw(); };

loadModels().catch(() => { byId('figures').textContent = 'The server does not answer.'; });
draw();
