// Turns Thumb code that runs often into JavaScript: one function for a run of instructions, which rp2040js would decode again
// each time. It counts the same cycles as rp2040js does, and everything that is rare (system registers, barriers,
// exceptions, peripherals) stays with rp2040js.
//
// A function holds instructions in the order of their addresses, and follows unconditional branches. It leaves where a branch
// leaves; a branch back to its first instruction stays inside, until S.limit. So interrupts come between two such
// runs, at most MAX_INSTRUCTIONS late.

import { charge, isFree } from './arithmetic.mjs';
import { lookUp, pieces } from './cache.mjs';

const MAX_INSTRUCTIONS = 64;

const SP = 13;
const LR = 14;
const PC = 15;

// Flags as bits of what an instruction needs and makes. N and Z go together: both come from one result.
const NZ = 1;
const C = 2;
const V = 4;
const ALL = NZ | C | V;

const CONDITIONS = [
  ['nz === 0', NZ], // EQ
  ['nz !== 0', NZ], // NE
  ['cf !== 0', C], // CS
  ['cf === 0', C], // CC
  ['nz < 0', NZ], // MI
  ['nz >= 0', NZ], // PL
  ['vf !== 0', V], // VS
  ['vf === 0', V], // VC
  ['cf !== 0 && nz !== 0', NZ | C], // HI
  ['cf === 0 || nz === 0', NZ | C], // LS
  ['nz >>> 31 === vf', NZ | V], // GE
  ['nz >>> 31 !== vf', NZ | V], // LT
  ['nz !== 0 && nz >>> 31 === vf', NZ | V], // GT
  ['nz === 0 || nz >>> 31 !== vf', NZ | V], // LE
];

const bitsOf = (mask) => [0, 1, 2, 3, 4, 5, 6, 7].filter((i) => mask & (1 << i));

// --- one instruction ------------------------------------------------------------------------------------

// What it does, as JavaScript: {code, cycles, reads, writes, uses, makes, next}, or null for one that rp2040js is to
// execute. `code(k)` gets the cycles of the block that have gone before it; {makes} can be asked for in parts: a flag that nobody wants
// is not computed. `next` tells how it ends a block: {branch, cond} or {leave}.
function decode(op, op2, pc) {
  const low = op & 7; // Rd or Rdn
  const mid = (op >> 3) & 7; // Rn or Rm
  const imm5 = (op >> 6) & 31;
  const imm8 = op & 0xff;
  const top = (op >> 8) & 7;

  const plain = (code, reads, writes) => ({ code: () => code, cycles: 1, reads, writes, uses: 0, makes: 0 });
  const logic = (to, value, reads, writes = [to]) => ({
    code: (k, needed) => `${writes.length ? `r${to} = ${value};` : ''}${needed & NZ ? `nz = ${writes.length ? `r${to}` : value};` : ''}`,
    cycles: 1, reads, writes, uses: 0, makes: NZ,
  });
  const shift = (value, carry) => ({
    code: (k, needed) => `t = r${mid};${needed & C ? `cf = ${carry};` : ''}r${low} = ${value};${needed & NZ ? `nz = r${low};` : ''}`,
    cycles: 1, reads: [mid], writes: [low], uses: 0, makes: NZ | C,
  });
  const sum = (to, a, b, reads, carryIn = null) => ({
    code: (k, needed) => {
      const keep = to === null ? '' : `r${to} = u;`;
      const lines = [`t = ${a}; s = ${b};`];
      if (carryIn === null) {
        lines.push('u = (t + s) | 0;');
        if (needed & C) lines.push('cf = u >>> 0 < t >>> 0 ? 1 : 0;');
      } else {
        lines.push('w = (t >>> 0) + (s >>> 0) + cf; u = w | 0;');
        if (needed & C) lines.push('cf = w > 4294967295 ? 1 : 0;');
      }
      if (needed & V) lines.push('vf = ((t ^ u) & (s ^ u)) >>> 31;');
      if (needed & NZ) lines.push('nz = u;');
      return lines.join(' ') + keep;
    },
    cycles: 1, reads, writes: to === null ? [] : [to], uses: carryIn === null ? 0 : C, makes: ALL,
  });
  const difference = (to, a, b, reads) => ({
    code: (k, needed) => {
      const lines = [`t = ${a}; s = ${b}; u = (t - s) | 0;`];
      if (needed & C) lines.push('cf = t >>> 0 >= s >>> 0 ? 1 : 0;');
      if (needed & V) lines.push('vf = ((t ^ s) & (t ^ u)) >>> 31;');
      if (needed & NZ) lines.push('nz = u;');
      return lines.join(' ') + (to === null ? '' : `r${to} = u;`);
    },
    cycles: 1, reads, writes: to === null ? [] : [to], uses: 0, makes: ALL,
  });
  const load = (to, address, reads, kind) => ({
    code: (k) => `a = ${address}; r${to} = ${LOADS[kind](`c + ${k}`)};`,
    cycles: 2, reads, writes: [to], uses: 0, makes: 0,
  });
  const store = (from, address, reads, kind) => ({
    code: (k) => `a = ${address}; ${STORES[kind](`r${from}`, `c + ${k}`)}`,
    cycles: 2, reads: [from, ...reads], writes: [], uses: 0, makes: 0,
  });

  switch (op >> 11) {
    case 0b00000:
      return imm5 === 0
        ? logic(low, `r${mid}`, [mid])
        : shift(`t << ${imm5}`, `(t >>> ${32 - imm5}) & 1`);
    case 0b00001:
      return imm5 === 0 ? shift('0', 't >>> 31') : shift(`t >>> ${imm5} | 0`, `(t >>> ${imm5 - 1}) & 1`);
    case 0b00010:
      return imm5 === 0 ? shift('t >> 31', 't >>> 31') : shift(`t >> ${imm5}`, `(t >>> ${imm5 - 1}) & 1`);
    case 0b00011: {
      const right = op & 0x400 ? `${(op >> 6) & 7}` : `r${(op >> 6) & 7}`;
      const reads = op & 0x400 ? [mid] : [mid, (op >> 6) & 7];
      return (op & 0x200 ? difference : sum)(low, `r${mid}`, right, reads);
    }
    case 0b00100:
      return logic(top, `${imm8}`, []);
    case 0b00101:
      return difference(null, `r${top}`, `${imm8}`, [top]);
    case 0b00110:
      return sum(top, `r${top}`, `${imm8}`, [top]);
    case 0b00111:
      return difference(top, `r${top}`, `${imm8}`, [top]);
    case 0b01000:
      return op & 0x400 ? decodeHigh(op, pc, plain, difference) : decodeAlu(op, low, mid, logic, sum, difference);
    case 0b01001:
      return load(top, `${(((pc + 4) & ~3) + 4 * imm8) | 0}`, [], 'word');
    case 0b01010:
    case 0b01011: {
      const address = `(r${mid} + r${(op >> 6) & 7}) | 0`;
      const reads = [mid, (op >> 6) & 7];
      const kind = (op >> 9) & 7;
      return kind < 3
        ? store(low, address, reads, ['word', 'half', 'byte'][kind])
        : load(low, address, reads, ['signedByte', 'word', 'half', 'byte', 'signedHalf'][kind - 3]);
    }
    case 0b01100:
      return store(low, `(r${mid} + ${4 * imm5}) | 0`, [mid], 'word');
    case 0b01101:
      return load(low, `(r${mid} + ${4 * imm5}) | 0`, [mid], 'word');
    case 0b01110:
      return store(low, `(r${mid} + ${imm5}) | 0`, [mid], 'byte');
    case 0b01111:
      return load(low, `(r${mid} + ${imm5}) | 0`, [mid], 'byte');
    case 0b10000:
      return store(low, `(r${mid} + ${2 * imm5}) | 0`, [mid], 'half');
    case 0b10001:
      return load(low, `(r${mid} + ${2 * imm5}) | 0`, [mid], 'half');
    case 0b10010:
      return store(top, `(r${SP} + ${4 * imm8}) | 0`, [SP], 'word');
    case 0b10011:
      return load(top, `(r${SP} + ${4 * imm8}) | 0`, [SP], 'word');
    case 0b10100:
      return plain(`r${top} = ${(((pc & ~3) + 4 + 4 * imm8) | 0)};`, [], [top]);
    case 0b10101:
      return plain(`r${top} = (r${SP} + ${4 * imm8}) | 0;`, [SP], [top]);
    case 0b10110:
    case 0b10111:
      return decodeMisc(op, low, mid, plain);
    case 0b11000:
    case 0b11001:
      return decodeMultiple(op, top, imm8);
    case 0b11010:
    case 0b11011: {
      const cond = (op >> 8) & 15;
      if (cond >= 14) {
        return null;
      }
      const target = (pc + 4 + ((imm8 << 24) >> 23)) | 0;
      return { code: () => '', cycles: 1, reads: [], writes: [], uses: ALL, makes: 0, next: { branch: target, cond } };
    }
    case 0b11100:
      return {
        code: () => '', cycles: 2, reads: [], writes: [], uses: 0, makes: 0,
        next: { branch: (pc + 4 + (((op & 0x7ff) << 21) >> 20)) | 0, cond: null },
      };
    case 0b11110: {
      if (op2 >> 14 !== 3 || !((op2 >> 12) & 1)) {
        return null;
      }
      const s = (op >> 10) & 1;
      const i1 = 1 - (s ^ ((op2 >> 13) & 1));
      const i2 = 1 - (s ^ ((op2 >> 11) & 1));
      const offset = (-s << 24) | (i1 << 23) | (i2 << 22) | ((op & 0x3ff) << 12) | ((op2 & 0x7ff) << 1);
      return {
        code: () => `r${LR} = ${(pc + 4) | 1};`, cycles: 3, reads: [], writes: [LR], uses: 0, makes: 0, size: 4,
        next: { leave: `${(pc + 4 + offset) | 0}` },
      };
    }
    default:
      return null;
  }
}

// Operations on two low registers.
function decodeAlu(op, low, mid, logic, sum, difference) {
  const d = `r${low}`;
  const m = `r${mid}`;
  const byRegister = (body) => ({
    code: () => `t = ${d}; s = ${m} & 255; ${body} nz = ${d};`,
    cycles: 1, reads: [low, mid], writes: [low], uses: C, makes: NZ | C,
  });
  switch ((op >> 6) & 15) {
    case 0:
      return logic(low, `${d} & ${m}`, [low, mid]);
    case 1:
      return logic(low, `${d} ^ ${m}`, [low, mid]);
    case 2:
      return byRegister(`if (s !== 0) { cf = s > 32 ? 0 : (t >>> (32 - s)) & 1; ${d} = s > 31 ? 0 : t << s; }`);
    case 3:
      return byRegister(`if (s !== 0) { cf = s > 32 ? 0 : (t >>> (s - 1)) & 1; ${d} = s > 31 ? 0 : t >>> s | 0; }`);
    case 4:
      return byRegister(`if (s !== 0) { if (s > 31) { cf = t >>> 31; ${d} = t >> 31; } else { cf = (t >>> (s - 1)) & 1; ${d} = t >> s; } }`);
    case 5:
      return sum(low, d, m, [low, mid], 'cf');
    case 6: // a - b - not carry = a + ~b + carry
      return sum(low, d, `~${m}`, [low, mid], 'cf');
    case 7:
      return byRegister(`if (s !== 0) { s &= 31; ${d} = (t >>> s) | (t << (32 - s)); if (s === 0) ${d} = t; cf = ${d} >>> 31; }`);
    case 8:
      return logic(low, `${d} & ${m}`, [low, mid], []);
    case 9:
      return difference(low, '0', m, [mid]);
    case 10:
      return difference(null, d, m, [low, mid]);
    case 11:
      return sum(null, d, m, [low, mid]);
    case 12:
      return logic(low, `${d} | ${m}`, [low, mid]);
    case 13:
      return logic(low, `Math.imul(${d}, ${m})`, [low, mid]);
    case 14:
      return logic(low, `${d} & ~${m}`, [low, mid]);
    default:
      return logic(low, `~${m}`, [mid]);
  }
}

// Operations that reach all registers, and branches to an address in one.
function decodeHigh(op, pc, plain, difference) {
  const m = (op >> 3) & 15;
  const d = ((op >> 4) & 8) | (op & 7);
  const value = m === PC ? `${(pc + 4) | 0}` : `r${m}`;
  const reads = m === PC ? [] : [m];
  switch ((op >> 8) & 3) {
    case 0: {
      if (d === PC) {
        return {
          code: () => `u = (${(pc + 4) | 0} + ${value}) & ~1;`, cycles: 2, reads, writes: [], uses: 0, makes: 0, next: { leave: 'u' },
        };
      }
      return plain(`r${d} = (r${d} + ${value})${d === SP ? ' & ~3' : ' | 0'};`, [d, ...reads], [d]);
    }
    case 1:
      return d === PC || m === PC ? null : difference(null, `r${d}`, `r${m}`, [d, m]);
    case 2:
      if (d === PC) {
        return { code: () => `u = ${value} & ~1;`, cycles: 2, reads, writes: [], uses: 0, makes: 0, next: { leave: 'u' } };
      }
      return plain(`r${d} = ${value}${d === SP ? ' & ~3' : ''};`, reads, [d]);
    default:
      if (m === PC || op & 7) {
        return null;
      }
      return op & 0x80
        ? { code: () => `u = r${m} & ~1; r${LR} = ${(pc + 2) | 1};`, cycles: 2, reads, writes: [LR], uses: 0, makes: 0, next: { leave: 'u' } }
        : { code: () => `u = r${m};`, cycles: 2, reads, writes: [], uses: 0, makes: 0, next: { exchange: 'u' } };
  }
}

function decodeMisc(op, low, mid, plain) {
  if (op >> 8 === 0b10110000) {
    const bytes = 4 * (op & 0x7f);
    return plain(`r${SP} = (r${SP} ${op & 0x80 ? '-' : '+'} ${bytes}) | 0;`, [SP], [SP]);
  }
  if (op >> 8 === 0b10110010) {
    const value = [`(r${mid} << 16) >> 16`, `(r${mid} << 24) >> 24`, `r${mid} & 0xffff`, `r${mid} & 0xff`][(op >> 6) & 3];
    return plain(`r${low} = ${value};`, [mid], [low]);
  }
  if (op >> 8 === 0b10111010) {
    const kind = (op >> 6) & 3;
    const swapped = `((r${mid} & 0x00ff00ff) << 8) | ((r${mid} >>> 8) & 0x00ff00ff)`;
    switch (kind) {
      case 0:
        return plain(`t = ${swapped}; r${low} = (t << 16) | (t >>> 16);`, [mid], [low]);
      case 1:
        return plain(`r${low} = ${swapped};`, [mid], [low]);
      case 3:
        return plain(`t = ${swapped}; r${low} = (t << 16) >> 16;`, [mid], [low]);
      default:
        return null;
    }
  }
  if (op >> 9 === 0b1011010 || op >> 9 === 0b1011110) {
    return decodeStack(op);
  }
  return op === 0xbf00 ? plain('', [], []) : null;
}

function decodeStack(op) {
  const list = bitsOf(op & 0xff);
  const extra = (op >> 8) & 1; // LR or PC
  if (op >> 11 === 0b10110) {
    const bytes = 4 * (list.length + extra);
    return {
      code: (k) => {
        const lines = [`r${SP} = (r${SP} - ${bytes}) | 0;`];
        [...list, ...(extra ? [LR] : [])].forEach((r, i) => {
          lines.push(`a = (r${SP} + ${4 * i}) | 0; ${STORES.word(`r${r}`, `c + ${k}`)}`);
        });
        return lines.join(' ');
      },
      cycles: 1 + list.length, reads: [SP, ...list, ...(extra ? [LR] : [])], writes: [SP], uses: 0, makes: 0,
    };
  }
  const popped = {
    code: (k) => {
      const lines = list.map((r, i) => `a = (r${SP} + ${4 * i}) | 0; r${r} = ${LOADS.word(`c + ${k}`)};`);
      if (extra) {
        lines.push(`a = (r${SP} + ${4 * list.length}) | 0; u = ${LOADS.word(`c + ${k}`)};`);
      }
      return `${lines.join(' ')} r${SP} = (r${SP} + ${4 * (list.length + extra)}) | 0;`;
    },
    cycles: 1 + list.length + 2 * extra, reads: [SP], writes: [SP, ...list], uses: 0, makes: 0,
  };
  return extra ? { ...popped, next: { exchange: 'u' } } : popped;
}

function decodeMultiple(op, base, mask) {
  const list = bitsOf(mask);
  const writeBack = `r${base} = (b + ${4 * list.length}) | 0;`;
  const place = (i) => `a = (b + ${4 * i}) | 0;`;
  if (op >> 11 === 0b11000) {
    return {
      code: (k) => {
        const stores = list.map((r, i) => `${place(i)} ${STORES.word(r === base ? 'b' : `r${r}`, `c + ${k}`)}`);
        return `b = r${base}; ${stores.join(' ')} ${mask & (1 << base) ? '' : writeBack}`;
      },
      cycles: 1 + list.length, reads: [base, ...list], writes: mask & (1 << base) ? [] : [base], uses: 0, makes: 0,
    };
  }
  return {
    code: (k) => {
      const loads = list.map((r, i) => `${place(i)} r${r} = ${LOADS.word(`c + ${k}`)};`);
      return `b = r${base}; ${loads.join(' ')} ${mask & (1 << base) ? '' : writeBack}`;
    },
    cycles: 1 + list.length, reads: [base], writes: [base, ...list], uses: 0, makes: 0,
  };
}

// --- memory ---------------------------------------------------------------------------------------------

// RAM here, all else in the Memory below. `a` is the address.
const RAM_BYTES = 264 * 1024;
const inRam = (align) => `(a - 0x20000000 >>> 0) < ${RAM_BYTES}${align ? ` && (a & ${align}) === 0` : ''}`;
const LOADS = {
  word: (at) => `${inRam(3)} ? ram32[a - 0x20000000 >> 2] : M.word(a, ${at})`,
  half: (at) => `${inRam(1)} ? ram16[a - 0x20000000 >> 1] : M.half(a, ${at})`,
  byte: (at) => `${inRam(0)} ? ram8[a - 0x20000000] : M.byte(a, ${at})`,
  signedHalf: (at) => `(${LOADS.half(at)}) << 16 >> 16`,
  signedByte: (at) => `(${LOADS.byte(at)}) << 24 >> 24`,
};
const changed = 'if (marks[a - 0x20000000 >> 2] !== 0) M.codeChanged(a);';
const STORES = {
  word: (value, at) => `if (${inRam(3)}) { ram32[a - 0x20000000 >> 2] = ${value}; ${changed} } else M.storeWord(a, ${value}, ${at});`,
  half: (value, at) => `if (${inRam(1)}) { ram16[a - 0x20000000 >> 1] = ${value}; ${changed} } else M.storeHalf(a, ${value}, ${at});`,
  byte: (value, at) => `if (${inRam(0)}) { ram8[a - 0x20000000] = ${value}; ${changed} } else M.storeByte(a, ${value}, ${at});`,
};

// --- a block --------------------------------------------------------------------------------------------

// Translate from `start`. Returns {run, addresses}: the function, and the instructions it was made from; null where the first
// one is not for us.
export function translate(start, fetch, context) {
  const parts = [];
  const seen = new Set();
  let pc = start;
  while (parts.length < MAX_INSTRUCTIONS && !seen.has(pc)) {
    const op = fetch(pc);
    const wide = op >> 11 === 0b11110 || op >> 11 === 0b11101 || op >> 11 === 0b11111;
    const part = decode(op, wide ? fetch(pc + 2) : 0, pc);
    if (part === null) {
      break;
    }
    seen.add(pc);
    const free = isFree(context.arithmetic, pc);
    parts.push({ ...part, pc, cycles: free ? 0 : part.cycles, branch: free ? 0 : 1 });
    pc += part.size ?? 2;
    if (part.next !== undefined) {
      if (part.next.cond === null && part.next.branch !== start) {
        pc = part.next.branch;
      } else if (part.next.cond === undefined || part.next.cond === null) {
        pc = null;
        break;
      }
    }
  }
  if (parts.length === 0) {
    return null;
  }
  return { run: assemble(start, parts, pc, context), addresses: [...seen] };
}

function assemble(start, parts, after, context) {
  // Which flags each instruction must really make: those that somebody reads before they are made again.
  let live = ALL;
  for (let i = parts.length - 1; i >= 0; i--) {
    const part = parts[i];
    if (part.next?.leave !== undefined || part.next?.exchange !== undefined) {
      live = ALL;
    }
    part.needed = part.makes & live;
    live = (live & ~part.makes) | part.uses;
  }
  const touched = [...new Set(parts.flatMap((part) => [...part.reads, ...part.writes]))];
  const written = [...new Set(parts.flatMap((part) => part.writes))];
  const makesFlags = parts.reduce((all, part) => all | part.makes, 0);
  const save = [
    ...written.map((r) => `R[${r}] = r${r};`),
    ...(makesFlags & NZ ? ['core.N = nz < 0; core.Z = nz === 0;'] : []),
    ...(makesFlags & C ? ['core.C = cf !== 0;'] : []),
    ...(makesFlags & V ? ['core.V = vf !== 0;'] : []),
  ].join(' ');
  const leave = (target, cycles) => `{ ${save} core.cycles = c + ${cycles} + S.extra; S.extra = 0; R[15] = ${target}; return; }`;

  const lines = [];
  let cycles = 0;
  const begins = pieces(parts);
  for (const part of parts) {
    if (begins.has(part.pc)) {
      lines.push(lookUp(begins.get(part.pc), cycles, context.X));
    }
    lines.push(part.code(cycles, part.needed));
    cycles += part.cycles;
    const next = part.next;
    if (next === undefined) {
      continue;
    }
    if (next.leave !== undefined) {
      lines.push(leave(next.leave, cycles));
    } else if (next.exchange !== undefined) {
      // An address at the top is a return from an exception.
      lines.push(`if (u >>> 28 === 15) { ${save} core.cycles = c + ${cycles} + S.extra; S.extra = 0; core.BXWritePC(u >>> 0); return; }`);
      lines.push(leave('u & ~1', cycles));
    } else {
      const taken = next.cond === null ? cycles : cycles + part.branch;
      const go =
        next.branch === start
          ? `{ c += ${taken}; if (c + S.extra < S.limit) continue; ${leave(start, 0)} }`
          : leave(next.branch, taken);
      if (next.cond !== null) {
        lines.push(`if (${CONDITIONS[next.cond][0]}) ${go}`);
      } else if (next.branch === start) {
        lines.push(go);
      }
    }
  }
  if (after !== null) {
    lines.push(leave(after, cycles));
  }
  const source = `
    const { core, R, ram8, ram16, ram32, marks, M, S, X, F } = context;
    return function () {
      let t = 0, s = 0, u = 0, a = 0, b = 0, w = 0;
      let c = core.cycles;
      ${charge(context.arithmetic, start)}
      ${touched.map((r) => `let r${r} = R[${r}];`).join(' ')}
      let nz = core.N ? -1 : core.Z ? 0 : 1, cf = core.C ? 1 : 0, vf = core.V ? 1 : 0;
      for (;;) {
        ${lines.join('\n        ')}
      }
    };`;
  return new Function('context', source)(context);
}
