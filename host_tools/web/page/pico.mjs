// The virtual Pico of the page: a worker behind a port with the methods of Web Serial, begun once, when it is first asked for.
import { bytesOf } from './dom.mjs';
import { SerialBoard } from './serial_board.mjs';

let begun = null;

export class WorkerPort {
  constructor(worker) {
    this.worker = worker;
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

// The port of a board that has come to its prompt.
export async function start() {
  const [packed, bootrom, places] = await Promise.all(['flash.gz', 'bootrom.bin', 'models.json'].map((name) => bytesOf(`pico/${name}`)));
  const content = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
  const flash = new Uint8Array(2 << 20).fill(0xff);
  flash.set(new Uint8Array(content));
  for (const [file, at] of Object.entries(JSON.parse(new TextDecoder().decode(places)))) flash.set(await bytesOf(`models/${file}`), at);
  const worker = new Worker('pico/worker.mjs', { type: 'module' });
  await new Promise((idle, failed) => {
    worker.onerror = (event) => failed(new Error(`the virtual Pico cannot start: ${event.message ?? 'its worker failed'}`));
    worker.addEventListener('message', ({ data }) => (data.idle ? idle() : data.stopped && failed(new Error(data.stopped))));
    worker.postMessage({ flash, bootrom });
  });
  return new WorkerPort(worker);
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
