// Models on a board that stay there, as mica/link/push.py puts them: into the idle half of its ROMFS window, or as files. The board's half
// is firmware/mica/remote_push.py. The half in use is never written, so a push that is cut leaves the model before it.
import { crc32 } from './bytes.mjs';
import { BLOCK, commitPage, halfImage } from './romfs.mjs';
import { BoardError, programs } from './serial_board.mjs';

const TRIAL = 600; // seconds
const LONGEST_NAME = 64; // bytes
const encoder = new TextEncoder();
const hex = (bytes) => `'${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}'`;
const unhex = (digits) => new TextDecoder().decode(Uint8Array.from((digits ?? '').match(/../g) ?? [], (pair) => parseInt(pair, 16)));

// Puts a model onto the board, where it is tried before it is used. progress(0 to 1). Returns {path, sent, kept}: its name there, and bytes.
export function push(board, name, bytes, progress = () => {}) {
  if (!name.endsWith('.mica') || /[/\\\0]/.test(name) || encoder.encode(name).length > LONGEST_NAME) {
    throw new BoardError(`${name}: a model on a board is called *.mica, in at most ${LONGEST_NAME} bytes; rename the file`);
  }
  return board.session(async (run) => {
    const ask = async (call, kind, seconds) => lines(await run(`remote_push.${call}`, seconds), kind);
    const begin = async () => {
      try {
        await run('from mica import remote_push');
      } catch (error) {
        if (/ImportError|AttributeError/.test(error.message)) throw new BoardError('the mica on this board is too old to take models; put a newer one there');
        throw error;
      }
      return place(lines(await run('remote_push.where()')));
    };
    let there = await begin();
    if (there.window && there.used >> there.idle & 1) {
      await board.restart(); // models of that half may be in use since the last push
      there = await begin();
    }
    const done = await (there.window ? intoHalf : asFile)({ run, ask, progress }, name, bytes, there);
    const [rejected] = done.verdict.get('rejected') ?? [];
    if (rejected) throw new BoardError(`${name}: the board rejects it: ${unhex(rejected[0])}; what was there before stays in use`);
    if (!done.verdict.has('confirmed')) throw new BoardError(`${name}: the board does not say how the trial went; push again`);
    return done;
  });
}

// The board answers in lines `mica:kind fields`: returns the fields of each line by kind.
function lines(printed, kind = null) {
  const said = new Map();
  for (const [, word, rest] of printed.matchAll(/^mica:(\w+) ?(.*?)\r?$/gm)) said.set(word, [...(said.get(word) ?? []), rest.split(' ')]);
  if (kind !== null && !said.has(kind)) throw new BoardError(`the board was expected to say its ${kind}; push again`);
  return kind === null ? said : said.get(kind);
}

function place(said) {
  if (!said.has('window')) return { window: 0 };
  const [[mounted, size, crc, used]] = said.get('at');
  const window = Number(said.get('window')[0][0]);
  return {
    window,
    half: Math.floor(window / (2 * BLOCK)) * BLOCK,
    mounted,
    base: [Number(size), Number(crc)],
    used: Number(used),
    idle: mounted === '0' || mounted === 'plain' ? 1 : 0,
    sequence: 1 + Math.max(...said.get('half').map((fields) => Number(fields[2]))),
  };
}

async function intoHalf({ run, ask, progress }, name, bytes, there) {
  const { half, idle } = there;
  if (there.mounted === 'plain' && there.base[0] > half) throw new BoardError('the models at /rom take more than half of their place; put a firmware with fewer onto the board');
  const listed = lines(await run('remote_push.files()')).get('file') ?? [];
  const kept = listed.map(([size, crc, at, path]) => ({ name: unhex(path), size: Number(size), crc: parseInt(crc, 16), at: Number(at) })).filter((file) => file.name !== name);
  // Files that stay are as long as they are; their bytes are the board's to copy.
  const { image, places } = halfImage(new Map([...kept.map((file) => [file.name, new Uint8Array(file.size)]), [name, bytes]]));
  if (image.length > half - BLOCK) {
    throw new BoardError(`${name}: ${image.length} bytes are needed, ${half - BLOCK} are there (half of the board's ROMFS window); mica rm takes a model away`);
  }
  const copies = kept.filter((file) => file.size).map((file) => ({ ...file, to: places.get(file.name) })).sort((a, b) => a.to - b.to);
  await run(`remote_push.begin(${idle})`);
  const count = Math.ceil(image.length / BLOCK);
  const right = (await ask(`blocks(${idle}, ${count})`, 'block')).map(([crc]) => parseInt(crc, 16));
  let sent = 0;
  for (let block = 0; block < count; ++block) {
    const { parts, literal } = pieces(image, copies, block * BLOCK, Math.min((block + 1) * BLOCK, image.length));
    const whole = new Uint8Array(BLOCK).fill(0xff);
    whole.set(literal);
    if (parts.every(([source]) => source < 0) && crc32(whole) === right[block]) continue;
    if (literal.length) for await (const program of programs(literal, '_data')) await run(program);
    await run(`remote_push.write(${idle}, ${block}, (${parts.map((part) => `(${part}),`).join('')})${literal.length ? ', _data' : ''})\n_data=None`);
    sent += literal.length;
    progress((block + 1) / count);
  }
  const crc = imageCrc(image, copies);
  if (parseInt((await ask(`check(${idle}, ${image.length})`, 'crc'))[0][0], 16) !== crc) throw new BoardError(`${name}: the image was damaged on its way; push again`);
  const page = commitPage(there.sequence, image.length, crc, there.base, [name]);
  await run(`remote_push.commit(${idle}, __import__('binascii').unhexlify(${hex(page)}))`);
  progress(1);
  return { path: `/rom/${name}`, sent, kept: image.length - sent, verdict: lines(await run(`remote_push.trial(${idle})`, TRIAL)) };
}

// What block `start` to `end` is made of: [offset on the board, bytes] of what it copies, [-1, bytes] of `literal` in turn.
function pieces(image, copies, start, end) {
  const parts = [];
  const sent = [];
  let at = start;
  const literal = (to) => {
    if (at < to) {
      parts.push([-1, to - at]);
      sent.push(...image.subarray(at, to));
    }
  };
  for (const { to, size, at: source } of copies) {
    const [begin, stop] = [Math.max(to, start), Math.min(to + size, end)];
    if (begin >= stop) continue;
    literal(begin);
    parts.push([source + begin - to, stop - begin]);
    at = stop;
  }
  literal(end);
  return { parts, literal: Uint8Array.from(sent) };
}

// Of the image with the copied files in it, of which the CRC-32s are known. CRCs are linear: that of A and B is that of A and zeros, that of
// zeros, and that of B, added.
function imageCrc(image, copies) {
  let crc = 0;
  let at = 0;
  for (const file of copies) {
    const zeros = new Uint8Array(file.size);
    crc = (crc32(zeros, crc32(image.subarray(at, file.to), crc)) ^ crc32(zeros) ^ file.crc) >>> 0;
    at = file.to + file.size;
  }
  return crc32(image.subarray(at), crc);
}

// To the file system: under a temporary name until it has passed its trial. Parts that an earlier try has sent are kept.
async function asFile({ run, ask, progress }, name, bytes) {
  const coded = hex(encoder.encode(name));
  const [[there, crc]] = await ask(`part(${coded})`, 'part');
  let at = Number(there);
  if (at > bytes.length || crc32(bytes.subarray(0, at)) !== parseInt(crc, 16)) at = 0;
  const begun = at;
  for (; at < bytes.length; at += BLOCK) {
    const piece = bytes.subarray(at, at + BLOCK);
    for await (const program of programs(piece, '_data')) await run(program);
    await run(`remote_push.append(${coded}, ${at}, _data)\n_data=None`);
    progress(Math.min(1, (at + BLOCK) / bytes.length));
  }
  const sha = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  const verdict = lines(await run(`remote_push.finish(${coded}, ${bytes.length}, ${hex(sha)})`, TRIAL));
  return { path: name, sent: bytes.length - begun, kept: begun, verdict };
}
