// Runs a bare program in rp2040js: node rp2040.mjs [--xip=CYCLES [--cold]] FOLDER_OF_NODE_MODULES PROGRAM.elf [ADDRESS FILE]...
// The program prints with semihosting call 4, reads the core's cycles with 0x100 and ends with 0x18.
//
// --xip: flash is read through the cache of the virtual Pico (boards/common/rp2040/cache.mjs), each missing word taking so many cycles.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const common = new URL("../../../boards/common/", import.meta.url);
const { Cache } = await import(new URL("rp2040/cache.mjs", common));

const xip = process.argv.find((word) => word.startsWith("--xip="));
const cold = process.argv.includes("--cold"); // the cache is empty after each reading of the core's cycles
const [modules, program, ...files] = process.argv.slice(2).filter((word) => word !== xip && word !== "--cold");
let flush = () => {};
const require = createRequire(path.join(path.resolve(modules), "x.js"));
const { RP2040 } = require("rp2040js");

const mcu = new RP2040();
mcu.logger = { debug() {}, info() {}, warn() {}, error(name, text) { console.log(`E 0 ${name} ${text}`); } };

function place(address, bytes) {
  if (address >= 0x20000000) mcu.sram.set(bytes, address - 0x20000000);
  else mcu.flash.set(bytes, address - 0x10000000);
}

const elf = fs.readFileSync(program);
const table = elf.readUInt32LE(28);
for (let i = 0; i < elf.readUInt16LE(44); i++) {
  const at = table + 32 * i;
  const size = elf.readUInt32LE(at + 16);
  if (elf.readUInt32LE(at) === 1 && size) {
    const offset = elf.readUInt32LE(at + 4);
    place(elf.readUInt32LE(at + 12), elf.subarray(offset, offset + size));
  }
}
for (let i = 0; i + 1 < files.length; i += 2) place(Number(files[i]), fs.readFileSync(files[i + 1]));

if (xip) {
  const { cache: geometry, rp2040: chip } = JSON.parse(fs.readFileSync(new URL("flash.json", common)));
  const cost = Number(xip.split("=")[1]);
  const cache = new Cache(geometry, chip.filled);
  flush = () => cache.flush();
  for (const name of ["readUint32", "readUint16", "readUint8"]) {
    const read = mcu[name].bind(mcu);
    mcu[name] = (address) => {
      const offset = (address >>> 0) - 0x10000000;
      if (offset >= 0 && offset < 0x1000000 && cache.misses(offset >>> 2)) mcu.core.cycles += cost;
      return read(address);
    };
  }
}

const core = mcu.core;
core.SP = mcu.readUint32(0x10000000);
core.PC = mcu.readUint32(0x10000004) & ~1;
let done = false;
mcu.onBreak = () => {
  const [op, arg] = core.registers;
  if (op === 4) {
    let text = "", c;
    for (let p = arg >>> 0; (c = mcu.readUint8(p)); p++) text += String.fromCharCode(c);
    fs.writeSync(1, text);
  } else if (op === 0x100) {
    core.registers[0] = core.cycles | 0;
    if (cold) flush();
  } else if (op === 0x18) {
    done = true;
  }
};
while (!done) for (let i = 0; i < 1000 && !done; i++) core.executeInstruction();
