// A PDM microphone at two pins, with L/R at ground: each time its clock falls it sends the next bit of a recording, which a modulator of
// order 2 makes of straight lines between the samples. The recording begins when its clock does.

const LOW = 0; // rp2040js's state of a pin
const PAUSE = 10e6; // nanoseconds without a clock, after which the recording begins again

export class PdmMicrophone {
  // sensor: {name, rate, clk, data}; samples: Int16Array; pio: PioClock; tell(line) is called for what a listener should know.
  constructor(rp2040, sensor, samples, pio, tell) {
    this.sensor = sensor;
    this.samples = samples;
    this.pio = pio;
    this.tell = tell;
    this.data = rp2040.gpio[sensor.data];
    this.edge = -Infinity; // when the clock last fell, in nanoseconds
    rp2040.gpio[sensor.clk].addListener((value) => value === LOW && this.fall());
  }

  fall() {
    const now = this.pio.nanos;
    if (now - this.edge > PAUSE) {
      this.begun = now;
      this.sums = [0, 0];
      this.ended = false;
    }
    this.edge = now;
    const { samples, sums } = this;
    const nanos = Math.round((now - this.begun) * 32) / 32; // a divider counts in 32nds, so that each run sends the same bits
    const at = (nanos * this.sensor.rate) / 1e9;
    const k = Math.floor(at);
    const from = k < samples.length ? samples[k] : 0;
    const to = k + 1 < samples.length ? samples[k + 1] : 0;
    if (k >= samples.length && !this.ended) {
      const { name, rate } = this.sensor;
      this.ended = true;
      this.tell(`microphone: ${name} has ended, after ${(samples.length / rate).toFixed(2)} s: it is silent`);
    }
    const bit = sums[1] >= 0;
    const sent = bit ? 1 : -1;
    sums[1] += (sums[0] - sent) / 2;
    sums[0] += ((from + (to - from) * (at - k)) / 32768 - sent) / 2;
    if (bit !== this.data.rawInputValue) {
      this.data.setInputValue(bit);
    }
  }
}
