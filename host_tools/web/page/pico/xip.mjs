// Flash as the RP2040's cores see it: SSI, cache, stream and their registers (RP2040 datasheet, 2.6.3 and 4.10). A word that the cache
// lacks takes what the SSI's registers say: clocks for a command, an address, a wait and 32 bits of data, at the divider.

import { BasePeripheral } from './rp2040js/index.js';
import { Bus, Cache } from './cache.mjs';
import TABLE from './flash.json.mjs';

const BASE = 0x10000000;
const SPAN = 0x4000000; // with its aliases
const SSI = 0x18000; // pages of rp2040js
const XIP_CTRL = 0x14000;
const XIP_AUX = 0x50400;
const CTRLR0 = 0x00; // of the SSI
const CTRLR1 = 0x04;
const BAUDR = 0x14;
const SPI_CTRLR0 = 0xf4;
const [CTRL, FLUSH, STAT, CTR_HIT, CTR_ACC, STREAM_ADDR, STREAM_CTR, STREAM_FIFO] = [0, 4, 8, 12, 16, 20, 24, 28];
const ENABLED = 1;
const BAD_WRITE = 2; // a write to flash is a fault
const DREQ = 37; // of the stream
const NEVER = Infinity;
const AHEAD = 8; // words of the stream after which time is looked at, where DMA takes them

export class Flash {
  constructor(machine) {
    const { rp2040, clock } = machine;
    Object.assign(this, { machine, rp2040, clock });
    const { resumes, fifo } = TABLE.rp2040;
    this.cache = new Cache(TABLE.cache);
    this.bus = new Bus();
    Object.assign(this, { resumes, depth: fifo });
    this.control = ENABLED | BAD_WRITE;
    this.accesses = 0;
    this.missed = 0;
    this.word = 0; // cycles of one
    this.owed = 0; // cycles that DMA has waited for flash
    // begins: when the next word may be fetched; ends: when the one under way is there.
    this.stream = { address: 0, left: 0, fifo: [], begins: NEVER, ends: NEVER };
    this.settling = false;
    this.alarm = clock.createAlarm(() => this.settle(this.now()));
    this.watchSsi(rp2040.peripherals[SSI]);
    rp2040.peripherals[XIP_CTRL] = new Control(rp2040, this);
    rp2040.peripherals[XIP_AUX] = new Fifo(rp2040, this);
    for (const channel of rp2040.dma.channels) {
      const { scheduleTransfer: schedule, transfer } = channel;
      channel.transferAlarm.callback = channel.transfer = () => {
        const offset = channel.readAddr - BASE >>> 0;
        this.owed = offset < SPAN ? this.wait(offset, this.now()) : 0;
        transfer();
      };
      channel.scheduleTransfer = () => {
        schedule.call(channel);
        if (this.owed > 0 && channel.transferAlarm.scheduled) {
          channel.transferAlarm.schedule(this.owed * clock.nanosPerCycle);
        }
        this.owed = 0;
      };
    }
  }

  watchSsi(ssi) {
    const write = ssi.writeUint32;
    ssi.writeUint32 = (offset, value) => {
      write.call(ssi, offset, value);
      this.readSsi(ssi);
    };
    this.readSsi(ssi);
  }

  readSsi(ssi) {
    const [frame, how, divider] = [CTRLR0, SPI_CTRLR0, BAUDR].map((offset) => ssi.readUint32(offset));
    const wires = 1 << ((frame >> 21) & 3);
    const kind = how & 3; // 0: command and address on one wire; 1: the address on all; 2: both
    const command = [0, 4, 8, 16][(how >> 8) & 3] / (kind === 2 ? wires : 1);
    const address = (4 * ((how >> 2) & 15)) / (kind === 0 ? 1 : wires);
    const data = (((frame >> 16) & 31) + 1) / wires;
    const frames = (ssi.readUint32(CTRLR1) & 0xffff) + 1;
    this.word = (divider & 0xfffe) * (command + address + ((how >> 11) & 31) + data * frames);
  }

  now() {
    return this.machine.core.cycles + this.clock.skipped;
  }

  // Cycles that an access to `offset` from 0x10000000 waits, which begins at `time`. Aliases: 1 does not allocate, 2 does not look up.
  wait(offset, time) {
    const alias = offset >>> 24;
    const enabled = this.control & ENABLED;
    let missing = true;
    if (enabled) {
      const held = !this.cache.misses(offset & 0xffffff, !(alias & 1));
      missing = !held || (alias & 2) !== 0;
    }
    if (!missing) {
      return 0;
    }
    this.missed++;
    if (this.stream.left > 0) {
      this.settle(time);
    }
    const end = this.bus.take(time, this.word);
    const { stream } = this;
    if (stream.begins !== NEVER) {
      stream.begins = Math.max(stream.begins, end + this.resumes);
    }
    return end - time;
  }

  // A write to flash: false where that is a fault. It drops what the cache has of it.
  write(offset) {
    if (this.control & BAD_WRITE) {
      return false;
    }
    this.cache.drop(offset & 0xffffff);
    return true;
  }

  flush(time) {
    this.cache.flush();
    this.bus.take(time, this.cache.sets);
  }

  // --- the stream: words that come while nobody else wants the bus

  begin(left) {
    const { stream } = this;
    stream.left = left;
    stream.begins = stream.ends = NEVER;
    this.goOn(this.now());
  }

  more() {
    return this.stream.left > 0 && this.stream.fifo.length < this.depth;
  }

  // Fetch the next word if there is room for it, and look when it is there.
  goOn(time) {
    const { stream } = this;
    if (this.settling) {
      return;
    }
    if (stream.begins === NEVER && stream.ends === NEVER && this.more()) {
      stream.begins = time;
    }
    const due = Math.min(stream.ends, Math.max(stream.begins, this.bus.free) + this.word);
    if (due === NEVER) {
      this.alarm.cancel();
    } else {
      const more = this.reader() === undefined ? 0 : this.word * Math.min(AHEAD, stream.left - 1);
      this.alarm.schedule(Math.max(0, due + more - this.now()) * this.clock.nanosPerCycle);
    }
  }

  reader() {
    return this.rp2040.dma.channels.find((channel) => channel.active && channel.treq === DREQ);
  }

  // Let the stream do what it has done before `time`.
  settle(time) {
    const { stream, bus } = this;
    if (this.settling) { // DMA reads the FIFO in deliver()
      return;
    }
    this.settling = true;
    for (;;) {
      if (stream.ends <= time) {
        const from = stream.ends;
        stream.ends = NEVER;
        this.deliver();
        stream.begins = this.more() ? from : NEVER;
      } else if (Math.max(stream.begins, bus.free) < time) {
        stream.ends = this.bus.take(stream.begins, this.word);
        stream.begins = NEVER;
      } else {
        break;
      }
    }
    this.settling = false;
    this.goOn(time);
  }

  deliver() {
    const { stream, rp2040 } = this;
    stream.fifo.push(rp2040.flashView.getUint32(stream.address & 0xfffffc, true));
    stream.address = (stream.address + 4) >>> 0;
    stream.left--;
    const channel = stream.fifo.length === 1 ? this.reader() : undefined;
    if (channel !== undefined && !channel.transferAlarm.scheduled) {
      channel.transfer();
    }
    if (stream.fifo.length > 0) {
      rp2040.dma.setDREQ(DREQ);
    }
  }

  pop() {
    const { stream } = this;
    const word = stream.fifo.shift() ?? 0;
    if (stream.fifo.length === 0) {
      this.rp2040.dma.clearDREQ(DREQ);
    }
    this.goOn(this.now());
    return word;
  }
}

class Control extends BasePeripheral {
  constructor(rp2040, flash) {
    super(rp2040, 'XIP_CTRL');
    this.flash = flash;
  }

  readUint32(offset) {
    const { flash } = this;
    const { stream } = flash;
    flash.settle(flash.now());
    switch (offset) {
      case CTRL:
        return flash.control;
      case FLUSH: // waits until it is done
        flash.machine.processor.extra += Math.max(0, flash.bus.free - flash.now());
        return 0;
      case STAT:
        return 1 | (stream.fifo.length === 0 ? 2 : 0) | (stream.fifo.length === flash.depth ? 4 : 0);
      case CTR_HIT:
        return Math.min(0xffffffff, flash.accesses - flash.missed);
      case CTR_ACC:
        return Math.min(0xffffffff, flash.accesses);
      case STREAM_ADDR:
        return stream.address;
      case STREAM_CTR:
        return stream.left;
      case STREAM_FIFO:
        return flash.pop();
      default:
        return super.readUint32(offset);
    }
  }

  writeUint32(offset, value) {
    const { flash } = this;
    const { stream } = flash;
    flash.settle(flash.now());
    switch (offset) {
      case CTRL:
        flash.control = value & 0xb;
        flash.cache.flush();
        return undefined;
      case FLUSH:
        return value & 1 ? flash.flush(flash.now()) : undefined;
      case CTR_HIT:
      case CTR_ACC:
        flash.accesses = flash.missed = 0;
        return undefined;
      case STREAM_ADDR:
        stream.address = value & ~3;
        return undefined;
      case STREAM_CTR:
        return flash.begin(value & 0x3fffff);
      default:
        return super.writeUint32(offset, value);
    }
  }
}

// The stream's FIFO again, on a faster bus.
class Fifo extends BasePeripheral {
  constructor(rp2040, flash) {
    super(rp2040, 'XIP_AUX');
    this.flash = flash;
  }

  readUint32(offset) {
    return offset === 0 ? this.flash.pop() : super.readUint32(offset);
  }
}
