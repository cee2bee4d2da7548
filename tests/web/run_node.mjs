// node run_node.mjs MODULE WASM CASES: prints answers. CPU milliseconds of a run of the first case come with --time.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { answers } from './engine_cases.mjs';

const [module, wasm, cases, time] = process.argv.slice(2);
const mica = await import(pathToFileURL(module));
const given = JSON.parse(readFileSync(cases, 'utf8'));
if (time) {
  const model = await mica.load(Buffer.from(given[0].file, 'base64'), { wasm });
  const cpu = () => process.cpuUsage().user / 1000;
  for (let begun = cpu(); cpu() - begun < 300; ) model.run();
  let runs = 0;
  const begun = cpu();
  for (; cpu() - begun < 1000; runs += 10) for (let k = 0; k < 10; ++k) model.run();
  console.log(JSON.stringify({ milliseconds: (cpu() - begun) / runs, isa: model.isa }));
} else {
  console.log(JSON.stringify(await answers(mica, given, { wasm })));
}
