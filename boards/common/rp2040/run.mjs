// Runs a virtual Pico: node run.mjs BOOTROM FLASH PORT [SENSORS [waits|ideal]]
//
// Its USB serial port is at 127.0.0.1:PORT (0: any that is free), for one program at a time. Lines on stdout tell what happens,
// `port 4711` first, `idle` when the board has started and waits for input, `sensor ...` what a sensor has to say; SENSORS is the JSON
// that sensors.mjs describes; with `ideal` nothing waits for flash. Lines on stdin ask:
//     cycles      -> cycles <executed since power-on> <nanoseconds of the board's time> <seconds of ours spent executing>
// It ends when stdin does, so nothing is left behind by whoever has started it.

import fs from 'node:fs';
import net from 'node:net';
import readline from 'node:readline';
import { Machine } from './machine.mjs';
import { Sensors } from './sensors.mjs';
import { UsbSerial } from './usb.mjs';

const SLICE = 200_000; // cycles between two looks at the outside world
const HELD = 64 * 1024; // bytes that wait in one direction, before the other side has to
const NAP = 1e6; // nanoseconds of sleep that are worth a real one

const [bootrom, flash, port, wired = '{}', memory = 'waits'] = process.argv.slice(2);
const say = (line) => fs.writeSync(1, `${line}\n`);
console.warn = () => {}; // rp2040js, of registers that it does not model

function fail(message) {
  say(`error ${message}`);
  process.exit(1);
}

const rom = fs.readFileSync(bootrom);
const sensors = new Sensors(JSON.parse(wired), (line) => say(`sensor ${line}`));
const machine = new Machine(new Uint32Array(rom.buffer, rom.byteOffset, rom.length >> 2), flash, sensors, memory === 'ideal');
let serial;
let client = null;
let blocked = false; // the program on our side does not read: the board's time stands still
let debt = 0; // nanoseconds of sleep that were skipped so far
let busySeconds = 0;
let wake = null; // ends a sleep
let started = false;

function connectUsb() {
  serial = new UsbSerial(machine.rp2040, (bytes) => {
    if (client !== null && !client.write(bytes) && client.writableLength > HELD) {
      blocked = true;
    }
  });
  serial.setDtr(client !== null);
}

// --- the port -------------------------------------------------------------------------------------------

const server = net.createServer({ noDelay: true }, (socket) => {
  socket.on('error', () => {});
  if (client === null) {
    attach(socket);
    return;
  }
  // The last client may have gone, though its close event has not come yet.
  setTimeout(() => {
    if (client === null) {
      attach(socket);
    } else {
      socket.end('another program has this port open\r\n');
    }
  }, 250);
});

function attach(socket) {
  client = socket;
  serial.setDtr(true);
  wakeUp();
  socket.on('data', (bytes) => {
    serial.send(bytes);
    if (serial.outBytes > HELD) {
      socket.pause();
    }
    wakeUp();
  });
  socket.on('drain', () => {
    blocked = false;
    wakeUp();
  });
  socket.on('close', () => {
    client = null;
    blocked = false;
    serial.setDtr(false);
    wakeUp();
  });
}

server.on('error', (error) =>
  fail(error.code === 'EADDRINUSE' ? `port ${port} is taken by another program` : `cannot listen: ${error.message}`),
);
server.listen(Number(port), '127.0.0.1', () => {
  say(`port ${server.address().port}`);
  turn();
});

// --- questions ------------------------------------------------------------------------------------------

const questions = readline.createInterface({ input: process.stdin });
questions.on('line', (line) => {
  if (line === 'cycles') {
    say(`cycles ${machine.cycles} ${Math.round(machine.clock.nanos)} ${busySeconds.toFixed(6)}`);
  } else {
    say(`error unknown question ${line}`);
  }
});
questions.on('close', () => process.exit(0));

// --- time -----------------------------------------------------------------------------------------------

function wakeUp() {
  if (wake !== null) {
    wake();
  }
}

// Sleep for `nanos`, or until there is something to do.
function sleep(nanos) {
  const begun = performance.now();
  let timer = null;
  wake = () => {
    wake = null;
    clearTimeout(timer);
    const elapsed = (performance.now() - begun) * 1e6;
    machine.clock.skip(Math.min(elapsed, machine.clock.idleNanos));
    turn();
  };
  if (nanos !== Infinity) {
    timer = setTimeout(wakeUp, Math.max(1, Math.round(nanos / 1e6)));
  }
}

// Execute for a while, then let input in. A board that computes takes its time; one that sleeps wakes when it would have.
function turn() {
  if (blocked) {
    sleep(Infinity);
    return;
  }
  const begun = performance.now();
  const asleep = machine.run(SLICE);
  busySeconds += (performance.now() - begun) / 1000;
  if (machine.stopped !== null) {
    say(`${machine.stopped.kind} ${machine.stopped.message}`);
    process.exit(machine.stopped.kind === 'bootsel' ? 0 : 1);
  }
  if (machine.resetRequested) {
    say('reset');
    machine.powerOn();
    if (client !== null) {
      client.destroy(); // as when the board vanishes from the bus
    }
    connectUsb();
  }
  if (client !== null && client.isPaused() && serial.outBytes <= HELD / 2) {
    client.resume();
  }
  if (asleep) {
    const idle = machine.clock.idleNanos;
    if (!started && serial.ready && idle === Infinity) {
      started = true;
      say('idle');
    }
    if (idle + debt >= NAP) {
      sleep(idle === Infinity ? Infinity : idle + debt);
      debt = 0;
      return;
    }
    debt += idle;
    machine.clock.skip(idle);
  }
  setImmediate(turn);
}

connectUsb();
