// DMA of the virtual Picos, which moves what is asked for at once, and the registers that pio.py reads. (RP2350
// datasheet, 12.6.) The RP2040's registers and bits are moved to where the RP2350 has them.
#include "flash.h"
#include "io.h"

enum { READ_ADDR, WRITE_ADDR, TRANS_COUNT, CTRL }; // of a channel of DMA
enum { ALWAYS = 63 };
static const uint32_t RAM = 0x20000000, FLASH = 0x10000000, WINDOW = 0xffffff, DMA_AT = 0x50000000, PIO_AT = 0x50200000;

static uint32_t bus_read(io_t *io, uint32_t address, uint32_t size);
static void bus_write(io_t *io, uint32_t address, uint32_t size, uint32_t value);

static int in_flash(const io_t *io, uint32_t at, uint32_t size) {
    return at - FLASH < io->flash_windows && (at & WINDOW) <= io->flash_bytes - size;
}

static int reads_flash(const io_t *io, uint32_t k) {
    return in_flash(io, io->words[16 * k + READ_ADDR], 1);
}

// True if flash has what the channel reads next; else it is asked for it.
static int arrived(io_t *io, uint32_t k) {
    if (reads_flash(io, k) && !io->due[k]) {
        uint32_t at = io->words[16 * k + READ_ADDR];
        int64_t now = io->now >> 8;
        io->waits->accesses++;
        io->due[k] = now + mica_flash_wait(io->waits, at, now);
    }
    return !reads_flash(io, k) || io->due[k] <= io->now >> 8;
}

static int ready(const io_t *io, uint32_t asks) {
    if (asks == io->stream) {
        return io->waits->n != 0;
    }
    const machine_t *m = &io->pios[asks >> 3 < io->blocks ? asks >> 3 : 0].machines[asks & 3];
    if (asks < 8 * io->blocks) {
        return asks & 4 ? m->rx.n != 0 : m->tx.n < m->tx.size;
    }
    return asks == ALWAYS || io->asked >> asks & 1;
}

static void start(io_t *io, uint32_t k) {
    if (io->words[16 * k + CTRL] & 1 && !io->left[k]) {
        io->left[k] = bits(io->words[16 * k + TRANS_COUNT], 0, io->old ? 32 : 28);
    }
}

static void advance(uint32_t *address, uint32_t size, uint32_t ring) {
    uint32_t mask = ring ? (1u << ring) - 1 : ~0u;
    *address = (*address & ~mask) | ((*address + size) & mask);
}

static void transfer(io_t *io, uint32_t k) {
    uint32_t *c = &io->words[16 * k], size = 1u << bits(c[CTRL], 2, 2), ring = bits(c[CTRL], 8, 4),
        of_write = c[CTRL] >> 12 & 1;
    uint32_t mode = io->old ? 0 : c[TRANS_COUNT] >> 28, chain = bits(c[CTRL], 13, 4);
    uint32_t value = bus_read(io, c[READ_ADDR], size);
    io->due[k] = 0;
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

// Makes the transfers that are asked for, then sees which interrupts there are.
void mica_io_serve(io_t *io) {
    if (io->serves) { // a block in Python asks while it is served
        return;
    }
    io->serves = 1;
    for (uint32_t k = 0, most = 1 << 20; k < CHANNELS; k++) {
        while (io->left[k] && io->words[16 * k + CTRL] & 1 && ready(io, bits(io->words[16 * k + CTRL], 17, 6))
            && arrived(io, k) && most-- > 0) {
            transfer(io, k);
            k = io->left[k] ? k : 0; // it may have started another
        }
    }
    io->serves = io->lines = 0;
    for (uint32_t n = 0; n < 4; n++) {
        uint32_t at = 0x404 / 4 + 4 * n;
        io->lines |= (uint32_t)(((io->raw & io->words[at]) | io->words[at + 1]) != 0) << (io->dma_irq + n);
    }
    for (uint32_t k = 0; k < 2 * PIOS; k++) {
        const pio_t *p = &io->pios[k / 2];
        uint32_t at = INTE + 3 * (k & 1);
        io->lines |= (uint32_t)(((pio_raw(p) & p->words[at]) | p->words[at + 1]) != 0) << (io->pio_irq + k);
    }
}

// In which order a channel's four stand, in each of its aliases; the last one starts it.
static const uint8_t ORDER[4][4] = {
    { READ_ADDR, WRITE_ADDR, TRANS_COUNT, CTRL },
    { CTRL, READ_ADDR, WRITE_ADDR, TRANS_COUNT },
    { CTRL, TRANS_COUNT, READ_ADDR, WRITE_ADDR },
    { CTRL, WRITE_ADDR, TRANS_COUNT, READ_ADDR },
};

// The RP2040's CTRL as the RP2350 has it, and back: that has bits for addresses that fall.
static uint32_t from_old(uint32_t c) {
    return (c & 0x1f) | (c >> 5 & 1) << 6 | (c >> 6 & 0x7ffff) << 8;
}

static uint32_t to_old(uint32_t c) {
    return (c & 0x1f) | (c >> 6 & 1) << 5 | (c >> 8 & 0x7ffff) << 6;
}

static uint32_t place(const io_t *io, uint32_t o) {
    return io->old && o >= 0x430 ? o + 0x20 : o;
}

static uint32_t dma_read(io_t *io, uint32_t o) {
    uint32_t k = o >> 6, which = ORDER[o >> 4 & 3][o >> 2 & 3];
    if (k < CHANNELS) {
        uint32_t word = io->words[16 * k + which] | (which == CTRL && io->left[k] ? 1u << 26 : 0);
        return which == TRANS_COUNT ? io->left[k] : which == CTRL && io->old ? to_old(word) : word;
    }
    o = place(io, o);
    if (o < 0x440 && o != 0x410 && o != 0x420 && o != 0x430) {
        uint32_t enabled = o & ~0xfu, kind = o & 0xf; // INTR or nothing, then INTE, INTF, INTS
        return kind == 0 ? io->raw : kind != 12 ? io->words[o / 4]
            : (io->raw & io->words[enabled / 4 + 1]) | io->words[enabled / 4 + 2];
    }
    io->unknown |= o != 0x464 && o != 0x468;
    return o != 0x468 ? 0 : io->old ? 12 : CHANNELS; // a channel has ended as soon as it is aborted
}

static void dma_write(io_t *io, uint32_t o, uint32_t value) {
    uint32_t k = o >> 6, which = ORDER[o >> 4 & 3][o >> 2 & 3];
    if (k < CHANNELS) {
        value = which == CTRL && io->old ? from_old(value) : value;
        // Neither a sum of what goes by, nor addresses that fall, nor timers, nor requests of blocks that make none.
        io->unknown |= which == CTRL && value & 1 && (value & 0x020000a0 || !(io->requests >> bits(value, 17, 6) & 1));
        io->words[16 * k + which] = which == CTRL ? value & 0x01ffffff : value;
        if ((o & 12) == 12 && value != 0) {
            start(io, k);
        }
        return;
    }
    o = place(io, o);
    if (io->old && o >> 4 == 0x42) {
        io->unknown = 1; // a timer
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

// A word has come into the stream's FIFO.
static void delivers(void *memory) {
    io_t *io = memory;
    for (uint32_t k = 0; k < CHANNELS; k++) {
        if (io->left[k] && io->words[16 * k + CTRL] & 1 && bits(io->words[16 * k + CTRL], 17, 6) == io->stream) {
            transfer(io, k);
            return;
        }
    }
}

void mica_io_hears(io_t *io) {
    io->waits->delivers = delivers;
    io->waits->io = io;
}

int mica_io_flash(io_t *io) {
    flash_t *f = io->waits;
    int more = 0;
    mica_flash_settle(f, io->now >> 8);
    mica_io_serve(io);
    for (uint32_t k = 0; k < CHANNELS; k++) {
        more |= io->left[k] && io->due[k];
    }
    return more || (f->left && f->n < f->depth);
}

static int has(const io_t *io, uint32_t address) {
    return address - PIO_AT < io->blocks << 20 || address >> 12 == DMA_AT >> 12;
}

// A register of DMA or PIO. io->unknown tells of one, or of a value, that is not modelled.
uint32_t mica_io_read(io_t *io, uint32_t address) {
    uint32_t o = address & 0xffc, before = io->changes;
    uint32_t value = address < PIO_AT ? dma_read(io, o) : pio_read(io, &io->pios[(address - PIO_AT) >> 20], o);
    io->busy |= io->changes != before; // a machine may have waited for room
    return value;
}

void mica_io_write(io_t *io, uint32_t address, uint32_t value) {
    uint32_t o = address & 0xffc;
    if (address < PIO_AT) {
        dma_write(io, o, value);
    } else {
        pio_write(io, &io->pios[(address - PIO_AT) >> 20], o, value);
    }
    io->changes++;
    io->busy = 3; // the next step tells
    mica_io_pins(io);
}

static uint32_t bus_read(io_t *io, uint32_t address, uint32_t size) {
    uint32_t value = 0;
    if (address - RAM <= io->ram_bytes - size) {
        memcpy(&value, io->ram + (address - RAM), size);
    } else if (in_flash(io, address, size)) {
        memcpy(&value, io->flash + (address & WINDOW), size);
    } else {
        value = has(io, address) ? mica_io_read(io, address) >> 8 * (address & 3) : io->read(address, size);
    }
    return bits(value, 0, 8 * size);
}

static void bus_write(io_t *io, uint32_t address, uint32_t size, uint32_t value) {
    if (address - RAM <= io->ram_bytes - size) {
        memcpy(io->ram + (address - RAM), &value, size);
    } else if (has(io, address)) { // a narrow write is repeated over the bus
        mica_io_write(io, address, value * (size == 1 ? 0x01010101u : size == 2 ? 0x00010001u : 1u));
    } else {
        io->write(address, size, value);
    }
}
