// Bytes as other programs want them: base64, CRC-32, and files of recordings (.wav, .npz, .zip) and of firmware (.uf2).
export function base64(bytes) {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; ++k) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

// crc: of the bytes before these.
export function crc32(bytes, crc = 0) {
  crc = ~crc;
  for (const byte of bytes) crc = TABLE[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

// parts: numbers as [bytes, value], texts, or bytes.
function joined(...parts) {
  const pieces = parts.map((part) => {
    if (typeof part === 'string') return new TextEncoder().encode(part);
    if (part.length !== 2 || part instanceof Uint8Array) return part;
    return Uint8Array.from({ length: part[0] }, (_, i) => (part[1] / 256 ** i) & 255);
  });
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

// samples: bytes of int16.
export function wav(samples, rate) {
  const format = joined('fmt ', [4, 16], [2, 1], [2, 1], [4, rate], [4, 2 * rate], [2, 2], [2, 16]);
  return joined('RIFF', [4, 36 + samples.length], 'WAVE', format, 'data', [4, samples.length], samples);
}

function npy(type, shape, data) {
  const head = `{'descr': '${type}', 'fortran_order': False, 'shape': (${shape.map((n) => `${n},`).join('')}), }`;
  const text = `${head.padEnd(117)}\n`;
  return joined(Uint8Array.of(0x93), 'NUMPY', [2, 1], [2, text.length], text, data);
}

// Rows of int16 numbers, as `mica record` keeps those of a motion sensor: x [1, n, columns], and the rate.
export function npz(samples, columns, rate) {
  return zip({ 'x.npy': npy('<i2', [1, samples.length / (2 * columns), columns], samples), 'rate.npy': npy('<i8', [], joined([8, rate])) });
}

// An archive of files by their names, not packed.
export function zip(files) {
  const parts = [];
  let directory = new Uint8Array(0);
  let at = 0;
  for (const [path, data] of Object.entries(files)) {
    const name = new TextEncoder().encode(path);
    // 0x800: names are in UTF-8.
    const facts = joined([2, 20], [2, 0x800], [2, 0], [4, 0x00210000], [4, crc32(data)], [4, data.length], [4, data.length], [2, name.length], [2, 0]);
    directory = joined(directory, [4, 0x02014b50], [2, 20], facts, [2, 0], [2, 0], [2, 0], [4, 0], [4, at], name);
    parts.push(joined([4, 0x04034b50], facts, name, data));
    at += parts.at(-1).length;
  }
  const n = parts.length;
  return joined(...parts, directory, [4, 0x06054b50], [4, 0], [2, n], [2, n], [4, directory.length], [4, at], [2, 0]);
}

// A file that the boot loader of an RP2 copies into flash. spans: [offset in flash, bytes] of what it writes, multiples of 256.
export function uf2(flash, { base, family, spans }) {
  const places = spans.flatMap(([at, n]) => Array.from({ length: n / 256 }, (_, i) => at + 256 * i));
  const made = new Uint8Array(512 * places.length);
  const view = new DataView(made.buffer);
  places.forEach((at, i) => {
    const words = [0x0a324655, 0x9e5d5157, 0x2000, base + at, 256, i, places.length, family];
    words.forEach((word, k) => view.setUint32(512 * i + 4 * k, word, true));
    made.set(flash.subarray(at, at + 256), 512 * i + 32);
    view.setUint32(512 * i + 508, 0x0ab16f30, true);
  });
  return made;
}
