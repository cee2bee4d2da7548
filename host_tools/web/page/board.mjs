// Board: a real one over Web Serial. What it is; mica and models onto it, tested and compared; samples of a sensor; its prompt.
import { load } from './engine/mica.mjs';
import { base64, zip } from './bytes.mjs';
import { $, bytesOf, guarded, make, number } from './dom.mjs';
import { architecture, firmware, howToInstall, install } from './install.mjs';
import { push } from './push.mjs';
import { record, SENSORS } from './record.mjs';
import { BoardError, SerialBoard } from './serial_board.mjs';
import { Terminal } from './terminal.mjs';

let board = null;
let site;
const pushed = new Map(); // where a model is on this board, by its file's name
const say = (text) => ($('board-state').textContent = text);

export async function begin(given) {
  site = given;
  $('no-serial').hidden = 'serial' in navigator;
  $('connect').disabled = !('serial' in navigator);
  $('board-model').append(...site.models.map((one) => make('option', { value: one.file }, one.name)));
  const terminal = new Terminal($('board-terminal'), guarded((text) => board.type(text)));
  $('connect').onclick = guarded(() => connect(terminal));
  $('disconnect').onclick = guarded(() => board.close());
  const actions = { install: put, push: send, 'board-selftest': selftest, compare, record: keep };
  for (const [id, action] of Object.entries(actions)) $(id).onclick = guarded(() => alone(action));
  $('sensor').append(...Object.entries(SENSORS).map(([kind, { title }]) => make('option', { value: kind }, title)));
  $('sensor').onchange = () => {
    $('wires').value = SENSORS[$('sensor').value].wires;
    $('record-rate').value = $('record-count').value = SENSORS[$('sensor').value].rate;
  };
  $('sensor').onchange();
}

// One thing at a time: the buttons wait until it is done.
async function alone(action) {
  const buttons = [...document.querySelectorAll('#board-install button, #board-tools button')];
  buttons.forEach((button) => (button.disabled = true));
  try {
    await action();
  } catch (error) {
    if (board) say('');
    throw error;
  } finally {
    buttons.forEach((button) => (button.disabled = false));
  }
}

async function connect(terminal) {
  let port;
  try {
    port = await navigator.serial.requestPort();
  } catch (error) {
    if (error.name === 'NotFoundError') return; // nothing was chosen
    throw error;
  }
  const found = new SerialBoard(port);
  try {
    await found.open();
  } catch {
    throw new Error('the port cannot be opened: is another program connected to the board?');
  }
  say('Connecting ...');
  found.onText = (bytes) => terminal.write(bytes);
  found.onLost = (why) => {
    board = null;
    $('board-tools').hidden = $('board-install').hidden = $('disconnect').disabled = true;
    $('connect').disabled = false;
    say(`Not connected: ${why}`);
  };
  try {
    await describe(found);
  } catch (error) {
    await found.close();
    throw error;
  }
}

// What the board is, and what can be done with it.
async function describe(found) {
  const printed = await found.session(async (run) => {
    const name = (await run('import sys\nprint(sys.implementation.name)')).trim();
    if (name !== 'micropython') throw new BoardError(`this board runs ${name}; MicroPython is expected, and mica is not made for others`);
    return run(`${site.programs.probe}\n_mica_probe()`);
  });
  const facts = Object.fromEntries(printed.split(/\r?\n/).map((line) => /^mica:(\w+) (.*)$/.exec(line)?.slice(1)).filter(Boolean));
  const engine = facts.engine?.split(' ');
  const there = engine && facts.mica;
  const arch = there ? '' : await architecture(found, site.programs);
  board = found;
  pushed.clear();
  const heap = number(Number(facts.heap.split(' ')[0]));
  const state = there ? `mica ${facts.mica} is there, with the kernels ${engine[1]}.` : 'mica is not there yet.';
  const other = there && facts.mica !== site.version ? ` This page has mica ${site.version}: put the same onto the board if a model is refused.` : '';
  say(`${facts.machine}, MicroPython ${facts.micropython}, ${heap} bytes of heap. ${state}${other}`);
  $('connect').disabled = true;
  $('disconnect').disabled = $('board-tools').hidden = false;
  $('board-models').hidden = !there;
  $('board-install').hidden = there && !other;
  $('install').hidden = !site.native.includes(arch);
  $('install').dataset.arch = arch;
  $('install-how').textContent = there ? '' : howToInstall(site, arch);
  $('firmware-how').replaceChildren(...firmware(site, facts.build));
}

async function put() {
  const { arch } = $('install').dataset;
  await install(board, arch, (part, path) => say(`${path}: ${Math.round(100 * part)} %`));
  await describe(board);
}

// The chosen model: its name on the board, and its bytes, which the engine here has accepted.
async function chosen() {
  const [file] = $('board-file').files;
  const bytes = file ? new Uint8Array(await file.arrayBuffer()) : await bytesOf(`models/${$('board-model').value}`);
  return { name: (file?.name ?? $('board-model').value).split('/').at(-1), bytes, model: await load(bytes) };
}

// The name by which the board has the chosen model.
const placeOf = (name) => pushed.get(name) ?? name;

async function send() {
  const { name, bytes } = await chosen();
  const begun = performance.now();
  const done = await push(board, name, bytes, (part) => {
    $('push-progress').value = part;
    say(part < 1 ? `${name}: ${Math.round(100 * part)} %` : `${name}: the board tries it ...`);
  });
  pushed.set(name, done.path);
  say(`${name} is on the board, at ${done.path}: tried there and in use. ${number(done.sent)} bytes sent, ${number(done.kept)} were there, ${((performance.now() - begun) / 1000).toFixed(1)} s.`);
}

async function selftest() {
  const { name } = await chosen();
  say(`${name}: the board runs its golden vectors ...`);
  const said = await board.selftest(placeOf(name));
  if (said !== 'None') throw new Error(`${name}: the self-test failed at ${said}`);
  say(`${name}: the self-test passed.`);
}

async function compare() {
  const { name, model } = await chosen();
  if (!model.info.golden) throw new Error(`${name} has no golden vectors to compare with; pack it with --golden 1`);
  let micros = 0;
  for (let i = 0; i < model.info.golden; ++i) {
    const { inputs } = model.golden(i);
    inputs.forEach((x, k) => model.write(k, x));
    model.reset();
    model.run();
    const raw = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    const here = model.outputs.map((_, k) => base64(raw(model.output(k))));
    const there = await board.predict(placeOf(name), inputs.map(raw));
    if (here.some((text, k) => text !== there.outputs[k])) throw new Error(`${name}: the board gives OTHER BYTES for vector ${i}`);
    ({ micros } = there);
  }
  say(`${name}: the same bytes as this page for ${model.info.golden} inputs; ${(micros / 1000).toFixed(1)} ms on the board.`);
}

// Bytes of int16 rows of the chosen sensor, for a model that takes rows of `columns` numbers.
export async function sensed(columns, rate, count) {
  if (!board) throw new Error('Connect a board first, and choose its sensor, in the part Board.');
  const kind = $('sensor').value;
  if (SENSORS[kind].columns !== columns) throw new Error(`The model takes ${columns} numbers at a time: choose such a sensor in the part Board.`);
  return (await record(board, site.programs, kind, $('wires').value.trim(), rate, count)).samples;
}

const recorded = {}; // the files of this visit, in folders by label

// Samples of a sensor, in a file by the name of their label.
async function keep() {
  const [rate, count] = ['record-rate', 'record-count'].map((id) => Number($(id).value));
  const label = $('record-label').value.trim();
  if (!/^[\p{L}\p{N}_-]+$/u.test(label)) throw new Error('a label is expected, of letters, digits, _ and -');
  if (!(rate >= 1 && rate <= 96000 && count >= 1 && count <= 40000)) throw new Error('1 to 40000 samples are expected, at 1 to 96000 a second');
  say('Recording ...');
  const { ending, bytes } = await record(board, site.programs, $('sensor').value, $('wires').value.trim(), rate, count);
  const place = $('recordings').children.length + 1;
  const name = `${label}-${place}.${ending}`;
  const link = make('a', { href: `data:application/octet-stream;base64,${base64(bytes)}`, download: name }, name);
  $('recordings').append(make('li', {}, link, `: ${number(count)} samples`));
  recorded[`${label}/${String(place).padStart(4, '0')}.${ending}`] = bytes;
  URL.revokeObjectURL($('all-recordings').href);
  $('all-recordings').href = URL.createObjectURL(new Blob([zip(recorded)]));
  $('all-recordings').parentElement.hidden = false;
  say(`Recorded. Save the file into a folder named ${label}, or all of them for mica train.`);
}
