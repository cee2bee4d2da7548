// What two cores have between them in the SIO: a FIFO in each direction, with its interrupts. And what each has of its own there:
// its number, a divider, two interpolators. Pins and spinlocks are shared. (RP2040 datasheet, 2.3.1.)

const CPUID = 0x000;
const FIFO_ST = 0x050;
const FIFO_WR = 0x054;
const FIFO_RD = 0x058;
const DIVIDER = 0x060; // to 0x07c
const SPINLOCKS = 0x100;

const VALID = 1; // there is a word to read
const ROOM = 2; // there is place for a word
const OVERFLOW = 4; // a word was written to a full FIFO; stays until it is cleared
const UNDERFLOW = 8; // an empty FIFO was read; so does this
const DEPTH = 8;

export const FIFO_IRQ = [15, 16]; // of core 0 and 1

// Both FIFOs. `interrupt(core, on)` is the line that a core's own FIFO interrupt is.
export class Fifos {
  constructor(interrupt) {
    this.interrupt = interrupt;
    this.words = [[], []]; // what each core can read
    this.errors = [0, 0]; // of each core
  }

  status(core) {
    const valid = this.words[core].length > 0 ? VALID : 0;
    const room = this.words[1 - core].length < DEPTH ? ROOM : 0;
    return valid | room | this.errors[core];
  }

  // Core `core` sends to the other.
  push(core, word) {
    const queue = this.words[1 - core];
    if (queue.length < DEPTH) {
      queue.push(word >>> 0);
    } else {
      this.errors[core] |= OVERFLOW;
      this.look(core);
    }
    this.look(1 - core);
  }

  // Core `core` reads what was sent to it.
  pop(core) {
    const queue = this.words[core];
    if (queue.length === 0) {
      this.errors[core] |= UNDERFLOW;
    }
    const word = queue.shift() ?? 0;
    this.look(core);
    return word;
  }

  clear(core) {
    this.errors[core] = 0;
    this.look(core);
  }

  drain(core) {
    this.words[core].length = 0;
    this.look(core);
  }

  look(core) {
    this.interrupt(core, this.words[core].length > 0 || this.errors[core] !== 0);
  }
}

// The SIO as one core sees it: in place of rp2040js's, whose methods it calls. `own` has the divider and the interpolators of this
// core, `shared` all else; `sent()` is called after it has sent a word.
export class CoreSio {
  constructor(core, fifos, own, shared, sent) {
    this.core = core;
    this.fifos = fifos;
    this.own = own;
    this.shared = shared;
    this.sent = sent;
  }

  partOf(offset) {
    return offset >= DIVIDER && offset < SPINLOCKS && offset !== 0x5c ? this.own : this.shared;
  }

  readUint32(offset) {
    switch (offset) {
      case CPUID:
        return this.core;
      case FIFO_ST:
        return this.fifos.status(this.core);
      case FIFO_RD:
        return this.fifos.pop(this.core);
      case FIFO_WR:
        return 0;
      default:
        return this.partOf(offset).readUint32(offset);
    }
  }

  writeUint32(offset, value) {
    switch (offset) {
      case FIFO_ST:
        return this.fifos.clear(this.core);
      case FIFO_WR:
        this.fifos.push(this.core, value);
        return this.sent();
      case FIFO_RD:
        return undefined;
      default:
        return this.partOf(offset).writeUint32(offset, value);
    }
  }
}
