// The second core: a processor of its own over the same memory and peripherals, with its own NVIC, SysTick and VTOR, and its side
// of the SIO (sio.mjs). The two take turns of QUANTUM cycles, so their order is the same in every run, and a core that sleeps costs
// nothing. Nothing of it is made before a program starts it.
//
// Until then it is what the chip's is, in the boot ROM: it drains its FIFO, sends a 0, and waits for 0, 0, 1, vector table, stack
// pointer and entry, each of which it sends back (RP2040 datasheet, 2.8.2). That part is here, and not in bootrom.c, because
// MicroPython resets core 1 at each soft reset and hardly ever starts it.
//
// Not modelled: what the two wait for each other at a bank of RAM and at the bus of the peripherals. What core 1 reads of the time is
// up to a turn old or new.

import { Processor } from './processor.mjs';
import { CoreSio, FIFO_IRQ, Fifos } from './sio.mjs';

export const QUANTUM = 100; // cycles
const FLASH_BASE = 0x10000000;
const XIP_END = 0x14000000;
const PSM = 0x40010; // its page
const PSM_FRCE_OFF = 4;
const PSM_PROC1 = 1 << 16;
const WFE = 0xbf20;
const ROM_ENDED = 0x1a; // in the boot ROM, 16 bits: where a program comes to that returns
const START = [0, 0, 1]; // what the boot ROM waits for, before the three words that are the program's
const START_WORDS = 6;

const OFF = 0;
const IN_ROM = 1;
const RUNNING = 2;

export class SecondCore {
  constructor(machine) {
    this.machine = machine;
    this.first = machine.core;
    this.core = null;
    this.processor = null;
    this.state = OFF;
    this.received = []; // what the boot ROM was sent
    this.debt = 0; // cycles that core 0 is ahead
    this.fifos = new Fifos((core, on) => this.fifoInterrupt(core, on));
    const { sio, peripherals } = machine.rp2040;
    this.sharedSio = { readUint32: sio.readUint32.bind(sio), writeUint32: sio.writeUint32.bind(sio) };
    const own = new CoreSio(0, this.fifos, this.sharedSio, this.sharedSio, () => this.romLooks());
    sio.readUint32 = (offset) => own.readUint32(offset);
    sio.writeUint32 = (offset, value) => own.writeUint32(offset, value);
    const psm = peripherals[PSM];
    const power = psm.writeUint32;
    psm.writeUint32 = (offset, value) => {
      power.call(psm, offset, value);
      if (offset === PSM_FRCE_OFF) {
        this.force(psm.frceOff);
      }
    };
    this.force(0);
  }

  // Cycles it has executed since power-on.
  get cycles() {
    return this.core === null ? 0 : this.core.cycles;
  }

  // --- power, and the boot ROM

  force(off) {
    if (off & PSM_PROC1) {
      this.state = OFF;
      if (this.core !== null) {
        this.reset();
        this.endTurn();
      }
    } else if (this.state === OFF) {
      this.state = IN_ROM;
      this.received = [];
      this.fifos.drain(1);
      this.fifos.push(1, 0);
    }
  }

  // Core 0 has sent a word.
  romLooks() {
    while (this.state === IN_ROM && this.fifos.words[1].length > 0) {
      const word = this.fifos.pop(1);
      const at = this.received.length;
      if (at >= START.length || word === START[at]) {
        this.received.push(word);
      } else {
        this.received = [];
      }
      this.fifos.push(1, word);
      if (this.received.length === START_WORDS) {
        this.start(...this.received.slice(START.length));
      }
    }
  }

  start(vectors, stack, entry) {
    if (this.core === null) {
      this.make();
    }
    const { core } = this;
    core.VTOR = vectors;
    core.SP = stack;
    core.LR = this.rp2040.readUint16(ROM_ENDED);
    core.PC = entry & ~1;
    this.state = RUNNING;
    this.woken();
  }

  // Registers as after power-on, and no interrupt enabled. What peripherals ask for stays asked, and cycles are counted on.
  reset() {
    const { core } = this;
    const { cycles, pendingInterrupts } = core;
    const fresh = new core.constructor(this.rp2040);
    for (const key of Object.keys(fresh)) {
      if (key !== 'registers' && key !== 'rp2040' && key !== 'blTaken') {
        core[key] = fresh[key];
      }
    }
    core.registers.fill(0);
    core.cycles = cycles;
    core.pendingInterrupts = pendingInterrupts & ((1 << 26) - 1);
    this.rp2040.ppb.reset();
  }

  // The chip again, as core 1 sees it: all of it is shared but what the view has itself.
  make() {
    const { machine, first } = this;
    const { rp2040 } = machine;
    const view = Object.create(rp2040);
    const kind = rp2040.constructor.prototype;
    for (const name of ['readUint32', 'readUint16', 'readUint8', 'writeUint32', 'writeUint16', 'writeUint8']) {
      view[name] = kind[name]; // not those that core 0's processor has put over them
    }
    this.rp2040 = view;
    this.core = view.core = new first.constructor(view);
    view.onBreak = (code) => machine.trap(code, this.core);
    view.ppb = new rp2040.ppb.constructor(view, 'PPB');
    view.addClockListener((hertz) => {
      view.ppb.systickTimer.frequency = hertz;
    });
    const ownSio = new (Object.getPrototypeOf(rp2040.sio).constructor)(view);
    view.sio = new CoreSio(1, this.fifos, ownSio, this.sharedSio, () => {});
    this.core.pendingInterrupts = first.pendingInterrupts & ~(1 << FIFO_IRQ[0]);
    rp2040.setInterrupt = (irq, on) => {
      first.setInterrupt(irq, on);
      this.interrupt(irq, on);
    };
    this.processor = new Processor(view, (message) => machine.stop('crash', message), machine.flash);
    this.processor.onEvent = () => {
      if (this.receive(first)) {
        this.endTurn();
      }
    };
    machine.processor.onEvent = () => {
      if (this.state === RUNNING && this.receive(this.core)) {
        this.woken();
      }
    };
  }

  // --- what wakes a core

  // SEV of the other core. Returns whether it was asleep and is not now.
  receive(core) {
    if (core.waiting && this.rp2040.readUint16((core.PC & ~1) - 2) === WFE) {
      core.waiting = false;
      return true;
    }
    core.eventRegistered = true;
    return false;
  }

  fifoInterrupt(core, on) {
    if (core === 1) {
      this.interrupt(FIFO_IRQ[1], on);
    } else {
      const slept = this.first.waiting;
      this.first.setInterrupt(FIFO_IRQ[0], on);
      if (slept && !this.first.waiting) {
        this.endTurn();
      }
    }
  }

  // A line of core 1's interrupts.
  interrupt(irq, on) {
    if (this.core === null) {
      return;
    }
    const slept = this.core.waiting;
    this.core.setInterrupt(irq, on);
    if (slept && !this.core.waiting && this.state === RUNNING) {
      this.woken();
    }
  }

  // Core 0, in its turn, has something for us to do.
  woken() {
    this.debt = 0;
    this.machine.processor.limit = 0;
  }

  // Let core 0 go on, whose turn may be next.
  endTurn() {
    if (this.processor !== null) {
      this.processor.limit = 0;
    }
  }

  // --- turns

  get awake() {
    if (this.state !== RUNNING) {
      return false;
    }
    const { core } = this;
    if (core.waiting && core.interruptsUpdated && core.checkForInterrupts()) {
      core.waiting = false;
      this.debt = 0;
    }
    return !core.waiting;
  }

  // Run for so many cycles, or until it sleeps, beside core 0, whose turn began at its cycle `begin`. Returns how many
  // have passed.
  run(begin, cycles) {
    const { core, processor, machine } = this;
    const from = core.cycles;
    this.debt += cycles;
    processor.ahead = begin + cycles + machine.clock.skipped - this.debt - from;
    processor.run(from + this.debt);
    this.debt = core.waiting ? 0 : this.debt - (core.cycles - from);
    return Math.min(cycles, core.cycles - from);
  }

  // Core 0 sleeps: run for `cycles`, or until it wakes. Returns how long that was.
  alone(cycles) {
    const { clock } = this.machine;
    const most = Math.max(1, Math.min(cycles, Math.ceil(clock.idleNanos / clock.nanosPerCycle)));
    const passed = this.run(this.first.cycles, most);
    this.debt = Math.min(0, this.debt);
    clock.skip(passed * clock.nanosPerCycle);
    return passed;
  }

  // --- flash

  // Why flash cannot be written by `core` now; null where it can. The chip's other core would read what is not there meanwhile. One
  // that sleeps in flash is let be: there waits pico-sdk's lockout handler, whose loop GCC 12 leaves in flash (2.1.1 with -Os).
  inTheWay(core) {
    if (this.state !== RUNNING) {
      return null;
    }
    const other = core === this.first ? this.core : this.first;
    return other.PC >= FLASH_BASE && other.PC < XIP_END && !other.waiting
      ? `core ${core === this.first ? 1 : 0} runs code in flash while the other core writes flash`
      : null;
  }
}
