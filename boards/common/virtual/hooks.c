// What happens between two looks of Python at a core: Unicorn calls these functions, through a table of its own that
// native.py fills. They count each block of code that is executed, end a turn in time, answer the registers that are
// read most, and let two cores take turns.
//
// Nothing of Unicorn's is included: the names below are its interface as far as it is used.
#include <string.h>

#include "cycles.h"
#include "flash.h"

enum { PRIMASK, BASEPRI, FAULTMASK, PROGRAM_COUNTER, LINK, REGISTERS };
enum { GOES_ON, SLEEPS_FOR_EVENT, INVALID, EXCEPTION }; // why a turn has ended; GOES_ON: its time is over
enum { NOW = 0, WFE = 0xbf20, SEV = 0xbf40, ENDS_NOWHERE = 0xfffffffe, PAGE = 12, LITERALS = 6, WRITE_PROTECTED = 12 };

typedef struct {
    void (*stop)(void *uc);
    int (*start)(void *uc, uint64_t begin, uint64_t until, uint64_t timeout, size_t count);
    int (*read_register)(void *uc, int number, void *value);
    int numbers[REGISTERS];
} unicorn_t;

// A block of code that ran: what it has cost since it was last asked for, and what each time costs. `sum` tells that
// RAM has other code there since.
typedef struct {
    uint64_t all_instructions, all_cycles;
    uint32_t sum;
    uint16_t size, instructions, cycles;
    uint8_t taken, events;
    uint32_t seen;              // flash_t.changes when all of its lines were in the cache
    uint16_t literals, literal[LITERALS]; // offsets of words that it loads from among code
} block_t;

typedef struct {
    uint32_t base, size, changes; // changes: code there may be written over
    const uint8_t *bytes;
    block_t *blocks; // one for each halfword
} memory_t;

typedef struct core {
    void *uc;
    const unicorn_t *unicorn;
    memory_t *memories; // flash is the first
    struct core *other; // NULL while there is none
    int64_t cycles, instructions, limit;
    int64_t until; // cycle at which Python looks again; a register may bring it forward, or say NOW
    uint32_t number, pc, why, exception;
    uint32_t event; // of WFE
    uint32_t masked; // an interrupt waits for the masks below to change
    uint32_t masks[3];
    uint32_t next; // address behind the block that ran last
    block_t *last; // that block; NULL in the boot ROM
    uint32_t error;
    uint32_t address; // that an access found nothing at
    flash_t *flash;       // NULL: it never waits
    const uint8_t *pages; // which of flash are memory for Unicorn; all others are registers
    int64_t ahead, waits; // of its cycles: flash's time; those in which it has waited, of all
    uint32_t wrote;       // it has written to flash
    decode_t *decode;     // its table of cycles
    // Cycles of functions of the boot ROM that begin from `first_free` on, by address: what is executed there takes no
    // time. A call from the ROM itself takes none, too.
    const uint8_t *costs;
    uint32_t first_free, rom_bytes;
    uint32_t divider[7]; // the RP2040's registers
} core_t;

static void wait_for(core_t *c, uint32_t address) {
    int64_t n = mica_flash_wait(c->flash, address, c->cycles + c->ahead);
    c->cycles += n;
    c->waits += n;
}

static int masks_changed(core_t *c) {
    for (int k = PRIMASK; k <= FAULTMASK; k++) {
        uint32_t now = 0;
        c->unicorn->read_register(c->uc, c->unicorn->numbers[k], &now);
        if (now != c->masks[k]) {
            return 1;
        }
    }
    return 0;
}

static uint32_t sum_of(const uint8_t *code, uint32_t size) {
    uint32_t sum = size;
    for (uint32_t at = 0; at < size; at++) {
        sum = sum * 31 + code[at];
    }
    return sum;
}

// Where a load from among code finds its word, from the instruction's place in the pipe; 0: it is none, and one in
// front of it is not seen.
static uint32_t literal_of(const uint8_t *code, uint32_t size) {
    if (code[1] >> 3 == 9) { // LDR
        return 4u * code[0];
    }
    if (size < 4 || !(code[0] & 0x80)) {
        return 0;
    }
    uint32_t second = code[2] | (uint32_t)code[3] << 8;
    int one = code[1] == 0xf8 && (code[0] & 0x7f) == 0x5f, of_floats = code[1] == 0xed && (code[0] & 0x3f) == 0x1f;
    return one ? second & 0xfff : of_floats ? 4 * (second & 0xff) : 0;
}

static void decode(decode_t *table, const uint8_t *code, uint32_t address, uint32_t size, block_t *b) {
    instruction_t kept[2];
    count_t count = { 0, 0, 0, NULL };
    b->events = 0;
    for (uint32_t at = 0; at + 2 <= size;) {
        instruction_t *i = &kept[count.instructions & 1];
        uint32_t first = code[at] | (uint32_t)code[at + 1] << 8;
        memset(i, 0, sizeof(*i));
        i->address = at;
        i->bytes = first >> 11 >= 0x1d ? 4 : 2;
        table(code + at, i);
        cycles_count(&count, i);
        b->events |= first == SEV;
        at += i->bytes;
    }
    b->literals = 0;
    for (uint32_t at = 0; at + 2 <= size && b->literals < LITERALS; at += code[at + 1] >> 3 >= 0x1d ? 4 : 2) {
        uint32_t offset = literal_of(code + at, size - at);
        if (offset) {
            b->literal[b->literals++] = (uint16_t)(((address + at + 4) & ~3u) - address + offset);
        }
    }
    b->seen = 0;
    b->taken = count.last ? count.last->taken : 0;
    b->size = (uint16_t)size;
    b->instructions = (uint16_t)count.instructions;
    b->cycles = (uint16_t)count.cycles;
}

// The lines of a block in flash. They are there if nothing has changed since it ran last.
static void look_up(core_t *c, block_t *b, uint32_t at) {
    flash_t *f = c->flash;
    f->accesses += (b->size + 3u) / 4;
    if (b->seen == f->changes && !f->off) {
        return;
    }
    for (uint32_t a = at & -f->fills; a < at + b->size; a += f->fills) {
        if (mica_flash_looks(f, a)) {
            wait_for(c, a);
        }
    }
    for (int k = 0; k < b->literals; k++) {
        uint32_t a = at + b->literal[k];
        if (a < f->size && c->pages[a >> PAGE] && mica_flash_looks(f, a)) {
            wait_for(c, a);
        }
    }
    b->seen = f->changes;
}

void mica_block(void *uc, uint64_t address, uint32_t size, core_t *c) {
    if (c->cycles >= c->limit || (c->masked && masks_changed(c))) {
        c->unicorn->stop(uc); // before the block is executed
        return;
    }
    if (c->last != NULL && (uint32_t)address != c->next) {
        c->cycles += c->last->taken;
        c->last->all_cycles += c->last->taken;
    }
    c->last = NULL;
    c->next = (uint32_t)address + size;
    if (address - c->first_free < c->rom_bytes - c->first_free) {
        uint32_t cost = c->costs[address], link = 0;
        if (cost) {
            c->unicorn->read_register(uc, c->unicorn->numbers[LINK], &link);
        }
        c->cycles += link >= c->rom_bytes ? cost : 0;
        return;
    }
    for (const memory_t *m = c->memories; m->bytes != NULL; m++) {
        uint32_t at = (uint32_t)address - m->base;
        if (at >= m->size) {
            continue;
        }
        block_t *b = m->blocks + (at >> 1);
        uint32_t sum = m->changes ? sum_of(m->bytes + at, size) : b->sum;
        if (b->size != size || b->sum != sum) {
            decode(c->decode, m->bytes + at, (uint32_t)address, size, b);
            b->sum = sum;
        }
        if (c->flash != NULL && m == c->memories) {
            look_up(c, b, at);
        }
        c->instructions += b->instructions;
        c->cycles += b->cycles;
        b->all_instructions += b->instructions;
        b->all_cycles += b->cycles;
        c->last = b;
        if (b->events) {
            c->event = 1;
            if (c->other != NULL) {
                c->other->event = 1;
                if (c->other->why == SLEEPS_FOR_EVENT) {
                    c->limit = c->cycles;
                    c->until = NOW;
                }
            }
        }
        return;
    }
    c->instructions++; // in the boot ROM
    c->cycles++;
}

// WFE ends Unicorn's turn as an instruction that it lacks. Returns whether it goes on.
int mica_invalid(void *uc, core_t *c) {
    uint32_t pc = 0;
    c->unicorn->read_register(uc, c->unicorn->numbers[PROGRAM_COUNTER], &pc);
    pc -= 2;
    c->why = INVALID;
    for (const memory_t *m = c->memories; m->bytes != NULL; m++) {
        if (pc - m->base < m->size && m->bytes[pc - m->base] == (WFE & 0xff)
            && m->bytes[pc - m->base + 1] == WFE >> 8) {
            c->why = c->event ? GOES_ON : SLEEPS_FOR_EVENT;
            c->event = 0;
        }
    }
    return c->why == GOES_ON;
}

void mica_exception(void *uc, uint32_t number, core_t *c) {
    c->why = EXCEPTION;
    c->exception = number;
    c->unicorn->stop(uc);
}

// Nothing is there, or it may not be written. The board stops.
int mica_no_memory(void *uc, int kind, uint64_t address, int size, int64_t value, core_t *c) {
    (void)uc, (void)kind, (void)size, (void)value;
    c->address = (uint32_t)address;
    return 0;
}

// --- registers

typedef struct {
    core_t *core;
    uint64_t base;
    uint64_t (*read)(uint64_t address, unsigned size);
    void (*write)(uint64_t address, unsigned size, uint64_t value);
    uint8_t *memory; // not NULL: it is memory, and `write` is told of what goes between these two
    uint64_t from, to;
    uint32_t has_number;     // its first register is the core's number
    int32_t reading, writing; // cycles that it takes, beyond those of memory
} registers_t;

// The RP2040's divider, of each core, which is ready at once: pico-sdk waits for it. (RP2040 datasheet, 2.3.1.5.)
enum { DIVIDER = 0x60, DIVIDER_END = 0x7c, SIGNED = 2, QUOTIENT = 4, REMAINDER, STATE };

static void divide(core_t *c, int is_signed) {
    uint32_t *d = c->divider;
    int64_t n = is_signed ? (int32_t)d[0] : (int64_t)d[0], by = is_signed ? (int32_t)d[1] : (int64_t)d[1];
    d[QUOTIENT] = (uint32_t)(by ? n / by : is_signed && n < 0 ? 1 : -1);
    d[REMAINDER] = (uint32_t)(by ? n % by : n);
    d[STATE] = 3;
}

static uint32_t divider_read(core_t *c, uint32_t k) {
    c->divider[STATE] &= k == QUOTIENT ? ~2u : ~0u;
    return c->divider[k < QUOTIENT ? k & 1 : k];
}

static void divider_write(core_t *c, uint32_t k, uint32_t value) {
    c->divider[k < QUOTIENT ? k & 1 : k] = value;
    if (k < QUOTIENT) {
        divide(c, k & SIGNED);
    } else {
        c->divider[STATE] = 3;
    }
}

uint64_t mica_read(void *uc, uint64_t offset, unsigned size, registers_t *r) {
    (void)uc;
    r->core->cycles += r->reading;
    if (r->memory != NULL) {
        uint64_t value = 0;
        memcpy(&value, r->memory + offset, size);
        return value;
    }
    if (r->has_number && offset == 0) {
        return r->core->number;
    }
    if (r->has_number && r->core->costs != NULL && offset - DIVIDER < DIVIDER_END - DIVIDER) {
        return divider_read(r->core, (uint32_t)(offset - DIVIDER) / 4);
    }
    return r->read(r->base + offset, size);
}

void mica_write(void *uc, uint64_t offset, unsigned size, uint64_t value, registers_t *r) {
    (void)uc;
    r->core->cycles += r->writing;
    if (r->memory != NULL) {
        memcpy(r->memory + offset, &value, size);
        if (offset < r->from || offset >= r->to) {
            return;
        }
    }
    if (r->has_number && r->core->costs != NULL && offset - DIVIDER < DIVIDER_END - DIVIDER) {
        divider_write(r->core, (uint32_t)(offset - DIVIDER) / 4, (uint32_t)value);
        return;
    }
    r->write(r->base + offset, size, value);
}

// A part of flash that holds data.
typedef struct {
    core_t *core;
    uint32_t address, cached;
} data_t;

uint64_t mica_flash_read(void *uc, uint64_t offset, unsigned size, data_t *p) {
    (void)uc;
    uint32_t at = (p->address + (uint32_t)offset) & 0xffffff;
    uint64_t value = 0;
    flash_t *f = p->core->flash;
    memcpy(&value, f->bytes + at, size);
    f->accesses++;
    if (!p->cached || mica_flash_looks(f, at)) {
        wait_for(p->core, p->address + (uint32_t)offset);
    }
    return value;
}

void mica_flash_write(void *uc, uint64_t offset, unsigned size, uint64_t value, data_t *p) {
    (void)size, (void)value;
    if (p->core->flash->takes_writes) {
        mica_flash_forget(p->core->flash, p->address + (uint32_t)offset, 0);
        return;
    }
    p->core->address = p->address + (uint32_t)offset;
    p->core->wrote = 1;
    p->core->unicorn->stop(uc);
}

// --- turns

// Runs one core until its cycle `limit`, or until something happens; `why` tells what.
static void run(core_t *c, int64_t limit) {
    c->limit = limit;
    c->why = GOES_ON;
    c->error = 0;
    if (c->cycles >= limit) { // stopped before its first block, Unicorn would tell of the last exception again
        return;
    }
    c->error = (uint32_t)c->unicorn->start(c->uc, c->pc | 1, ENDS_NOWHERE, 0, 0);
    c->unicorn->read_register(c->uc, c->unicorn->numbers[PROGRAM_COUNTER], &c->pc);
    c->error = c->wrote ? WRITE_PROTECTED : c->error;
}

// Before its time was over: also by WFI, or by a mask that has changed; or a register says so, maybe in its last block.
static int ended(const core_t *c, int64_t limit) {
    return c->why != GOES_ON || c->error != 0 || c->cycles < limit || c->until == NOW;
}

static int64_t turn_ends(const core_t *c, int64_t cycles, int64_t limit) {
    limit = c->until < limit ? c->until : limit;
    return c->cycles + cycles < limit ? c->cycles + cycles : limit;
}

// Both in turns of `quantum` cycles, until `first` has come to `limit`, or something happens to one of them. Each is
// the first of every other turn, for whoever is finds the bus of flash free. Returns whether something happened.
static int run_both(core_t *first, core_t *second, int64_t limit, int64_t quantum) {
    int64_t lead = second->cycles - first->cycles;
    second->ahead = first->ahead - lead;
    first->why = second->why = GOES_ON;
    first->error = second->error = 0;
    first->limit = first->cycles;
    second->limit = second->cycles;
    for (int turn = 0; first->cycles < limit && first->cycles < first->until; turn ^= 1) {
        int64_t to = turn_ends(first, quantum, limit), end = turn ? to + lead : to;
        core_t *c = turn ? second : first, *other = turn ? first : second;
        run(c, end);
        if (ended(c, end)) {
            return 1;
        }
        end = turn ? turn_ends(first, c->cycles - lead - first->cycles, limit) : c->cycles + lead;
        run(other, end);
        if (ended(other, end)) {
            return 1;
        }
    }
    return 0;
}

struct io;
int mica_io_step(struct io *io, int64_t until, int ends); // pio.c

// One core, or both (second is not NULL). Where `slice` is not 0, PIO's machines step after each so many cycles, and an
// interrupt of theirs ends the turn; their time is `from` before the first core's first cycle.
void mica_run(core_t *first, core_t *second, int64_t limit, int64_t quantum, struct io *io, int64_t from,
    int64_t slice) {
    int ends = 0;
    first->why = GOES_ON; // also where waits have used up its time
    first->error = 0;
    first->until = limit;
    if (second != NULL) {
        second->until = limit;
    }
    while (!ends && first->cycles < first->until) {
        int64_t end = slice ? turn_ends(first, slice, limit) : limit;
        if (second == NULL) {
            run(first, end);
        }
        ends = second == NULL ? ended(first, end) : run_both(first, second, end, quantum);
        ends |= slice && mica_io_step(io, from + 256 * first->cycles, 0);
    }
}
