// A camera at pins of the virtual Picos: VSYNC, HREF, PCLK and eight lines of data. (OV7670 datasheet 1.4, its timing
// diagrams.)
#include "io.h"

enum { LINES = 510, SYNC = 3, FIRST_ROW = 20 };               // of a frame; with VSYNC; before its first row
enum { SHORT_ROW = 1, SHORT_FRAME, LONG_ROW, NO_CLOCK };      // kinds of a cut
enum { MORE = 16, STOPS = 5 };                                // ticks of a row that is too long; frames without a clock

// 2: a machine waits for the pin of PCLK. 1: one runs. 0: edges of PCLK between rows change nothing.
static int watched(const io_t *io) {
    int runs = 0;
    for (int k = 0; k < PIOS * MACHINES; k++) {
        const pio_t *p = &io->pios[k / MACHINES];
        const machine_t *m = &p->machines[k % MACHINES];
        uint32_t op = p->words[CODE + m->pc], kind = bits(op, 5, 2);
        uint32_t base = kind == 1 ? bits(m->registers[PINCTRL], 15, 5) : 0;
        if (m->enabled && m->stalled && op >> 13 == 1 && kind < 2 && io->camera.pclk >> ((base + op) & 31) & 1) {
            return 2;
        }
        runs |= m->enabled && !m->stalled;
    }
    return runs;
}

// The cut of this frame, or no kind: of those that are taken, each second one is whole.
static const uint32_t *cut(const camera_t *c) {
    static const uint32_t none[2] = { 0, 0 };
    return c->taken < 2 * c->cuts && c->taken % 2 == 0 ? c->cut + c->taken : none;
}

static uint32_t tick_of(const camera_t *c, uint32_t byte) {
    return (FIRST_ROW + c->apart * (byte / c->row)) * c->line + 2 * (byte % c->row);
}

static uint32_t levels(const camera_t *c) {
    const uint32_t *less = cut(c), line = c->tick / c->line - FIRST_ROW, at = c->tick % c->line, row = line / c->apart;
    uint32_t end = 2 * c->row, word = c->tick & 1 ? c->pclk : 0;
    if (less[0] == SHORT_ROW && less[1] / c->row == row) {
        end = 2 * (less[1] % c->row);
    } else if (less[0] == LONG_ROW && less[1] / c->row == row) {
        end += MORE;
    }
    if (row < c->rows && line % c->apart == 0 && at < end) {
        uint32_t byte = (c->taken % c->frames * c->rows + row) * c->row + (at / 2) % c->row;
        word |= c->href | (uint32_t)c->bytes[byte] << c->data;
    }
    return word | (c->tick < SYNC * c->line ? c->vsync : 0);
}

// Sets the pins as they are at its time, and says when they change next.
void mica_io_camera(io_t *io) {
    camera_t *c = &io->camera;
    uint32_t all = LINES * c->line, step = 1;
    if (c->due < io->now) { // nobody looked meanwhile
        int64_t n = (io->now - c->due + c->period - 1) / c->period;
        c->taken += c->tick + n >= all ? c->seen : 0;
        c->seen = c->tick + n >= all ? 0 : c->seen;
        c->tick = (uint32_t)((c->tick + n) % all);
        c->due += n * c->period;
        return;
    }
    io->now = c->due;
    const uint32_t *less = cut(c);
    if (c->seen && (less[0] == SHORT_FRAME || less[0] == NO_CLOCK) && c->tick == tick_of(c, less[1])) {
        c->due += less[0] == NO_CLOCK ? STOPS * all * c->period : 0;
        c->tick = all;
        return;
    }
    if (c->tick >= all) {
        c->taken += c->seen;
        c->tick = c->seen = 0;
    }
    uint32_t word = levels(c);
    io->outside = (io->outside & ~(c->vsync | c->href | c->pclk | 0xffu << c->data)) | word;
    mica_io_pins(io);
    int looks = watched(io);
    c->seen |= looks == 2 && c->tick >= FIRST_ROW * c->line;
    if (!looks && !(word & c->href)) {
        step = c->line - c->tick % c->line;
    }
    c->tick += step;
    c->due += step * c->period;
}
