// What is wired to the virtual Pico, by the description that run.mjs is given:
//     {"i2s": {"file": int16 samples, "name": ..., "rate": 16000, "sck": 16, "ws": 17, "sd": 18},
//      "pdm": {"file": int16 samples, "name": ..., "rate": 16000, "clk": 3, "data": 2},
//      "adc": {"file": int16 samples, "name": ..., "rate": 1000, "pin": 26},
//      "imu": {"file": rows of six int16, "name": ..., "rate": 100, "sda": 4, "scl": 5, "addr": 104}} or
//             {..., "sck": 2, "mosi": 3, "miso": 4, "cs": 5}
// Files are read once; after a reset the same sensors are at the new chip.

import fs from 'node:fs';
import { AnalogPin } from './adc.mjs';
import { Microphone } from './i2s.mjs';
import { MotionSensor, tellEmpty } from './imu.mjs';
import { PdmMicrophone } from './pdm.mjs';

export class Sensors {
  // tell(line): what a sensor has to say to the user.
  constructor(description, tell) {
    this.tell = tell;
    this.wired = Object.entries(description).map(([bus, sensor]) => ({ bus, sensor, data: numbers(sensor.file) }));
  }

  connect(machine) {
    machine.rp2040.i2c.forEach(tellEmpty);
    for (const { bus, sensor, data } of this.wired) {
      if (bus === 'i2s') {
        new Microphone(machine.rp2040, sensor, data, machine.pio, this.tell);
      } else if (bus === 'pdm') {
        new PdmMicrophone(machine.rp2040, sensor, data, machine.pio, this.tell);
      } else if (bus === 'adc') {
        new AnalogPin(machine.rp2040, sensor, data, this.tell);
      } else {
        new MotionSensor(machine.rp2040, sensor, data, this.tell);
      }
    }
  }
}

function numbers(file) {
  const bytes = fs.readFileSync(file);
  return new Int16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
}
