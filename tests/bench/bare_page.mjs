// Runs a bare program of scripts/bench on the page's Pico: node bare_page.mjs FOLDER ROM FLASH CYCLES. ROM: with the program's
// vectors; CYCLES: of a missing word of flash. FOLDER: as for m0plus_programs.mjs.

import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, rom, flash, cycles] = process.argv.slice(2);
const { Machine } = await import(pathToFileURL(path.join(folder, 'machine.mjs')));
const bytesOf = (name) => new Uint8Array(fs.readFileSync(name));
const machine = new Machine(new Uint32Array(bytesOf(rom).buffer), bytesOf(flash));
const { core, rp2040 } = machine;
machine.flash.word = Number(cycles);
let done = false;
rp2040.onBreak = () => {
  const [what, at] = core.registers;
  if (what === 4) {
    let text = '';
    for (let p = at, c; (c = rp2040.readUint8(p)); p++) text += String.fromCharCode(c);
    process.stdout.write(text);
  } else if (what === 0x100) {
    core.registers[0] = core.cycles;
  } else {
    done = true;
    machine.processor.limit = 0;
  }
};
while (!done && machine.stopped === null) machine.run(1e6);
if (machine.stopped) console.log('E 0', machine.stopped.message);
