// A motion sensor, as an MPU6050 at an I2C bus or an MPU6500 at SPI: the registers that programs read acceleration and rotation by, and its FIFO. What
// it measures is a recording, which begins when the sensor is woken; at its end it lies still. A byte takes the bus its time.

import { FACTS, says } from './facts.mjs';
import { Chosen } from './spi.mjs';
import { Wires } from './wires.mjs';

const I2C = 3; // function of a pin
const ROW = 6; // numbers: acceleration x y z, rotation x y z, at the ranges after power-on
const TEMPERATURE = FACTS.imu.temperature; // 36.53 degrees
const BITS = 9; // of a byte on the bus, its acknowledgement too

const R_TX_EMPTY = 1 << 4; // of the I2C block

const { SMPLRT_DIV, CONFIG, GYRO_CONFIG, ACCEL_CONFIG, FIFO_EN, INT_STATUS } = FACTS.imu.registers;
const { ACCEL_XOUT_H, USER_CTRL, PWR_MGMT_1, FIFO_COUNTH, FIFO_R_W, WHO_AM_I } = FACTS.imu.registers;
const { SLEEP, DEVICE_RESET, USE_FIFO, FIFO_RESET, OVERFLOW } = FACTS.imu.bits;
const { i2c: MPU6050, spi: MPU6500 } = FACTS.imu.kinds; // what WHO_AM_I has, and the FIFO's bytes

export class MotionSensor {
  // sensor: {name, rate, sda, scl, addr} or {name, rate, sck, mosi, miso, cs}; samples: Int16Array, rows of six; tell(line): for the user.
  constructor(rp2040, sensor, samples, tell) {
    Object.assign(this, { rp2040, sensor, samples, tell });
    this.clock = rp2040.clock;
    this.kind = 'cs' in sensor ? MPU6500 : MPU6050;
    this.pointer = null; // register; null: the next byte written says which
    this.reset();
    if (this.kind === MPU6500) {
      new Chosen(rp2040, sensor, this);
    } else {
      this.connect();
    }
  }

  connect() {
    const { rp2040, sensor } = this;
    const bus = rp2040.i2c[(sensor.sda >> 1) & 1];
    this.bus = bus;
    this.alarm = this.clock.createAlarm(() => this.done());
    this.done = () => {};
    this.there = false; // whether this sensor is spoken to
    bus.onConnect = (address) => {
      this.there = address === sensor.addr && this.wired();
      this.later(() => bus.completeConnect(this.there));
    };
    bus.onStart = () => {
      this.pointer = null;
      bus.completeStart();
    };
    bus.onWriteByte = (byte) => {
      this.write(byte);
      this.later(() => bus.completeWrite(true));
    };
    bus.onReadByte = () => this.later(() => bus.completeRead(this.read()));
    new Wires(rp2040, sensor.sda, sensor.scl, this);
  }

  // Where the next byte is read from, or goes to.
  point(register) {
    this.pointer = register;
    this.kept = register;
  }

  // Of wires that a program drives by hand.
  select(address) {
    this.pointer = null;
    return address === this.sensor.addr;
  }

  wired() {
    const { gpio } = this.rp2040;
    return gpio[this.sensor.sda].functionSelect === I2C && gpio[this.sensor.scl].functionSelect === I2C;
  }

  // When a byte has gone over the bus.
  later(action) {
    this.done = action;
    this.alarm.schedule(BITS * (this.bus.sclHighPeriod + this.bus.sclLowPeriod) * this.clock.nanosPerCycle);
  }

  reset() {
    this.registers = new Uint8Array(128);
    this.registers[PWR_MGMT_1] = SLEEP;
    this.registers[WHO_AM_I] = this.kind.known;
    this.kept = 0; // the register that is read next
    this.begun = this.clock.nanos;
    this.fifo = [];
    this.taken = 0; // samples that the FIFO was given since `counted`
    this.counted = this.clock.nanos;
    this.told = false;
  }

  write(byte) {
    if (this.pointer === null) {
      this.point(byte & 0x7f);
      return;
    }
    this.fill();
    const register = this.pointer;
    this.pointer = (this.pointer + 1) & 0x7f;
    this.kept = this.pointer;
    if (register === PWR_MGMT_1) {
      if (byte & DEVICE_RESET) {
        this.reset();
        return;
      }
      this.begun = this.clock.nanos;
      this.told = false;
    }
    if (register === USER_CTRL && byte & FIFO_RESET) {
      this.fifo = [];
      this.registers[INT_STATUS] = 0;
    }
    if ((register >= SMPLRT_DIV && register <= FIFO_EN) || register === USER_CTRL || register === PWR_MGMT_1) {
      this.counted = this.clock.nanos;
      this.taken = 0;
    }
    this.registers[register] = register === USER_CTRL ? byte & ~0x07 : byte;
  }

  read() {
    this.fill();
    const register = this.kept;
    if (register !== FIFO_R_W) {
      this.kept = (register + 1) & 0x7f;
    }
    if (register === ACCEL_XOUT_H) {
      this.latched = bytesOf(this.row(this.clock.nanos)); // a burst belongs together
    }
    if (register >= ACCEL_XOUT_H && register < ACCEL_XOUT_H + 14) {
      return (this.latched ?? bytesOf(this.row(this.clock.nanos)))[register - ACCEL_XOUT_H];
    }
    switch (register) {
      case INT_STATUS: {
        const status = this.registers[INT_STATUS];
        this.registers[INT_STATUS] = 0;
        return status;
      }
      case FIFO_COUNTH:
        return this.fifo.length >> 8;
      case FIFO_COUNTH + 1:
        return this.fifo.length & 0xff;
      case FIFO_R_W:
        return this.fifo.length > 0 ? this.fifo.shift() : 0xff;
      default:
        return this.registers[register];
    }
  }

  // The sensor's own rate: nanoseconds from one sample to the next.
  get period() {
    const filter = this.registers[CONFIG] & 7;
    return ((filter === 0 || filter === 7 ? 1 : 8) * (1 + this.registers[SMPLRT_DIV]) * 1e9) / 8000;
  }

  // What it measures: six numbers at the ranges that are set.
  row(nanos) {
    const { samples, sensor, registers } = this;
    const rows = samples.length / ROW;
    if (registers[PWR_MGMT_1] & SLEEP) {
      return new Int16Array(ROW);
    }
    let at = Math.round(((nanos - this.begun) * sensor.rate) / 1e9);
    if (at >= rows) {
      at = rows - 1;
      if (!this.told) {
        this.told = true;
        this.tell(says('imu ended', sensor, rows));
      }
    }
    const row = samples.slice(at * ROW, (at + 1) * ROW);
    const acceleration = (registers[ACCEL_CONFIG] >> 3) & 3;
    const rotation = (registers[GYRO_CONFIG] >> 3) & 3;
    return row.map((n, k) => n >> (k < 3 ? acceleration : rotation));
  }

  // Give the FIFO the samples of the time that has gone by.
  fill() {
    const { registers } = this;
    const desired = registers[FIFO_EN];
    const due = Math.floor((this.clock.nanos - this.counted) / this.period + 1e-6);
    if (!(registers[USER_CTRL] & USE_FIFO) || desired === 0 || registers[PWR_MGMT_1] & SLEEP) {
      this.taken = due;
      return;
    }
    // Of what was written over, nothing can be read.
    this.taken = Math.max(this.taken, due - this.kind.fifo);
    while (this.taken < due) {
      this.taken++;
      const all = bytesOf(this.row(this.counted + this.taken * this.period));
      for (const [bit, from, to] of FACTS.imu.parts) {
        if (desired & bit) {
          this.fifo.push(...all.slice(from, to));
        }
      }
    }
    if (this.fifo.length > this.kind.fifo) {
      this.fifo = this.fifo.slice(-this.kind.fifo);
      registers[INT_STATUS] |= OVERFLOW;
    }
  }
}

// On the chip an address that nobody answers leaves the FIFO empty, and says so; rp2040js does the one and not the other, and firmware waits for it.
export function tellEmpty(bus) {
  const { abort } = bus;
  bus.abort = (reason) => {
    abort.call(bus, reason);
    bus.setInterrupts(R_TX_EMPTY);
  };
}

// Big-endian, as in the registers: acceleration, temperature, rotation.
function bytesOf(row) {
  return [...row.slice(0, 3), TEMPERATURE, ...row.slice(3)].flatMap((n) => [(n >> 8) & 0xff, n & 0xff]);
}
