// Facts of the sensors that both virtual Picos have: virtual_pico.py makes this module of sensors.json, which the Pico 2's reads too.

import FACTS from './sensors.json.mjs';

export { FACTS };

// A sensor's message to the user, from the texts of the file; samples: of its recording; got: a rate.
export function says(what, sensor, samples, got = 0) {
  const words = { ...sensor, got, seconds: (samples / sensor.rate).toFixed(2) };
  return FACTS.says[what].replace(/{(\w+)}/g, (_, name) => words[name]);
}
