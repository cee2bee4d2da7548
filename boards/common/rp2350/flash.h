// Flash behind its cache: how long an access waits. Shared by hooks.c, dma.c and the page of registers in flash.py, which has the
// beginning of flash_t, too. Times are cycles of core 0 since power-on, those that it slept included.
#ifndef RP2350_FLASH_H
#define RP2350_FLASH_H

#include <stdint.h>

enum { SETS = 4096, SPANS = 8, DEPTH = 8 }; // the most of each

typedef struct flash {
    const uint8_t *bytes;
    uint32_t size, sets, shift, depth;      // shift: of an address, for its line; depth: of the stream's FIFO
    uint32_t line, next, word, next_word;   // cycles of one, and of one that follows at once
    uint32_t window, deselect, resumes;     // cycles: in which it may follow; that another costs then; after which the stream goes on
    uint32_t off;                           // the cache is
    uint32_t changes;                       // of what the cache holds
    uint32_t address, left, n, words[DEPTH]; // of the stream: where it is, words to come, and those in its FIFO
    uint64_t accesses, missed;
    // Of flash.c alone, from here on:
    uint32_t first[SETS], second[SETS];     // lines that each way has, plus 1; the first was used last
    int64_t begins[SPANS], ends[SPANS], free;
    uint32_t at, follows;                   // the oldest of these spans; the address that would follow the last access
    int64_t ready, arrives;                 // the stream may fetch; its word is there. NEVER: neither
    void (*delivers)(void *io);
    void *io;
} flash_t;

// Cycles that a read at `address` waits that begins at `time`; a line goes into the cache unless it is read past it.
int64_t mica_flash_wait(flash_t *f, uint32_t address, int64_t time, int cached);

// 0 where the line is in the cache and the one used last of its set.
static inline int mica_flash_looks(const flash_t *f, uint32_t address) {
    uint32_t line = (address & 0xffffff) >> f->shift;
    return f->off || f->first[line & (f->sets - 1)] != line + 1;
}

// The stream until `time`.
void mica_flash_settle(flash_t *f, int64_t time);

#endif
