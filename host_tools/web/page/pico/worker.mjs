// The page's Pico in a worker, without sensors. It has no network: the page sends what it needs.
// In: {flash, bootrom} begins, {data} goes to the USB serial port, {open} opens or closes that.
// Out: {data}, {idle} at the prompt after each reset, {stopped}.
import { Machine } from './machine.mjs';
import { UsbSerial } from './usb.mjs';

const SLICE = 200_000; // cycles between two looks at messages
const NAP = 1e6; // nanoseconds of sleep that are worth a real one

let machine;
let serial;
let open = false;
let wake = null;
let debt = 0;
let started = false;
console.warn = () => {}; // rp2040js, of registers that it does not model

const channel = new MessageChannel();
channel.port1.onmessage = turn;
const soon = () => channel.port2.postMessage(0);

function connect() {
  serial = new UsbSerial(machine.rp2040, (bytes) => postMessage({ data: bytes.slice() }));
  serial.setDtr(open);
}

function sleep(nanos) {
  const begun = performance.now();
  let timer = null;
  wake = () => {
    wake = null;
    clearTimeout(timer);
    machine.clock.skip(Math.min((performance.now() - begun) * 1e6, machine.clock.idleNanos));
    soon();
  };
  if (nanos !== Infinity) timer = setTimeout(() => wake?.(), Math.max(1, Math.round(nanos / 1e6)));
}

function turn() {
  const asleep = machine.run(SLICE);
  if (machine.stopped) return postMessage({ stopped: machine.stopped.message });
  if (machine.resetRequested) {
    machine.powerOn();
    started = false;
    connect();
  }
  if (asleep) {
    const idle = machine.clock.idleNanos;
    if (!started && serial.ready && idle === Infinity) {
      started = true;
      postMessage({ idle: machine.cycles });
    }
    if (idle + debt >= NAP) {
      sleep(idle === Infinity ? Infinity : idle + debt);
      debt = 0;
      return undefined;
    }
    debt += idle;
    machine.clock.skip(idle);
  }
  return soon();
}

onmessage = ({ data: message }) => {
  if (message.flash) {
    machine = new Machine(new Uint32Array(message.bootrom.buffer), message.flash);
    connect();
    soon();
  }
  if (message.open !== undefined) serial.setDtr((open = message.open));
  if (message.data) serial.send(message.data);
  wake?.();
};
