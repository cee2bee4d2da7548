// What is wired to the virtual Pico, by the description that run.mjs is given:
//     {"i2s": {"file": int16 samples, "name": ..., "rate": 16000, "sck": 16, "ws": 17, "sd": 18}}
// Files are read once; after a reset the same sensors are at the new chip.

import fs from 'node:fs';
import { Microphone } from './i2s.mjs';

export class Sensors {
  // tell(line): what a sensor has to say to the user.
  constructor(description, tell) {
    this.tell = tell;
    this.i2s = description.i2s ?? null;
    this.sound = this.i2s && numbers(this.i2s.file);
  }

  connect(machine) {
    if (this.i2s !== null) {
      new Microphone(machine.rp2040, this.i2s, this.sound, machine.pio, this.tell);
    }
  }
}

function numbers(file) {
  const bytes = fs.readFileSync(file);
  return new Int16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
}
