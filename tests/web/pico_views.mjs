// node pico_views.mjs CHROMIUM SITE GIVEN OUT PORT: the page's Pico, and the part for boards over a stand-in for Web Serial
// (stand_in.js) with a virtual Pico at a TCP port. GIVEN: sound.wav, perhaps stock.bin. Prints what was seen.
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { cpuSeconds, heard, launch, lookedAt, playwright, serve, tabbed } from './browser.mjs';

const [chromium, folder, given, out, port] = process.argv.slice(2);
const flags = ['--use-fake-ui-for-media-stream', '--use-fake-device-for-media-stream', `--use-file-for-fake-audio-capture=${join(given, 'sound.wav')}`];
const browser = await launch(chromium, flags);
const stock = existsSync(join(given, 'stock.bin'));
const more = stock ? { 'stock.bin': readFileSync(join(given, 'stock.bin')) } : {};
const page = await playwright(browser, await serve(folder, '/some/path/', more), { viewport: { width: 1600, height: 900 }, permissions: ['microphone'] });
const text = (selector) => page.locator(selector).innerText();
const until = (selector, part) => page.waitForFunction(([s, p]) => document.querySelector(s)?.textContent.includes(p), [selector, part]);
const seen = { layouts: [], heard: {}, missed: {}, seconds: {} };
const everySize = async (part) => {
  for (const [width, colorScheme] of [[390, 'dark'], [390, 'light'], [1600, 'dark'], [1600, 'light']]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    seen.layouts.push({ colorScheme, ...(await page.evaluate(lookedAt)) });
  }
  seen.heard[part] = await heard(page);
  seen.missed[part] = (await tabbed(page, part)).missed;
};
let begun = performance.now();
const note = (what) => {
  seen.seconds[what] = (performance.now() - begun) / 1000;
  begun = performance.now();
};
process.on('uncaughtException', async (error) => {
  console.error(String(error), await page.locator('body').innerText(), page.errors, seen);
  process.exit(1);
});
await page.addInitScript({ path: 'stand_in.js' });
let line;
await page.exposeFunction('cableOpen', async () => {
  line = connect(Number(port), '127.0.0.1');
  await once(line, 'connect');
  line.on('error', () => {}).on('data', (bytes) => page.evaluate((text) => standIn.heard(text), bytes.toString('base64')).catch(() => {}));
});
await page.exposeFunction('cableWrite', (text) => void line.write(Buffer.from(text, 'base64')));
await page.exposeFunction('cableClose', () => void line.destroy());

// ---- Prompt: first, so that its start is measured
await page.goto('');
await page.waitForSelector('body[data-ready=try]');
await page.evaluate(() => navigator.serviceWorker.ready.then(() => 0)); // that is work of the first visit
const before = await cpuSeconds(browser);
await page.locator('#tab-prompt').click();
await page.waitForSelector('body[data-ready=prompt]');
await until('#terminal', '>>> ');
seen.cpu = (await cpuSeconds(browser)) - before;
seen.cycles = await page.evaluate(async () => (await (await import(new URL('pico.mjs', location.href))).pico()).port.cycles);
note('prompt');
await page.locator('#terminal').focus();
await page.keyboard.type('6*7');
await page.keyboard.press('Enter');
await until('#terminal', '\n42');
await page.keyboard.type('pritn');
for (let i = 0; i < 3; ++i) await page.keyboard.press('Backspace');
await page.keyboard.type('int(7*7)');
await page.keyboard.press('Enter');
await until('#terminal', '\n49');
// As on a phone: a touch of the terminal leads to the input, whose line is sent whole.
await page.dispatchEvent('#terminal', 'pointerdown', { pointerType: 'touch' });
await page.dispatchEvent('#terminal', 'click');
seen.touched = await page.evaluate(() => document.activeElement.getAttribute('aria-label'));
await page.keyboard.type('print(6*8+2)');
await page.keyboard.press('Enter');
await until('#terminal', '\n50');
const endless = (word) => page.keyboard.type(`print("at" + "${word}"); any(0 for _ in range(10 ** 9))`);
await endless('once');
await page.locator('#terminal-line button[type=submit], #terminal-line button:not([type])').first().click();
await until('#terminal', '\natonce');
await page.locator('#terminal-line button', { hasText: 'Ctrl-C' }).click();
await until('#terminal', 'KeyboardInterrupt');
await page.locator('#prompt-files').setInputFiles({ name: 'hello.py', mimeType: 'text/plain', buffer: Buffer.from('print("hello", 3 * 37)') });
await until('#prompt-state', 'hello.py');
const drop = await page.evaluateHandle(() => {
  const data = new DataTransfer();
  data.items.add(new File(['print("dropped", 4 * 28)'], 'dropped.py'));
  return data;
});
await page.dispatchEvent('#terminal', 'drop', { dataTransfer: drop });
await until('#prompt-state', 'On the board: dropped.py');
await page.locator('#terminal').focus();
await page.keyboard.type('import hello, dropped');
await page.keyboard.press('Enter');
await until('#terminal', 'dropped 112');
await endless('last');
await page.keyboard.press('Enter');
await until('#terminal', '\natlast');
await page.keyboard.press('Control+c');
await page.waitForFunction(() => document.getElementById('terminal').textContent.split('KeyboardInterrupt').length >= 3);
await page.locator('#examples').selectOption('selftest.py');
await until('#terminal', 'first bad layer: ');
seen.prompt = await text('#terminal');
await everySize('prompt');
await page.screenshot({ path: join(out, 'pico-prompt.png'), fullPage: true });
await page.locator('#terminal').focus();
await page.keyboard.press('Shift+Tab');
seen.left = await page.evaluate(() => document.activeElement.textContent);
note('prompt used');

// ---- Try: the engine and the virtual Pico side by side
await page.locator('#tab-try').click();
await page.waitForSelector('body[data-ready=try]');
// What was drawn before the Pico is wished for is computed, too; until then a line says what is waited for.
await page.locator('#written').selectOption('2');
await page.locator('#with-pico').check();
const compared = async (box) => {
  await page.waitForFunction((s) => /bytes|BYTES/i.test(document.querySelector(`${s} + .pico`)?.textContent ?? ''), box);
  return text(`${box} + .pico`);
};
seen.before = [await compared('#digit-answer'), await text('#pico-state')];
await page.evaluate(() => document.querySelector('#digit-answer + .pico').replaceChildren());
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
// Signs that the board learns, and has after a reset.
const sign = async (line, press) => {
  await press();
  await page.waitForFunction((l) => document.getElementById('sign-answer').textContent.includes(l), line);
  return text('#sign-answer');
};
await page.locator('#wipe').click();
await page.locator('#teach').click();
await until('#trouble', 'first');
seen.blank = await text('#trouble');
const show = (digit) => page.locator('#written').selectOption(digit);
for (const [digit, name, knows] of [['1', 'pole', 'pole (1)'], ['4', 'flag', 'pole (1), flag (1)'], ['7', 'hook', 'flag (1), hook (1)']]) {
  await show(digit);
  await page.locator('#sign').fill(name);
  await sign(knows, () => page.locator('#teach').click());
}
await sign('hook (1).', () => page.locator('#keep').click());
await page.locator('#sign').fill('wrong');
await sign('wrong (1)', () => page.locator('#teach').click());
seen.forgot = await sign('hook (1).', () => page.locator('#sign-answer button', { hasText: 'Forget wrong' }).click());
await page.locator('#sign').fill('ghost'); // which is not saved
await sign('ghost (1)', () => page.locator('#teach').click());
await sign('hook (1).', () => page.locator('#reset').click());
seen.signs = [];
for (const [digit, name] of [['4', 'flag'], ['1', 'pole']]) {
  await show(digit);
  await page.waitForFunction((n) => document.querySelector('#sign-answer b')?.textContent === n, name);
  seen.signs.push(await text('#sign-answer'));
}
// A word of the microphone; a model that takes neither is refused; motion needs a board, which comes below.
await page.locator('#sign-from').selectOption('own/words.mica');
await page.locator('#sign').fill('tune');
await sign('tune (1)', () => page.locator('#teach').click());
seen.said = await sign('tune (1)', () => page.locator('#judge').click());
await sign('nothing yet', () => page.locator('#sign-answer button', { hasText: 'Forget tune' }).click());
const own = (name) => page.locator('#sign-file').setInputFiles(join(given, name));
await own('models/broken.mica');
await page.waitForFunction(() => document.getElementById('trouble').textContent);
await own('motion.mica');
await page.waitForFunction(() => !document.getElementById('trouble').textContent);
await page.locator('#teach').click();
await until('#trouble', 'Board');
seen.boardless = await text('#trouble');
await page.screenshot({ path: join(out, 'pico-try.png'), fullPage: true });

note('try');

// ---- Look: a model is timed on the virtual Pico; the server has no costs
await page.locator('#tab-look').click();
await page.waitForSelector('body[data-ready=look]');
await page.locator('#look-file').setInputFiles(join(given, 'models', 'words.mica'));
await page.waitForFunction(() => document.querySelector('#report h2')?.textContent === 'four words');
await page.locator('#board-choice').selectOption({ label: 'RPI_PICO' });
seen.unpredicted = await text('#board-facts');
await page.locator('#measure').click();
await until('#measured', 'A Pico takes');
seen.measured = await text('#measured');
seen.bars = await page.evaluate(() => getComputedStyle(document.querySelector('#measured td:last-child')).textAlign);
note('look');

// ---- Board
await page.locator('#tab-board').click();
await page.waitForSelector('body[data-ready=board]');
const become = (change) => page.evaluate((c) => Object.assign(standIn, c), change);
const plug = async (said) => {
  await page.locator('#connect').click();
  await page.waitForFunction(([p]) => document.getElementById('board-state').textContent.includes(p) || document.getElementById('trouble').textContent, [said]);
  return `${await text('#board-state')} ${await text('#trouble')}`;
};
const click = async (id, said) => {
  await page.locator(id).click();
  await page.waitForFunction(([p]) => document.getElementById('board-state').textContent.includes(p) || document.getElementById('trouble').textContent, [said]);
  return `${await text('#board-state')}${await text('#trouble')}`;
};
const leave = async () => {
  await page.locator('#disconnect').click();
  await until('#board-state', 'Not connected');
};
// Devices that are no board, and boards without mica.
seen.wrong = {};
for (const kind of ['silent', 'noisy']) {
  await become({ kind });
  seen.wrong[kind] = await plug('NEVER');
}
const probe = (machine, build, rest = '') => ['_mica_probe()', `mica:heap 90000 8000\r\nmica:micropython 1.25.0\r\nmica:machine ${machine}\r\nmica:build ${build}\r\n${rest}`];
const python = ['sys.implementation.name', 'micropython\r\n'];
const boards = {
  circuit: [['sys.implementation.name', 'circuitpython\r\n']],
  esp32: [python, probe('Generic ESP32 module with ESP32', 'ESP32_GENERIC'), ["_g['arch']()", 'xtensawin\r\n']],
  pico2: [python, probe('Raspberry Pi Pico2 with RP2350', 'RPI_PICO2'), ["_g['arch']()", 'armv7emsp\r\n']],
  unknown: [python, probe('ESP module with ESP8266', 'ESP8266_GENERIC'), ["_g['arch']()", '\r\n']],
  old: [python, probe('Raspberry Pi Pico with RP2040', 'RPI_PICO', 'mica:engine 1.0 armv6m 16384 -\r\nmica:mica 0.0.9\r\n')],
};
for (const [kind, answers] of Object.entries(boards)) {
  await become({ kind, answers });
  seen.wrong[kind] = `${await plug('heap')}\n${await page.locator('#board-install').isVisible() ? await text('#board-install') : ''}`;
  if (await page.locator('#disconnect').isEnabled()) await leave();
}
note('wrong boards');

const download = async (locator) => {
  const [file] = await Promise.all([page.waitForEvent('download'), locator.click()]);
  await file.saveAs(join(out, file.suggestedFilename()));
  return file.suggestedFilename();
};
const words = async () => ({ push: await click('#push', 'is on the board'), selftest: await click('#board-selftest', 'passed'), compare: await click('#compare', 'the same bytes') });
if (stock) {
  await become({ kind: 'stock' });
  seen.stock = { before: `${await plug('heap')} ${await text('#board-install')}` };
  await everySize('board');
  seen.stock.firmware = await download(page.locator('#save-firmware'));
  seen.stock.after = await click('#install', 'is there, with');
  await page.locator('#board-model').selectOption('own/words.mica');
  Object.assign(seen.stock, await words());
  await leave();
  note('stock');
}

await become({ kind: 'pico' });
seen.facts = await plug('heap');
await page.locator('#board-model').selectOption('own/words.mica');
Object.assign(seen, await words());
await leave();
// The cable is cut while another file of that name goes over it.
await plug('heap');
await page.locator('#board-file').setInputFiles({ name: 'words.mica', mimeType: '', buffer: Buffer.from(await (await fetch(`${page.base}models/digits.mica`)).arrayBuffer()) });
await become({ left: 9000 });
await page.locator('#push').click();
await until('#board-state', 'Not connected');
seen.cut = `${await text('#board-state')} ${await text('#trouble')}`;
seen.reached = await page.evaluate(() => document.getElementById('push-progress').value);
await become({ left: Infinity });
await plug('heap');
await page.locator('#board-file').setInputFiles([]);
seen.after = await click('#compare', 'the same bytes');
// Again, whole: the rest of the half is sent, and it is in use.
await page.locator('#board-file').setInputFiles({ name: 'words.mica', mimeType: '', buffer: Buffer.from(await (await fetch(`${page.base}models/digits.mica`)).arrayBuffer()) });
seen.replaced = [await click('#push', 'is on the board'), await click('#compare', 'the same bytes')];
await page.locator('#board-file').setInputFiles({ name: 'rejected.mica', mimeType: '', buffer: readFileSync(join(given, 'rejected.mica')) });
seen.rejected = await click('#push', 'NEVER');
note('push');

// ---- Record
seen.recorded = [];
for (const [sensor, wires, rate, count] of [['adc', '', 1000, 200], ['mpu6050', 'sda=4,scl=5', 100, 40], ['i2s', '', 16000, 1600]]) {
  await page.locator('#sensor').selectOption(sensor);
  if (wires) await page.locator('#wires').fill(wires);
  await page.locator('#record-rate').fill(String(rate));
  await page.locator('#record-count').fill(String(count));
  const said = await click('#record', 'Recorded');
  seen.recorded.push(said.startsWith('Recorded') ? await download(page.locator('#recordings li').last().locator('a')) : said);
}
seen.zip = await download(page.locator('#all-recordings'));
await page.locator('#sensor').selectOption('mpu6500');
seen.noSensor = await click('#record', 'NEVER');
await page.locator('#wires').fill('sda=x');
seen.noWires = await click('#record', 'NEVER');
// Motion of the board on the cable is taught to the Pico of the page.
await page.locator('#sensor').selectOption('mpu6050');
await page.locator('#tab-try').click();
await page.waitForSelector('body[data-ready=try]');
await page.locator('#sign').fill('swing');
await sign('swing (1)', () => page.locator('#teach').click());
await sign('swing (2)', () => page.locator('#teach').click());
seen.moved = await sign('swing (2)', () => page.locator('#judge').click());
await page.locator('#tab-board').click();
await page.waitForSelector('body[data-ready=board]');
note('record');
await page.locator('#board-terminal').focus();
await page.keyboard.type("import os; os.listdir('/rom')");
await page.keyboard.press('Enter');
await until('#board-terminal', 'words.mica');
seen.files = await text('#board-terminal');
await everySize('board');
await page.screenshot({ path: join(out, 'pico-board.png'), fullPage: true });
Object.assign(seen, { errors: page.errors.filter((line) => !/40[45]/.test(line)), requests: page.foreign });

// ---- Without a network, after the first load
await page.evaluate(async () => {
  for (const kept = await caches.open('mica'); !(await kept.match('pico/flash.gz')) || !(await kept.match('pico/rp2040js/index.js')); ) await new Promise((done) => setTimeout(done, 50));
});
await page.stop();
await page.goto('#prompt');
await page.reload();
await page.waitForSelector('body[data-ready=prompt]');
await until('#terminal', '>>> ');
await page.locator('#terminal').focus();
await page.keyboard.type('print(5*5)');
await page.keyboard.press('Enter');
await until('#terminal', '\n25');
seen.offline = await text('#terminal');
note('offline');
seen.browser = await cpuSeconds(browser, true);
console.log(JSON.stringify(seen));
await page.end();
await browser.close();
line.destroy(); // which would keep this program going
