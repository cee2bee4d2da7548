// The far end of an I2C bus whose pins a program drives by hand: SoftI2C, and I2C.scan(). Both lines are pulled up; a pin that is not driven low is high.

const LOW = 0; // rp2040js's state of a pin

export class Wires {
  // device: select(address), write(byte), read().
  constructor(rp2040, sda, scl, device) {
    this.device = device;
    this.pins = [rp2040.gpio[sda], rp2040.gpio[scl]];
    this.data = true;
    this.clock = true;
    this.holds = false; // SDA, by the device
    this.stop();
    this.pins[0].addListener((value) => this.dataIs(value !== LOW));
    this.pins[1].addListener((value) => this.clockIs(value !== LOW));
    this.show();
  }

  stop() {
    this.kind = 'idle'; // address, write: bits come in; read: they go out
    this.bits = 0;
    this.byte = 0;
    this.holds = false;
  }

  dataIs(high) {
    if (this.clock && high !== this.data) {
      this.stop();
      this.kind = high ? 'idle' : 'address';
      this.fresh = true; // the clock falls once before the first bit
    }
    this.data = high;
    this.show();
  }

  clockIs(high) {
    if (high !== this.clock) {
      this.clock = high;
      if (this.kind !== 'idle') {
        (high ? () => this.rise() : () => this.fall())();
      }
    }
    this.show();
  }

  rise() {
    if (this.bits < 8 && this.kind !== 'read') {
      this.byte = ((this.byte << 1) | (this.data ? 1 : 0)) & 0xff;
    } else if (this.bits === 8 && this.kind === 'read' && this.data) {
      this.kind = 'idle'; // the program wants no more
    }
  }

  fall() {
    if (this.fresh) {
      this.fresh = false;
      return;
    }
    this.bits++;
    if (this.bits === 8) {
      this.holds = this.kind !== 'read' && this.take();
    } else if (this.bits === 9) {
      this.bits = 0;
      this.holds = false;
      this.kind = this.next ?? this.kind;
      this.next = undefined;
      this.byte = this.kind === 'read' ? this.device.read() : 0;
    }
    if (this.kind === 'read' && this.bits < 8) {
      this.holds = !((this.byte >> (7 - this.bits)) & 1);
    }
  }

  // A whole byte has come; return whether it is acknowledged.
  take() {
    if (this.kind === 'write') {
      this.device.write(this.byte);
      return true;
    }
    if (!this.device.select(this.byte >> 1)) {
      this.kind = 'idle';
      return false;
    }
    this.next = this.byte & 1 ? 'read' : 'write';
    return true;
  }

  // What the board sees.
  show() {
    const levels = [this.data && !this.holds, this.clock];
    this.pins.forEach((pin, k) => {
      if (pin.rawInputValue !== levels[k]) {
        pin.setInputValue(levels[k]);
      }
    });
  }
}
