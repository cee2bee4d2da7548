// node run_node.mjs MODULE WASM CASES: prints answers. With --time: CPU milliseconds of a run of the first case, the fewest.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { answers } from './engine_cases.mjs';

const [module, wasm, cases, time] = process.argv.slice(2);
const mica = await import(pathToFileURL(module));
const given = JSON.parse(readFileSync(cases, 'utf8'));
if (time) {
  const model = await mica.load(Buffer.from(given[0].file, 'base64'), { wasm });
  const cpu = () => process.cpuUsage().user / 1000;
  let milliseconds = Infinity;
  for (let i = 0; i < 40; ++i) {
    const begun = cpu();
    for (let k = 0; k < 20; ++k) model.run();
    milliseconds = Math.min(milliseconds, (cpu() - begun) / 20);
  }
  console.log(JSON.stringify({ milliseconds, isa: model.isa }));
} else {
  console.log(JSON.stringify(await answers(mica, given, { wasm })));
}
