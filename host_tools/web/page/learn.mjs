// Teach: signs that are drawn on the paper of Try, words of this computer's microphone, motion of the board on the cable.
// A mica.Learner on the virtual Pico learns them, and keeps them in its flash.
import { load } from './engine/mica.mjs';
import { crc32 } from './bytes.mjs';
import { $, bytesOf, guarded, make } from './dom.mjs';
import { pico } from './pico.mjs';
import { programs, quoted } from './serial_board.mjs';

const HEARD = 5; // windows of the microphone, a quarter of a second apart: the loudest is the word
// What an example is of. model: of what is not drawn; there: done when the board has the file.
const drawings = { name: 'embedding.mica', path: '/signs', bytes: () => bytesOf('pico/embedding.mica'), example: null };
const learner = ({ name, path }) => `import mica,json
from array import array
_hs=globals().get('_hs') or {}
if ${quoted(name)} not in _hs:
 _m=_of=None
 _hs[${quoted(name)}]=mica.Learner(mica.Model(${quoted(name)}),path=${quoted(path)})
_h=_hs[${quoted(name)}]
`;
let from = drawings;
let microphone; // of Try

// Runs a line of Python on the board, with the example as x, and shows what the head knows then.
async function ask(line) {
  const { example, model } = from;
  const board = await pico();
  from.there ??= from.bytes().then((bytes) => board.put(from.name, bytes));
  await from.there;
  const printed = await board.session(async (run) => {
    for await (const part of example ? programs(example, '_x') : ['_x=None']) await run(part);
    const x = `x=_x and ${model ? 'mica.Quantised(_x)' : "array('f',_x)"}`;
    return run(`${learner(from)}${x}\n${line}\nprint(json.dumps([_h.labels,_h.counts,_h.predict([x]) if x and _h.labels else 0]))`, 60);
  });
  const [labels, counts, found] = JSON.parse(printed);
  const knows = labels.map((label, i) => `${label} (${counts[i]})`).join(', ') || 'nothing yet';
  const answer = found === 0 ? [] : [make('p', {}, make('b', {}, found ? found[0] : 'unknown'), found ? ` ${found[1].toFixed(2)}` : '')];
  const forget = labels.map((label) => make('button', { type: 'button', onclick: () => change(`_h.forget(${quoted(label)})`) }, `Forget ${label}`));
  $('sign-answer').replaceChildren(...answer, make('p', { className: 'soft' }, `The virtual Pico knows ${knows}.`), make('p', { className: 'row' }, ...forget));
}

const change = guarded(async (line) => {
  $('sign-answer').textContent = from.there ? 'The virtual Pico works ...' : 'The virtual Pico starts (0.6 MB) ...';
  await ask(line);
});

// The next example: what is drawn, a word that is said now, or what the board's sensor gives now.
async function take() {
  if (from === drawings) {
    if (!from.example) throw new Error('Draw a sign first, on the paper above.');
    return;
  }
  const { sampleRate, inputs: [{ shape }] } = from.model;
  $('sign-answer').textContent = 'Now ...';
  from.example = null;
  if (shape.length > 2) {
    const { sensed } = await import('./board.mjs');
    from.example = await sensed(shape.at(-1), sampleRate, shape.at(-2));
    return;
  }
  const heard = [];
  let end = () => {};
  await new Promise((done, failed) => {
    const listen = (samples) => heard.push(samples.slice()) === HEARD && done();
    microphone(sampleRate, shape.at(-1), listen, () => {}).then((stop) => (end = stop), failed);
  });
  end();
  const power = (samples) => samples.reduce((sum, x) => sum + x * x, 0);
  const word = heard.reduce((best, samples) => (power(samples) > power(best) ? samples : best));
  if (!power(word)) throw new Error('The microphone gives silence: is it on?');
  from.example = new Uint8Array(word.buffer);
}

const teach = guarded(async () => {
  const name = $('sign').value.trim();
  if (!name) throw new Error('Name the sign first.');
  await take();
  await change(`_h.teach([x],${quoted(name)})`);
});

// Power off and on: the worker says when the board is at its prompt again.
const reset = guarded(async () => {
  const board = await pico();
  const up = new Promise((done) => board.port.worker.addEventListener('message', ({ data }) => data.idle && done()));
  $('sign-answer').textContent = 'The virtual Pico starts ...';
  await board.session((run) => run('from machine import Timer,reset\n_t=Timer(period=100,mode=Timer.ONE_SHOT,callback=lambda t:reset())'));
  await up;
  await ask('');
});

// What was drawn, null for a blank paper: the board judges it where it was taught already.
export const drawn = guarded(async (pixels) => {
  drawings.example = pixels?.some((p) => p > 0) ? new Uint8Array(pixels.buffer.slice(0)) : null;
  if (from === drawings && from.there && from.example) await ask('');
});

// A model of sound or motion whose output is what is learnt; by its bytes the board knows it again after a reset.
const known = new Map();
async function choose(name, bytes) {
  const model = await load(bytes);
  if (!model.sampleRate) throw new Error(`${name} takes no sound and no motion; mica pack --embedding --frontend makes such a model`);
  const id = `t${crc32(bytes).toString(16)}`;
  if (!known.has(id)) known.set(id, { name: `${id}.mica`, path: `/${id}`, bytes: async () => bytes, model, example: null });
  from = known.get(id);
}

export function begin(site, listens) {
  microphone = listens;
  for (const id of ['teach', 'judge', 'keep', 'reset']) $(id).disabled = !site.pico;
  $('teach').onclick = teach;
  $('judge').onclick = guarded(async () => {
    await take();
    await change('');
  });
  $('keep').onclick = () => change('_h.save()');
  $('reset').onclick = reset;
  const models = site.models.filter((one) => one.rate);
  $('sign-from').append(...models.map((one) => make('option', { value: one.file }, one.name)));
  const other = guarded(async () => {
    from = drawings;
    $('sign-answer').replaceChildren();
    const [file] = $('sign-file').files;
    const chosen = $('sign-from').value;
    if (file) await choose(file.name, new Uint8Array(await file.arrayBuffer()));
    else if (chosen) await choose(chosen, await bytesOf(`models/${chosen}`));
  });
  $('sign-file').onchange = other;
  $('sign-from').onchange = () => {
    $('sign-file').value = '';
    return other();
  };
}
