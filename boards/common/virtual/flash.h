// Flash behind its cache: how long an access waits. Shared by hooks.c, dma.c and the page of registers in flash.py,
// which has the beginning of flash_t, too. Times are cycles of core 0 since power-on, those that it slept included.
#ifndef FLASH_H
#define FLASH_H

#include <stdint.h>

enum { SETS = 4096, SPANS = 8, DEPTH = 8, WINDOWS = 8 }; // the most of each
enum { LOOKS_UP = 1, KEEPS = 2 }; // what an access does with the cache

typedef struct flash {
    const uint8_t *bytes;
    uint32_t size, sets, shift, depth;      // shift: of an address, for its line; depth: of the stream's FIFO
    uint32_t how[WINDOWS], fills;           // by bits 24 to 26 of an address; bytes that a miss brings: a line or half
    uint32_t line, next, word, next_word;   // cycles of one, and of one that follows at once
    uint32_t window, deselect, resumes;     // cycles: in which it may follow; of another then; until the stream goes on
    uint32_t off, takes_writes;             // the cache is; a write drops its line, and is no fault
    uint32_t changes;                       // of what the cache holds
    uint32_t address, left, n, words[DEPTH]; // of the stream: where it is, words to come, and those in its FIFO
    uint64_t accesses, missed;
    // Of flash.c alone, from here on:
    uint32_t first[SETS], second[SETS];     // lines of each way, plus 1, above a bit for each half; first: used last
    int64_t begins[SPANS], ends[SPANS], free;
    uint32_t at, follows;                   // the oldest of these spans; the address that would follow the last access
    int64_t ready, arrives;                 // the stream may fetch; its word is there. NEVER: neither
    void (*delivers)(void *io);
    void *io;
} flash_t;

// Cycles that a read at `address` waits that begins at `time`.
int64_t mica_flash_wait(flash_t *f, uint32_t address, int64_t time);

// The halves of a line that an access needs, as bits.
static inline uint32_t mica_flash_halves(const flash_t *f, uint32_t address) {
    return f->fills == 4 ? 1u << (address >> 2 & 1) : 3;
}

// 0 where it is in the cache, in the line used last of its set.
static inline int mica_flash_looks(const flash_t *f, uint32_t address) {
    uint32_t line = (address & 0xffffff) >> f->shift, halves = mica_flash_halves(f, address);
    uint32_t there = f->first[line & (f->sets - 1)] ^ (line + 1) << 2;
    return f->off || there >> 2 || (there & halves) != halves;
}

// Forget a line of the cache, or all of it.
void mica_flash_forget(flash_t *f, uint32_t address, int all);

// The stream until `time`.
void mica_flash_settle(flash_t *f, int64_t time);

#endif
