// Board: a real one over Web Serial. What it is; models onto it, tested and compared; samples of a sensor; its prompt.
import { load } from './engine/mica.mjs';
import { $, bytesOf, guarded, make, number } from './dom.mjs';
import { base64, SerialBoard } from './serial_board.mjs';
import { Terminal } from './terminal.mjs';

let board = null;
let programs;
const say = (text) => ($('board-state').textContent = text);

export async function begin(site) {
  ({ programs } = site);
  $('no-serial').hidden = 'serial' in navigator;
  $('connect').disabled = !('serial' in navigator);
  $('board-model').append(...site.models.map((one) => make('option', { value: one.file }, one.name)));
  const terminal = new Terminal($('board-terminal'), guarded((text) => board.type(text)));
  $('connect').onclick = guarded(() => connect(terminal));
  $('disconnect').onclick = guarded(() => board.close());
  for (const [id, action] of Object.entries({ push, 'board-selftest': selftest, compare, record })) $(id).onclick = guarded(() => alone(action));
}

// One thing at a time: the buttons wait until it is done.
async function alone(action) {
  const buttons = [...$('board-tools').querySelectorAll('button')];
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
    $('board-tools').hidden = $('disconnect').disabled = true;
    $('connect').disabled = false;
    say(`Not connected: ${why}`);
  };
  let facts;
  try {
    facts = await found.session((run) => run(`${programs.probe}\n_mica_probe()`));
  } catch (error) {
    await found.close();
    throw error;
  }
  board = found;
  $('connect').disabled = true;
  $('disconnect').disabled = false;
  describe(Object.fromEntries(facts.split(/\r?\n/).map((line) => /^mica:(\w+) (.*)$/.exec(line)?.slice(1)).filter(Boolean)));
}

function describe(facts) {
  const engine = facts.engine?.split(' ');
  const heap = number(Number(facts.heap.split(' ')[0]));
  say(`${facts.machine}, MicroPython ${facts.micropython}, ${heap} bytes of heap. ${
    engine && facts.mica ? `mica ${facts.mica} is there, with the kernels ${engine[1]}.` : 'mica is not there: `mica flash` puts a firmware with it onto the board, `mica natmod` makes a module for this one.'
  }`);
  $('board-tools').hidden = false;
  for (const id of ['push', 'board-selftest', 'compare']) $(id).hidden = !(engine && facts.mica);
}

// The chosen model: its name on the board, and its bytes, which the engine here has accepted.
async function chosen() {
  const [file] = $('board-file').files;
  const bytes = file ? new Uint8Array(await file.arrayBuffer()) : await bytesOf(`models/${$('board-model').value}`);
  return { name: (file?.name ?? $('board-model').value).split('/').at(-1), bytes, model: await load(bytes) };
}

async function push() {
  const { name, bytes } = await chosen();
  const begun = performance.now();
  await board.put(name, bytes, (part) => {
    $('push-progress').value = part;
    say(`${name}: ${Math.round(100 * part)} %`);
  });
  say(`${name} is on the board: ${number(bytes.length)} bytes in ${((performance.now() - begun) / 1000).toFixed(1)} s.`);
}

async function selftest() {
  const { name } = await chosen();
  say(`${name}: the board runs its golden vectors ...`);
  const said = await board.selftest(name);
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
    const there = await board.predict(name, inputs.map(raw));
    if (here.some((text, k) => text !== there.outputs[k])) throw new Error(`${name}: the board gives OTHER BYTES for vector ${i}`);
    ({ micros } = there);
  }
  say(`${name}: the same bytes as this page for ${model.info.golden} inputs; ${(micros / 1000).toFixed(1)} ms on the board.`);
}

// Samples of an analogue pin, as a .wav by the name of their label.
async function record() {
  const [pin, rate, count] = ['pin', 'record-rate', 'record-count'].map((id) => Number($(id).value));
  const label = $('record-label').value.trim();
  if (!/^[\p{L}\p{N}_-]+$/u.test(label)) throw new Error('a label is expected, of letters, digits, _ and -');
  if (!(rate >= 1 && rate <= 20000 && count >= 1 && count <= 20000)) throw new Error('1 to 20000 samples are expected, and as many a second');
  say('Recording ...');
  const program = `${programs.record_adc}\n_x,_late=_mica_record_adc(${pin},${count},${Math.round(1e6 / rate)})
from binascii import b2a_base64
print(_late)
for i in range(0,len(_x),384): print(str(b2a_base64(memoryview(_x)[i:i+384]),'ascii'),end='')
_x=None`;
  const [late, ...lines] = (await board.session((run) => run(program, 10 + (2 * count) / rate))).trim().split(/\r?\n/);
  const samples = Uint8Array.from(atob(lines.join('')), (c) => c.charCodeAt(0));
  const n = $('recordings').children.length + 1;
  const link = make('a', { href: `data:audio/wav;base64,${base64(wav(samples, rate))}`, download: `${label}-${n}.wav` }, `${label}-${n}.wav`);
  $('recordings').append(make('li', {}, link, `: ${number(samples.length / 2)} samples${late === '0' ? '' : `, ${late} late`}`));
  say(`Recorded. Save the file into a folder named ${label}.`);
}

function wav(samples, rate) {
  const file = new Uint8Array(44 + samples.length);
  const view = new DataView(file.buffer);
  const words = [[0, 'RIFF'], [8, 'WAVEfmt '], [36, 'data']];
  for (const [at, text] of words) [...text].forEach((c, i) => (file[at + i] = c.charCodeAt(0)));
  for (const [at, n] of [[4, 36 + samples.length], [16, 16], [24, rate], [28, 2 * rate], [40, samples.length]]) view.setUint32(at, n, true);
  for (const [at, n] of [[20, 1], [22, 1], [32, 2], [34, 16]]) view.setUint16(at, n, true);
  file.set(samples, 44);
  return file;
}
