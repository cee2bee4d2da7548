// Turns of PIO's machines and of DMA, in the order of time.
#include "io.h"

enum { LOOKS = 64 * 256 }; // at flash, while an interrupt may come of it

// Steps machines until a time; with `ends`, only until an interrupt comes or goes. Returns whether one did.
int mica_io_step(io_t *io, int64_t until, int ends) {
    uint32_t lines = io->lines, flash = io->busy & 2;
    for (;;) {
        machine_t *next = NULL;
        pio_t *block = NULL;
        uint32_t enabled = 0;
        io->busy = 0;
        for (int k = 0; k < PIOS * MACHINES; k++) {
            machine_t *m = &io->pios[k / MACHINES].machines[k % MACHINES];
            enabled |= m->enabled;
            if (!m->enabled || (m->stalled && m->seen == io->changes)) {
                continue;
            }
            if (m->stalled && m->due < io->now) {
                m->due += (io->now - m->due + pio_period(m) - 1) / pio_period(m) * pio_period(m);
            }
            m->stalled = 0;
            io->busy = 1;
            if (m->due <= until && (next == NULL || m->due < next->due)) {
                next = m;
                block = &io->pios[k / MACHINES];
            }
        }
        if (io->camera.on && enabled) {
            io->busy = 1;
            if (io->camera.due <= until && (next == NULL || io->camera.due <= next->due)) {
                mica_io_camera(io);
                continue;
            }
        }
        if (next == NULL) {
            int64_t soon = io->now + (ends ? LOOKS : INT64_MAX / 2);
            io->now = until <= io->now ? io->now : until < soon ? until : soon;
            io->busy |= flash && mica_io_flash(io) ? 2 : 0;
            if (io->now >= until || io->lines != lines || !io->busy) {
                io->now = io->lines != lines || until <= io->now ? io->now : until;
                break;
            }
            continue;
        }
        uint32_t changes = io->changes;
        io->now = next->due;
        pio_step(io, block, next);
        if (io->changes != changes) {
            mica_io_serve(io);
        }
        if (io->unknown || (ends && io->lines != lines)) {
            break;
        }
    }
    return io->lines != lines;
}
