// Random Thumb programs, and sums at the edges of overflow, by the page's Pico: node m0plus_programs.mjs FOLDER PROGRAMS
// FOLDER: its scripts, with what they import. Prints cases and what was found, as m0plus_programs.py has them.

import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, programs] = process.argv.slice(2);
const from = (name) => import(pathToFileURL(path.join(folder, name)));
const { Processor } = await from('processor.mjs');
const { RP2040 } = await from('rp2040js/index.js');

const CODE = 0x20010000;
const DATA = 0x20020000;
const DATA_BYTES = 4096;
const STACK = DATA + 3072;
const LOOPS = 20;

let seed = 1;
function random(n) {
  seed ^= seed << 13;
  seed ^= seed >>> 17;
  seed ^= seed << 5;
  return (seed >>> 0) % n;
}
const pick = (list) => list[random(list.length)];
const low = () => random(6); // r6 and r7 are pointers
const value = () => pick([0, 1, 31, 32, 33, 255, 256, 0x7fffffff, 0x80000000, 0xffffffff, random(256), random(2 ** 32)]);

function instruction() {
  const d = low();
  const m = low();
  const base = 6 + random(2);
  const imm5 = random(32);
  const imm8 = random(256);
  switch (random(16)) {
    case 0:
      return [(random(3) << 11) | (imm5 << 6) | (m << 3) | d];
    case 1:
      return [0x1800 | (random(4) << 9) | (low() << 6) | (m << 3) | d];
    case 2:
      return [0x2000 | (random(4) << 11) | (d << 8) | imm8];
    case 3:
    case 4:
      return [0x4000 | (random(16) << 6) | (m << 3) | d];
    case 5: // with a high register, r10 to r12, on either side
      return [0x4400 | (random(3) << 8) | pick([0x80 | (2 + random(3)) | (m << 3), d | 0x40 | ((2 + random(3)) << 3)])];
    case 6: // store and load, immediate offset
      return [0x6000 | (random(4) << 11) | (imm5 << 6) | (base << 3) | d];
    case 7:
      return [0x8000 | (random(2) << 11) | (imm5 << 6) | (base << 3) | d];
    case 8: // by a register, that is a multiple of 4
      return [0x2000 | (m << 8) | (imm8 & 0xfc), 0x5000 | (random(8) << 9) | (m << 6) | (base << 3) | d];
    case 9:
      return [0x9000 | (random(2) << 11) | (d << 8) | (8 + random(32))];
    case 10:
      return pick([[0xa000 | (d << 8) | random(256)], [0xa800 | (d << 8) | random(256)], [0x4800 | (d << 8) | random(8)]]);
    case 11:
      return [0xb200 | (random(4) << 6) | (m << 3) | d];
    case 12:
      return [0xba00 | (pick([0, 1, 3]) << 6) | (m << 3) | d];
    case 13: {
      const list = random(63) + 1;
      return pick([[0xb400 | list, 0xbc00 | list], [0xb081, 0xb001]]);
    }
    case 14:
      return [(random(2) ? 0xc000 : 0xc800) | (base << 8) | (random(63) + 1)];
    default:
      return null; // a branch over what comes next: filled in by the caller
  }
}

function makeProgram() {
  const code = [];
  const length = 10 + random(30);
  while (code.length < length) {
    const made = instruction();
    if (made !== null) {
      code.push(...made);
      continue;
    }
    const skipped = [];
    for (let i = random(3) + 1; i > 0; i--) {
      skipped.push(...(instruction() ?? [0xbf00]));
    }
    if (random(4) === 0) {
      code.push(0xe000 | (skipped.length - 1), ...skipped);
    } else {
      code.push(0xd000 | (random(14) << 8) | (skipped.length - 1), ...skipped);
    }
  }
  // The pointers again, the counter on the stack down, and again.
  code.push(0x4646, 0x464f); // mov r6, r8; mov r7, r9
  code.push(0x9d00, 0x3d01, 0x9500); // ldr r5, [sp]; subs r5, #1; str r5, [sp]
  const back = -(code.length + 2);
  code.push(0xd000 | (1 << 8) | (back & 0xff)); // bne
  code.push(0xbe00); // bkpt
  return code;
}

const NO_WAITS = { accesses: 0, wait: () => 0, write: () => false };
const rp2040 = new RP2040();
const quiet = () => {};
rp2040.logger = { debug: quiet, info: quiet, warn: quiet, error: quiet };
rp2040.arithmetic = { first: 1 << 14, costs: new Map() };
let stopped = null;
const stop = (message) => {
  stopped ??= message;
  processor.limit = 0;
};
const processor = new Processor(rp2040, stop, NO_WAITS);
rp2040.onBreak = () => stop('end');

const hexOf = (bytes) => Buffer.from(bytes).toString('hex');

function run(code, registers, data) {
  const { core } = rp2040;
  code.forEach((half, i) => rp2040.writeUint16(CODE + 2 * i, half));
  rp2040.sram.set(data, DATA - 0x20000000);
  core.registers.set(registers);
  core.registers[15] = CODE;
  core.cycles = 0;
  core.N = core.Z = core.C = core.V = false;
  stopped = null;
  while (stopped === null && core.cycles < 1e6) processor.run(core.cycles + 1000);
  const flags = [core.N, core.Z, core.C, core.V].map(Number).join('');
  const memory = hexOf(rp2040.sram.slice(DATA - 0x20000000, DATA - 0x20000000 + data.length));
  return { registers: [...core.registers].slice(0, 14), flags, cycles: core.cycles, memory, stopped };
}

const cases = [];
const add = (code, registers, data) => {
  const given = { code, registers: [...registers].slice(0, 14), data: hexOf(data) };
  cases.push([given, run(code, registers, data)]);
};

// adds r2, r6, r3 makes the carry; mov r0, r4; adcs or sbcs r0, r1; movs r7, #0; bvc over movs r7, #1.
const edges = [0, 1, 0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff];
for (const op of [0x4148, 0x4188]) {
  for (const a of edges) for (const b of edges) for (const carry of [0, 1]) {
    const registers = new Uint32Array(16);
    registers.set([0, b, 0, carry, a, 0, 0xffffffff]);
    add([0x18f2, 0x4620, op, 0x2700, 0xd700, 0x2701, 0xbe00], registers, new Uint8Array(4));
  }
}
for (let n = 0; n < Number(programs); n++) {
  const code = makeProgram();
  const registers = new Uint32Array(16).map(() => value());
  registers[6] = registers[8] = DATA + 512 + 4 * random(64);
  registers[7] = registers[9] = DATA + 1536 + 4 * random(64);
  registers[13] = STACK;
  const data = new Uint8Array(DATA_BYTES).map(() => random(256));
  new DataView(data.buffer).setUint32(STACK - DATA, LOOPS, true);
  add(code, registers, data);
}
console.log(JSON.stringify(cases));
