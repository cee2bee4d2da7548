// State that pio.c, dma.c, turns.c, sound.c and camera.c share, as big as the RP2350's. Time is in 1/256 of a cycle:
// the unit of dividers of PIO.
#ifndef IO_H
#define IO_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PIOS = 3, MACHINES = 4, CHANNELS = 16, WORDS = 0x1000 / 4, CODE = 0x48 / 4, FIRST = 0xc8, EACH = 0x18 };
enum { CLKDIV, EXECCTRL, SHIFTCTRL, ADDR, INSTR, PINCTRL }; // of a machine
enum { FDEBUG = 0x08 / 4, FLAGS = 0x30 / 4, OUT = 0x3c / 4, DIRECTION = 0x40 / 4, INTE = 0x170 / 4, INTF };

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
    uint32_t at, word, right, next, told, pause; // pause: nanoseconds without a clock until the recording begins again
    int64_t rose, begun; // the clock's last edge
    double sums[2];      // of the modulator
} source_t;

// What drives the pins of a camera. A tick is half a period of PCLK, which falls at even ones. pio.py has it, too.
typedef struct {
    uint32_t on, vsync, href, pclk, data; // masks of pins; of eight pins the lowest one's number
    uint32_t row, rows, line, apart;      // bytes of a row; rows; ticks of a line; lines from a row to the next
    uint32_t frames, cuts, taken;         // taken: by a machine; each frame is sent until it is, and then the next one
    uint32_t tick, seen;                  // seen: a machine watches this frame
    const uint8_t *bytes;
    const uint32_t *cut; // of tests: pairs of a kind, and the byte at which it is
    int64_t period, due; // of a tick
} camera_t;

typedef struct {
    uint8_t *ram;
    const uint8_t *flash;
    struct flash *waits; // flash.h
    uint32_t (*read)(uint32_t address, uint32_t size);
    void (*write)(uint32_t address, uint32_t size, uint32_t value);
    uint64_t asked;    // requests of other blocks, a bit each
    uint64_t requests; // those that are modelled
    // Of the chip: its registers are the RP2040's; blocks of PIO; bytes of flash with its aliases; its first interrupts
    // of both, and the stream's request.
    uint32_t old, blocks, flash_windows, dma_irq, pio_irq, stream;
    double second;  // in our unit of time
    int64_t now;
    uint32_t ram_bytes, flash_bytes;
    uint32_t outside, sio_out, sio_drives; // levels from outside, and by SIO
    uint32_t functions[PIOS];              // pins that are each block's
    uint32_t lines;                        // interrupts, a bit each
    uint32_t busy;                         // 1: a machine has something to do; 2: flash
    uint32_t changes;                      // of FIFOs, flags and pins
    uint32_t unknown;                      // what was read or written last is not modelled
    uint32_t pads;
    source_t source;
    camera_t camera;
    // Of this file alone, from here on:
    uint32_t words[WORDS], raw, serves; // of DMA
    uint32_t left[CHANNELS];    // transfers; 0: the channel is at rest
    int64_t due[CHANNELS];      // when flash has what a channel reads there; 0: it was not asked yet
    pio_t pios[PIOS];
} io_t;

static inline uint32_t bits(uint32_t word, uint32_t at, uint32_t n) {
    return word >> at & (n < 32 ? (1u << n) - 1 : ~0u);
}

// pio.c
uint32_t pio_read(io_t *io, pio_t *p, uint32_t o);
void pio_write(io_t *io, pio_t *p, uint32_t o, uint32_t value);
uint32_t pio_raw(const pio_t *p);
void mica_io_pins(io_t *io);
int64_t pio_period(const machine_t *m);
void pio_step(io_t *io, pio_t *p, machine_t *m);

// dma.c
void mica_io_serve(io_t *io);
int mica_io_flash(io_t *io); // what flash has brought by now; whether more is to come

// camera.c: its next change.
void mica_io_camera(io_t *io);

// sound.c: the level of the data pin after an edge of the clock; its index is source_t.kind.
extern int (*const EDGES[])(const io_t *io, source_t *s, int rises);

#endif
