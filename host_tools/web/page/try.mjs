// Try: digits that are drawn, words, sentences; the engine in this page answers.
import { load, toSamples } from './engine/mica.mjs';
import { $, bytesOf, guarded, make, scores } from './dom.mjs';
import * as learn from './learn.mjs';
import { pico } from './pico.mjs';
import { base64 } from './bytes.mjs';

const EDGE = 256; // pixels of the paper; the model's picture is a 32nd of it each way
const cache = new Map();

export async function model(file) {
  if (!cache.has(file)) cache.set(file, await load(await bytesOf(`models/${file}`)));
  return cache.get(file);
}

// Runs a model of the site on the inputs that write() has given it, and answers in `box`; the virtual Pico too, if that is wished.
function answer(box, file, m, write) {
  const begun = performance.now();
  write();
  const inputs = m.inputs.map((_, i) => raw(m.input(i)));
  m.run();
  const list = m.top(3);
  const time = `${(performance.now() - begun).toFixed(2)} ms in this page`;
  box.replaceChildren(make('p', {}, make('b', {}, list[0][0]), list[0][1] >= 0 && list[0][1] <= 1 ? ` ${(100 * list[0][1]).toFixed(1)} %` : ''), scores(list), make('p', { className: 'soft' }, time));
  const outputs = m.outputs.map((_, i) => base64(raw(m.output(i))));
  beside(box, list[0][0], async (board) => {
    const said = await board.predict(await onBoard(board, file), inputs);
    return [said.outputs.every((text, i) => text === outputs[i]), said.micros];
  });
}

const raw = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice();

// A line below `box` about what the virtual Pico says of an answer: ask(board) gives whether that is equal, and microseconds. While it
// works only the newest question waits, so that of a microphone's answers it checks those that it has time for.
let asking = false;
let waiting = null;
const newest = new Map(); // the last question below each box
const beside = guarded(async (box, label, ask) => {
  newest.set(box, [box, label, ask]);
  if (!$('with-pico').checked) return;
  if (asking) {
    waiting = [box, label, ask];
    return;
  }
  asking = true;
  let line = box.nextElementSibling;
  if (!line?.classList.contains('pico')) box.after((line = make('p', { className: 'pico', role: 'status' })));
  line.textContent ||= $('pico-state').textContent === READY ? 'The virtual Pico computes ...' : 'The virtual Pico starts (0.6 MB) ...';
  try {
    const [equal, micros] = await ask(await pico());
    line.textContent = `${label}: ${equal ? 'the same bytes from' : 'OTHER BYTES from'} a virtual Pico, which takes ${(micros / 1000).toFixed(1)} ms at 125 MHz.`;
    line.classList.toggle('warn', !equal);
  } catch (error) {
    line.remove();
    throw error;
  } finally {
    asking = false;
    const next = waiting;
    waiting = null;
    if (next) beside(...next);
  }
});

// The name of a model on the board: those of the page's own are in its ROM, others are sent once.
const sent = new Set(['digits.mica', 'command.mica']);
async function onBoard(board, file) {
  const name = file.split('/').at(-1);
  if (!sent.has(file)) await board.put(`own-${name}`, await bytesOf(`models/${file}`));
  sent.add(file);
  return file.includes('/') ? `own-${name}` : name;
}

// Starts the virtual Pico, which then computes what is there already.
const READY = 'ready';
const wish = guarded(async () => {
  if (!$('with-pico').checked) return;
  for (const question of newest.values()) beside(...question);
  $('pico-state').textContent ||= 'starting (0.6 MB) ...';
  try {
    await pico();
    $('pico-state').textContent = READY;
  } catch (error) {
    $('pico-state').textContent = '';
    throw error;
  }
});

export async function begin(site) {
  $('with-pico').disabled = !site.pico;
  $('with-pico').onchange = wish;
  learn.begin(site, microphone);
  await digits(site);
  words(site);
  sentences();
}

// ---- digits

async function digits(site) {
  const m = await model('digits.mica');
  const pen = $('paper').getContext('2d', { willReadFrequently: true });
  let at = [EDGE / 2, EDGE / 2];
  let down = false;
  const wipe = () => {
    pen.fillStyle = '#fff';
    pen.fillRect(0, 0, EDGE, EDGE);
    $('digit-answer').replaceChildren(make('p', { className: 'soft' }, 'Nothing is drawn yet.'));
    small(new Float32Array(64));
    learn.drawn(null);
    newest.delete($('digit-answer'));
    at = [EDGE / 2, EDGE / 4];
  };
  const ask = (pixels) => {
    small(pixels);
    answer($('digit-answer'), 'digits.mica', m, () => m.write(0, pixels));
    learn.drawn(pixels);
  };
  const stroke = (to) => {
    Object.assign(pen, { lineWidth: 26, lineCap: 'round', strokeStyle: '#000' });
    pen.beginPath();
    pen.moveTo(...at);
    pen.lineTo(...to);
    pen.stroke();
    at = to;
  };
  const read = () => {
    const pixels = centred(pen.getImageData(0, 0, EDGE, EDGE));
    if (pixels) ask(pixels);
  };
  const place = (event) => {
    const box = $('paper').getBoundingClientRect();
    return [((event.clientX - box.left) * EDGE) / box.width, ((event.clientY - box.top) * EDGE) / box.height];
  };
  $('paper').addEventListener('pointerdown', (event) => {
    $('paper').setPointerCapture(event.pointerId);
    down = true;
    at = place(event);
    stroke(at);
  });
  $('paper').addEventListener('pointermove', (event) => down && stroke(place(event)));
  $('paper').addEventListener('pointerup', () => {
    down = false;
    read();
  });
  $('paper').addEventListener('pointercancel', () => (down = false));
  let writes = false;
  $('paper').addEventListener('keydown', (event) => {
    const [x, y] = { ArrowLeft: [-16, 0], ArrowRight: [16, 0], ArrowUp: [0, -16], ArrowDown: [0, 16], ' ': [0, 0] }[event.key] ?? [];
    if (x === undefined) return;
    event.preventDefault();
    if (event.key === ' ') writes = !writes;
    const to = [at[0] + x, at[1] + y].map((v) => Math.max(16, Math.min(EDGE - 16, v)));
    if (writes) stroke(to);
    at = to;
    read();
  });
  $('wipe').onclick = wipe;
  for (const [i, { digit }] of site.digits.entries()) $('written').append(make('option', { value: i }, String(digit)));
  $('written').onchange = () => {
    const chosen = site.digits[$('written').value];
    if (chosen) ask(Float32Array.from(chosen.pixels, (p) => p / 16));
  };
  wipe();
}

function small(pixels) {
  const pen = $('small').getContext('2d');
  const image = pen.createImageData(8, 8);
  pixels.forEach((p, i) => image.data.set([255 * (1 - p), 255 * (1 - p), 255 * (1 - p), 255], 4 * i));
  pen.putImageData(image, 0, 0);
}

// What is drawn, as the data set has its digits: as high as the picture, in its middle, the share of ink in 4 x 4 of 32 x 32 dots.
function centred({ data }) {
  let [left, top, right, bottom] = [EDGE, EDGE, -1, -1];
  for (let i = 0; i < EDGE * EDGE; ++i) {
    if (data[4 * i] < 128) {
      [left, right] = [Math.min(left, i % EDGE), Math.max(right, i % EDGE)];
      [top, bottom] = [Math.min(top, Math.floor(i / EDGE)), Math.max(bottom, Math.floor(i / EDGE))];
    }
  }
  if (right < 0) return null;
  const side = Math.max(right - left, bottom - top) + 1;
  const pixels = new Float32Array(64);
  for (let i = 0; i < 32 * 32; ++i) {
    const x = Math.floor((left + right + 1) / 2 + ((i % 32) + 0.5 - 16) * (side / 32));
    const y = Math.floor((top + bottom + 1) / 2 + (Math.floor(i / 32) + 0.5 - 16) * (side / 32));
    const ink = x >= 0 && y >= 0 && x < EDGE && y < EDGE && data[4 * (y * EDGE + x)] < 128;
    pixels[(i >> 7) * 8 + ((i & 31) >> 2)] += ink ? 1 / 16 : 0;
  }
  return pixels;
}

// ---- words

function words(site) {
  const files = site.models.filter((one) => one.rate && one.columns === 1);
  $('sound-model').append(...files.map((one) => make('option', { value: one.file }, one.name)));
  $('word-tools').hidden = !files.length;
  if (!files.length) $('word-answer').textContent = 'No model here takes sound. `mica web FOLDER` serves the models of a folder.';
  const listen = (m, samples) => answer($('word-answer'), $('sound-model').value, m, () => m.listen(samples));
  let end = null;
  $('listen').onclick = guarded(async () => {
    if (end) return end();
    const m = await model($('sound-model').value);
    end = await microphone(m.sampleRate, m.input().length, (samples) => listen(m, samples), () => {
      $('listen').setAttribute('aria-pressed', 'false');
      end = null;
    });
    $('listen').setAttribute('aria-pressed', 'true');
    return undefined;
  });
  $('recording').onchange = guarded(async () => {
    const [file] = $('recording').files;
    if (!file) return;
    const m = await model($('sound-model').value);
    const audio = new OfflineAudioContext(1, 1, m.sampleRate);
    const sound = await audio.decodeAudioData(await file.arrayBuffer());
    const samples = toSamples(mixed(sound));
    level(samples);
    listen(m, samples);
  });
}

function mixed(sound) {
  const channels = Array.from({ length: sound.numberOfChannels }, (_, c) => sound.getChannelData(c));
  return channels.length === 1 ? channels[0] : channels[0].map((_, i) => channels.reduce((sum, c) => sum + c[i], 0) / channels.length);
}

function level(samples) {
  const power = samples.reduce((sum, x) => sum + x * x, 0) / (samples.length * 32768 ** 2);
  const db = 10 * Math.log10(power + 1e-9);
  const clipped = samples.some((x) => x === 32767 || x === -32768);
  $('level').value = db;
  $('level-text').textContent = `${db.toFixed(0)} dB${clipped ? ', clipped: turn it down' : ''}`;
}

// The last n samples of the microphone, four times a second, until the function that it returns is called.
async function microphone(rate, n, listen, ended) {
  if (!navigator.mediaDevices) throw new Error('a microphone is given to pages of this computer and of https only');
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false } });
  const audio = new AudioContext({ sampleRate: rate });
  await audio.audioWorklet.addModule('microphone.mjs');
  const node = new AudioWorkletNode(audio, 'samples', { numberOfOutputs: 0 });
  const kept = new Int16Array(n);
  let fresh = 0;
  let filled = 0;
  node.port.onmessage = ({ data }) => {
    const samples = toSamples(data).subarray(-n);
    kept.copyWithin(0, samples.length);
    kept.set(samples, n - samples.length);
    fresh += samples.length;
    filled += samples.length;
    if (fresh >= rate / 4) {
      level(kept.subarray(-Math.min(fresh, n)));
      fresh = 0;
      if (filled >= n) listen(kept);
    }
  };
  audio.createMediaStreamSource(stream).connect(node);
  return () => {
    stream.getTracks().forEach((track) => track.stop());
    audio.close();
    ended();
  };
}

// ---- sentences

function sentences() {
  $('talk').onsubmit = (event) => {
    event.preventDefault();
    guarded(async () => {
      const m = await model('command.mica');
      const begun = performance.now();
      const said = $('sentence').value.replaceAll('%', ' percent ');
      const n = m.encode(said).length;
      const fits = n && n + 22 <= m.tokens.window;
      const call = fits ? [...m.generate(`${said}\n`, { maxTokens: 20 })].join('') : 'none';
      const time = `${(performance.now() - begun).toFixed(0)} ms in this page`;
      $('call-answer').replaceChildren(make('p', {}, make('b', {}, call === 'none' ? 'not understood' : call)), make('p', { className: 'soft' }, time));
      if (!fits) return;
      beside($('call-answer'), call, async (board) => {
        const there = await board.generate('command.mica', `${said}\n`, 20);
        return [there.text === call, there.micros];
      });
    })();
  };
}
