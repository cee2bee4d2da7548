// mica: int8 neural networks in a browser or in Node.js, with the bytes that every board gives. Types and comments: mica.d.ts.
//
//     const model = await load(bytes);
//     const [scores] = model.predict([pixels]);
//     model.top(3); // [["7", 0.98], ...]

const SIZES = [
  'fileBytes', 'versionMajor', 'versionMinor', 'arenaBytes', 'scratchMin', 'scratchWant', 'stateBytes', 'tensors', 'layers', 'inputs',
  'outputs', 'golden', 'fed', 'strips',
];
const NONE = 0xffff; // a tensor or token that is not there
const ARRAYS = { I1: Int8Array, U1: Uint8Array, I2: Int16Array, I4: Int32Array, F4: Float32Array };
const NAMES = { I1: 'int8', U1: 'uint8', I2: 'int16', I4: 'int32', F4: 'float32' };
// An empty module with one instruction of SIMD: only where it is valid can mica.wasm be compiled.
const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];
const modules = new Map();

export class MicaError extends Error {}

export const hasSimd = () => WebAssembly.validate(new Uint8Array(SIMD));

async function compiled(url) {
  if (url.protocol !== 'file:') {
    const answer = await fetch(url);
    if (!answer.ok) throw new MicaError(`${url}: ${answer.status}`);
    return WebAssembly.compile(await answer.arrayBuffer());
  }
  const { readFile } = await import('node:fs/promises');
  return WebAssembly.compile(await readFile(url));
}

export async function load(bytes, { wasm, scratch = -1 } = {}) {
  if (wasm instanceof WebAssembly.Module) return new Model(wasm, bytes, scratch);
  const url = new URL(wasm ?? (hasSimd() ? 'mica.wasm' : 'mica-plain.wasm'), import.meta.url);
  if (!modules.has(url.href)) modules.set(url.href, compiled(url));
  try {
    return new Model(await modules.get(url.href), bytes, scratch);
  } catch (error) {
    if (!(error instanceof MicaError)) modules.delete(url.href);
    throw error;
  }
}

function halfEven(x) {
  const r = Math.round(x);
  return r - x === 0.5 && r % 2 ? r - 1 : r;
}

// int16 samples of what a browser records, -1 to 1.
export function toSamples(sound) {
  return sound instanceof Int16Array ? sound : Int16Array.from(sound, (x) => Math.max(-32768, Math.min(32767, halfEven(x * 32768))));
}

export class Model {
  #c; // what the module exports
  #room = [0, 0]; // address and bytes of what one call passes to the engine

  constructor(module, file, scratch = -1) {
    this.#c = new WebAssembly.Instance(module, {}).exports;
    const bytes = file instanceof Uint8Array ? file : new Uint8Array(file);
    const at = this.#take(bytes.length);
    this.#bytes(at, bytes.length).set(bytes);
    const refused = this.#c.load(at, bytes.length, scratch);
    if (refused) throw new MicaError(this.#text(refused));
    const sizes = this.#words(this.#c.sizes(), SIZES.length);
    this.info = Object.freeze(Object.fromEntries(SIZES.map((name, i) => [name, sizes[i]])));
    const ids = (n, id) => Array.from({ length: n }, (_, i) => id(i));
    this.inputs = ids(this.info.inputs, this.#c.input_id).map((id) => this.tensor(id));
    this.outputs = ids(this.info.outputs, this.#c.output_id).map((id) => this.tensor(id));
    this.layers = ids(this.info.layers, (i) => this.#layer(i));
    this.isa = this.#text(this.#c.isa());
    this.name = this.metadata('name') ?? '';
    this.labels = this.metadata('labels')?.split('\n') ?? [];
    this.arrays = this.#joins();
  }

  metadata(key) {
    const value = this.#c.metadata(this.#put(new TextEncoder().encode(`${key}\0`)));
    return value ? this.#text(value) : null;
  }

  tensor(id) {
    const at = this.#c.tensor(id);
    if (!at) throw new MicaError(`tensor ${id}: the model has ${this.info.tensors}`);
    const f = this.#words(at, 16);
    const scale = new Float32Array(f.buffer, f.byteOffset + 56, 1)[0];
    const kind = String.fromCharCode(f[2]) + f[3];
    return Object.freeze({
      id, name: this.#text(f[6]), dtype: NAMES[kind], shape: [...f.subarray(8, 8 + f[4])], scale, zeroPoint: f[5] | 0, space: f[7], bytes: f[1],
      address: f[0],
    });
  }

  input(i = 0) {
    const t = this.#io(this.inputs, i, 'input');
    return this.#view(this.#c.input_place(this.inputs.indexOf(t)), t);
  }

  output(i = 0) {
    const t = this.#io(this.outputs, i, 'output');
    return this.#view(this.#words(this.#c.tensor(t.id), 1)[0], t);
  }

  write(i, values) {
    const t = this.#io(this.inputs, i, 'input');
    const own = this.input(t.name);
    const flat = ArrayBuffer.isView(values) ? values : Float32Array.from(values.flat ? values.flat(Infinity) : values);
    if (flat.length !== own.length) throw new MicaError(`input '${t.name}': ${flat.length} values; expected ${own.length}`);
    if (flat.constructor === own.constructor) {
      own.set(flat);
    } else if (!this.#c.write(this.inputs.indexOf(t), this.#put(new Uint8Array(Float32Array.from(flat).buffer)))) {
      throw new MicaError(`input '${t.name}': NaN cannot be quantised`);
    }
  }

  run() {
    this.#c.run();
  }

  predict(inputs) {
    const entries = Array.isArray(inputs) ? [...inputs.entries()] : Object.entries(inputs);
    if (entries.length !== this.inputs.length) throw new MicaError(`${entries.length} inputs; this model has ${this.inputs.length}`);
    for (const [i, values] of entries) this.write(i, values);
    this.run();
    return this.arrays.map((_, k) => this.values(k));
  }

  // Real numbers of one array that predict() returns, from the last run.
  values(k = 0) {
    const { first, parts, axis, shape } = this.arrays[k];
    const out = new Float32Array(shape.reduce((a, b) => a * b, 1));
    const after = parts > 1 ? shape.slice(axis + 1).reduce((a, b) => a * b, 1) : 1;
    const whole = parts > 1 ? shape[axis] * after : out.length;
    for (let p = first, begin = 0; p < first + parts; ++p) {
      const t = this.outputs[p];
      const q = this.output(p);
      const run = parts > 1 ? t.shape[axis] * after : whole;
      for (let j = 0; j < q.length; ++j) {
        const x = t.dtype === 'float32' ? q[j] : Math.fround(t.scale * Math.fround(q[j] - t.zeroPoint));
        out[Math.floor(j / run) * whole + begin + (j % run)] = x;
      }
      begin += run;
    }
    return out;
  }

  top(k = 1) {
    const said = this.metadata('scores');
    const place = said === null ? this.arrays.findIndex((a) => this.outputs[a.first].dtype !== 'int32') : Number(said);
    if (!(place in this.arrays)) throw new MicaError('no output of this model holds scores of its classes');
    const scores = this.values(place);
    const n = scores.length;
    const labels = this.labels.length === n ? this.labels : n === 1 && this.labels.length === 2 ? this.labels.slice(1) : null;
    const order = [...scores.keys()].sort((a, b) => scores[b] - scores[a] || a - b);
    return order.slice(0, k).map((i) => [labels ? labels[i] : String(i), scores[i]]);
  }

  // Runs the model; after each layer its output, {layer, bytes}. A strip's layers come at its end.
  *runLayers() {
    for (let i = 0; i < this.info.layers; ++i) {
      const n = this.#c.strip_steps(i);
      if (n && !this.#c.is_strip(i)) {
        this.#c.run_step(i);
        yield { layer: this.layers[i], bytes: this.#made(this.#c.tensor(this.layers[i].outputs[0])) };
      } else if (n) {
        const made = Array.from({ length: n }, () => []);
        for (let at = 0, call; (call = this.#c.strip_call(i, at)); ) {
          const [step, next] = this.#words(call, 2);
          at = next;
          made[step - i].push(...this.#made(this.#c.rows_made(this.layers[step].outputs[0])));
        }
        for (let k = 0; k < n; ++k) yield { layer: this.layers[i + k], bytes: Uint8Array.from(made[k]) };
      }
    }
  }

  reset() {
    this.#c.reset_state();
  }

  // Inputs and outputs of golden vector i, as the tensors' integers.
  golden(i) {
    let at = i < this.info.golden && this.#c.golden(i);
    if (!at) throw new MicaError(`golden vector ${i}: the file has ${this.info.golden}`);
    const next = (t) => {
      const n = this.#size(t);
      const found = this.#view(at, t).slice();
      at += Math.ceil((n * found.BYTES_PER_ELEMENT) / 4) * 4;
      return found;
    };
    return { inputs: this.inputs.map(next), outputs: this.outputs.map(next) };
  }

  // null, or where the first golden vector that gives other bytes does so. Resets the state.
  selftest() {
    if (!this.info.golden) throw new MicaError('this model has no golden vectors; pack it with --golden 1');
    this.reset();
    for (let i = 0; i < this.info.golden; ++i) {
      const { inputs, outputs } = this.golden(i);
      const crcs = this.#c.golden_crcs(i);
      const expected = crcs ? this.#words(crcs, this.info.layers).slice() : null;
      inputs.forEach((x, k) => this.write(k, x));
      for (const { layer, bytes } of this.runLayers()) {
        if (expected && this.#c.crc32(0, this.#put(bytes), bytes.length) >>> 0 !== expected[layer.index]) return { vector: i, layer };
      }
      const k = outputs.findIndex((y, j) => this.output(j).some((v, n) => v !== y[n]));
      if (k >= 0) return { vector: i, output: this.outputs[k].name };
    }
    this.reset();
    return null;
  }

  // ---- sound, pictures, text

  get sampleRate() {
    const t = this.inputs[0];
    return this.inputs.length === 1 && t.dtype === 'int16' ? Number(this.metadata('sample_rate') ?? 0) : 0;
  }

  listen(sound) {
    if (!this.sampleRate) throw new MicaError('this model takes no sound; mica pack --frontend puts a front end before a model');
    const own = this.input();
    own.fill(0);
    own.set(toSamples(sound).subarray(0, own.length));
  }

  // Makes the input out of a picture: {data, width, height} with four bytes a pixel, as a canvas has it. Alpha is not looked at.
  see(image, { part, area } = {}) {
    const text = this.metadata('picture');
    if (text === null) throw new MicaError('this model does not say which pictures it takes; pack it with --picture');
    const [colours, ...words] = text.split(' ');
    const steps = words.map((word) => word.split(',').map(Number));
    const n = steps.length;
    const [one, a, b, c] = this.inputs[0].shape;
    if (one !== 1 || n !== (colours === 'grey' ? 1 : 3) || (a !== n && c !== n) || steps.flat().some((x) => !Number.isInteger(x))) {
      throw new MicaError(`the model's metadata 'picture' is wrong: ${text}; pack the model again`);
    }
    const planes = c !== n;
    const [height, width] = planes ? [b, c] : [a, b];
    const table = Int8Array.from({ length: 256 * n }, (_, i) => {
      const [factor, addend] = steps[i >> 8];
      return Math.max(-128, Math.min(127, Math.floor(((i & 255) * factor + addend) / 2 ** 20)));
    });
    const pixels = image.width * image.height;
    if (!(pixels > 0) || image.data.length !== 4 * pixels) throw new MicaError('a picture without its four bytes a pixel');
    const given = new Uint8Array(table.length + 3 * pixels);
    given.set(new Uint8Array(table.buffer));
    for (let i = 0, to = table.length; i < 4 * pixels; ++i) if (i % 4 !== 3) given[to++] = image.data[i];
    const [x, y, w, h] = part ?? [0, 0, image.width, image.height];
    const at = this.#put(given);
    const wrong = this.#c.see(
      at + table.length, image.width, image.height, x, y, w, h, width, height, n, colours === 'bgr', planes && n > 1,
      area === undefined ? -1 : Number(area), at, this.#c.input_place(0),
    );
    if (wrong) throw new MicaError(this.#text(wrong));
  }

  // The vocabulary of a language model, or null.
  get tokens() {
    const at = this.#c.tokens();
    if (!at) return null;
    const [count, begin, end, token, position, length, output, positions, window, space] = this.#words(at, 10);
    return { count, begin, end, token, position, length, output, positions, window, space };
  }

  encode(text) {
    const { space } = this.tokens; // 1: a space stands in front of a text; 129: if it does not begin with one
    const bytes = new TextEncoder().encode((space & 1 && text && !(space > 1 && text.startsWith(' ')) ? ' ' : '') + text);
    const room = this.#c.encode_bytes(bytes.length);
    const at = this.#put(new Uint8Array(room + bytes.length), (to) => to.set(bytes, room));
    const [count, failed] = this.#words(this.#c.encode(at + room, bytes.length, at), 2);
    if (failed < bytes.length) throw new MicaError(`the model has no piece for byte ${failed} of the text`);
    return [...new Uint16Array(this.#c.memory.buffer, at, count)];
  }

  // Pieces of new text, as `mica generate` gives them.
  *generate(prompt, { maxTokens = Infinity, temperature = 0, topK = 0, seed = 0 } = {}) {
    const t = this.tokens;
    if (!t) throw new MicaError('this model has no tokens in its file; pack it with --tokens');
    if (!(temperature >= 0 && temperature <= 10)) throw new MicaError(`temperature ${temperature}: 0 to 10 is allowed`);
    let todo = [...(t.begin === NONE ? [] : [t.begin]), ...this.encode(prompt)];
    if (!todo.length) throw new MicaError('the prompt is empty');
    this.reset();
    let state = (Math.imul(seed, 2654435761) + 2654435769) >>> 0 || 1;
    const decoder = new TextDecoder();
    for (let at = 0, made = 0; made < maxTokens && !(t.positions && at === t.positions); ) {
      const given = { [t.token]: todo[0], [t.position]: at, [t.length]: Math.min(at + 1, t.window) };
      for (let k = 0; k < this.inputs.length; ++k) this.input(k)[0] = given[k];
      this.run();
      ++at;
      todo = todo.slice(1);
      if (todo.length) continue;
      const place = this.#put(new Uint8Array(new Uint32Array([state]).buffer));
      todo = [this.#c.sample(t.output, Math.floor(temperature * 1000 + 0.5), topK || t.count, place)];
      [state] = this.#words(place, 1);
      ++made;
      if (todo[0] === t.end) break;
      const [piece, bytes] = this.#words(this.#c.token_piece(todo[0]), 2);
      const text = decoder.decode(this.#bytes(piece, bytes), { stream: true });
      if (text) yield text;
    }
    const rest = decoder.decode();
    if (rest) yield rest;
  }

  // ---- memory of the module; a view of it ends when it grows, so none is kept

  #take(n) {
    const at = this.#c.take(n);
    if (!at) throw new MicaError(`the browser has no ${n} bytes for this model`);
    return at >>> 0;
  }

  #bytes(at, n) {
    return new Uint8Array(this.#c.memory.buffer, at, n);
  }

  #words(at, n) {
    return new Uint32Array(this.#c.memory.buffer, at, n);
  }

  #text(at) {
    const memory = new Uint8Array(this.#c.memory.buffer, at);
    return new TextDecoder().decode(memory.subarray(0, memory.indexOf(0)));
  }

  // Bytes where the engine can read them, until the next call.
  #put(bytes, fill = (to) => to.set(bytes)) {
    if (this.#room[1] < bytes.length) this.#room = [this.#take(bytes.length), bytes.length];
    fill(this.#bytes(this.#room[0], bytes.length));
    return this.#room[0];
  }

  #made(at) {
    const [data, n] = this.#words(at, 2);
    return this.#bytes(data, n).slice();
  }

  #size(t) {
    return t.shape.reduce((a, b) => a * b, 1);
  }

  #view(at, t) {
    const kind = Object.keys(NAMES).find((k) => NAMES[k] === t.dtype);
    return new ARRAYS[kind](this.#c.memory.buffer, at >>> 0, this.#size(t));
  }

  #io(list, i, what) {
    const t = typeof i === 'number' ? list[i] : list.find((one) => one.name === i);
    if (!t) throw new MicaError(`no ${what} ${i} here, only ${list.map((one) => one.name).join(', ')}`);
    return t;
  }

  #layer(index) {
    const f = [...this.#words(this.#c.step(index), 13)];
    const ids = (from) => f.slice(from, from + 4).filter((id) => id !== NONE);
    return Object.freeze({
      index, kernel: this.#text(f[0]), name: this.#text(f[1]), macs: f[2], scratch: f[3], flags: f[4], inputs: ids(5), outputs: ids(9),
    });
  }

  #joins() {
    const text = this.metadata('joins');
    if (text === null) return this.outputs.map((t, first) => ({ name: t.name, first, parts: 1, axis: 0, shape: t.shape }));
    let first = 0;
    const found = text.split('\n').map((line) => {
      const [parts, axis] = line.split(' ', 2).map(Number);
      const of = this.outputs.slice(first, first + parts);
      if (!(parts >= 1) || of.length !== parts || !(axis >= 0) || (parts > 1 && !(axis < of[0].shape.length))) {
        throw new MicaError(`metadata joins: '${line}' is no number of parts, axis and name; pack the model again`);
      }
      const shape = of[0].shape.map((n, k) => (k === axis ? of.reduce((sum, t) => sum + t.shape[k], 0) : n));
      const join = { name: line.split(' ').slice(2).join(' '), first, parts, axis, shape };
      first += parts;
      return join;
    });
    if (first !== this.outputs.length) throw new MicaError(`metadata joins: ${first} parts of ${this.outputs.length} outputs`);
    return found;
  }
}
