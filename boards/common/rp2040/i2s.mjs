// A microphone at three pins, as an INMP441: at each frame of its clock it sends the next sample of a recording as the left word of
// an I2S frame, 24 bits of 32, and leaves the right word to another. The recording begins when its clock does.

import { FACTS, says } from './facts.mjs';

const HIGH = 1; // rp2040js's state of a pin
const PAUSE = FACTS.pause.i2s; // nanoseconds without a clock, after which the recording begins again
const CLOSE = 0.01; // how far the clock's rate may be from the recording's

export class Microphone {
  // sensor: {name, rate, sck, ws, sd}; samples: Int16Array; pio: PioClock; tell(line) is called for what a listener should know.
  constructor(rp2040, sensor, samples, pio, tell) {
    this.sensor = sensor;
    this.samples = samples;
    this.pio = pio;
    this.tell = tell;
    this.select = rp2040.gpio[sensor.ws];
    this.data = rp2040.gpio[sensor.sd];
    this.told = new Set();
    this.at = 0; // of the recording: the next sample
    this.word = 0; // what is left to be sent, from its highest bit
    this.right = false; // the word that is sent, by WS at the last rising edge
    this.next = false; // the word that WS asks for
    this.edge = -Infinity; // when the clock last rose, in nanoseconds
    this.begun = 0; // when the last left word was
    rp2040.gpio[sensor.sck].addListener((value) => (value === HIGH ? this.rise() : this.fall()));
  }

  rise() {
    if (this.pio.nanos - this.edge > PAUSE) {
      this.at = this.word = 0;
      this.right = false;
      this.begun = 0;
      this.told.clear();
    }
    this.edge = this.pio.nanos;
    this.next = this.select.value === HIGH;
  }

  fall() {
    if (this.next === this.right) {
      this.word <<= 1;
    } else {
      this.right = this.next;
      this.word = this.right ? 0 : this.sample() << 16;
    }
    const bit = this.word < 0;
    if (bit !== this.data.rawInputValue) {
      this.data.setInputValue(bit);
    }
  }

  sample() {
    const took = this.pio.nanos - this.begun;
    const first = this.begun === 0;
    this.begun = this.pio.nanos;
    if (!first && Math.abs((took * this.sensor.rate) / 1e9 - 1) > CLOSE) {
      this.once(says('i2s rate', this.sensor, 0, Math.round(1e9 / took)));
      return 0;
    }
    if (this.at >= this.samples.length) {
      this.once(says('i2s ended', this.sensor, this.samples.length));
      return 0;
    }
    return this.samples[this.at++];
  }

  once(text) {
    if (!this.told.has(text)) {
      this.told.add(text);
      this.tell(text);
    }
  }
}
