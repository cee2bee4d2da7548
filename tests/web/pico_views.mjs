// node pico_views.mjs CHROMIUM SITE GIVEN OUT: the virtual Pico in the page, and the part for boards over a stand-in for Web Serial,
// whose port is a second virtual Pico. Prints what was seen.
import { join } from 'node:path';
import { launch, lookedAt, playwright, serve } from './browser.mjs';

const [chromium, folder, given, out] = process.argv.slice(2);
const flags = ['--use-fake-ui-for-media-stream', '--use-fake-device-for-media-stream', `--use-file-for-fake-audio-capture=${join(given, 'sound.wav')}`];
const browser = await launch(chromium, flags);
const page = await playwright(browser, await serve(folder), { viewport: { width: 1600, height: 900 }, permissions: ['microphone'] });
page.setDefaultTimeout(120000);
const text = (selector) => page.locator(selector).innerText();
const until = (selector, part) => page.waitForFunction(([s, p]) => document.querySelector(s)?.textContent.includes(p), [selector, part]);
const seen = { layouts: [] };
const everySize = async () => {
  for (const [width, colorScheme] of [[390, 'dark'], [390, 'light'], [1600, 'dark'], [1600, 'light']]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    seen.layouts.push({ colorScheme, ...(await page.evaluate(lookedAt)) });
  }
};
process.on('uncaughtException', async (error) => {
  console.error(String(error), await page.locator('body').innerText(), page.errors);
  process.exit(1);
});

// A port that is the virtual Pico of `worker`; `cutAfter`: bytes written until the cable is cut. `silent`: nothing ever answers.
await page.addInitScript(() => {
  globalThis.standIn = { cutAfter: Infinity, silent: false, worker: null };
  const serial = {
    requestPort: async () => {
      const { start, WorkerPort } = await import(new URL('pico.mjs', location.href));
      if (standIn.silent) return { open() { this.readable = new ReadableStream({}); this.writable = new WritableStream({}); }, close: async () => {} };
      standIn.worker ??= (await start()).worker;
      const port = new WorkerPort(standIn.worker);
      const { cutAfter } = standIn;
      const open = port.open.bind(port);
      port.open = async () => {
        await open();
        const writer = port.writable.getWriter();
        let written = 0;
        let cut;
        const reader = port.readable.getReader();
        port.writable = new WritableStream({
          write: async (bytes) => {
            written += bytes.length;
            if (written > cutAfter) {
              cut.error(new Error('lost'));
              await port.setSignals({ dataTerminalReady: false });
              throw new Error('lost');
            }
            await writer.write(bytes);
          },
        });
        port.readable = new ReadableStream({
          start: async (controller) => {
            cut = controller;
            for (;;) {
              const { value, done } = await reader.read();
              if (done) return;
              try { controller.enqueue(value); } catch { return; }
            }
          },
          cancel: () => reader.cancel(),
        });
      };
      return port;
    },
  };
  Object.defineProperty(Navigator.prototype, 'serial', { configurable: true, get: () => serial });
});

// ---- Try: the engine and the virtual Pico side by side
await page.goto('');
await page.waitForSelector('body[data-ready=try]');
await page.locator('#with-pico').check();
const compared = async (box) => {
  await page.waitForFunction((s) => /bytes|BYTES/i.test(document.querySelector(`${s} + .pico`)?.textContent ?? ''), box);
  return text(`${box} + .pico`);
};
await page.locator('#written').selectOption('4');
seen.digit = await compared('#digit-answer');
await page.locator('#recording').setInputFiles(join(given, 'sound.wav'));
seen.word = await compared('#word-answer');
await page.evaluate(() => document.querySelector('#word-answer + .pico').replaceChildren());
await page.locator('#listen').click();
seen.microphone = await compared('#word-answer');
await page.locator('#listen').click();
await page.waitForSelector('#listen[aria-pressed=false]');
await page.locator('#sentence').fill('its too dark in the office');
await page.locator('#talk button').click();
seen.sentence = await compared('#call-answer');
await page.screenshot({ path: join(out, 'pico-try.png'), fullPage: true });

// ---- Prompt
await page.locator('#tab-prompt').click();
await page.waitForSelector('body[data-ready=prompt]');
await page.locator('#terminal').focus();
await page.keyboard.type('6*7');
await page.keyboard.press('Enter');
await until('#terminal', '\n42');
await page.keyboard.type('pritn');
for (let i = 0; i < 3; ++i) await page.keyboard.press('Backspace');
await page.keyboard.type('int(7*7)');
await page.keyboard.press('Enter');
await until('#terminal', '\n49');
await page.locator('#prompt-files').setInputFiles({ name: 'hello.py', mimeType: 'text/plain', buffer: Buffer.from('print("hello", 3 * 37)') });
await until('#prompt-state', 'hello.py');
await page.locator('#terminal').focus();
await page.keyboard.type('import hello');
await page.keyboard.press('Enter');
await until('#terminal', 'hello 111');
await page.keyboard.type('while 1: pass');
await page.keyboard.press('Enter');
await page.keyboard.press('Enter');
await page.waitForTimeout(100);
await page.keyboard.press('Control+c');
await until('#terminal', 'KeyboardInterrupt');
await page.locator('#examples').selectOption('selftest.py');
await until('#terminal', 'first bad layer: ');
seen.prompt = await text('#terminal');
await everySize();
await page.screenshot({ path: join(out, 'pico-prompt.png'), fullPage: true });
await page.keyboard.press('Shift+Tab');
seen.left = await page.evaluate(() => document.activeElement.id);

// ---- Board
await page.locator('#tab-board').click();
await page.waitForSelector('body[data-ready=board]');
await page.evaluate(() => (standIn.silent = true));
await page.locator('#connect').click();
await until('#trouble', 'does not answer');
seen.silent = await text('#trouble');
await page.evaluate(() => (standIn.silent = false));
await page.locator('#connect').click();
await until('#board-state', 'heap');
seen.facts = await text('#board-state');
await page.locator('#board-model').selectOption('own/words.mica');
const click = async (id, said) => {
  await page.locator(id).click();
  await page.waitForFunction(([p]) => document.getElementById('board-state').textContent.includes(p) || document.getElementById('trouble').textContent, [said]);
  return `${await text('#board-state')}${await text('#trouble')}`;
};
seen.push = await click('#push', 'is on the board');
seen.selftest = await click('#board-selftest', 'passed');
seen.compare = await click('#compare', 'the same bytes');
await page.locator('#disconnect').click();
await until('#board-state', 'Not connected');
// The cable is cut while another file of that name goes over it.
await page.evaluate(() => (standIn.cutAfter = 6000));
await page.locator('#connect').click();
await until('#board-state', 'heap');
await page.locator('#board-file').setInputFiles({ name: 'words.mica', mimeType: '', buffer: Buffer.from(await (await fetch(`${page.base}models/digits.mica`)).arrayBuffer()) });
await page.locator('#push').click();
await until('#board-state', 'Not connected');
seen.cut = `${await text('#board-state')} ${await text('#trouble')}`;
await page.evaluate(() => (standIn.cutAfter = Infinity));
await page.locator('#connect').click();
await until('#board-state', 'heap');
await page.locator('#board-file').setInputFiles([]);
seen.after = await click('#compare', 'the same bytes');
await page.locator('#record-count').fill('200');
await page.locator('#record').click();
await page.waitForSelector('#recordings a');
const [download] = await Promise.all([page.waitForEvent('download'), page.locator('#recordings a').click()]);
const { readFileSync } = await import('node:fs');
const file = readFileSync(await download.path());
seen.recorded = { name: download.suggestedFilename(), bytes: file.length, head: file.subarray(0, 4).toString(), rate: file.readUInt32LE(24) };
await page.locator('#board-terminal').focus();
await page.keyboard.type('import os; os.listdir()');
await page.keyboard.press('Enter');
await until('#board-terminal', 'words.mica');
seen.files = await text('#board-terminal');
await everySize();
await page.screenshot({ path: join(out, 'pico-board.png'), fullPage: true });
Object.assign(seen, { errors: page.errors, requests: page.foreign });
console.log(JSON.stringify(seen));
await page.end();
await browser.close();
