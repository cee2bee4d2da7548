// A device at an SPI bus that is chosen by a pin: what goes out while that is low is for it, and what it says comes back, byte by byte, at the
// bus's own pace. Its first byte names a register, with bit 7 where it is to be read; those that follow go on from there.

const SPI = 1; // function of a pin
const SIO = 5;
const LOW = 0; // rp2040js's state of a pin
const READ = 0x80;
const BITS = 8;
const NOBODY = 0xff; // what is read where nothing drives the wire

export class Chosen {
  // wires: {sck, mosi, miso, cs}; device: point(register), read(), write(byte).
  constructor(rp2040, wires, device) {
    Object.assign(this, { rp2040, wires, device });
    this.bus = rp2040.spi[(wires.sck >> 3) & 1];
    this.clock = rp2040.clock;
    this.alarm = this.clock.createAlarm(() => this.bus.completeTransmit(this.answer));
    this.answer = NOBODY;
    this.reads = null; // null: the next byte says whether it reads, and from where
    rp2040.gpio[wires.cs].addListener(() => {
      this.reads = null;
    });
    this.bus.onTransmit = (byte) => {
      this.answer = this.wired() ? this.take(byte & 0xff) : NOBODY;
      this.alarm.schedule((BITS * 1e9) / this.bus.clockFrequency);
    };
  }

  wired() {
    const { gpio } = this.rp2040;
    const { sck, mosi, miso, cs } = this.wires;
    return (
      [sck, mosi, miso].every((pin) => gpio[pin].functionSelect === SPI) &&
      gpio[cs].functionSelect === SIO &&
      gpio[cs].value === LOW
    );
  }

  take(byte) {
    if (this.reads === null) {
      this.reads = (byte & READ) !== 0;
      this.device.point(byte & ~READ);
      return NOBODY;
    }
    if (this.reads) {
      return this.device.read();
    }
    this.device.write(byte);
    return NOBODY;
  }
}
