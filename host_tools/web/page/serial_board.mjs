// A board with MicroPython behind a port of Web Serial, or behind anything with its methods: text as it comes, and programs to run.
import { base64, crc32 } from './bytes.mjs';

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const PIECE = 1536; // bytes in one program
const RAW = [...encoder.encode('raw REPL; CTRL-B to exit\r\n>')];
const MOST = 1 << 16; // bytes before a prompt
export const quoted = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

export class BoardError extends Error {}

export class SerialBoard {
  onText = () => {}; // is given what the board prints outside of programs
  onLost = () => {};
  #queue = []; // bytes for the program that runs, null where none does
  #wake = null;
  #busy = null;
  #lost = null;

  constructor(port) {
    this.port = port;
  }

  get lost() {
    return this.#lost !== null;
  }

  async open() {
    await this.port.open({ baudRate: 115200, bufferSize: 1 << 16 });
    await this.port.setSignals?.({ dataTerminalReady: true });
    this.#queue = null;
    this.writer = this.port.writable.getWriter();
    this.reader = this.port.readable.getReader();
    this.#pump();
  }

  async close() {
    await this.#end('the port is closed');
  }

  async #pump() {
    try {
      for (;;) {
        const { value, done } = await this.reader.read();
        if (done) break;
        if (this.#queue) {
          this.#queue.push(...value);
          this.#wake?.();
        } else {
          this.onText(value);
        }
      }
    } catch {
      // The cable; what follows says so.
    }
    this.#end('the board is gone: is its cable plugged in?');
  }

  async #end(why) {
    if (this.#lost) return;
    this.#lost = why;
    this.#wake?.();
    this.onLost(why);
    const quiet = () => {};
    await this.reader.cancel().catch(quiet);
    this.reader.releaseLock();
    await this.writer.abort().catch(quiet);
    this.writer.releaseLock();
    await this.port.close?.().catch(quiet);
  }

  async send(bytes) {
    if (this.#lost) throw new BoardError(this.#lost);
    try {
      await this.writer.write(typeof bytes === 'string' ? encoder.encode(bytes) : bytes);
    } catch {
      this.#end('the board is gone: is its cable plugged in?');
      throw new BoardError(this.#lost);
    }
  }

  // What somebody types: it waits while a program runs.
  async type(text) {
    while (this.#busy) await this.#busy;
    await this.send(text);
  }

  async #byte(seconds) {
    const end = performance.now() + 1000 * seconds;
    while (!this.#queue.length) {
      if (this.#lost) throw new BoardError(this.#lost);
      const left = end - performance.now();
      if (left <= 0) throw new BoardError('the board does not answer: does MicroPython run on it? Reset it and connect again');
      await new Promise((done) => {
        const timer = setTimeout(done, left);
        this.#wake = () => (clearTimeout(timer), done());
      });
    }
    return this.#queue.shift();
  }

  // What comes before `end`; at most `most` bytes, so that a device that talks by itself ends it.
  async #until(end, seconds, most = Infinity) {
    const got = [];
    while (!end.every((byte, i) => got[got.length - end.length + i] === byte)) {
      if (got.length > most) throw new BoardError('what is at this port talks, but not as MicroPython does: is it another device?');
      got.push(await this.#byte(seconds));
    }
    return Uint8Array.from(got.slice(0, got.length - end.length));
  }

  // Calls use(run) with the board in its raw REPL; run(program, seconds) returns what it printed. One such call at a time.
  async session(use) {
    while (this.#busy) await this.#busy;
    let free;
    this.#busy = new Promise((done) => (free = done));
    try {
      this.#queue = [];
      await this.send('\r\x03\x03\x01');
      await this.#until(RAW, 5, MOST);
      return await use((program, seconds = 30) => this.#run(program, seconds));
    } finally {
      if (!this.#lost) {
        await this.send('\x03\x02').catch(() => {});
        await this.#until([...encoder.encode('>>> ')], 2, MOST).catch(() => {});
        this.onText(encoder.encode('\r>>> ')); // the program may have begun before the last prompt was shown
      }
      this.#queue = null;
      this.#busy = null;
      free();
    }
  }

  // Starts Python on the board again; called by the function that session() calls.
  async restart() {
    await this.send('\x04');
    await this.#until(RAW, 10, MOST);
  }

  async #run(program, seconds) {
    const bytes = encoder.encode(program);
    await this.send('\x05A\x01');
    const answer = [await this.#byte(5), await this.#byte(5)];
    if (answer[0] !== 0x52 || answer[1] !== 1) throw new BoardError('this MicroPython is too old: 1.14 or later is expected');
    const step = (await this.#byte(5)) | ((await this.#byte(5)) << 8);
    let room = step;
    for (let at = 0; at < bytes.length; ) {
      while (room === 0 || this.#queue.length) {
        const byte = await this.#byte(10);
        if (byte === 1) room += step;
        if (byte === 4) throw new BoardError('the board gave the program up');
      }
      const n = Math.min(room, bytes.length - at);
      await this.send(bytes.subarray(at, at + n));
      at += n;
      room -= n;
    }
    await this.send('\x04');
    while ((await this.#byte(10)) !== 4);
    const printed = decoder.decode(await this.#until([4], seconds));
    const raised = decoder.decode(await this.#until([4, 0x3e], seconds));
    if (raised) throw new BoardError(`the board says: ${raised.trim().split('\n').at(-1)}`);
    return printed;
  }

  // A file in the board's file system, in folders that are made. It replaces an older one when all of it is there, so a cut leaves that one.
  put(path, bytes, progress = () => {}) {
    const part = quoted(`${path}.part`);
    return this.session(async (run) => {
      for (let at = path.indexOf('/', 1); at > 0; at = path.indexOf('/', at + 1)) {
        await run(`import os\ntry: os.mkdir(${quoted(path.slice(0, at))})\nexcept OSError: pass`);
      }
      await run(`import os,binascii\n_w=open(${part},'wb')`);
      for (let at = 0; at < bytes.length; at += PIECE) {
        progress(at / bytes.length);
        await run(`_w.write(binascii.a2b_base64('${base64(bytes.subarray(at, at + PIECE))}'))`);
      }
      const crc = await run(`_w.close()\n_n=0\nwith open(${part},'rb') as f:\n while 1:\n  _b=f.read(512)\n  if not _b: break\n  _n=binascii.crc32(_b,_n)\nprint(_n)`);
      if (Number(crc) !== crc32(bytes)) throw new BoardError(`${path}: the board has read other bytes than were sent; the old file stays`);
      await run(`os.rename(${part},${quoted(path)})`);
      progress(1);
    });
  }

  // Outputs of a model for inputs, which are the tensors' bytes, and the microseconds that it took on the board.
  async predict(name, inputs) {
    const list = inputs.map((bytes) => `q(b('${base64(bytes)}'))`).join(',');
    const printed = await this.session((run) =>
      run(`${loaded(name)}from time import ticks_us,ticks_diff
from binascii import a2b_base64 as b,b2a_base64 as t
q=mica.Quantised
x=[${list}]
_m.reset()
s=ticks_us()
_m.predict(x)
print(ticks_diff(ticks_us(),s))
for i in range(len(_m._m.outputs)): print(str(t(bytes(_m.output(i))),'ascii'),end='')
`, 300),
    );
    const [micros, ...outputs] = printed.trim().split(/\r?\n/);
    return { micros: Number(micros), outputs };
  }

  // Microseconds of a run, and of each layer.
  async profile(name) {
    const printed = await this.session((run) => run(`${loaded(name)}_p=_m.profile()\nprint(_p.total,*_p.us)\n_p=None`, 300));
    const [total, ...layers] = printed.trim().split(' ').map(Number);
    return { total, layers };
  }

  selftest(name) {
    return this.session(async (run) => (await run(`${loaded(name)}print(_m.selftest())`, 300)).trim());
  }

  // New text, and the microseconds.
  async generate(name, prompt, tokens) {
    const printed = await this.session((run) =>
      run(`${loaded(name)}from time import ticks_us,ticks_diff\ns=ticks_us()\np=''.join(mica.generate(_m,${quoted(prompt)},${tokens}))\nprint(ticks_diff(ticks_us(),s))\nprint(p,end='')`, 300),
    );
    const at = printed.indexOf('\n');
    return { micros: Number(printed.slice(0, at)), text: printed.slice(at + 1).replaceAll('\r\n', '\n') };
  }
}

// Programs that make `bytes` a variable of the board, a piece at a time.
export async function* programs(bytes, variable) {
  yield `from binascii import a2b_base64 as _a\n${variable}=bytearray(${bytes.length})`;
  for (let at = 0; at < bytes.length; at += PIECE) {
    const piece = bytes.subarray(at, at + PIECE);
    yield `${variable}[${at}:${at + piece.length}]=_a('${base64(piece)}')`;
  }
}

// The model `name` as _m, kept from program to program.
const loaded = (name) => `import mica,gc
if globals().get('_of')!=${quoted(name)}:
 _m=_of=None
 gc.collect()
 _m=mica.Model(${quoted(name)})
 _of=${quoted(name)}
`;
