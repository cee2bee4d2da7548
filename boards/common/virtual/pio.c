// PIO of the virtual Picos: machines step while they are enabled, in the order of time. (RP2350 datasheet, 11.)
#include "io.h"

enum { RXSTALL = 0, RXUNDER = 8, TXOVER = 16, TXSTALL = 24 }; // bits of FDEBUG
enum { PINS, TO_X, TO_Y, NOWHERE, DIRECTIONS, TO_PC, TO_ISR, EXECUTE, TO_OSR }; // of OUT and SET; MOV has its own

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

// --- pins

void mica_io_pins(io_t *io) {
    source_t *s = &io->source;
    uint32_t before = io->pads, enabled = 0, pads = (io->outside & ~io->sio_drives) | (io->sio_out & io->sio_drives);
    for (int k = 0; k < PIOS; k++) {
        uint32_t drives = io->functions[k] & io->pios[k].words[DIRECTION];
        pads = (pads & ~drives) | (io->pios[k].words[OUT] & drives);
        enabled |= io->pios[k].words[0];
    }
    io->pads = pads;
    if (s->kind && (pads ^ before) & s->clock) {
        io->outside = (io->outside & ~s->data) | (EDGES[s->kind](io, s, (pads & s->clock) != 0) ? s->data : 0);
        io->pads = (pads & ~s->data) | (io->outside & s->data);
    }
    if (io->pads != before) {
        io->changes++;
        io->busy |= enabled != 0;
    }
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
    uint32_t kind = bits(op, 5, 3), pin = io->pads >> bits(m->registers[EXECCTRL], 24, 5) & 1,
        left = m->out_bits < threshold(m, 25);
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
        uint32_t base = kind == 1 ? bits(m->registers[PINCTRL], 15, 5) : kind == 3 ? bits(m->registers[EXECCTRL], 24, 5)
            : 0;
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
    m->isr = (uint32_t)(m->registers[SHIFTCTRL] >> 18 & 1 ? (value << 32 | m->isr) >> n
        : (uint64_t)m->isr << n | value);
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
    uint32_t pulls = op >> 7 & 1, moved = pulls ? m->out_bits : m->in_bits,
        full = m->registers[SHIFTCTRL] >> 17 & 1 && m->out_bits == 0;
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

int64_t pio_period(const machine_t *m) {
    uint32_t whole = m->registers[CLKDIV] >> 16;
    return (int64_t)(whole ? whole : 65536) * 256 + bits(m->registers[CLKDIV], 8, 8);
}

void pio_step(io_t *io, pio_t *p, machine_t *m) {
    uint32_t forced = m->has_exec, op = forced ? m->exec : p->words[CODE + m->pc], control = m->registers[EXECCTRL];
    uint32_t n = bits(m->registers[PINCTRL], 29, 3), field = bits(op, 8, 5), side = field >> (5 - n),
        optional = control >> 30 & 1;
    m->has_exec = m->jumped = 0;
    int done = EXECUTED[op >> 13](io, p, m, op);
    if (n > optional && (!optional || side >> (n - 1) & 1)) {
        put(&p->words[control >> 29 & 1 ? DIRECTION : OUT], side, bits(m->registers[PINCTRL], 10, 5), n - optional);
    }
    if (m->registers[SHIFTCTRL] >> 17 & 1 && m->out_bits >= threshold(m, 25) && pull(io, &m->tx, &m->osr)) {
        m->out_bits = 0;
    }
    mica_io_pins(io);
    m->due += pio_period(m) * (done ? 1 + bits(field, 0, 5 - n) : 1);
    m->stalled = !done;
    m->seen = io->changes;
    if (!done && forced) {
        give(p, m, EXECUTE, op, 0, 0);
    } else if (done && !forced && !m->jumped) {
        m->pc = m->pc == bits(control, 12, 5) ? bits(control, 7, 5) : (m->pc + 1) & 31;
    }
}

uint32_t pio_raw(const pio_t *p) {
    uint32_t raw = p->words[FLAGS] << 8;
    for (int k = 0; k < MACHINES; k++) {
        raw |= (p->machines[k].rx.n != 0) << k | (p->machines[k].tx.n < p->machines[k].tx.size) << (4 + k);
    }
    return raw;
}

// --- registers

// Where the RP2350 has a register of the RP2040's.
static uint32_t place(const io_t *io, uint32_t o) {
    return io->old && o >= 0x128 ? o + 0x44 : o;
}

uint32_t pio_read(io_t *io, pio_t *p, uint32_t o) {
    uint32_t word = 0, k = o >> 2 & 3;
    o = place(io, o);
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
        return o == 0x16c ? pio_raw(p) : (pio_raw(p) & p->words[o / 4 - 2]) | p->words[o / 4 - 1];
    }
    io->unknown |= o >= 0x188 || (o >= 0x128 && o < 0x168);
    return o == 0x04 || o == 0x0c ? word : o == 0x44 ? (io->old ? 0x200404 : 0x10200404) : p->words[o / 4];
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
        pio_step(io, p, m);
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
            m->due = io->now + pio_period(m);
        }
        m->enabled = on;
        m->stalled = 0;
    }
}

void pio_write(io_t *io, pio_t *p, uint32_t o, uint32_t value) {
    o = place(io, o);
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
        io->unknown |= !((o >= 4 * CODE && o < FIRST) || o == 0x38 || (o == 0x168 && value == 0)
            || (o >= 0x170 && o < 0x184 && o != 0x178));
        p->words[o / 4] = value & 0xffff;
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
        io->words[16 * k + 3] = k << 13; // CTRL: it chains to itself
    }
    return sizeof(io_t);
}
