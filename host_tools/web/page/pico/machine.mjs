// The page's Pico without its surroundings: an RP2040 with our boot ROM, flash, and a cycle counter.

import { BasePeripheral, RP2040 } from './rp2040js/index.js';
import { arithmeticOf } from './arithmetic.mjs';
import { CycleClock } from './clock.mjs';
import { Processor } from './processor.mjs';
import { QUANTUM, SecondCore } from './second_core.mjs';
import { Flash } from './xip.mjs';

const SECTOR = 4096;

// Numbers of BKPT in the boot ROM; bootrom.c has them too.
const TRAP_ERASE = 0xe0;
const TRAP_PROGRAM = 0xe1;
const TRAP_BOOTSEL = 0xe2;
const TRAP_NO_FIRMWARE = 0xe3;
const TRAP_MISSING = 0xe4;
const TRAP_FAULT = 0xe5;

// What the board itself can read, where a real Pico has nothing: the cycles that core 0 has executed since power-on, and core 1; from 40 on
// those of them in which each waited for flash.
// Reading a low word keeps the high one, so the two belong together; a word of "mica" tells that it is there.
const COUNTER_PAGE = 0x4ff00; // rp2040js's key of addresses 0x4ff00000 to 0x4ff03fff
const COUNTER_MAGIC = 0x6163696d;

class CycleCounter extends BasePeripheral {
  constructor(rp2040, machine) {
    super(rp2040, 'MICA_CYCLES');
    this.machine = machine;
    this.high = 0;
  }

  low(cycles) {
    this.high = Math.floor(cycles / 2 ** 32);
    return cycles % 2 ** 32;
  }

  readUint32(offset) {
    switch (offset) {
      case 0:
        return COUNTER_MAGIC;
      case 4:
        return this.low(this.rp2040.core.cycles);
      case 8:
      case 16:
        return this.high;
      case 12:
        return this.low(this.machine.second.cycles);
      case 40:
        return this.low(this.machine.processor.waits);
      case 44:
      case 52:
        return this.high;
      case 48:
        return this.low(this.machine.second.processor?.waits ?? 0);
      default:
        return 0;
    }
  }

  writeUint32() {}
}

// Why the board cannot go on. `kind` is bootsel, crash or firmware.
export class Stopped extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

const WATCHDOG = 0x40058; // its page
const hex = (n) => `0x${(n >>> 0).toString(16).padStart(8, '0')}`;

export class Machine {
  // `content`: of its flash.
  constructor(bootrom, content) {
    this.bootrom = bootrom;
    this.content = content;
    this.stopped = null;
    this.resetRequested = false;
    this.cyclesBefore = 0; // of the chips before the last reset
    this.powerOn();
  }

  // A new chip, with what is in flash; after a reset, also with what the watchdog keeps then: why it was, and the scratch words.
  powerOn() {
    this.cyclesBefore += this.rp2040 === undefined ? 0 : this.rp2040.core.cycles;
    const { reason, scratchData } = this.rp2040?.peripherals[WATCHDOG] ?? {};
    this.resetRequested = false;
    this.clock = new CycleClock();
    this.rp2040 = new RP2040(this.clock);
    this.core = this.rp2040.core;
    this.clock.core = this.core;
    this.rp2040.logger = {
      debug() {},
      info() {},
      // Of what rp2040js reports, addresses where nothing is and unaligned ones: there the chip faults.
      warn: (_, message) => {
        if (/invalid memory address|undefined address|not implemented yet/.test(message)) {
          this.stop('crash', message);
        }
      },
      error: (_, message) => this.stop('crash', message),
    };
    this.rp2040.loadBootrom(this.bootrom);
    this.rp2040.arithmetic = arithmeticOf(this.bootrom);
    this.rp2040.flash.fill(0xff);
    this.rp2040.flash.set(this.content);
    this.rp2040.peripherals[COUNTER_PAGE] = new CycleCounter(this.rp2040, this);
    this.rp2040.addClockListener((hertz) => this.clock.setFrequency(hertz));
    const watchdog = this.rp2040.peripherals[WATCHDOG];
    watchdog.reason = reason ?? 0;
    watchdog.scratchData.set(scratchData ?? []);
    watchdog.onWatchdogTrigger = () => {
      watchdog.alarm.enable = false; // it would ring again at once, for ever
      this.resetRequested = true;
      this.processor.limit = 0;
    };
    this.rp2040.onBreak = (code) => this.trap(code, this.core);
    this.flash = new Flash(this);
    this.processor = new Processor(this.rp2040, (message) => this.stop('crash', message), this.flash);
    this.clock.onDeadline = (deadline) => {
      this.processor.limit = Math.min(this.processor.limit, deadline);
    };
    this.second = new SecondCore(this);
  }

  get cycles() {
    return this.cyclesBefore + this.core.cycles;
  }

  stop(kind, message) {
    this.stopped ??= new Stopped(kind, message);
    this.processor.limit = 0;
    this.second.endTurn();
  }

  trap(code, core) {
    const [r0, r1, r2] = core.registers;
    const problem = code === TRAP_ERASE || code === TRAP_PROGRAM ? this.second.inTheWay(core) : null;
    if (problem !== null) {
      return this.stop('crash', problem);
    }
    switch (code) {
      case TRAP_ERASE:
        return this.erase(r0, r1);
      case TRAP_PROGRAM:
        return this.program(r0, r1, r2);
      case TRAP_BOOTSEL:
        return this.stop('bootsel', 'the board has gone into its boot loader');
      case TRAP_NO_FIRMWARE:
        return this.stop('firmware', 'there is no firmware in its flash');
      case TRAP_MISSING:
        return this.stop('crash', `the boot ROM lacks a function that was called near ${hex(core.LR)}`);
      case TRAP_FAULT:
        return this.stop('crash', `fault at ${hex(core.PC)}`);
      default:
        return this.stop('crash', `the firmware has stopped itself (bkpt ${code}) at ${hex(core.PC - 2)}`);
    }
  }

  erase(offset, size) {
    if (offset % SECTOR !== 0 || size % SECTOR !== 0 || offset + size > this.content.length) {
      return this.stop('crash', `flash erase of ${size} bytes at ${hex(offset)}: not whole sectors of the chip`);
    }
    this.content.fill(0xff, offset, offset + size);
    this.rp2040.flash.set(this.content.subarray(offset, offset + size), offset);
  }

  program(offset, source, size) {
    if (offset % 256 !== 0 || size % 256 !== 0 || offset + size > this.content.length) {
      return this.stop('crash', `flash write of ${size} bytes at ${hex(offset)}: not whole pages of the chip`);
    }
    for (let i = 0; i < size; i++) {
      this.content[offset + i] &= this.rp2040.readUint8(source + i); // writing only clears bits
    }
    this.rp2040.flash.set(this.content.subarray(offset, offset + size), offset);
  }

  // Execute until `cycles` more are done, both cores sleep, or it must stop. Returns whether they sleep.
  run(cycles) {
    const { core, clock, second, processor } = this;
    let end = core.cycles + cycles;
    while (core.cycles < end && this.stopped === null && !this.resetRequested) {
      if (core.cycles >= clock.deadline) {
        clock.ring();
      }
      const both = second.awake;
      if (core.waiting && !(core.interruptsUpdated && core.checkForInterrupts())) {
        if (!both) {
          return true;
        }
        end -= second.alone(end - core.cycles);
        continue;
      }
      core.waiting = false;
      const from = core.cycles;
      processor.ahead = clock.skipped;
      processor.run(Math.min(end, clock.deadline, both ? from + QUANTUM : Infinity));
      if (both) {
        second.run(from, core.cycles - from);
      }
    }
    return false;
  }
}
