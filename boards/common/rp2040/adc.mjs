// An analogue pin with the voltage of a recording: its sample that is nearest, whenever the board converts. The recording begins with the
// first conversion, and begins again after a pause.

import { FACTS, says } from './facts.mjs';

const FIRST = 26; // the pin of channel 0
const MIDDLE = 1 << 15;
const PAUSE = FACTS.pause.adc; // nanoseconds without a conversion

export class AnalogPin {
  // sensor: {name, rate, pin}; samples: Int16Array, around the middle of the range; tell(line): for the user.
  constructor(rp2040, sensor, samples, tell) {
    const { adc, clock } = rp2040;
    const channel = sensor.pin - FIRST;
    let begun = 0; // nanoseconds
    let last = -Infinity;
    let told = false;
    const value = () => {
      const now = clock.nanos;
      if (now - last > PAUSE) {
        begun = now;
        told = false;
      }
      last = now;
      const at = Math.round(((now - begun) * sensor.rate) / 1e9);
      if (at < samples.length) {
        return (samples[at] + MIDDLE) >> 4;
      }
      if (!told) {
        told = true;
        tell(says('adc ended', sensor, samples.length));
      }
      return MIDDLE >> 4;
    };
    const convert = adc.onADCRead;
    adc.onADCRead = (asked) => {
      if (asked === channel) {
        adc.channelValues[channel] = value();
      }
      convert(asked);
    };
  }
}
