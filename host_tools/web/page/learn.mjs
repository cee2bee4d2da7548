// Teach: signs of one's own, drawn on the paper of Try. A mica.Learner on the virtual Pico learns them, and keeps them in its flash.
import { base64 } from './bytes.mjs';
import { $, bytesOf, guarded, make } from './dom.mjs';
import { pico } from './pico.mjs';
import { quoted } from './serial_board.mjs';

const MODEL = 'embedding.mica';
const LEARNER = `import mica,json
from array import array
from binascii import a2b_base64
if '_h' not in globals():
 _m=_of=None
 _h=mica.Learner(mica.Model('${MODEL}'),path='/signs')
`;
let pixels = null; // of what is drawn, float32
let there = null; // the model, in the board's flash

// Runs a line of Python on the board, with what is drawn as x, and shows what the head knows then.
async function ask(line) {
  const board = await pico();
  there ??= bytesOf(`pico/${MODEL}`).then((bytes) => board.put(MODEL, bytes));
  await there;
  const x = pixels ? `array('f',a2b_base64('${base64(new Uint8Array(pixels.buffer.slice(0)))}'))` : 'None';
  const printed = await board.session((run) =>
    run(`${LEARNER}x=${x}\n${line}\nprint(json.dumps([_h.labels,_h.counts,_h.predict([x]) if x and _h.labels else 0]))`, 60),
  );
  const [labels, counts, found] = JSON.parse(printed);
  const knows = labels.map((label, i) => `${label} (${counts[i]})`).join(', ') || 'nothing yet';
  const answer = found === 0 ? [] : [make('p', {}, make('b', {}, found ? found[0] : 'unknown'), found ? ` ${found[1].toFixed(2)}` : '')];
  const forget = labels.map((label) => make('button', { type: 'button', onclick: () => change(`_h.forget(${quoted(label)})`) }, `Forget ${label}`));
  $('sign-answer').replaceChildren(...answer, make('p', { className: 'soft' }, `The virtual Pico knows ${knows}.`), make('p', { className: 'row' }, ...forget));
}

const change = guarded(async (line) => {
  $('sign-answer').textContent = there ? 'The virtual Pico works ...' : 'The virtual Pico starts (0.6 MB) ...';
  await ask(line);
});

const teach = guarded(async () => {
  if (!pixels?.some((p) => p > 0)) throw new Error('Draw a sign first, on the paper above.');
  const name = $('sign').value.trim();
  if (!name) throw new Error('Name the sign first.');
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
export const drawn = guarded(async (given) => {
  pixels = given;
  if (there && given) await ask('');
});

export function begin(site) {
  for (const id of ['teach', 'keep', 'reset']) $(id).disabled = !site.pico;
  $('teach').onclick = teach;
  $('keep').onclick = () => change('_h.save()');
  $('reset').onclick = reset;
}
