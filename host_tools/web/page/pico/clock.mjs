// The board's time, as rp2040js wants it of a clock. It follows from the core's cycle counter, so running code costs one
// comparison an instruction, and peripherals still read the exact time.

import { SimulationClock } from './rp2040js/clock/simulation-clock.js';

export class CycleClock extends SimulationClock {
  constructor() {
    super();
    this.core = null; // set once there is one
    this.nanosPerCycle = 8; // 125 MHz
    this.baseCycles = 0; // at which the time was nanosCounter
    this.deadline = Infinity; // in cycles: the next alarm
    this.onDeadline = () => {};
    this.skipped = 0; // cycles that went by while core 0 executed nothing
  }

  get nanos() {
    return this.core === null ? 0 : this.nanosCounter + (this.core.cycles - this.baseCycles) * this.nanosPerCycle;
  }

  linkAlarm(nanos, alarm) {
    super.linkAlarm(nanos, alarm);
    this.findDeadline();
    return alarm;
  }

  unlinkAlarm(alarm) {
    const was = super.unlinkAlarm(alarm);
    this.findDeadline();
    return was;
  }

  findDeadline() {
    const { nextAlarm: alarm, baseCycles } = this;
    this.deadline = alarm === null ? Infinity : baseCycles + (alarm.nanos - this.nanosCounter) / this.nanosPerCycle;
    this.onDeadline(this.deadline);
  }

  // Ring the alarms whose time has come.
  ring() {
    const now = this.nanos;
    while (this.nextAlarm !== null && this.nextAlarm.nanos <= now) {
      const alarm = this.nextAlarm;
      this.nextAlarm = alarm.next;
      alarm.scheduled = false;
      alarm.callback();
    }
    this.findDeadline();
  }

  // Nanoseconds until the next alarm; Infinity where there is none.
  get idleNanos() {
    return this.nextAlarm === null ? Infinity : Math.max(0, this.nanosToNextAlarm);
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
    this.nanosCounter = nanos;
    this.baseCycles = this.core.cycles;
  }
}
