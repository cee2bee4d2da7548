// The image of a half of a board's ROMFS window, and the page that commits it: bytes as mica/images/romfs.py makes them.
import { crc32 } from './bytes.mjs';

export const BLOCK = 4096; // bytes that flash erases at once
const ALIGN = 16; // of a file's data
const PAGE = 256;
const [PADDING, DATA, FOLDER, FILE] = [1, 2, 4, 5];
const MAGIC = [0xd2, 0xcd, 0x31];
const encoder = new TextEncoder();
const TAG = encoder.encode('mica:half');

// A number in 7 bits a byte, the highest first, in `width` bytes or in as many as it needs.
function number(value, width = 1) {
  const digits = [value & 127];
  while ((value >>>= 7)) digits.unshift((value & 127) | 128);
  return [...Array(Math.max(0, width - digits.length)).fill(128), ...digits];
}

function padding(size) {
  let width = 1;
  while (number(size - 1 - width).length > width) ++width;
  return [PADDING, ...number(size - 1 - width, width), ...Array(size - 1 - width).fill(0)];
}

const bytesIn = (chunks) => chunks.reduce((sum, chunk) => sum + chunk.length, 0);

// The record at offset `at`. Its body depends on the width of its length, and that on the body: widths are tried until one holds.
function record(kind, body, at) {
  for (let width = 1; ; ++width) {
    const chunks = body(at + kind.length + width);
    const length = number(bytesIn(chunks), width);
    if (length.length === width) return [kind, length, ...chunks];
  }
}

const file = (name, data) => (at) => {
  const head = [...number(name.length), ...name];
  const start = [DATA, ...number(data.length)];
  let pad = (ALIGN - ((at + head.length + start.length) % ALIGN)) % ALIGN;
  if (pad === 1) pad += ALIGN;
  return [head, pad ? padding(pad) : [], start, data];
};

const folder = (entries, head, tail) => (at) => {
  const chunks = [head];
  for (const [name, node] of entries) {
    const encoded = encoder.encode(name);
    const inner = node instanceof Map ? folder(node, [...number(encoded.length), ...encoded], []) : file(encoded, node);
    chunks.push(...record([node instanceof Map ? FOLDER : FILE], inner, at + bytesIn(chunks)));
  }
  return [...chunks, tail];
};

// files: Map from path to Uint8Array. Returns the image, and a Map from path to the offset of its data.
export function halfImage(files) {
  const tree = new Map();
  for (const path of [...files.keys()].sort()) {
    const names = path.split('/');
    let here = tree;
    for (const name of names.slice(0, -1)) here = here.get(name) ?? here.set(name, new Map()).get(name);
    here.set(names.at(-1), files.get(path));
  }
  let chunks;
  // Its length is even. Padding can grow the image's own length by a byte, so a second try may be odd too.
  for (const tail of [[], padding(3), padding(4)]) {
    chunks = record(MAGIC, folder(tree, [PADDING, TAG.length, ...TAG], tail), 0);
    if (bytesIn(chunks) % 2 === 0) break;
  }
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
