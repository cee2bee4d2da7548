// The two PIO blocks, stepped by the board's time. rp2040js steps them from a timer of Node.js, all machines at the same pace and
// without the delays of instructions; here each state machine has its divider of the processor's clock, and its delays.
//
// Steps are made up to now whenever a program looks, and in between some at a time. Where one has something for DMA, DMA comes first.

const STEPS = 64; // of the fastest machine, between two looks: a word of an I2S frame
const SHORTEST = 4000; // nanoseconds between two looks, whatever the divider

const CTRL = 0x000;
const SM0_CLKDIV = 0x0c8;
const SM_BYTES = 0x18;
const SM3_END = SM0_CLKDIV + 4 * SM_BYTES;
const SHIFTCTRL = 0x08; // in a machine's registers
const JOIN_TX = 1 << 30;
const JOIN_RX = 1 << 31;
const FIFO_WORDS = 4;

// A state machine, and when its next step is due.
class Paced {
  constructor(machine) {
    this.machine = machine;
    this.enabled = false;
    this.stalled = false;
    this.due = 0;
    this.period = 0; // nanoseconds
  }
}

export class PioClock {
  constructor(rp2040) {
    this.clock = rp2040.clock;
    this.nanos = 0; // of the step that is made
    this.handover = false; // whether DMA has been asked for since the last look
    this.paced = [];
    this.alarm = this.clock.createAlarm(() => this.look());
    const { dma } = rp2040;
    const ask = dma.setDREQ;
    dma.setDREQ = (channel) => {
      this.handover ||= !dma.dreq[channel];
      ask.call(dma, channel);
    };
    for (const pio of rp2040.pio) {
      this.attach(pio);
    }
    rp2040.addClockListener(() => this.changed());
  }

  attach(pio) {
    const paced = pio.machines.map((machine) => new Paced(machine));
    this.paced.push(...paced);
    const read = pio.readUint32;
    const write = pio.writeUint32;
    pio.run = () => {};
    pio.readUint32 = (offset) => {
      this.catchUp();
      const value = read.call(pio, offset);
      this.changed();
      return value;
    };
    pio.writeUint32 = (offset, value) => {
      this.catchUp();
      if (offset >= SM0_CLKDIV && offset < SM3_END && (offset - SM0_CLKDIV) % SM_BYTES === SHIFTCTRL) {
        join(pio.machines[Math.floor((offset - SM0_CLKDIV) / SM_BYTES)], value);
      }
      write.call(pio, offset, value);
      pio.checkChangedPins();
      this.changed();
    };
    pio.checkChangedPins = () => {
      let pins = (pio.oldPinDirections ^ pio.pinDirections) | (pio.oldPinValues ^ pio.pinValues);
      pio.oldPinDirections = pio.pinDirections;
      pio.oldPinValues = pio.pinValues;
      while (pins !== 0) {
        const pin = 31 - Math.clz32(pins);
        pins &= ~(1 << pin);
        pio.rp2040.gpio[pin].checkForUpdates();
      }
    };
  }

  // Somebody has used registers: find out which machines go on, at what pace, and when to look again.
  changed() {
    const now = this.clock.nanos;
    let fastest = Infinity;
    for (const p of this.paced) {
      const { machine } = p;
      const begins = machine.enabled && !p.enabled;
      p.enabled = machine.enabled;
      if (!p.enabled) {
        continue;
      }
      p.period = ((machine.clockDivInt || 0x10000) + machine.clockDivFrac / 256) * this.clock.nanosPerCycle;
      if (begins || (p.stalled && !machine.waiting)) {
        p.due = now + p.period;
      }
      p.stalled = machine.waiting;
      if (!p.stalled) {
        fastest = Math.min(fastest, p.period);
      }
    }
    if (fastest === Infinity) {
      this.alarm.cancel();
    } else if (!this.alarm.scheduled) {
      this.alarm.schedule(Math.max(SHORTEST, STEPS * fastest));
    }
  }

  look() {
    if (this.catchUp()) {
      this.changed();
    } else {
      this.alarm.schedule(0); // behind DMA
    }
  }

  // Step all machines up to now, in the order of time; return false where DMA comes first.
  catchUp() {
    const now = this.clock.nanos;
    this.handover = false;
    for (;;) {
      let next = null;
      for (const p of this.paced) {
        if (p.enabled && !p.stalled && p.due <= now && (next === null || p.due < next.due)) {
          next = p;
        }
      }
      if (next === null) {
        return true;
      }
      const { machine } = next;
      const before = machine.cycles;
      this.nanos = next.due;
      machine.step();
      next.due += Math.max(1, machine.cycles - before) * next.period;
      next.stalled = machine.waiting;
      machine.pio.checkChangedPins();
      // What this one did may have ended the waits of others.
      for (const p of this.paced) {
        if (p.stalled && !p.machine.waiting) {
          p.stalled = false;
          p.due = this.nanos + p.period;
        }
      }
      if (this.handover) {
        return false;
      }
    }
  }
}

// As on the chip, FIFOs are emptied where they are joined or parted.
function join(machine, value) {
  if (((machine.shiftCtrl ^ value) & (JOIN_TX | JOIN_RX)) === 0) {
    return;
  }
  const Fifo = machine.rxFIFO.constructor;
  const words = (mine, other) => (value & mine ? 2 * FIFO_WORDS : value & other ? 0 : FIFO_WORDS);
  machine.rxFIFO = new Fifo(words(JOIN_RX, JOIN_TX));
  machine.txFIFO = new Fifo(words(JOIN_TX, JOIN_RX));
  machine.updateDMARx();
  machine.updateDMATx();
}
