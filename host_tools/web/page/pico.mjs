// The virtual Pico of the page: a worker behind a port with the methods of Web Serial, begun once, when it is first asked for.
import { bytesOf } from './dom.mjs';
import { SerialBoard } from './serial_board.mjs';

let begun = null;

export class WorkerPort {
  // cycles: how many the board took to its prompt.
  constructor(worker, cycles) {
    Object.assign(this, { worker, cycles });
  }

  async open() {
    this.readable = new ReadableStream({
      start: (controller) => {
        this.onData = ({ data }) => data.data && controller.enqueue(data.data);
        this.worker.addEventListener('message', this.onData);
      },
      cancel: () => this.worker.removeEventListener('message', this.onData),
    });
    this.writable = new WritableStream({ write: (bytes) => this.worker.postMessage({ data: bytes.slice() }) });
  }

  async setSignals({ dataTerminalReady }) {
    this.worker.postMessage({ open: dataTerminalReady });
  }

  async close() {
    this.worker.postMessage({ open: false });
  }

  getInfo() {
    return { usbVendorId: 0x2e8a, usbProductId: 5 };
  }
}

// The flash of a Pico with the page's models in its ROM, and what says which of it a firmware's file holds (places.json).
export async function flash() {
  const [packed, said] = await Promise.all(['flash.gz', 'places.json'].map((name) => bytesOf(`pico/${name}`)));
  const places = JSON.parse(new TextDecoder().decode(said));
  const begun = new Uint8Array(await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer());
  const content = new Uint8Array(2 << 20).fill(0xff);
  content.set(begun);
  for (const [file, at] of Object.entries(places.models)) content.set(await bytesOf(`models/${file}`), at);
  return { content, places };
}

// The port of a board that has come to its prompt. content: of its flash.
export async function start({ content } = {}) {
  const bootrom = await bytesOf('pico/bootrom.bin');
  const worker = new Worker('pico/worker.mjs', { type: 'module' });
  const first = { flash: content ?? (await flash()).content, bootrom };
  const cycles = await new Promise((idle, failed) => {
    worker.onerror = (event) => failed(new Error(`the virtual Pico cannot start: ${event.message ?? 'its worker failed'}`));
    worker.addEventListener('message', ({ data }) => (data.idle ? idle(data.idle) : data.stopped && failed(new Error(data.stopped))));
    worker.postMessage(first);
  });
  // From then on without a network, too; not while the prompt is waited for.
  setTimeout(() => navigator.serviceWorker?.ready.then(({ active }) => active.postMessage('pico')), 3000);
  return new WorkerPort(worker, cycles);
}

export function pico() {
  begun ??= start().then(async (port) => {
    const board = new SerialBoard(port);
    await board.open();
    return board;
  });
  begun.catch(() => (begun = null));
  return begun;
}
