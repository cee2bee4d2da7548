// What the chip's own float and double functions cost, for the boot ROM here, which has libgcc's: the answers are libgcc's, and a call takes
// the cycles below, whatever is executed for it. By their places in the ROM's two tables (RP2040 datasheet, 2.8.3.2).
//
// Sums, products, quotients, roots and 2int, 2double: counted in the published source (raspberrypi/pico-bootrom-rp2040) with 2,000 random
// operands. The others are estimates that nobody counted; int2float takes 25 to 196, by the operand.

import TABLE from './flash.json.mjs';

const ROM_BYTES = 16 * 1024;
const DATA_TABLE = 0x16; // where the ROM's header has these pointers
const ARITHMETIC = 0x1c; // ours: from here on the ROM has nothing but these functions
const { floats } = TABLE.rp2040;
const TABLES = { 0x4653: floats.SF, 0x4453: floats.SD };

// {first, costs}: where these functions begin, and cycles by the address of each. `words`: the ROM.
export function arithmeticOf(words) {
  const half = (at) => (words[at >> 2] >>> (8 * (at & 2))) & 0xffff;
  const costs = new Map();
  for (let at = half(DATA_TABLE); words[at >> 2] !== 0; at += 8) {
    const [code, table] = [words[at >> 2], words[(at >> 2) + 1]];
    for (const [k, cycles] of Object.entries(TABLES[code] ?? {})) {
      costs.set(words[(table >> 2) + Number(k)] & ~1, cycles);
    }
  }
  return { first: half(ARITHMETIC), costs };
}

// Whether code at `pc` takes no time.
export const isFree = (arithmetic, pc) => pc >= arithmetic.first && pc < ROM_BYTES;

// Cycles of such an instruction at `pc`; calls among them take none, too. link: LR.
export const costAt = (arithmetic, pc, link) => (link >>> 0 < ROM_BYTES ? 0 : (arithmetic.costs.get(pc) ?? 0));
