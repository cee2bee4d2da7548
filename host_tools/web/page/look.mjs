// Look: the report of a model that lies beside the page, or of a file.
import { load } from './engine/mica.mjs';
import { $, bytesOf, draw, guarded, make, number, table, wide } from './dom.mjs';
import { fit } from './fit.mjs';
import { pico } from './pico.mjs';
import { push } from './push.mjs';

const BOX = 330;
const HIGH = 40;
const GAP = 22;
const LEFT = 70; // of the chart of memory: the bytes stand there
const shape = (dims) => dims.join('×') || 'scalar';

export async function begin(site) {
  $('look-model').append(...site.models.map((one) => make('option', { value: one.file }, one.name)));
  const listed = guarded(async () => {
    const { file, facts } = site.models[$('look-model').selectedIndex];
    await report(site, file, await bytesOf(`models/${file}`), () => bytesOf(`models/${facts}`));
  });
  const dropped = guarded(async (file) => {
    const bytes = new Uint8Array(await file.arrayBuffer());
    $('look-model').selectedIndex = -1;
    $('report').replaceChildren(); // of a file that is refused nothing is shown, and nothing of another
    await report(site, file.name, bytes, () => bytesOf('facts', { method: 'POST', body: bytes }));
  });
  $('look-model').onchange = () => {
    $('look-file').value = '';
    return listed();
  };
  $('look-file').onchange = () => $('look-file').files[0] && dropped($('look-file').files[0]);
  $('look').addEventListener('dragover', (event) => event.preventDefault());
  $('look').addEventListener('drop', (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) dropped(event.dataTransfer.files[0]);
  });
  await listed();
}

async function report(site, file, bytes, costs) {
  const m = await load(bytes);
  const tensors = Array.from({ length: m.info.tensors }, (_, i) => m.tensor(i));
  const cards = [
    ['file', `${number(m.info.fileBytes)} bytes`],
    ['tensors', `${number(m.info.arenaBytes)} bytes`],
    ['scratch for speed', `${number(m.info.scratchWant)} bytes`],
    ['multiplications', number(m.layers.reduce((sum, s) => sum + s.macs, 0))],
    ['layers', m.info.layers],
    ['self-test', m.info.golden ? (m.selftest() === null ? 'passed here' : 'FAILED here') : 'no vectors'],
  ];
  const ends = [['Input', m.inputs], ['Output', m.outputs]].flatMap(([role, list]) =>
    list.map((t) => make('p', {}, `${role} `, make('b', {}, t.name), `: ${t.dtype} ${shape(t.shape)}, scale ${t.scale.toPrecision(6)}, zero point ${t.zeroPoint}`)),
  );
  const rows = m.layers.map((s) => {
    const t = tensors[s.outputs[0]];
    return [`${s.index} ${s.name}`, s.kernel, shape(t.shape), number(s.macs), number(s.scratch), number(t.bytes)];
  });
  const boards = make('div', { id: 'boards' });
  $('report').replaceChildren(
    make('h2', {}, m.name || file),
    make('p', { className: 'soft' }, make('code', {}, m.metadata('command') ?? '')),
    make('ul', { className: 'cards' }, ...cards.map(([name, value]) => make('li', {}, make('span', { className: 'soft' }, name), make('b', {}, String(value))))),
    ...ends,
    ...(m.labels.length ? [make('p', { className: 'soft' }, `Labels: ${m.labels.join(', ')}`)] : []),
    make('h2', {}, 'On a board'),
    boards,
    make('h2', {}, 'Graph'),
    wide('graph', graph(m, tensors)),
    make('h2', {}, 'Memory over time'),
    wide('memory', memory(m, tensors)),
    make('h2', {}, 'Layers'),
    wide('layers', table(['layer', 'kernel', 'output', 'multiplications', 'scratch', 'bytes of its output'], rows)),
  );
  let found = [];
  try {
    found = JSON.parse(new TextDecoder().decode(await costs()));
  } catch {
    // A server of static files: the page's own rule says if it fits, and a virtual Pico what it takes.
  }
  const chosen = make('select', { id: 'board-choice' }, ...site.boards.map((b, i) => make('option', { value: i }, b.board)));
  const said = make('div', { id: 'board-facts' });
  chosen.onchange = () => {
    const b = site.boards[chosen.value];
    const time = found.find((one) => one.board === b.board);
    const measured = make('div', { id: 'measured' });
    const button = make('button', { type: 'button', id: 'measure' }, 'Measure on the virtual Pico');
    button.onclick = guarded(() => measure(button, measured, bytes, m));
    const told = make('p', {}, 'Its time is predicted by ', make('code', {}, `mica fit ${file} --board ${b.board}`), ', or here where `mica web` serves this page.');
    const virtual = site.pico && b.board === 'RPI_PICO' ? [make('p', {}, button), measured] : [];
    said.replaceChildren(...onBoard(b, m), ...(time ? predicted(time, m) : [told]), ...virtual);
  };
  boards.append(make('label', {}, 'Board ', chosen), said);
  chosen.onchange();
}

// What the file says, against what the board has.
function onBoard(b, m) {
  const { reasons, notes, heap } = fit(m, b);
  const room = b.heap === null ? 'which was not measured there' : `of ${number(b.heap)}`;
  return [
    make('p', reasons.length ? { className: 'warn' } : {}, reasons.length ? `It does not fit: ${reasons.join('; ')}` : 'It fits.'),
    make('p', {}, `${number(heap)} bytes of heap, ${room}, beside the ${number(b.arena)} bytes of mica's arena.`),
    ...notes.map((note) => make('p', { className: 'soft' }, note)),
  ];
}

function bars(unit, m, costs) {
  const most = costs.reduce((a, c) => Math.max(a, c ?? 0), 1);
  const rows = m.layers.map((s, i) => [s.name, costs[i] === null ? '–' : number(costs[i]), '▇'.repeat(Math.round((12 * (costs[i] ?? 0)) / most))]);
  return wide(`${unit} of the layers`, Object.assign(table(['layer', unit, ''], rows), { className: 'bars' }));
}

function predicted(b, m) {
  if (b.total === null) return [make('p', {}, 'No costs were measured for this core.')];
  const flash = b.flash_milliseconds ? `, of which flash ${b.flash_milliseconds.toPrecision(3)}` : '';
  const ms = b.milliseconds === null ? '' : `, ${b.milliseconds.toPrecision(3)} ms${flash}`;
  const time = `An inference takes about ${number(b.total)} ${b.unit}${ms} (predicted).`;
  return [make('p', {}, time), bars(b.unit, m, b.layers)];
}

// The file goes into the virtual Pico's ROM and is timed there, layer by layer.
async function measure(button, box, bytes, m) {
  button.disabled = true;
  box.setAttribute('role', 'status');
  box.textContent = 'The virtual Pico works ...';
  try {
    const board = await pico();
    const { path } = await push(board, 'look.mica', bytes);
    const { total, layers } = await board.profile(path);
    box.replaceChildren(make('p', {}, `A Pico takes ${(total / 1000).toPrecision(3)} ms at 125 MHz (measured on the virtual one).`), bars('microseconds', m, layers));
  } catch (error) {
    box.textContent = '';
    throw error;
  } finally {
    button.disabled = false;
  }
}

// For each layer its inputs, as places of those that made their bytes: what only changes a shape is no layer.
function makers(m, tensors) {
  const made = m.inputs.map((t, k) => [t, k]);
  return m.layers.map((s, k) => {
    const found = s.inputs.map((id) => {
      const t = tensors[id];
      return made.findLast(([o]) => o.id === id || (o.space === t.space && o.address <= t.address && t.address < o.address + o.bytes))?.[1];
    });
    s.outputs.forEach((id) => made.push([tensors[id], m.inputs.length + k]));
    return [...new Set(found)].filter((place) => place !== undefined);
  });
}

function graph(m, tensors) {
  const boxes = [...m.inputs.map((t) => [t.name, `input  ${shape(t.shape)}`]), ...m.layers.map((s) => [s.name, `${s.kernel}  ${shape(tensors[s.outputs[0]].shape)}`])];
  const y = (k) => 10 + k * (HIGH + GAP);
  const wires = makers(m, tensors).flatMap((list, k) => list.map((from) => wire(y, from, k + m.inputs.length)));
  const drawn = boxes.map(([name, text], k) => {
    const shown = name.length > 44 ? `…${name.slice(-43)}` : name;
    return draw('g', {}, draw('rect', { class: 'box', x: 10, y: y(k), width: BOX, height: HIGH, rx: 5 }), draw('text', { x: 20, y: y(k) + 17 }, shown), draw('text', { x: 20, y: y(k) + 33, opacity: 0.75 }, text));
  });
  return draw('svg', { width: BOX + 130, height: y(boxes.length), role: 'img', 'aria-label': `${m.info.layers} layers; the table below names them` }, ...wires, ...drawn);
}

function wire(y, a, b) {
  if (b === a + 1) return draw('path', { class: 'wire', d: `M${10 + BOX / 2} ${y(a) + HIGH}V${y(b)}` });
  const side = 10 + BOX;
  const out = side + 12 * Math.min(b - a, 9);
  return draw('path', { class: 'wire', d: `M${side} ${y(a) + HIGH / 2}C${out} ${y(a) + HIGH / 2} ${out} ${y(a) + HIGH} ${out} ${y(a) + HIGH}V${y(b)}C${out} ${y(b) + HIGH / 2} ${out} ${y(b) + HIGH / 2} ${side} ${y(b) + HIGH / 2}` });
}

// Across the layers, down the bytes of the arena: a block for each tensor, with its name, from the layer that makes it to the last that
// reads it.
function memory(m, tensors) {
  const n = m.info.layers;
  const uses = tensors.map((t) => ({ t, from: m.inputs.some((i) => i.id === t.id) ? 0 : n, to: m.outputs.some((o) => o.id === t.id) ? n - 1 : -1 }));
  for (const s of m.layers) {
    for (const id of s.outputs) uses[id].from = Math.min(uses[id].from, s.index);
    for (const id of [...s.inputs, ...s.outputs]) uses[id].to = Math.max(uses[id].to, s.index);
  }
  const shown = uses.filter(({ t, from, to }) => (t.space === 0 || t.space === 3) && to >= 0 && from < n);
  const base = shown.reduce((least, { t }) => Math.min(least, t.address), Infinity);
  const column = Math.max(18, Math.min(96, 1000 / n));
  const scale = 300 / Math.max(m.info.arenaBytes, 1);
  const blocks = shown.map(({ t, from, to }) => {
    const title = draw('title', {}, `${t.name}: ${number(t.bytes)} bytes`);
    const [x, y, width, height] = [LEFT + from * column, 20 + (t.address - base) * scale, (to - from + 1) * column - 1, Math.max(1, t.bytes * scale)];
    const letters = height >= 14 ? Math.floor((width - 8) / 7) : 0;
    const name = t.name.length <= letters ? t.name : letters > 5 ? `…${t.name.slice(1 - letters)}` : '';
    return draw('g', {}, draw('rect', { class: 'block', x, y, width, height }, title), draw('text', { x: x + 4, y: y + 12 }, name));
  });
  const text = `${number(m.info.arenaBytes)} bytes of tensors over ${n} layers`;
  const every = Math.ceil(30 / column);
  const layers = m.layers.filter((s) => s.index % every === 0).map((s) => draw('text', { x: LEFT + s.index * column, y: 336 }, String(s.index)));
  const bytes = [0, 0.5, 1].map((part) => draw('text', { x: LEFT - 6, y: 24 + 300 * part, 'text-anchor': 'end' }, number(part * m.info.arenaBytes)));
  const axes = [draw('text', { x: 0, y: 12 }, 'byte'), ...bytes, ...layers, draw('text', { x: LEFT, y: 352 }, `layer, by its number in the table below; ${text}`)];
  return draw('svg', { width: LEFT + Math.max(n * column, 420), height: 360, role: 'img', 'aria-label': text }, ...blocks, ...axes);
}
