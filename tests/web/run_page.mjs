// node run_page.mjs CHROMIUM FOLDER MODULE WASM CASES: the same in Chromium, of files that FOLDER has, under a strict policy.
import { launch, playwright, serve } from './browser.mjs';

const [chromium, folder, module, wasm, cases] = process.argv.slice(2);
const browser = await launch(chromium);
const page = await playwright(browser, await serve(folder));
await page.goto('empty.html');
const found = await page.evaluate(
  async ([engine, script, binary, list]) => {
    const [mica, { answers }] = await Promise.all([import(engine), import(script)]);
    return answers(mica, await (await fetch(list)).json(), { wasm: new URL(binary, location.href) });
  },
  [`${page.base}${module}`, `${page.base}engine_cases.mjs`, wasm, `${page.base}${cases}`],
);
console.log(JSON.stringify({ said: found, errors: page.errors, requests: page.foreign }));
await page.end();
await browser.close();
