// What a state machine of rp2040js has after each instruction: node pio_states.mjs FOLDER < cases. FOLDER: as web/rp2040js.py makes it.
// A case is [control of shifts, words for the machine, instructions]; the answer has x, y, ISR, OSR and where it would go on, pins and flags.

import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const { RP2040 } = createRequire(path.join(process.argv[2], 'x.js'))('rp2040js');
const cases = JSON.parse(fs.readFileSync(0, 'utf8'));
const answers = cases.map(([control, words, instructions]) => {
  const [pio] = new RP2040().pio;
  const [m] = pio.machines;
  pio.run = () => {};
  pio.writeUint32(0xd0, control);
  pio.writeUint32(0xdc, (2 << 29) | (5 << 26) | (8 << 20) | (3 << 15) | (8 << 10) | (4 << 5) | 2);
  return instructions.map((op, k) => {
    if (m.txFIFO.empty) {
      pio.writeUint32(0x10, words[k % words.length]);
    }
    pio.writeUint32(0xd8, op);
    const state = [m.x, m.y, m.inputShiftReg, m.outputShiftReg, m.pc, pio.pinValues & 0x3fc, pio.irq];
    while (!m.rxFIFO.empty) {
      state.push(m.rxFIFO.pull());
    }
    return state.map((n) => n >>> 0);
  });
});
process.stdout.write(JSON.stringify(answers));
