// The flash cache, its bus, and the stream (RP2350 datasheet, 4.4 and 12.14): flash.h tells what is asked here.
#include "flash.h"

#include <stddef.h>
#include <string.h>

#define NEVER INT64_MAX

// Takes the bus as soon as possible after `time`; returns when that ends. Cores take turns of some hundred cycles, so
// one may ask for a time at which the other was done long before: it finds the gaps between the last spans again.
static int64_t take(flash_t *f, uint32_t address, int64_t time, uint32_t whole, uint32_t follow, uint32_t bytes) {
    int64_t begin = time;
    int near = begin <= f->free + f->window;
    int64_t cycles = near && address == f->follows ? follow : whole + (near ? f->deselect : 0);
    for (int k = 0; time < f->free && k < SPANS; k++) {
        if (f->begins[k] < begin + cycles && f->ends[k] > begin) {
            begin = f->ends[k];
            k = -1; // those before may be in the way now
        }
    }
    f->begins[f->at] = begin;
    f->ends[f->at] = begin + cycles;
    f->at = (f->at + 1) % SPANS;
    if (begin + cycles > f->free) {
        f->free = begin + cycles;
        f->follows = address + bytes;
    }
    return begin + cycles;
}

// Whether it was missing; it is there afterwards if the access keeps it.
static int misses(flash_t *f, uint32_t at, int keeps) {
    uint32_t line = at >> f->shift, set = line & (f->sets - 1), halves = mica_flash_halves(f, at);
    uint32_t *first = &f->first[set], *second = &f->second[set], older = *first;
    if (*first >> 2 != line + 1) {
        int there = *second >> 2 == line + 1;
        if (!there && !keeps) {
            return 1;
        }
        *first = there ? *second : (line + 1) << 2;
        *second = older;
        f->changes++;
    }
    int missing = (*first & halves) != halves;
    *first |= keeps ? halves : 0;
    return missing;
}

int64_t mica_flash_wait(flash_t *f, uint32_t address, int64_t time) {
    uint32_t at = address & 0xffffff, how = f->off ? 0 : f->how[address >> 24 & (WINDOWS - 1)];
    if (how && !misses(f, at, how & KEEPS) && how & LOOKS_UP) {
        return 0;
    }
    f->missed++;
    if (f->left) {
        mica_flash_settle(f, time);
    }
    int whole = how && f->fills > 4;
    int64_t end = whole ? take(f, at & -f->fills, time, f->line, f->next, f->fills) :
        take(f, at & ~3u, time, f->word, f->next_word, 4);
    if (f->ready != NEVER && f->ready < end + f->resumes) {
        f->ready = end + f->resumes;
    }
    return end - time;
}

void mica_flash_settle(flash_t *f, int64_t time) {
    for (;;) {
        if (f->arrives <= time) {
            int64_t arrived = f->arrives;
            f->arrives = NEVER;
            memcpy(&f->words[f->n++], f->bytes + (f->address & (f->size - 4)), 4);
            f->address += 4;
            f->left--;
            f->delivers(f->io);
            f->ready = f->left && f->n < f->depth ? arrived : NEVER;
        } else if (f->ready < time && f->free < time) {
            f->arrives = take(f, f->address & 0xffffff, f->ready > f->free ? f->ready : f->free, f->word, f->next_word,
                4);
            f->ready = NEVER;
        } else {
            break;
        }
    }
    if (f->arrives == NEVER && f->ready == NEVER && f->left && f->n < f->depth) {
        f->ready = time;
    }
}

// Returns how much memory it is to get.
size_t mica_flash_begin(flash_t *f) {
    if (f != NULL) {
        f->ready = f->arrives = NEVER;
        f->follows = f->changes = 1; // an address that nobody reads; not what a block that has not run was told
    }
    return sizeof(*f);
}

// Words of the stream to come; 0 ends it.
void mica_flash_stream(flash_t *f, uint32_t left, int64_t time) {
    f->left = left;
    f->ready = f->arrives = NEVER;
    mica_flash_settle(f, time);
}

// The oldest word of the stream's FIFO.
uint32_t mica_flash_pop(flash_t *f) {
    uint32_t word = f->n ? f->words[0] : 0;
    f->n -= f->n != 0;
    memmove(f->words, f->words + 1, sizeof(f->words) - sizeof(f->words[0]));
    return word;
}

// Forget the line in a place of the cache: ways stand one behind the other.
void mica_flash_forget_way(flash_t *f, uint32_t at) {
    uint32_t set = at >> f->shift & (f->sets - 1), one = at >> f->shift & f->sets;
    (one ? f->second : f->first)[set] = 0;
    f->changes++;
}

// The same for all of it, which takes the bus so many cycles.
void mica_flash_flush(flash_t *f, int64_t time, uint32_t cycles) {
    mica_flash_forget(f, 0, 1);
    take(f, 0, time, cycles, cycles, 0);
}

void mica_flash_forget(flash_t *f, uint32_t address, int all) {
    uint32_t line = (address & 0xffffff) >> f->shift, set = line & (f->sets - 1);
    if (all) {
        memset(f->first, 0, sizeof(f->first));
        memset(f->second, 0, sizeof(f->second));
    } else if (f->second[set] >> 2 == line + 1) {
        f->second[set] = 0;
    } else if (f->first[set] >> 2 == line + 1) {
        f->first[set] = 0;
    }
    f->changes++;
}

// Cycles from `time` until the bus is free.
int mica_flash_busy(const flash_t *f, int64_t time) {
    return f->free > time ? (int)(f->free - time) : 0;
}
