// PIO and DMA of the virtual Pico 2, and the microphone at its pins. State machines step while they are enabled, in the order of
// time, which is in 1/256 of a cycle: the unit of their dividers. Registers and instructions: RP2350 datasheet, 11 and 12.6.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PIOS = 3, MACHINES = 4, CHANNELS = 16, WORDS = 0x1000 / 4, CODE = 0x48 / 4, FIRST = 0xc8, EACH = 0x18 };
enum { CLKDIV, EXECCTRL, SHIFTCTRL, ADDR, INSTR, PINCTRL };                                 // of a machine
enum { FDEBUG = 0x08 / 4, FLAGS = 0x30 / 4, OUT = 0x3c / 4, DIRECTION = 0x40 / 4, INTE = 0x170 / 4, INTF }; // of a block
enum { RXSTALL = 0, RXUNDER = 8, TXOVER = 16, TXSTALL = 24 };                               // bits of FDEBUG
enum { READ_ADDR, WRITE_ADDR, TRANS_COUNT, CTRL };                                          // of a channel of DMA
enum { PINS, TO_X, TO_Y, NOWHERE, DIRECTIONS, TO_PC, TO_ISR, EXECUTE, TO_OSR };             // of OUT and SET; MOV has its own
enum { ENDED = 1, OTHER_RATE = 2 };                                                         // what a source has to say
static const uint32_t RAM = 0x20000000, FLASH = 0x10000000, DMA_AT = 0x50000000, PIO_AT = 0x50200000;

typedef struct {
    uint32_t words[8], size, at, n;
} fifo_t;

typedef struct {
    uint32_t *registers, k; // in its block's; its number
    uint32_t pc, x, y, isr, osr, in_bits, out_bits;
    uint32_t enabled, jumped, has_exec, exec, waits; // waits: for the flag that it has set
    uint32_t stalled, seen;                          // stalled: since io_t.changes was `seen`
    fifo_t rx, tx;
    int64_t due;
} machine_t;

typedef struct {
    uint32_t words[WORDS]; // registers that keep what is written
    machine_t machines[MACHINES];
} pio_t;

// What sounds at a pin of data: at an edge of its clock it gives that pin a level. pio.py has the beginning, too.
typedef struct {
    uint32_t kind, clock, select, data; // kind: of EDGES; masks of pins
    uint32_t rate, count, news, got;    // news: what is to be said; got: the rate at which it is read
    const int16_t *samples;
    uint32_t at, word, right, next, told, pause; // pause: nanoseconds without a clock, after which the recording begins again
    int64_t rose, begun;
} source_t;

typedef struct {
    uint8_t *ram;
    const uint8_t *flash;
    uint32_t (*read)(uint32_t address, uint32_t size);
    void (*write)(uint32_t address, uint32_t size, uint32_t value);
    uint64_t asked; // requests of other blocks, a bit each
    double second;  // in our unit of time
    int64_t now;
    uint32_t ram_bytes, flash_bytes;
    uint32_t outside, sio_out, sio_drives; // levels from outside, and by SIO
    uint32_t functions[PIOS];              // pins that are each block's
    uint32_t lines;                        // interrupts, a bit each
    uint32_t busy;                         // a machine has something to do
    uint32_t changes;                      // of FIFOs, flags and pins
    uint32_t unknown;                      // what was read or written last is not modelled
    uint32_t pads;
    source_t source;
    // Of this file alone, from here on:
    uint32_t words[WORDS], raw, serves; // of DMA
    uint32_t left[CHANNELS];    // transfers; 0: the channel is at rest
    pio_t pios[PIOS];
} io_t;

static uint32_t bits(uint32_t word, uint32_t at, uint32_t n) {
    return word >> at & (n < 32 ? (1u << n) - 1 : ~0u);
}

static uint32_t threshold(const machine_t *m, uint32_t at) {
    uint32_t n = bits(m->registers[SHIFTCTRL], at, 5);
    return n ? n : 32;
}

static int push(io_t *io, fifo_t *f, uint32_t word) {
    if (f->n == f->size) {
        return 0;
    }
    f->words[(f->at + f->n++) % f->size] = word;
    io->changes++;
    return 1;
}

static int pull(io_t *io, fifo_t *f, uint32_t *word) {
    if (f->n == 0) {
        return 0;
    }
    *word = f->words[f->at++ % f->size];
    f->n--;
    io->changes++;
    return 1;
}

// --- sound

static uint32_t next_sample(const io_t *io, source_t *s) {
    double took = (double)(io->now - s->begun) * s->rate / io->second; // in samples
    uint32_t news = 0;
    if (s->begun != 0 && (took < 0.99 || took > 1.01)) {
        news = OTHER_RATE;
        s->got = (uint32_t)(s->rate / took + 0.5);
    } else if (s->at >= s->count) {
        news = ENDED;
    }
    s->begun = io->now;
    s->news |= news & ~s->told;
    s->told |= news;
    return news ? 0 : (uint32_t)(uint16_t)s->samples[s->at++] << 16;
}

// An INMP441: the next sample is the left word of an I2S frame, 24 bits of 32; the right word is another's.
static int i2s_edge(const io_t *io, source_t *s, int rises) {
    if (rises) {
        if ((double)(io->now - s->rose) > s->pause / 1e9 * io->second) {
            s->at = s->right = s->told = 0;
            s->begun = 0;
        }
        s->rose = io->now;
        s->next = (io->pads & s->select) != 0;
    } else if (s->next == s->right) {
        s->word <<= 1;
    } else {
        s->right = s->next;
        s->word = s->right ? 0 : next_sample(io, s);
    }
    return (int)(s->word >> 31);
}

static int (*const EDGES[])(const io_t *io, source_t *s, int rises) = { NULL, i2s_edge };

// --- pins

void mica_io_pins(io_t *io) {
    source_t *s = &io->source;
    uint32_t before = io->pads, pads = (io->outside & ~io->sio_drives) | (io->sio_out & io->sio_drives);
    for (int k = 0; k < PIOS; k++) {
        uint32_t drives = io->functions[k] & io->pios[k].words[DIRECTION];
        pads = (pads & ~drives) | (io->pios[k].words[OUT] & drives);
    }
    io->pads = pads;
    if (s->kind && (pads ^ before) & s->clock) {
        io->outside = (io->outside & ~s->data) | (EDGES[s->kind](io, s, (pads & s->clock) != 0) ? s->data : 0);
        io->pads = (pads & ~s->data) | (io->outside & s->data);
    }
    io->changes += io->pads != before;
}

static void put(uint32_t *word, uint32_t value, uint32_t base, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) {
        uint32_t bit = 1u << ((base + k) & 31);
        *word = value >> k & 1 ? *word | bit : *word & ~bit;
    }
}

static uint32_t in_pins(const io_t *io, const machine_t *m) {
    uint32_t base = bits(m->registers[PINCTRL], 15, 5), n = bits(m->registers[SHIFTCTRL], 0, 5);
    return bits((uint32_t)((uint64_t)io->pads << 32 >> base >> 32 | (uint64_t)io->pads << 32 >> base), 0, n ? n : 32);
}

// --- instructions: those that may stall return 0 where they do

static uint32_t operand(const io_t *io, const pio_t *p, const machine_t *m, uint32_t from) {
    uint32_t control = m->registers[EXECCTRL], n = bits(control, 0, 5), kind = bits(control, 5, 2);
    uint32_t status = kind == 0 ? m->tx.n < n : kind == 1 ? m->rx.n < n : p->words[FLAGS] >> (n & 7) & 1;
    const uint32_t values[8] = { from ? 0 : in_pins(io, m), m->x, m->y, 0, 0, 0u - status, m->isr, m->osr };
    return values[from];
}

// pins: what PINCTRL has of them, base and number
static void give(pio_t *p, machine_t *m, uint32_t to, uint32_t value, uint32_t base, uint32_t n) {
    uint32_t *const places[] = { NULL, &m->x, &m->y, NULL, NULL, &m->pc, &m->isr, &m->exec, &m->osr };
    if (to == PINS || to == DIRECTIONS) {
        put(&p->words[to == PINS ? OUT : DIRECTION], value, base, n);
    } else if (to != NOWHERE) {
        *places[to] = to == TO_PC ? value & 31 : value;
        m->jumped |= to == TO_PC;
        m->has_exec |= to == EXECUTE;
    }
}

static void out(pio_t *p, machine_t *m, uint32_t to, uint32_t value) {
    give(p, m, to, value, bits(m->registers[PINCTRL], 0, 5), bits(m->registers[PINCTRL], 20, 6));
}

static int jump(io_t *io, pio_t *p, machine_t *m, uint32_t op) {
    uint32_t kind = bits(op, 5, 3), pin = io->pads >> bits(m->registers[EXECCTRL], 24, 5) & 1, left = m->out_bits < threshold(m, 25);
    const uint32_t met[8] = { 1, m->x == 0, m->x != 0, m->y == 0, m->y != 0, m->x != m->y, pin, left };
    m->x -= kind == 2;
    m->y -= kind == 4;
    if (met[kind]) {
        out(p, m, TO_PC, op);
    }
    return 1;
}

// A flag of this block or of the one before or behind it, by the machine's number where the instruction says so.
static uint32_t flag(io_t *io, pio_t **p, const machine_t *m, uint32_t op) {
    uint32_t kind = bits(op, 3, 2), from = (uint32_t)(*p - io->pios);
    *p = &io->pios[(from + (kind == 1 ? PIOS - 1 : kind == 3)) % PIOS];
    return 1u << (kind == 2 ? (op & 4) | ((op + m->k) & 3) : op & 7);
}

static int wait_for(io_t *io, pio_t *p, machine_t *m, uint32_t op) {
    uint32_t kind = bits(op, 5, 2), to = op >> 7 & 1;
    if (kind != 2) {
        uint32_t base = kind == 1 ? bits(m->registers[PINCTRL], 15, 5) : kind == 3 ? bits(m->registers[EXECCTRL], 24, 5) : 0;
        return (io->pads >> ((base + op) & 31) & 1) == to;
    }
    uint32_t bit = flag(io, &p, m, op), is = (p->words[FLAGS] & bit) != 0;
    if (is && to) {
        p->words[FLAGS] &= ~bit;
        io->changes++;
    }
    return is == to;
}

static int raise_flag(io_t *io, pio_t *p, machine_t *m, uint32_t op) {
    uint32_t bit = flag(io, &p, m, op), *flags = &p->words[FLAGS];
    if (!m->waits) {
        *flags = op >> 6 & 1 ? *flags & ~bit : *flags | bit;
        io->changes++;
    }
    m->waits = bits(op, 5, 2) == 1 && *flags & bit;
    return !m->waits;
}

static int shift_in(io_t *io, pio_t *p, machine_t *m, uint32_t op) {
    uint32_t n = op & 31 ? op & 31 : 32, all = m->in_bits + n > 32 ? 32 : m->in_bits + n;
    uint64_t value = bits(operand(io, p, m, bits(op, 5, 3)), 0, n);
    int pushes = m->registers[SHIFTCTRL] >> 16 & 1 && all >= threshold(m, 20);
    if (pushes && m->rx.n == m->rx.size) {
        p->words[FDEBUG] |= 1u << (RXSTALL + m->k);
        return 0;
    }
    m->isr = (uint32_t)(m->registers[SHIFTCTRL] >> 18 & 1 ? (value << 32 | m->isr) >> n : (uint64_t)m->isr << n | value);
    m->in_bits = all;
    if (pushes) {
        push(io, &m->rx, m->isr);
        m->isr = m->in_bits = 0;
    }
    return 1;
}

static int shift_out(io_t *io, pio_t *p, machine_t *m, uint32_t op) {
    (void)io;
    uint32_t n = op & 31 ? op & 31 : 32, right = m->registers[SHIFTCTRL] >> 19 & 1, osr = m->osr;
    if (m->registers[SHIFTCTRL] >> 17 & 1 && m->out_bits >= threshold(m, 25)) {
        p->words[FDEBUG] |= (uint32_t)(m->tx.n == 0) << (TXSTALL + m->k);
        return 0; // the next word comes at the end of this cycle
    }
    m->osr = (uint32_t)(right ? (uint64_t)osr >> n : (uint64_t)osr << n);
    m->out_bits = m->out_bits + n > 32 ? 32 : m->out_bits + n;
    m->in_bits = bits(op, 5, 3) == TO_ISR ? n : m->in_bits;
    out(p, m, bits(op, 5, 3), right ? bits(osr, 0, n) : osr >> (32 - n));
    return 1;
}

static int push_or_pull(io_t *io, pio_t *p, machine_t *m, uint32_t op) {
    uint32_t pulls = op >> 7 & 1, moved = pulls ? m->out_bits : m->in_bits, full = m->registers[SHIFTCTRL] >> 17 & 1 && m->out_bits == 0;
    io->unknown |= (op & 0x1f) != 0; // words of the FIFO by number
    if ((pulls && full) || (op >> 6 & 1 && moved < threshold(m, pulls ? 25 : 20))) {
        return 1;
    }
    if (!(pulls ? pull(io, &m->tx, &m->osr) : push(io, &m->rx, m->isr))) {
        p->words[FDEBUG] |= 1u << ((pulls ? TXSTALL : RXSTALL) + m->k);
        if (op >> 5 & 1) {
            return 0;
        }
        m->osr = pulls ? m->x : m->osr;
    }
    if (pulls) {
        m->out_bits = 0;
    } else {
        m->isr = m->in_bits = 0;
    }
    return 1;
}

static int move(io_t *io, pio_t *p, machine_t *m, uint32_t op) {
    static const uint8_t to[8] = { PINS, TO_X, TO_Y, DIRECTIONS, EXECUTE, TO_PC, TO_ISR, TO_OSR };
    uint32_t value = operand(io, p, m, bits(op, 0, 3)), old = value, kind = bits(op, 3, 2);
    for (int k = 0; kind == 2 && k < 32; k++) {
        value = value << 1 | (old >> k & 1);
    }
    m->in_bits = to[bits(op, 5, 3)] == TO_ISR ? 0 : m->in_bits;
    m->out_bits = to[bits(op, 5, 3)] == TO_OSR ? 0 : m->out_bits;
    out(p, m, to[bits(op, 5, 3)], kind == 1 ? ~value : value);
    return 1;
}

static int set(io_t *io, pio_t *p, machine_t *m, uint32_t op) {
    (void)io;
    give(p, m, bits(op, 5, 3), op & 31, bits(m->registers[PINCTRL], 5, 5), bits(m->registers[PINCTRL], 26, 3));
    return 1;
}

static int (*const EXECUTED[8])(io_t *io, pio_t *p, machine_t *m, uint32_t op) = {
    jump, wait_for, shift_in, shift_out, push_or_pull, move, raise_flag, set,
};

static int64_t period(const machine_t *m) {
    uint32_t whole = m->registers[CLKDIV] >> 16;
    return (int64_t)(whole ? whole : 65536) * 256 + bits(m->registers[CLKDIV], 8, 8);
}

static void step(io_t *io, pio_t *p, machine_t *m) {
    uint32_t forced = m->has_exec, op = forced ? m->exec : p->words[CODE + m->pc], control = m->registers[EXECCTRL];
    uint32_t n = bits(m->registers[PINCTRL], 29, 3), field = bits(op, 8, 5), side = field >> (5 - n), optional = control >> 30 & 1;
    m->has_exec = m->jumped = 0;
    int done = EXECUTED[op >> 13](io, p, m, op);
    if (n > optional && (!optional || side >> (n - 1) & 1)) {
        put(&p->words[control >> 29 & 1 ? DIRECTION : OUT], side, bits(m->registers[PINCTRL], 10, 5), n - optional);
    }
    if (m->registers[SHIFTCTRL] >> 17 & 1 && m->out_bits >= threshold(m, 25) && pull(io, &m->tx, &m->osr)) {
        m->out_bits = 0;
    }
    mica_io_pins(io);
    m->due += period(m) * (done ? 1 + bits(field, 0, 5 - n) : 1);
    m->stalled = !done;
    m->seen = io->changes;
    if (!done && forced) {
        give(p, m, EXECUTE, op, 0, 0);
    } else if (done && !forced && !m->jumped) {
        m->pc = m->pc == bits(control, 12, 5) ? bits(control, 7, 5) : (m->pc + 1) & 31;
    }
}

// --- DMA

static uint32_t bus_read(io_t *io, uint32_t address, uint32_t size);
static void bus_write(io_t *io, uint32_t address, uint32_t size, uint32_t value);

static int ready(const io_t *io, uint32_t asks) {
    const machine_t *m = &io->pios[asks >> 3 < PIOS ? asks >> 3 : 0].machines[asks & 3];
    return asks < 8 * PIOS ? (asks & 4 ? m->rx.n != 0 : m->tx.n < m->tx.size) : asks == 63 || io->asked >> asks & 1;
}

static void start(io_t *io, uint32_t k) {
    if (io->words[16 * k + CTRL] & 1 && !io->left[k]) {
        io->left[k] = bits(io->words[16 * k + TRANS_COUNT], 0, 28);
    }
}

static void advance(uint32_t *address, uint32_t size, uint32_t ring) {
    uint32_t mask = ring ? (1u << ring) - 1 : ~0u;
    *address = (*address & ~mask) | ((*address + size) & mask);
}

static void transfer(io_t *io, uint32_t k) {
    uint32_t *c = &io->words[16 * k], size = 1u << bits(c[CTRL], 2, 2), ring = bits(c[CTRL], 8, 4), of_write = c[CTRL] >> 12 & 1;
    uint32_t value = bus_read(io, c[READ_ADDR], size), mode = c[TRANS_COUNT] >> 28, chain = bits(c[CTRL], 13, 4);
    if (c[CTRL] >> 24 & 1) {
        value = __builtin_bswap32(value) >> (32 - 8 * size);
    }
    bus_write(io, c[WRITE_ADDR], size, value);
    if (c[CTRL] >> 4 & 1) {
        advance(&c[READ_ADDR], size, of_write ? 0 : ring);
    }
    if (c[CTRL] >> 6 & 1) {
        advance(&c[WRITE_ADDR], size, of_write ? ring : 0);
    }
    if (mode != 15 && --io->left[k] == 0) { // 15: without an end
        io->raw |= c[CTRL] >> 23 & 1 ? 0 : 1u << k;
        if (mode == 1 || chain != k) { // 1: starts itself again
            start(io, mode == 1 ? k : chain);
        }
    }
}

static uint32_t raw_of(const pio_t *p) {
    uint32_t raw = p->words[FLAGS] << 8;
    for (int k = 0; k < MACHINES; k++) {
        raw |= (p->machines[k].rx.n != 0) << k | (p->machines[k].tx.n < p->machines[k].tx.size) << (4 + k);
    }
    return raw;
}

// Makes the transfers that are asked for, then sees which interrupts there are.
void mica_io_serve(io_t *io) {
    if (io->serves) { // a block in Python asks while it is served
        return;
    }
    io->serves = 1;
    for (uint32_t k = 0, most = 1 << 20; k < CHANNELS; k++) {
        while (io->left[k] && io->words[16 * k + CTRL] & 1 && ready(io, bits(io->words[16 * k + CTRL], 17, 6)) && most-- > 0) {
            transfer(io, k);
            k = io->left[k] ? k : 0; // it may have started another
        }
    }
    io->serves = io->lines = 0;
    for (uint32_t n = 0; n < 4; n++) {
        uint32_t at = 0x404 / 4 + 4 * n;
        io->lines |= (uint32_t)(((io->raw & io->words[at]) | io->words[at + 1]) != 0) << (10 + n);
    }
    for (uint32_t k = 0; k < 2 * PIOS; k++) {
        const pio_t *p = &io->pios[k / 2];
        uint32_t at = INTE + 3 * (k & 1);
        io->lines |= (uint32_t)(((raw_of(p) & p->words[at]) | p->words[at + 1]) != 0) << (15 + k);
    }
}

// Steps machines until a time; with `ends`, only until an interrupt comes or goes. Returns whether one did.
int mica_io_step(io_t *io, int64_t until, int ends) {
    uint32_t lines = io->lines;
    for (;;) {
        machine_t *next = NULL;
        pio_t *block = NULL;
        io->busy = 0;
        for (int k = 0; k < PIOS * MACHINES; k++) {
            machine_t *m = &io->pios[k / MACHINES].machines[k % MACHINES];
            if (!m->enabled || (m->stalled && m->seen == io->changes)) {
                continue;
            }
            if (m->stalled && m->due < io->now) {
                m->due += (io->now - m->due + period(m) - 1) / period(m) * period(m);
            }
            m->stalled = 0;
            io->busy = 1;
            if (m->due <= until && (next == NULL || m->due < next->due)) {
                next = m;
                block = &io->pios[k / MACHINES];
            }
        }
        if (next == NULL) {
            io->now = until > io->now ? until : io->now;
            break;
        }
        uint32_t changes = io->changes;
        io->now = next->due;
        step(io, block, next);
        if (io->changes != changes) {
            mica_io_serve(io);
        }
        if (io->unknown || (ends && io->lines != lines)) {
            break;
        }
    }
    return io->lines != lines;
}

// --- registers

// In which order a channel's four stand, in each of its aliases; the last one starts it.
static const uint8_t ORDER[4][4] = {
    { READ_ADDR, WRITE_ADDR, TRANS_COUNT, CTRL },
    { CTRL, READ_ADDR, WRITE_ADDR, TRANS_COUNT },
    { CTRL, TRANS_COUNT, READ_ADDR, WRITE_ADDR },
    { CTRL, WRITE_ADDR, TRANS_COUNT, READ_ADDR },
};

static uint32_t dma_read(io_t *io, uint32_t o) {
    uint32_t k = o >> 6, which = ORDER[o >> 4 & 3][o >> 2 & 3];
    if (k < CHANNELS) {
        return which == TRANS_COUNT ? io->left[k] : io->words[16 * k + which] | (which == CTRL && io->left[k] ? 1u << 26 : 0);
    }
    if (o < 0x440 && o != 0x410 && o != 0x420 && o != 0x430) {
        uint32_t enabled = o & ~0xfu, kind = o & 0xf; // INTR or nothing, then INTE, INTF, INTS
        return kind == 0 ? io->raw : kind != 12 ? io->words[o / 4] : (io->raw & io->words[enabled / 4 + 1]) | io->words[enabled / 4 + 2];
    }
    io->unknown |= o != 0x464 && o != 0x468;
    return o == 0x468 ? CHANNELS : 0; // a channel has ended as soon as it is aborted
}

static void dma_write(io_t *io, uint32_t o, uint32_t value) {
    uint32_t k = o >> 6, which = ORDER[o >> 4 & 3][o >> 2 & 3], asks = bits(value, 17, 6);
    if (k < CHANNELS) {
        // Neither a sum of what goes by, nor addresses that fall, nor timers, nor requests of blocks that make none.
        io->unknown |= which == CTRL && value & 1 && (value & 0x020000a0 || !(asks < 28 || asks == 48 || asks == 63));
        io->words[16 * k + which] = which == CTRL ? value & 0x01ffffff : value;
        if ((o & 12) == 12 && value != 0) {
            start(io, k);
        }
    } else if (o == 0x400 || (o < 0x440 && (o & 12) == 12)) {
        io->raw &= ~value;
    } else if (o < 0x440 && o & 12) {
        io->words[o / 4] = value & 0xffff;
    } else {
        io->unknown |= o != 0x450 && o != 0x464;
        for (k = 0; k < CHANNELS; k++) {
            if (value >> k & 1 && o == 0x450) {
                start(io, k);
            } else if (value >> k & 1 && o == 0x464) {
                io->left[k] = 0;
            }
        }
    }
}

static uint32_t pio_read(io_t *io, pio_t *p, uint32_t o) {
    uint32_t word = 0, k = o >> 2 & 3;
    if (o >= 0x20 && o < 0x30) {
        if (!pull(io, &p->machines[k].rx, &word)) {
            p->words[FDEBUG] |= 1u << (RXUNDER + k);
        }
        return word;
    }
    if (o >= FIRST && o < FIRST + MACHINES * EACH) {
        const machine_t *m = &p->machines[(o - FIRST) / EACH];
        k = (o - FIRST) % EACH / 4;
        word = k == EXECCTRL ? m->registers[k] | m->has_exec << 31 : m->registers[k];
        return k == ADDR ? m->pc : k == INSTR ? (m->has_exec ? m->exec : p->words[CODE + m->pc]) : word;
    }
    for (k = 0; k < MACHINES && (o == 0x04 || o == 0x0c); k++) {
        const fifo_t *tx = &p->machines[k].tx, *rx = &p->machines[k].rx;
        const uint32_t four = (rx->n == rx->size) | (rx->n == 0) << 8 | (tx->n == tx->size) << 16 | (tx->n == 0) << 24;
        word |= o == 0x04 ? four << k : (tx->n | rx->n << 4) << 8 * k;
    }
    if (o == 0x16c || o == 0x178 || o == 0x184) { // INTR, INTS
        return o == 0x16c ? raw_of(p) : (raw_of(p) & p->words[o / 4 - 2]) | p->words[o / 4 - 1];
    }
    io->unknown |= o >= 0x188 || (o >= 0x128 && o < 0x168);
    return o == 0x04 || o == 0x0c ? word : o == 0x44 ? 0x10200404 : p->words[o / 4];
}

static void join(machine_t *m, uint32_t value) {
    m->rx.n = m->rx.at = m->tx.n = m->tx.at = 0;
    m->rx.size = value >> 31 ? 8 : value >> 30 ? 0 : 4;
    m->tx.size = 8 - m->rx.size;
}

static void machine_write(io_t *io, pio_t *p, machine_t *m, uint32_t k, uint32_t value) {
    int64_t due = m->due;
    if (k == SHIFTCTRL && (m->registers[k] ^ value) >> 30) {
        join(m, value);
    }
    io->unknown |= k == SHIFTCTRL && bits(value, 14, 2); // words of the FIFO by number
    m->registers[k] = value; // of ADDR and INSTR it is not looked at
    if (k == INSTR) {
        give(p, m, EXECUTE, value & 0xffff, 0, 0);
        step(io, p, m);
        m->due = due;
    }
}

static void control(io_t *io, pio_t *p, uint32_t value) {
    io->unknown |= value >> 16 != 0; // of other blocks
    p->words[0] = value & 15;
    for (machine_t *m = p->machines; m < p->machines + MACHINES; m++) {
        uint32_t on = value >> m->k & 1;
        if (value >> (4 + m->k) & 1) {
            m->isr = m->in_bits = m->has_exec = m->waits = 0;
            m->out_bits = 32;
        }
        if ((on && !m->enabled) || value >> (8 + m->k) & 1) {
            m->due = io->now + period(m);
        }
        m->enabled = on;
        m->stalled = 0;
    }
}

static void pio_write(io_t *io, pio_t *p, uint32_t o, uint32_t value) {
    if (o >= 0x10 && o < 0x20) {
        if (!push(io, &p->machines[o >> 2 & 3].tx, value)) {
            p->words[FDEBUG] |= 1u << (TXOVER + (o >> 2 & 3));
        }
    } else if (o >= FIRST && o < FIRST + MACHINES * EACH) {
        machine_write(io, p, &p->machines[(o - FIRST) / EACH], (o - FIRST) % EACH / 4, value);
    } else if (o == 0x00) {
        control(io, p, value);
    } else if (o == 4 * FDEBUG || o == 4 * FLAGS) {
        p->words[o / 4] &= ~value;
    } else if (o == 4 * FLAGS + 4) {
        p->words[FLAGS] |= value & 0xff;
    } else {
        // Program, synchronisers, pins from GPIO0 on, interrupts.
        io->unknown |= !((o >= 4 * CODE && o < FIRST) || o == 0x38 || (o == 0x168 && value == 0) || (o >= 0x170 && o < 0x184 && o != 0x178));
        p->words[o / 4] = value & 0xffff;
    }
}

static int has(uint32_t address) {
    return address - PIO_AT < PIOS << 20 || address >> 12 == DMA_AT >> 12;
}

// A register of DMA or PIO. io->unknown tells of one, or of a value, that is not modelled.
uint32_t mica_io_read(io_t *io, uint32_t address) {
    uint32_t o = address & 0xffc;
    return address < PIO_AT ? dma_read(io, o) : pio_read(io, &io->pios[(address - PIO_AT) >> 20], o);
}

void mica_io_write(io_t *io, uint32_t address, uint32_t value) {
    uint32_t o = address & 0xffc;
    if (address < PIO_AT) {
        dma_write(io, o, value);
    } else {
        pio_write(io, &io->pios[(address - PIO_AT) >> 20], o, value);
    }
    io->changes++;
    io->busy = 1; // the next step tells
    mica_io_pins(io);
}

static uint32_t bus_read(io_t *io, uint32_t address, uint32_t size) {
    uint32_t value = 0;
    if (address - RAM <= io->ram_bytes - size) {
        memcpy(&value, io->ram + (address - RAM), size);
    } else if (address - FLASH <= io->flash_bytes - size) {
        memcpy(&value, io->flash + (address - FLASH), size);
    } else {
        value = has(address) ? mica_io_read(io, address) >> 8 * (address & 3) : io->read(address, size);
    }
    return bits(value, 0, 8 * size);
}

static void bus_write(io_t *io, uint32_t address, uint32_t size, uint32_t value) {
    if (address - RAM <= io->ram_bytes - size) {
        memcpy(io->ram + (address - RAM), &value, size);
    } else if (has(address)) { // a narrow write is repeated over the bus
        mica_io_write(io, address, value * (size == 1 ? 0x01010101u : size == 2 ? 0x00010001u : 1u));
    } else {
        io->write(address, size, value);
    }
}

// As after power-on; the memory is zero. Without `io`, only how much it needs.
size_t mica_io_begin(io_t *io) {
    for (uint32_t k = 0; io != NULL && k < PIOS * MACHINES; k++) {
        machine_t *m = &io->pios[k / MACHINES].machines[k % MACHINES];
        m->k = k % MACHINES;
        m->registers = &io->pios[k / MACHINES].words[(FIRST + EACH * m->k) / 4];
        m->registers[CLKDIV] = 1 << 16;
        m->registers[EXECCTRL] = 0x1f << 12;
        m->registers[SHIFTCTRL] = 3 << 18;
        m->registers[PINCTRL] = 5 << 26;
        m->out_bits = 32;
        join(m, 0);
    }
    for (uint32_t k = 0; io != NULL && k < CHANNELS; k++) {
        io->words[16 * k + CTRL] = k << 13;
    }
    return sizeof(io_t);
}
