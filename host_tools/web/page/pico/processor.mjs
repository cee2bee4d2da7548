// Runs a core: rp2040js executes its instructions, one by one, and here is what the chip does otherwise. Flash takes
// time, and what the chip refuses stops the board.

import { costAt, isFree } from './arithmetic.mjs';

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

export class Processor {
  // `stop(message)` is called for what makes the chip fault. `flash`: who says how long flash takes (xip.mjs).
  constructor(rp2040, stop, flash) {
    this.rp2040 = rp2040;
    this.flash = flash;
    this.core = rp2040.core;
    this.stop = stop;
    this.registers = new Int32Array(this.core.registers.buffer); // the same registers, signed
    this.ahead = 0; // of this core's cycles: what flash calls time
    this.stepsAt = 0; // the instruction that rp2040js executes
    this.onEvent = () => {}; // SEV was executed
    this.limit = 0; // the cycle at which a turn ends
    this.extra = 0; // cycles that an instruction waits for flash
    this.waits = 0; // the same, since power-on
    const read = rp2040.readUint16;
    rp2040.readUint16 = (address) => (this.allowed('read from', address, 1) ? read.call(rp2040, address) : 0);
    for (const name of ['readUint32', 'readUint16', 'readUint8']) {
      this.core[name] = (address) => { // code was looked up before it is executed
        if (address - FLASH_BASE >>> 0 < FLASH_SPAN && (name !== 'readUint16' || address - this.stepsAt >>> 0 > 2)) {
          this.look(address, this.core.cycles);
        }
        return rp2040[name](address);
      };
    }
    for (const [name, align] of [['writeUint32', 3], ['writeUint16', 1], ['writeUint8', 0]]) {
      const write = rp2040[name];
      rp2040[name] = (address, value) => {
        if (this.allowed('write to', address, align) && !this.readOnly(address)) {
          write.call(rp2040, address, value);
        }
      };
    }
  }

  allowed(what, address, align) {
    if (address & align) {
      this.stop(`${what} address ${(address >>> 0).toString(16)}, which is not aligned`);
      return false;
    }
    return true;
  }

  // A write to ROM does nothing, and tinyusb makes some; one to flash is a mistake.
  readOnly(address) {
    if (address >>> 0 >= FLASH_BASE + FLASH_SPAN) {
      return false;
    }
    if (address >>> 0 >= ROM_BYTES && !this.flash.write(address - FLASH_BASE)) {
      this.stop(`write to address ${(address >>> 0).toString(16)}, which is not RAM`);
    }
    return true;
  }

  // Execute until the cycle `limit`, or until the core sleeps. Whoever changes what is due lowers this.limit.
  run(limit) {
    const { core, registers } = this;
    this.limit = limit;
    while (core.cycles < this.limit && !core.waiting) {
      if (core.interruptsUpdated) {
        core.checkForInterrupts();
      }
      this.step(registers[15] & ~1); // odd right after an exception
    }
  }

  // One instruction, by rp2040js, but for the carry of a shift by a register, where that is 0 or above 32; the overflow
  // of ADCS and SBCS, where it adds the carry to an operand first; and SEV.
  step(pc) {
    const { core, registers } = this;
    const before = core.cycles;
    const free = isFree(this.rp2040.arithmetic, pc);
    const cost = free ? costAt(this.rp2040.arithmetic, pc, registers[14]) : 0;
    const op = this.rp2040.readUint16(pc);
    this.stepsAt = pc;
    if (pc - FLASH_BASE >>> 0 < FLASH_SPAN) {
      this.look(pc, before);
    }
    const kind = op >> 6;
    if (kind === LSL || kind === LSR || kind === ASR || kind === ROR) {
      const carry = core.C;
      const input = registers[op & 7];
      const by = registers[(op >> 3) & 7] & 0xff;
      core.executeInstruction();
      if (by === 0) {
        core.C = carry;
      } else if (by > 32 && kind !== ROR) {
        core.C = kind === ASR && input < 0;
      }
    } else if (kind === ADC || kind === SBC) {
      const left = registers[op & 7];
      const right = registers[(op >> 3) & 7] ^ (kind === SBC ? -1 : 0);
      core.executeInstruction();
      core.V = ((left ^ registers[op & 7]) & (right ^ registers[op & 7])) < 0;
    } else {
      if (op === SEV) {
        core.eventRegistered = true;
        this.onEvent();
      }
      core.executeInstruction();
    }
    core.cycles = free ? before + cost : core.cycles + this.extra;
    this.extra = 0;
  }

  // Wait for a word of flash that the core asks for at its cycle `cycles`.
  look(address, cycles) {
    this.flash.accesses++;
    const n = this.flash.wait(address - FLASH_BASE >>> 0, cycles + this.extra + this.ahead);
    this.extra += n;
    this.waits += n;
  }
}
