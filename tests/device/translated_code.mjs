// Random Thumb programs, run by rp2040js one instruction at a time and by our translation of them: registers, flags,
// cycles and memory must be the same. Usage: node translated_code.mjs FOLDER PROGRAMS, FOLDER being where processor.mjs is
// installed. Prints how many were run and how many blocks were translated; a difference ends it with exit code 1.

import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, programs] = process.argv.slice(2);
const { Processor } = await import(pathToFileURL(path.join(folder, 'processor.mjs')));
const { RP2040 } = createRequire(path.join(folder, 'x'))('rp2040js');

const CODE = 0x20010000;
const DATA = 0x20020000;
const DATA_BYTES = 4096;
const STACK = DATA + 3072;
const LOOPS = 60; // often enough to become hot on the way

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

function machine(translating) {
  const rp2040 = new RP2040();
  const quiet = () => {};
  rp2040.logger = { debug: quiet, info: quiet, warn: quiet, error: quiet };
  let stopped = null;
  const processor = new Processor(rp2040, 1 << 20, (message) => {
    stopped ??= message;
    processor.state.limit = 0;
  });
  processor.translating = translating;
  rp2040.onBreak = () => {
    stopped ??= 'end';
    processor.state.limit = 0;
  };
  return {
    rp2040,
    processor,
    run(code, registers, data) {
      code.forEach((half, i) => rp2040.writeUint16(CODE + 2 * i, half));
      rp2040.sram.set(data, DATA - 0x20000000);
      const core = rp2040.core;
      core.registers.set(registers);
      core.registers[15] = CODE;
      core.cycles = 0;
      core.N = core.Z = core.C = core.V = false;
      stopped = null;
      while (stopped === null && core.cycles < 1e6) {
        processor.run(core.cycles + 1000);
      }
      const flags = [core.N, core.Z, core.C, core.V].map(Number).join('');
      const memory = rp2040.sram.slice(DATA - 0x20000000, DATA - 0x20000000 + DATA_BYTES);
      return { registers: [...core.registers].slice(0, 15), flags, cycles: core.cycles, stopped, memory };
    },
  };
}

const reference = machine(false);
const ours = machine(true);

// Overflow of sums and differences with a carry, by the manual.
function checkCarries() {
  const edges = [0, 1, 0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff];
  const signed = (x) => BigInt.asIntN(32, BigInt(x));
  for (const op of [0x4148, 0x4188]) { // adcs, sbcs of r0 and r1
    for (const a of edges) for (const b of edges) for (const carry of [0, 1]) {
      // adds r2, r6, r3 makes the carry; mov r0, r4; op; movs r7, #0; bvc over movs r7, #1; subs r5, #1; bne to the beginning
      const code = [0x18f2, 0x4620, op, 0x2700, 0xd700, 0x2701, 0x3d01, 0xd1f7, 0xbe00];
      const sum = signed(a) + signed(op === 0x4148 ? b : ~b) + BigInt(carry);
      const expected = [Number(BigInt.asUintN(32, sum)), Number(sum !== signed(sum))];
      const registers = new Uint32Array(16);
      registers.set([0, b, 0, carry, a, LOOPS, 0xffffffff]);
      for (const [who, { run }] of Object.entries({ reference, ours })) {
        const found = run(code, registers, new Uint8Array(4)).registers;
        if (found[0] !== expected[0] || found[7] !== expected[1]) {
          console.log(`${who}: ${op.toString(16)} of ${a}, ${b}, ${carry}: ${found[0]} ${found[7]}, expected ${expected}`);
          process.exit(1);
        }
      }
    }
  }
}
checkCarries();
let blocks = 0;
for (let n = 0; n < Number(programs); n++) {
  const code = makeProgram();
  const registers = new Uint32Array(16).map(() => value());
  registers[6] = registers[8] = DATA + 512 + 4 * random(64);
  registers[7] = registers[9] = DATA + 1536 + 4 * random(64);
  registers[13] = STACK;
  const data = new Uint8Array(DATA_BYTES).map(() => random(256));
  new DataView(data.buffer).setUint32(STACK - DATA, LOOPS, true);
  const expected = reference.run(code, registers, data);
  const found = ours.run(code, registers, data);
  blocks += ours.processor.ram.blocks.slice((CODE - 0x20000000) >> 1, ((CODE - 0x20000000) >> 1) + code.length).filter((b) => b).length;
  for (const key of Object.keys(expected)) {
    if (expected[key].toString() !== found[key].toString()) {
      console.log(`program ${n}: ${key} differ`);
      console.log(code.map((half) => half.toString(16).padStart(4, '0')).join(' '));
      if (key !== 'memory') console.log(`rp2040js: ${expected[key]} (${expected.stopped})\nours:     ${found[key]} (${found.stopped})`);
      process.exit(1);
    }
  }
}
console.log(`${programs} programs, ${blocks} blocks translated`);
