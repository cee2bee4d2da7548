// Elements made of properties and children. Texts go in as text, so that no name out of a file is ever HTML.
export const $ = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// A part that may be wider than the window, and says so then; the keyboard scrolls it too.
export function wide(name, child) {
  const region = make('div', { className: 'wide', tabIndex: 0 }, child);
  region.setAttribute('role', 'region');
  region.setAttribute('aria-label', name);
  new ResizeObserver(() => region.classList.toggle('more', region.scrollWidth > region.clientWidth + 1)).observe(region);
  return region;
}

export function table(head, rows) {
  const cells = (tag, row) => make('tr', {}, ...row.map((text) => make(tag, tag === 'th' ? { scope: 'col' } : {}, String(text))));
  return make('table', {}, make('thead', {}, cells('th', head)), make('tbody', {}, ...rows.map((row) => cells('td', row))));
}

// The best answers, each with a bar.
export function scores(list) {
  const rows = list.flatMap(([label, score]) => {
    const meter = make('meter', { min: 0, max: 1, value: Math.max(0, Math.min(1, score)) });
    meter.setAttribute('aria-label', label);
    return [make('span', {}, label), meter, make('span', {}, score.toFixed(3))];
  });
  return make('div', { className: 'scores' }, ...rows);
}

export const number = (n) => Math.round(n).toLocaleString('en');

export async function bytesOf(url, options) {
  const answer = await fetch(url, options);
  if (!answer.ok) throw new Error(`${url}: the server says ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
}

// Shows what goes wrong, in one line.
export function guarded(action) {
  return async (...args) => {
    $('trouble').textContent = '';
    try {
      return await action(...args);
    } catch (error) {
      $('trouble').textContent = error.message;
      return undefined;
    }
  };
}
