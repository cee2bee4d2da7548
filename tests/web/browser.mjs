// Chromium by playwright-core, and a server of files under a sub-path, for the tests of the page.
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { extname, join, normalize } from 'node:path';
import { chromium } from 'playwright-core';

const TYPES = { '.html': 'text/html', '.mjs': 'text/javascript', '.js': 'text/javascript', '.wasm': 'application/wasm', '.css': 'text/css', '.json': 'application/json' };
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'; img-src data:";

// more: other files, by name.
export async function serve(folder, path = '/some/path/', more = {}) {
  const server = createServer((request, response) => {
    const name = decodeURIComponent(new URL(request.url, 'http://x').pathname);
    const send = (code, body, type = 'text/html', more = {}) => response.writeHead(code, { 'content-type': type, ...more }).end(body);
    if (name === `${path}empty.html`) return send(200, '<!doctype html><title>empty</title><link rel="icon" href="data:,">', 'text/html', { 'content-security-policy': POLICY });
    if (!name.startsWith(path)) return send(404, '');
    if (name.slice(path.length) in more) return send(200, more[name.slice(path.length)], 'application/octet-stream');
    try {
      const file = join(folder, normalize(name.slice(path.length) || 'index.html'));
      return send(200, readFileSync(file), TYPES[extname(file)] ?? 'application/octet-stream', { 'content-security-policy': `${POLICY}; style-src 'self'` });
    } catch {
      return send(404, '');
    }
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { base: `http://127.0.0.1:${server.address().port}${path}`, end: () => (server.close(), server.closeAllConnections()) };
}

export const launch = (executablePath, flags = []) => chromium.launch({ executablePath, args: [...FLAGS, ...flags] });

// A page whose `errors` and requests to others (`foreign`) are kept; its goto() takes a path below the server's.
export async function playwright(browser, served, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(120000);
  const go = page.goto.bind(page);
  Object.assign(page, { base: served.base, errors: [], foreign: [] });
  page.goto = (path) => go(served.base + path);
  page.on('console', (message) => message.type() === 'error' && page.errors.push(message.text()));
  page.on('pageerror', (error) => page.errors.push(String(error)));
  page.on('request', (request) => {
    if (!/^(data:|blob:)/.test(request.url()) && !request.url().startsWith(served.base)) page.foreign.push(request.url());
  });
  page.stop = () => served.end();
  page.end = async () => {
    await context.close();
    served.end();
  };
  return page;
}

// CPU seconds that the page's process has used, its workers too; or all processes of the browser.
export async function cpuSeconds(browser, all = false) {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  await session.detach();
  return processInfo.filter(({ type }) => all || type === 'renderer').reduce((sum, { cpuTime }) => sum + cpuTime, 0);
}

const WITH_NAMES = ['button', 'checkbox', 'combobox', 'img', 'image', 'link', 'meter', 'progressbar', 'region', 'spinbutton', 'tab', 'tablist', 'tabpanel', 'textbox', 'searchbox', 'slider'];

// What a screen reader finds without a name, and every name with its role.
export async function heard(page) {
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send('Accessibility.getFullAXTree');
  await session.detach();
  const shown = nodes.filter(({ ignored, role }) => !ignored && WITH_NAMES.includes(role?.value?.toLowerCase()));
  const unnamed = shown.filter(({ name }) => !name?.value?.trim()).map(({ role, backendDOMNodeId }) => `${role.value} ${backendDOMNodeId}`);
  return { unnamed, names: shown.map(({ role, name }) => `${role.value}: ${name?.value}`) };
}

// Ids of what the Tab key reaches in a part, and of what it does not, though it can be used.
export async function tabbed(page, part) {
  await page.evaluate(() => document.activeElement.blur());
  await page.evaluate((id) => {
    globalThis.nameOf = (e) => e.id || `${e.tagName} ${[...document.querySelectorAll('*')].indexOf(e)}`;
    document.getElementById(`tab-${id}`).focus();
  }, part);
  const reached = new Set();
  for (let i = 0; i < 60; ++i) {
    await page.keyboard.press('Tab');
    const id = await page.evaluate(() => nameOf(document.activeElement));
    if (id.startsWith('BODY') || reached.has(id)) break;
    reached.add(id);
    if (id.endsWith('terminal')) break; // there Tab is a key of the board's prompt, as its label says
  }
  const usable = await page.evaluate((id) => [...document.querySelectorAll(`#${id} :is(button, input, select, pre[tabindex], canvas[tabindex])`)].filter((e) => e.checkVisibility() && !e.disabled).map(nameOf), part);
  return { reached: [...reached], missed: usable.filter((id) => !reached.has(id)) };
}

// In the page: what is too wide, how light ground and text are, and texts whose contrast is below 4.5.
export function lookedAt() {
  const colours = getComputedStyle(document.body);
  const channels = (text) => text.match(/[\d.]+/g).map(Number);
  const luminance = (text) => channels(text).slice(0, 3).reduce((sum, x) => sum + x / 765, 0);
  const light = (rgb) => rgb.slice(0, 3).map((x) => (x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4)).reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const rgba = channels(getComputedStyle(e).backgroundColor);
      if (rgba[3] !== 0) return rgba;
    }
    return [255, 255, 255];
  };
  const pale = [...document.querySelectorAll('body *')].filter((e) => {
    const own = [...e.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || e.disabled || e.closest('svg, option') || !e.checkVisibility()) return false;
    const [a, b] = [light(channels(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05) < 4.5;
  });
  return { overflow: document.documentElement.scrollWidth - innerWidth, back: luminance(colours.backgroundColor), ink: luminance(colours.color), pale: pale.map((e) => e.outerHTML.slice(0, 80)) };
}
