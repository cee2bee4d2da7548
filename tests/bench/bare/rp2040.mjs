// Runs a bare program in rp2040js: node rp2040.mjs FOLDER_OF_NODE_MODULES PROGRAM.elf [ADDRESS FILE]...
// The program prints with semihosting call 4, reads the core's cycles with 0x100 and ends with 0x18.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const [modules, program, ...files] = process.argv.slice(2);
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
  } else if (op === 0x18) {
    done = true;
  }
};
while (!done) for (let i = 0; i < 1000 && !done; i++) core.executeInstruction();
