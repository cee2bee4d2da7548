// Weights of RP2040 and RP2350 on their way from flash while the core computes: the stream of the XIP controller
// fetches words while nobody else wants the flash, and DMA puts them into RAM (RP2040 datasheet, 2.6.3.4; RP2350
// datasheet, 4.4.3).
//
// * A stream is never broken off, since its next addresses could be a word too far then (pico-sdk#122).
// * Nothing may stream while flash is written. Core 0 writes none inside our C function, and where a Python thread has
//   core 1, weights are read where they lie.
// * A DMA channel is claimed for one step at a time. Without one, or with the stream taken, likewise.
#include "py/mpconfig.h"

#if defined(PICO_BUILD)

#include "hardware/dma.h"
#include "hardware/regs/addressmap.h"
#include "hardware/structs/xip_ctrl.h"
#include "hardware/sync.h"
#include "pico/platform.h"

#include "py/mpthread.h"

#include "mp_mica.h"

#define FLASH_BYTES (16u << 20)
// RP2350: a line of 8 bytes takes 32 cycles right behind the last one, 56 elsewhere, and as words of the stream 32.
// An RP2040 begins anew with each word, so two cores lose nothing.
#if PICO_RP2350
#define ALONE_BYTES FLASH_BYTES
#else
#define ALONE_BYTES (0)
#endif

static volatile bool taken;
static int channel;

static bool take(const void *from, size_t bytes) {
    const uintptr_t offset = (uintptr_t)from - XIP_BASE;
    if (offset >= FLASH_BYTES || bytes > FLASH_BYTES - offset || get_core_num() != 0 || core1_entry != NULL) {
        return false;
    }
    const uint32_t state = save_and_disable_interrupts();
    const bool ours = !taken && (xip_ctrl_hw->stream_ctr & XIP_STREAM_CTR_BITS) == 0;
    taken = taken || ours;
    restore_interrupts(state);
    if (ours && (channel = dma_claim_unused_channel(false)) < 0) {
        taken = false;
        return false;
    }
    return ours;
}

static void begin(void *to, const void *from, size_t bytes) {
    while (!(xip_ctrl_hw->stat & XIP_STAT_FIFO_EMPTY_BITS)) {
        (void)xip_ctrl_hw->stream_fifo; // what somebody else has left
    }
    dma_channel_config how = dma_channel_get_default_config((uint)channel);
    channel_config_set_read_increment(&how, false);
    channel_config_set_write_increment(&how, true);
    channel_config_set_dreq(&how, DREQ_XIP_STREAM);
    dma_channel_configure((uint)channel, &how, to, (const void *)XIP_AUX_BASE, bytes / 4, true);
    xip_ctrl_hw->stream_addr = (uintptr_t)from;
    xip_ctrl_hw->stream_ctr = bytes / 4;
}

static void wait(void) {
    dma_channel_wait_for_finish_blocking((uint)channel);
}

static void give(void) {
    dma_channel_unclaim((uint)channel);
    taken = false;
}

const mica_fetch_t mp_mica_fetch = { take, begin, wait, give, (const void *)XIP_BASE, ALONE_BYTES };

#endif
