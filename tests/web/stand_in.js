// In the page, before its own scripts: navigator.serial, whose port is what standIn.kind says. `left`: bytes until the cable is cut.
//   pico: a virtual Pico of this computer, with sensors, whose bytes pico_views.mjs moves; stock: the page's, without mica;
//   silent, noisy: other devices
//   anything else: a board that answers programs by the texts in standIn.answers, [part of the program, answer]
globalThis.standIn = { kind: 'pico', left: Infinity, answers: [] };

function scripted() {
  let out;
  const encoder = new TextEncoder();
  let program = '';
  let raw = false;
  const say = (text) => out.enqueue(encoder.encode(text));
  return {
    async open() {
      this.readable = new ReadableStream({ start: (controller) => (out = controller) });
      this.writable = new WritableStream({
        write(bytes) {
          for (const byte of bytes) {
            const c = String.fromCharCode(byte);
            if (c === '\x01' && program === '\x05A') { say('R\x01\x00\x40'); program = ''; raw = true; }
            else if (c === '\x01') { say('raw REPL; CTRL-B to exit\r\n>'); program = ''; }
            else if (c === '\x02') { say('\r\n>>> '); raw = false; }
            else if (c === '\x03') program = '';
            else if (c === '\x04' && raw) {
              const [, answer] = standIn.answers.find(([part]) => program.includes(part)) ?? ['', ''];
              say(`\x04${answer}\x04\x04>`);
              program = '';
              raw = false;
            } else program += c;
          }
        },
      });
    },
    close: async () => {},
  };
}

class Cable {
  async open() {
    await cableOpen();
    this.readable = new ReadableStream({
      start: (controller) => (standIn.heard = (text) => { try { controller.enqueue(Uint8Array.from(atob(text), (c) => c.charCodeAt(0))); } catch { /* closed */ } }),
    });
    this.writable = new WritableStream({ write: (bytes) => cableWrite(btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(''))) });
  }

  async setSignals({ dataTerminalReady }) { if (!dataTerminalReady) await cableClose(); }

  close = () => cableClose();

  getInfo = () => ({ usbVendorId: 0x2e8a, usbProductId: 5 });
}

async function stock() {
  const { start, WorkerPort } = await import(new URL('pico.mjs', location.href));
  standIn.worker ??= (await start({ content: new Uint8Array(await (await fetch('stock.bin')).arrayBuffer()) })).worker;
  return new WorkerPort(standIn.worker);
}

// With a cable that can be cut.
async function pico(kind) {
  const port = kind === 'stock' ? await stock() : new Cable();
  const open = port.open.bind(port);
  port.open = async () => {
    await open();
    const writer = port.writable.getWriter();
    let cut;
    const reader = port.readable.getReader();
    port.writable = new WritableStream({
      write: async (bytes) => {
        standIn.left -= bytes.length;
        if (standIn.left < 0) {
          cut.error(new Error('lost'));
          await port.setSignals({ dataTerminalReady: false });
          throw new Error('lost');
        }
        await writer.write(bytes);
      },
    });
    port.readable = new ReadableStream({
      start: async (controller) => {
        cut = controller;
        for (;;) {
          const { value, done } = await reader.read();
          if (done) return;
          try { controller.enqueue(value); } catch { return; }
        }
      },
      cancel: () => reader.cancel(),
    });
  };
  return port;
}

const noisy = () => ({
  async open() {
    const line = new TextEncoder().encode('$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n'.repeat(30));
    let timer;
    const start = (controller) => (timer = setInterval(() => controller.enqueue(line), 1));
    this.readable = new ReadableStream({ start, cancel: () => clearInterval(timer) });
    this.writable = new WritableStream({});
  },
  close: async () => {},
});

const silent = () => ({ open() { this.readable = new ReadableStream({}); this.writable = new WritableStream({}); }, close: async () => {} });

const serial = {
  async requestPort() {
    const { kind } = standIn;
    if (kind === 'none') throw new DOMException('no port selected', 'NotFoundError');
    if (kind === 'pico' || kind === 'stock') return pico(kind);
    return { silent, noisy }[kind]?.() ?? scripted();
  },
};
Object.defineProperty(Navigator.prototype, 'serial', { configurable: true, get: () => serial });
