// The board's time, as rp2040js wants it of a clock. It follows from the core's cycle counter, so running code costs one
// comparison an instruction, and peripherals still read the exact time.

class Alarm {
  constructor(clock, callback) {
    this.clock = clock;
    this.callback = callback;
    this.nanos = 0; // when it rings
    this.next = null; // the one that rings after it
    this.scheduled = false;
  }

  schedule(nanos) {
    this.cancel();
    this.clock.link(this, nanos);
  }

  cancel() {
    if (this.scheduled) {
      this.clock.unlink(this);
    }
  }
}

export class CycleClock {
  constructor() {
    this.core = null; // set once there is one
    this.first = null; // alarms, by time
    this.nanosPerCycle = 8; // 125 MHz
    this.baseCycles = 0;
    this.baseNanos = 0;
    this.deadline = Infinity; // in cycles: the next alarm
    this.onDeadline = () => {};
    this.skipped = 0; // cycles that went by while core 0 executed nothing
  }

  get nanos() {
    return this.core === null ? 0 : this.baseNanos + (this.core.cycles - this.baseCycles) * this.nanosPerCycle;
  }

  get micros() {
    return this.nanos / 1000;
  }

  createAlarm(callback) {
    return new Alarm(this, callback);
  }

  link(alarm, nanos) {
    alarm.nanos = this.nanos + nanos;
    alarm.scheduled = true;
    let before = null;
    let after = this.first;
    while (after !== null && after.nanos <= alarm.nanos) {
      before = after;
      after = after.next;
    }
    alarm.next = after;
    if (before === null) {
      this.first = alarm;
    } else {
      before.next = alarm;
    }
    this.findDeadline();
  }

  unlink(alarm) {
    alarm.scheduled = false;
    if (this.first === alarm) {
      this.first = alarm.next;
    } else {
      let before = this.first;
      while (before.next !== alarm) {
        before = before.next;
      }
      before.next = alarm.next;
    }
    this.findDeadline();
  }

  findDeadline() {
    const alarm = this.first;
    this.deadline = alarm === null ? Infinity : this.baseCycles + (alarm.nanos - this.baseNanos) / this.nanosPerCycle;
    this.onDeadline(this.deadline);
  }

  // Ring the alarms whose time has come.
  ring() {
    const now = this.nanos;
    while (this.first !== null && this.first.nanos <= now) {
      const alarm = this.first;
      this.first = alarm.next;
      alarm.scheduled = false;
      alarm.callback();
    }
    this.findDeadline();
  }

  // Nanoseconds until the next alarm; Infinity where there is none.
  get idleNanos() {
    return this.first === null ? Infinity : Math.max(0, this.first.nanos - this.nanos);
  }

  // Let time pass without instructions.
  skip(nanos) {
    this.skipped += nanos / this.nanosPerCycle;
    this.rebase(this.nanos + nanos);
    this.ring();
  }

  // A processor clock of `hertz` from now on.
  setFrequency(hertz) {
    this.rebase(this.nanos);
    this.nanosPerCycle = 1e9 / hertz;
    this.findDeadline();
  }

  rebase(nanos) {
    this.baseNanos = nanos;
    this.baseCycles = this.core.cycles;
  }
}
