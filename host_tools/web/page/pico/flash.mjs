// node:fs for machine.mjs and sensors.mjs: files are arrays that the page has sent.
let content = new Uint8Array(0);
export const put = (bytes) => (content = bytes);

export default {
  openSync: () => 1,
  readFileSync: (bytes) => bytes,
  readSync: (_, to, at, n, from) => to.set(content.subarray(from, from + n), at),
  writeSync: (_, bytes, at, n, to) => content.set(bytes.subarray(at, at + n), to),
};
