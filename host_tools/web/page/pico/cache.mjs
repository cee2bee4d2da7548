// The cache in front of flash, and the bus behind it: which words a chip has, and until when somebody waits. The
// geometry is that of boards/common/flash.json. Times are cycles of core 0 since power-on, those that it slept included.

const REMEMBERED = 8; // spans of the bus that one core has taken ahead of the other

// Lines of flash in two ways: for each set the number of its line, plus 1, above a bit for each word that is there. The
// first way is the one that was used last.
export class Cache {
  constructor({ bytes, ways, line }) {
    this.shift = Math.log2(line);
    this.sets = bytes / ways / line;
    this.first = new Int32Array(this.sets);
    this.second = new Int32Array(this.sets);
  }

  flush() {
    this.first.fill(0);
    this.second.fill(0);
  }

  // Look up a word by its offset in flash; true if it was missing. It is there afterwards, if `keeps`.
  misses(offset, keeps) {
    const { first, second } = this;
    const line = (offset >> this.shift) + 1;
    const set = (line - 1) & (this.sets - 1);
    const bit = 1 << ((offset >> 2) & 1);
    if (first[set] >> 2 !== line) {
      const there = second[set] >> 2 === line;
      if (!there && !keeps) {
        return true;
      }
      [first[set], second[set]] = [there ? second[set] : line << 2, first[set]];
    }
    const missing = (first[set] & bit) === 0;
    if (keeps) {
      first[set] |= bit;
    }
    return missing;
  }

  // Forget the line of a word.
  drop(offset) {
    const line = (offset >> this.shift) + 1;
    const set = (line - 1) & (this.sets - 1);
    for (const way of [this.first, this.second]) {
      way[set] = way[set] >> 2 === line ? 0 : way[set];
    }
  }
}

// Who has the bus when. Cores take turns of some hundred cycles, so one may ask for a time at which the other was done long before: it
// finds the gaps between the last spans again.
export class Bus {
  constructor() {
    this.begins = new Float64Array(REMEMBERED);
    this.ends = new Float64Array(REMEMBERED);
    this.at = 0; // of the oldest
    this.free = 0; // when the last ends
  }

  // Take it for `cycles` as soon as possible after `time`; returns when that ends.
  take(time, cycles) {
    const { begins, ends } = this;
    let begin = time;
    if (time < this.free) {
      for (let k = 0; k < REMEMBERED; k++) {
        if (begins[k] < begin + cycles && ends[k] > begin) {
          begin = ends[k];
          k = -1; // those before may be in the way now
        }
      }
    }
    const end = begin + cycles;
    begins[this.at] = begin;
    ends[this.at] = end;
    this.at = (this.at + 1) % REMEMBERED;
    this.free = Math.max(this.free, end);
    return end;
  }
}
