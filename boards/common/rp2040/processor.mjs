// Runs the core: rp2040js executes instructions one by one; what runs often is translated (translate.mjs).

import { NONE, costAt, isFree } from './arithmetic.mjs';
import { translate } from './translate.mjs';

const HOT = 40; // executions before a translation pays

// Opcodes.
const LSL = 0b0100000010;
const LSR = 0b0100000011;
const ASR = 0b0100000100;
const ROR = 0b0100000111;
const ADC = 0b0100000101;
const SBC = 0b0100000110;
const SEV = 0xbf40;

const ROM_BYTES = 16 * 1024;
const FLASH_BASE = 0x10000000;
const FLASH_SPAN = 0x4000000; // with its aliases
const CACHE_RAM = 0x15000000;
const SIO_BASE = 0xd0000000;
const PPB_BASE = 0xe0000000;
const RAM_BASE = 0x20000000;
const RAM_BYTES = 264 * 1024;
const LONGEST = 4096; // bytes of code that a block reaches over, branches that it follows included
const MARK_SHIFT = 2; // RAM that holds translated code is marked word by word: variables can lie beside it

// A part of memory that code runs from: for each halfword the translation that begins there, and how often it was reached.
class CodeArea {
  constructor(base, bytes) {
    this.base = base;
    this.bytes = bytes;
    this.blocks = new Array(bytes >> 1).fill(null);
    this.counts = new Uint8Array(bytes >> 1);
  }

  forget() {
    this.blocks.fill(null);
    this.counts.fill(0);
  }
}

export class Processor {
  // `stop(message)` is called for what makes the chip fault. `other` is the other core's, over the same memory. `flash`: who says how long
  // flash takes (xip.mjs); null: no time.
  constructor(rp2040, flashBytes, stop, other = null, flash = null) {
    this.rp2040 = rp2040;
    this.flash = flash ?? { first: new Int32Array(1).fill(-1), mask: 0, shift: 0, accesses: 0, ideal: true, wait: () => 0, write: () => false };
    this.ahead = 0; // of this core's cycles: what flash calls time
    this.stepsAt = 0; // the instruction that rp2040js executes
    this.core = rp2040.core;
    this.stop = stop;
    this.registers = new Int32Array(this.core.registers.buffer); // the same registers, signed
    this.flash8 = rp2040.flash;
    this.flash16 = new Uint16Array(rp2040.flash.buffer);
    this.flash32 = new Int32Array(rp2040.flash.buffer);
    this.rom = new CodeArea(0, ROM_BYTES);
    this.xip = new CodeArea(FLASH_BASE, flashBytes);
    this.ram = new CodeArea(RAM_BASE, RAM_BYTES);
    this.marks = other?.marks ?? new Uint8Array(RAM_BYTES >> MARK_SHIFT);
    this.other = other;
    if (other !== null) {
      other.other = this;
    }
    this.onEvent = () => {}; // SEV was executed
    this.translating = true;
    // limit: the cycle at which translated code has to stop. extra: cycles that accesses to peripherals and flash took beyond a load's.
    // waits: for flash, since power-on.
    this.state = { limit: 0, extra: 0, waits: 0 };
    this.context = {
      core: this.core,
      R: this.registers,
      ram8: rp2040.sram,
      ram16: new Uint16Array(rp2040.sram.buffer),
      ram32: new Int32Array(rp2040.sram.buffer),
      marks: this.marks,
      M: this,
      S: this.state,
      arithmetic: rp2040.arithmetic ?? NONE,
      X: this.flash,
      F: this.flash.first,
    };
    // rp2040js takes what the chip would not.
    for (const [name, align] of [['readUint16', 1]]) {
      const read = rp2040[name];
      rp2040[name] = (address) => (this.allowed('read from', address, align) ? read.call(rp2040, address) : 0);
    }
    // And its instructions take no time for flash. Code was looked up before it executes them.
    for (const name of ['readUint32', 'readUint16', 'readUint8']) {
      this.core[name] = (address) => {
        if (address - FLASH_BASE >>> 0 < FLASH_SPAN && (name !== 'readUint16' || address - this.stepsAt >>> 0 > 2)) {
          this.flash.accesses++;
          this.pause(address - FLASH_BASE >>> 0, this.core.cycles);
        }
        return rp2040[name](address);
      };
    }
    for (const [name, align] of [['writeUint32', 3], ['writeUint16', 1], ['writeUint8', 0]]) {
      const write = rp2040[name];
      rp2040[name] = (address, value) => {
        if (address - CACHE_RAM >>> 0 < ROM_BYTES && align !== 3) {
          (align ? new Uint16Array(this.flash.ram.buffer) : this.flash.ram)[address - CACHE_RAM >> align] = value;
        } else if (this.allowed('write to', address, align) && (address >>> 0 >= FLASH_BASE + FLASH_SPAN || this.ignored(address))) {
          write.call(rp2040, address, value);
        }
        if (address - RAM_BASE >>> 0 < RAM_BYTES && this.marks[address - RAM_BASE >>> MARK_SHIFT] !== 0) {
          this.codeChanged();
        }
      };
    }
    this.fetch = (address) => rp2040.readUint16(address >>> 0);
  }

  allowed(what, address, align) {
    if (address & align) {
      this.stop(`${what} address ${(address >>> 0).toString(16)}, which is not aligned`);
      return false;
    }
    return true;
  }

  // A write to ROM does nothing, and tinyusb makes some; one to flash is a mistake.
  ignored(address) {
    if (address >>> 0 >= ROM_BYTES && !this.flash.write(address - FLASH_BASE)) {
      this.stop(`write to address ${(address >>> 0).toString(16)}, which is not RAM`);
    }
    return false;
  }

  areaOf(pc) {
    if (pc - FLASH_BASE >>> 0 < this.xip.bytes) {
      return this.xip;
    }
    if (pc - RAM_BASE >>> 0 < RAM_BYTES) {
      return this.ram;
    }
    return pc >>> 0 < ROM_BYTES ? this.rom : null;
  }

  // Execute until the cycle `limit`, or until the core sleeps. Whoever changes what is due lowers state.limit.
  run(limit) {
    const { core, registers, state } = this;
    state.limit = limit;
    let arrived = true; // by a branch, so that a block can begin here
    while (core.cycles < state.limit) {
      if (core.interruptsUpdated && core.checkForInterrupts()) {
        core.waiting = false;
        arrived = true;
      }
      const pc = registers[15] & ~1; // odd right after an exception
      const area = this.areaOf(pc);
      if (area !== null) {
        const index = (pc - area.base) >> 1;
        const block = area.blocks[index];
        if (block !== null) {
          block();
          arrived = true;
          continue;
        }
        if (arrived && this.translating && area.counts[index] < HOT && ++area.counts[index] === HOT && this.translateAt(pc, area)) {
          continue;
        }
      }
      this.step(pc);
      if (core.waiting) {
        return;
      }
      arrived = (registers[15] & ~1) !== pc + 2;
    }
  }

  // One instruction, by rp2040js, but for what it does not do as the chip: the carry of a shift by a register, where that is 0
  // or above 32; the overflow of ADCS and SBCS, where it adds the carry to an operand first; and SEV.
  step(pc) {
    const { core, registers, state } = this;
    const { arithmetic } = this.context;
    const before = core.cycles;
    const cost = costAt(arithmetic, pc, registers[14]);
    const op = this.fetch(pc);
    this.stepsAt = pc;
    if (pc - FLASH_BASE >>> 0 < FLASH_SPAN) {
      this.flash.accesses++;
      this.pause(pc - FLASH_BASE >>> 0, before);
    }
    const kind = op >> 6;
    if (kind === LSL || kind === LSR || kind === ASR || kind === ROR) {
      const carry = core.C;
      const input = registers[op & 7];
      const by = registers[(op >> 3) & 7] & 0xff;
      core.executeInstruction();
      if ((registers[15] & ~1) === pc + 2) { // and no interrupt came first
        if (by === 0) {
          core.C = carry;
        } else if (by > 32 && kind !== ROR) {
          core.C = kind === ASR && input < 0;
        }
      }
    } else if (kind === ADC || kind === SBC) {
      const left = registers[op & 7];
      const right = registers[(op >> 3) & 7] ^ (kind === SBC ? -1 : 0);
      core.executeInstruction();
      if ((registers[15] & ~1) === pc + 2) {
        core.V = ((left ^ registers[op & 7]) & (right ^ registers[op & 7])) < 0;
      }
    } else {
      if (op === SEV) {
        core.eventRegistered = true;
        this.onEvent();
      }
      core.executeInstruction();
    }
    core.cycles += state.extra;
    state.extra = 0;
    if (isFree(arithmetic, pc)) {
      core.cycles = before + cost;
    }
  }

  // Wait for a word of flash that the core asks for at its cycle `cycles`.
  pause(offset, cycles) {
    const { state } = this;
    const n = this.flash.wait(offset, cycles + state.extra + this.ahead);
    state.extra += n;
    state.waits += n;
  }

  // The same for the words of a piece of code.
  code(offsets, cycles) {
    for (const offset of offsets) {
      this.pause(offset, cycles);
    }
  }

  translateAt(pc, area) {
    const made = translate(pc, this.fetch, this.context);
    if (made === null) {
      return false;
    }
    area.blocks[(pc - area.base) >> 1] = made.run;
    if (area === this.ram) {
      for (const address of made.addresses) {
        this.marks[(address - RAM_BASE) >> MARK_SHIFT] = 1;
        this.marks[(address + 2 - RAM_BASE) >> MARK_SHIFT] = 1; // the second half of a BL
      }
    }
    return true;
  }

  // Code in RAM was written over: everything translated from RAM is made again.
  codeChanged() {
    this.ram.forget();
    this.other?.ram.forget();
    this.marks.fill(0);
    this.state.limit = 0;
  }

  // So was flash. Files are no code, and what was translated stays.
  flashChanged(offset, size) {
    const first = Math.max(0, offset - LONGEST) >> 1;
    if (this.xip.blocks.slice(first, (offset + size) >> 1).some((block) => block !== null)) {
      this.xip.forget();
    }
  }

  // --- what translated code does not find in RAM; `cycles` is where the instruction begins

  look(offset, cycles) {
    const { flash } = this;
    flash.accesses++;
    if (flash.first[(offset >> 2) & flash.mask] !== offset >> flash.shift) {
      this.pause(offset, cycles);
    }
  }

  word(a, cycles) {
    const offset = a - FLASH_BASE;
    if (offset >= 0 && offset < FLASH_SPAN && (a & 3) === 0) {
      this.look(offset, cycles);
      return this.flash32[(offset & 0xffffff) >> 2];
    }
    return this.slowLoad(a, 3, cycles) | 0;
  }

  half(a, cycles) {
    const offset = a - FLASH_BASE;
    if (offset >= 0 && offset < 0x1000000 && (a & 1) === 0) {
      this.look(offset, cycles);
      return this.flash16[offset >> 1];
    }
    return this.slowLoad(a, 1, cycles);
  }

  byte(a, cycles) {
    const offset = a - FLASH_BASE;
    if (offset >= 0 && offset < 0x1000000) {
      this.look(offset, cycles);
      return this.flash8[offset];
    }
    return this.slowLoad(a, 0, cycles);
  }

  slowLoad(a, align, cycles) {
    const { rp2040, core, state } = this;
    const address = a >>> 0;
    core.cycles = cycles + state.extra;
    state.extra += core.cyclesIO(address) - 1;
    if (address < SIO_BASE) {
      state.limit = 0; // what is read may change something
    }
    if (!this.allowed('read from', address, align)) {
      return 0;
    }
    return align === 3 ? rp2040.readUint32(address) : align === 1 ? rp2040.readUint16(address) : rp2040.readUint8(address);
  }

  storeWord(a, value, cycles) {
    this.beforeStore(a >>> 0, cycles);
    this.rp2040.writeUint32(a >>> 0, value >>> 0);
  }

  storeHalf(a, value, cycles) {
    this.beforeStore(a >>> 0, cycles);
    this.rp2040.writeUint16(a >>> 0, value & 0xffff);
  }

  storeByte(a, value, cycles) {
    this.beforeStore(a >>> 0, cycles);
    this.rp2040.writeUint8(a >>> 0, value & 0xff);
  }

  beforeStore(address, cycles) {
    const { core, state } = this;
    core.cycles = cycles + state.extra;
    state.extra += core.cyclesIO(address, true) - 1;
    if (address < SIO_BASE || address >= PPB_BASE) {
      state.limit = 0; // what is written may want an interrupt
    }
  }
}
