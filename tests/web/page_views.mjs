// node page_views.mjs CHROMIUM SITE GIVEN OUT: drives the page at two sizes and in both colour schemes; prints what was seen.
// GIVEN: a folder with sound.wav, hostile.mica, damaged.mica. OUT: a folder for screenshots.
import { join } from 'node:path';
import { cpuSeconds, heard, launch, lookedAt, playwright, serve, tabbed } from './browser.mjs';

const [chromium, folder, given, out] = process.argv.slice(2);
const flags = ['--use-fake-ui-for-media-stream', '--use-fake-device-for-media-stream', `--use-file-for-fake-audio-capture=${join(given, 'sound.wav')}`];
const browser = await launch(chromium, flags);
const seen = [];
for (const [width, colorScheme] of [[1600, 'light'], [390, 'dark'], [1600, 'dark'], [390, 'light']]) {
  const page = await playwright(browser, await serve(folder), { viewport: { width, height: 900 }, colorScheme, permissions: ['microphone'] });
  const text = (selector) => page.locator(selector).innerText();
  const layout = () => page.evaluate(lookedAt);
  const view = { width, colorScheme, layouts: [], missed: {} };
  // One of them has no Web Serial.
  if (seen.length === 1) await page.addInitScript(() => delete Navigator.prototype.serial);
  await page.goto('');
  await page.waitForSelector('body[data-ready=try]');
  // A one, drawn with the mouse.
  const box = await page.locator('#paper').boundingBox();
  await page.mouse.move(box.x + 128, box.y + 30);
  await page.mouse.down();
  await page.mouse.move(box.x + 128, box.y + 226, { steps: 8 });
  await page.mouse.up();
  view.drawn = await text('#digit-answer b');
  // With the keyboard: a line down.
  await page.locator('#wipe').click();
  await page.locator('#paper').focus();
  await page.keyboard.press('Space');
  for (let i = 0; i < 6; ++i) await page.keyboard.press('ArrowDown');
  view.keys = await text('#digit-answer b');
  view.written = [];
  for (let i = 0; i < 11; ++i) {
    await page.locator('#written').selectOption(String(i));
    view.written.push([await text('#digit-answer b'), await text('#digit-answer .scores')]);
  }
  await page.locator('#recording').setInputFiles(join(given, 'sound.wav'));
  await page.waitForSelector('#word-answer .scores');
  view.scores = await text('#word-answer .scores');
  const files = (list) => page.locator(`#${list} option`).evaluateAll((all) => all.map((one) => one.value));
  [view.sounds, view.taught] = [await files('sound-model'), await files('sign-from')];
  await page.locator('#listen').click();
  await page.waitForSelector('#listen[aria-pressed=true]');
  await page.evaluate(() => document.getElementById('word-answer').replaceChildren());
  await page.waitForSelector('#word-answer .scores');
  view.level = await text('#level-text');
  await page.locator('#listen').click();
  await page.waitForSelector('#listen[aria-pressed=false]');
  await page.locator('#sentence').fill('It’s too dark in the office!');
  await page.locator('#talk button').click();
  await page.waitForSelector('#call-answer b');
  view.call = await text('#call-answer b');
  view.layouts.push(await layout());
  await page.screenshot({ path: join(out, `try-${width}-${colorScheme}.png`), fullPage: true });
  view.heard = await heard(page);
  view.missed.try = (await tabbed(page, 'try')).missed;
  // By the keyboard to the next part.
  await page.locator('#tab-try').focus();
  await page.keyboard.press('ArrowLeft');
  await page.waitForSelector('body[data-ready=board]');
  if (seen.length === 1) Object.assign(view, { noSerial: await text('#no-serial'), connects: await page.locator('#connect').isEnabled() });
  view.layouts.push(await layout());
  await page.keyboard.press('ArrowLeft');
  await page.waitForSelector('body[data-ready=look]');
  view.focus = await page.evaluate(() => document.activeElement.id);
  view.report = await text('#report');
  await page.locator('#board-choice').selectOption({ label: 'RPI_PICO' });
  view.board = await text('#board-facts');
  view.boxes = await page.locator('[aria-label=graph] rect').count();
  view.names = await page.locator('[aria-label=memory] text').allTextContents();
  view.scrolls = await page.locator('.wide.more').evaluateAll((all) => all.map((e) => e.getAttribute('aria-label')));
  view.layouts.push(await layout());
  view.missed.look = (await tabbed(page, 'look')).missed;
  view.heard.unnamed.push(...(await heard(page)).unnamed);
  await page.screenshot({ path: join(out, `look-${width}-${colorScheme}.png`), fullPage: true });
  await page.locator('#look-file').setInputFiles(join(given, 'hostile.mica'));
  await page.waitForFunction(() => document.querySelector('#report h2')?.textContent.includes('<img'));
  view.listed = await page.locator('#look-model').inputValue();
  view.hostile = await page.evaluate(() => ({ ran: globalThis.hacked ?? null, images: document.images.length, scripts: document.scripts.length }));
  // The answer to the request for costs comes after the report.
  await page.waitForFunction(() => document.getElementById('boards').textContent.includes('mica fit'));
  view.noServer = true;
  const before = page.errors.length;
  await page.locator('#look-file').setInputFiles(join(given, 'damaged.mica'));
  await page.waitForFunction(() => document.getElementById('trouble').textContent);
  view.damaged = await text('#trouble');
  view.stale = await text('#report');
  // The static server has no `facts`: the browser itself notes that in its console.
  view.errors = page.errors.filter((line) => !/40[45]/.test(line));
  view.more = page.errors.length - before;
  view.requests = page.foreign;
  if (seen.length === 0) {
    await page.evaluate(() => navigator.serviceWorker.ready);
    await page.stop(); // the server is gone
    await page.goto('#try');
    await page.reload();
    await page.waitForSelector('body[data-ready=try]');
    await page.locator('#written').selectOption('0');
    view.offline = await text('#digit-answer b');
  }
  seen.push(view);
  await page.end();
}
// A site whose models take no sound has nothing to listen with.
const mute = await playwright(browser, await serve(folder));
await mute.route('**/site.json', async (route) => {
  const site = await (await route.fetch()).json();
  await route.fulfill({ json: { ...site, models: site.models.filter((one) => !one.rate) } });
});
await mute.goto('');
await mute.waitForSelector('body[data-ready=try]');
seen[0].mute = [await mute.locator('#word-tools').isVisible(), await mute.locator('#listen').isVisible(), await mute.locator('#word-answer').innerText()];
await mute.end();
seen[0].browser = await cpuSeconds(browser, true);
console.log(JSON.stringify(seen));
await browser.close();
