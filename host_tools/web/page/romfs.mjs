// The image of a half of a board's ROMFS window, and the page that commits it: bytes as mica/images/romfs.py makes them.
import { crc32 } from './bytes.mjs';

export const BLOCK = 4096; // bytes that flash erases at once
const ALIGN = 16; // of a file's data
const PAGE = 256;
const [PADDING, DATA, FOLDER, FILE] = [1, 2, 4, 5];
const MAGIC = [0xd2, 0xcd, 0x31];
const WIDTH = 4; // bytes of a length that padding counts in
const encoder = new TextEncoder();
const TAG = encoder.encode('mica:half');

// A number in 7 bits a byte, the highest first, in `width` bytes or in as many as it needs.
function number(value, width = 1) {
  const digits = [value & 127];
  while ((value >>>= 7)) digits.unshift((value & 127) | 128);
  return [...Array(Math.max(0, width - digits.length)).fill(128), ...digits];
}

const padding = (size) => [PADDING, size - 2, ...Array(size - 2).fill(0)]; // 2 to 129 bytes
const bytesIn = (chunks) => chunks.reduce((sum, chunk) => sum + chunk.length, 0);

// The records of a folder's entries, the first at offset `at` of the image.
function records(entries, at) {
  const chunks = [];
  for (const [name, node] of entries) {
    const encoded = encoder.encode(name);
    const head = [...number(encoded.length), ...encoded];
    const inside = at + bytesIn(chunks) + 1 + WIDTH + head.length;
    let body;
    if (node instanceof Map) {
      body = records(node, inside);
    } else {
      const start = [DATA, ...number(node.length)];
      let pad = (ALIGN - ((inside + start.length) % ALIGN)) % ALIGN;
      if (pad === 1) pad += ALIGN;
      body = [pad ? padding(pad) : [], start, node];
    }
    const kind = node instanceof Map ? FOLDER : FILE;
    chunks.push([kind, ...number(head.length + bytesIn(body), WIDTH), ...head], ...body);
  }
  return chunks;
}

// files: Map from path to Uint8Array. Returns the image, and a Map from path to the offset of its data.
export function halfImage(files) {
  const tree = new Map();
  for (const path of [...files.keys()].sort()) {
    const names = path.split('/');
    let here = tree;
    for (const name of names.slice(0, -1)) here = here.get(name) ?? here.set(name, new Map()).get(name);
    here.set(names.at(-1), files.get(path));
  }
  const head = [PADDING, TAG.length, ...TAG];
  const body = [head, ...records(tree, MAGIC.length + WIDTH + head.length)];
  if ((MAGIC.length + WIDTH + bytesIn(body)) % 2) body.push(padding(3)); // its length is even
  const chunks = [[...MAGIC, ...number(bytesIn(body), WIDTH)], ...body];
  const image = new Uint8Array(bytesIn(chunks));
  const starts = new Map();
  let at = 0;
  for (const chunk of chunks) {
    image.set(chunk, at);
    starts.set(chunk, at);
    at += chunk.length;
  }
  return { image, places: new Map([...files].map(([path, data]) => [path, starts.get(data)])) };
}

// base: bytes and CRC-32 of the plain image below. trial: names of the models to try.
export function commitPage(sequence, size, crc, base, trial) {
  const page = new Uint8Array(PAGE).fill(0xff);
  const view = new DataView(page.buffer);
  let names = encoder.encode(trial.join('\n'));
  if (names.length > PAGE - 40) names = new Uint8Array(0); // so all are tried
  page.set(encoder.encode('micaslot'));
  [sequence, size, crc, ...base, 1, names.length].forEach((n, i) => view.setUint32(8 + 4 * i, n, true));
  page.set(names, 36);
  view.setUint32(PAGE - 4, crc32(page.subarray(0, PAGE - 4)), true);
  return page;
}
