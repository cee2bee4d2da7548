// Facts of the sensors that both virtual Picos have, from the file that the Pico 2's reads too (virtual_pico.py puts it beside this one).

import fs from 'node:fs';

export const FACTS = JSON.parse(fs.readFileSync(new URL('sensors.json', import.meta.url), 'utf8'));

// What a sensor says to the user: a text of the file's; samples: of its recording; got: a rate.
export function says(what, sensor, samples, got = 0) {
  const words = { ...sensor, got, seconds: (samples / sensor.rate).toFixed(2) };
  return FACTS.says[what].replace(/{(\w+)}/g, (_, name) => words[name]);
}
