// The cache in front of flash, and the bus behind it: which words a chip has, and until when somebody waits. The
// geometry is that of boards/common/flash.json. Times are cycles of core 0 since power-on, those that it slept included.

const REMEMBERED = 8; // spans of the bus that one core has taken ahead of the other

// Words of flash in two ways. `first` and `second` have a number for each word that a way can hold, in the order of addresses: which part of
// flash it comes from, or -1. The first is the way that was used last.
export class Cache {
  constructor({ bytes, ways, line }, filled) {
    if (ways !== 2) {
      throw new Error(`a cache of ${ways} ways`);
    }
    this.words = bytes / ways / 4;
    this.perLine = line / 4;
    this.shift = Math.log2(this.words);
    this.fills = filled / 4; // words that a miss brings
    this.first = new Int32Array(this.words);
    this.second = new Int32Array(this.words);
    this.lines = [0, 1].map(() => new Int32Array(this.words / this.perLine)); // the same for a line, whichever of its words are there
    this.flush();
  }

  flush() {
    for (const part of [this.first, this.second, ...this.lines]) {
      part.fill(-1);
    }
  }

  // Look up a word by its number in flash; true if it was missing. It is there afterwards, if `allocates`.
  misses(word, allocates = true) {
    const { first, second, perLine } = this;
    const [newer, older] = this.lines;
    const index = word & (this.words - 1);
    const part = word >> this.shift;
    if (first[index] === part) {
      return false;
    }
    const line = Math.trunc(index / perLine);
    const begin = line * perLine;
    if (newer[line] !== part) {
      if (older[line] !== part && !allocates) {
        return true;
      }
      for (let k = begin; k < begin + perLine; k++) {
        const kept = first[k];
        first[k] = older[line] === part ? second[k] : -1;
        second[k] = kept;
      }
      older[line] = newer[line];
      newer[line] = part;
    }
    if (first[index] === part) {
      return false;
    }
    if (allocates) {
      const from = index - (index % this.fills);
      first.fill(part, from, from + this.fills);
    }
    return true;
  }

  // Forget the line of a word.
  drop(word) {
    const index = word & (this.words - 1);
    const part = word >> this.shift;
    const line = Math.trunc(index / this.perLine);
    const begin = line * this.perLine;
    if (this.lines[0][line] === part) {
      this.first.fill(-1, begin, begin + this.perLine);
    } else if (this.lines[1][line] === part) {
      this.second.fill(-1, begin, begin + this.perLine);
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
