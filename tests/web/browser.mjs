// Chromium by playwright-core, and a server of files under a sub-path, for the tests of the page.
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { extname, join, normalize } from 'node:path';
import { chromium } from 'playwright-core';

const TYPES = { '.html': 'text/html', '.mjs': 'text/javascript', '.js': 'text/javascript', '.wasm': 'application/wasm', '.css': 'text/css', '.json': 'application/json' };
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'; img-src data:";

export async function serve(folder, path = '/some/path/') {
  const server = createServer((request, response) => {
    const name = decodeURIComponent(new URL(request.url, 'http://x').pathname);
    const send = (code, body, type = 'text/html', more = {}) => response.writeHead(code, { 'content-type': type, ...more }).end(body);
    if (name === `${path}empty.html`) return send(200, '<!doctype html><title>empty</title><link rel="icon" href="data:,">', 'text/html', { 'content-security-policy': POLICY });
    if (!name.startsWith(path)) return send(404, '');
    try {
      const file = join(folder, normalize(name.slice(path.length) || 'index.html'));
      return send(200, readFileSync(file), TYPES[extname(file)] ?? 'application/octet-stream');
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

// In the page: what is too wide, what a screen reader has no name for, and how light ground and text are.
export function lookedAt() {
  const named = (e) => e.labels?.length || e.getAttribute('aria-label') || e.textContent.trim();
  const shown = [...document.querySelectorAll('button, input, select, meter, canvas, pre, progress, [role=region]')].filter((e) => e.checkVisibility());
  const colours = getComputedStyle(document.body);
  const luminance = (text) => text.match(/[\d.]+/g).slice(0, 3).reduce((sum, x) => sum + x / 765, 0);
  return {
    overflow: document.documentElement.scrollWidth - innerWidth,
    unnamed: shown.filter((e) => !named(e)).map((e) => e.outerHTML),
    back: luminance(colours.backgroundColor),
    ink: luminance(colours.color),
  };
}
