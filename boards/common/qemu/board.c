// The part of an emulated board that MicroPython's qemu port leaves out: time, a console that can be
// polled and interrupted, a RAM disk and a ROMFS window. Knows no registers; those are in the other files.

#include <string.h>

#include "py/builtin.h"
#include "py/mperrno.h"
#include "py/mphal.h"
#include "py/objarray.h"
#include "py/runtime.h"
#include "py/stream.h"
#include "extmod/vfs.h"
#include "shared/runtime/pyexec.h"
#include "board.h"
#include "uart.h"

volatile bool board_woken;

// --- the port's uart.h, and the console -------------------------------------------------------------

void uart_init(void) {
    board_timer_init();
    board_uart_init();
}

int uart_rx_chr(void) {
    int c = board_uart_rx();
    return c < 0 ? UART_RX_NO_CHAR : c;
}

void uart_tx_strn(const char *buf, size_t len) {
    board_uart_tx(buf, len);
}

// The port's versions busy-wait and never say that input is there. They cannot be replaced without
// touching the tree, so the linker wraps them (see qemu.mk). Time and ROMFS, too: from 1.29 on the port
// has its own; its time counts interrupts of SysTick, which would disturb code under measurement.
int __wrap_mp_hal_stdin_rx_chr(void) {
    for (;;) {
        // In a transfer the next byte is some 50 us away, and waking QEMU's sleeping processor costs more
        // than looking a while (measured: 15 kB/s without, 19 kB/s with).
        for (int look = 0; look < 1000; look++) {
            int c = board_uart_rx();
            if (c >= 0) {
                return c;
            }
        }
        mp_event_wait_indefinite();
    }
}

uintptr_t __wrap_mp_hal_stdio_poll(uintptr_t poll_flags) {
    uintptr_t ready = poll_flags & MP_STREAM_POLL_WR;
    if ((poll_flags & MP_STREAM_POLL_RD) && board_uart_rx_ready()) {
        ready |= MP_STREAM_POLL_RD;
    }
    return ready;
}

// --- time ------------------------------------------------------------------------------------------

void __wrap_ticks_init(void) {
}

mp_uint_t __wrap_mp_hal_ticks_cpu(void) {
    return (mp_uint_t)board_timer_ticks();
}

mp_uint_t __wrap_mp_hal_ticks_us(void) {
    return (mp_uint_t)(board_timer_ticks() / (BOARD_TIMER_HZ / 1000000));
}

mp_uint_t __wrap_mp_hal_ticks_ms(void) {
    return (mp_uint_t)(board_timer_ticks() / (BOARD_TIMER_HZ / 1000));
}

// The board has no clock that runs while it is off: its day begins at the Epoch (2000-01-01).
uint64_t mp_hal_time_ns(void) {
    return board_timer_ticks() * (1000000000 / BOARD_TIMER_HZ);
}

void __wrap_mp_hal_delay_us(mp_uint_t us) {
    uint64_t end = board_timer_ticks() + (uint64_t)us * (BOARD_TIMER_HZ / 1000000);
    while (board_timer_ticks() < end) {
    }
}

void __wrap_mp_hal_delay_ms(mp_uint_t ms) {
    const uint64_t ticks_per_ms = BOARD_TIMER_HZ / 1000;
    uint64_t end = board_timer_ticks() + (uint64_t)ms * ticks_per_ms;
    for (;;) {
        uint64_t now = board_timer_ticks();
        if (now >= end) {
            mp_handle_pending(true);
            return;
        }
        if (end - now < ticks_per_ms) {
            mp_handle_pending(true);
            mp_hal_delay_us((mp_uint_t)((end - now) / (BOARD_TIMER_HZ / 1000000)) + 1);
        } else {
            mp_event_wait_ms((mp_uint_t)((end - now) / ticks_per_ms));
        }
    }
}

// --- ROMFS: a window of emulated memory, filled by QEMU's "-device loader" or through the ioctl -----

static const mp_obj_array_t romfs_window = {
    { &mp_type_memoryview }, 'B', 0, MICA_ROMFS_BYTES, (void *)MICA_ROMFS_BASE
};

mp_obj_t __wrap_mp_vfs_rom_ioctl(size_t n_args, const mp_obj_t *args) {
    mp_int_t request = mp_obj_get_int(args[0]);
    if (request == MP_VFS_ROM_IOCTL_GET_NUMBER_OF_SEGMENTS) {
        return MP_OBJ_NEW_SMALL_INT(1);
    }
    if (n_args < 2 || mp_obj_get_int(args[1]) != 0) {
        return MP_OBJ_NEW_SMALL_INT(-MP_EINVAL);
    }
    switch (request) {
        case MP_VFS_ROM_IOCTL_GET_SEGMENT:
            return MP_OBJ_FROM_PTR(&romfs_window);
        case MP_VFS_ROM_IOCTL_WRITE_PREPARE: // (3, segment, length): answers the smallest write, in bytes
            if (n_args < 3 || (mp_uint_t)mp_obj_get_int(args[2]) > MICA_ROMFS_BYTES) {
                return MP_OBJ_NEW_SMALL_INT(-MP_ENOSPC);
            }
            return MP_OBJ_NEW_SMALL_INT(4);
        case MP_VFS_ROM_IOCTL_WRITE: { // (4, segment, offset, data)
            if (n_args < 4) {
                return MP_OBJ_NEW_SMALL_INT(-MP_EINVAL);
            }
            mp_buffer_info_t data;
            mp_get_buffer_raise(args[3], &data, MP_BUFFER_READ);
            mp_uint_t offset = (mp_uint_t)mp_obj_get_int(args[2]);
            if (offset > MICA_ROMFS_BYTES || data.len > MICA_ROMFS_BYTES - offset) {
                return MP_OBJ_NEW_SMALL_INT(-MP_ENOSPC);
            }
            memcpy((uint8_t *)MICA_ROMFS_BASE + offset, data.buf, data.len);
            return MP_OBJ_NEW_SMALL_INT(0);
        }
        case MP_VFS_ROM_IOCTL_WRITE_COMPLETE:
            return MP_OBJ_NEW_SMALL_INT(0);
        default:
            return MP_OBJ_NEW_SMALL_INT(-MP_EINVAL);
    }
}

// --- RAM disk: its own memory, neither .bss (cleared) nor heap, so files outlive a soft reset --------

extern uint8_t _ramdisk_start[];
extern uint8_t _ramdisk_end[];

static mp_obj_t board_ramdisk(void) {
    size_t len = (size_t)(_ramdisk_end - _ramdisk_start);
    return mp_obj_new_memoryview('B' | MP_OBJ_ARRAY_TYPECODE_FLAG_RW, len, _ramdisk_start);
}
static MP_DEFINE_CONST_FUN_OBJ_0(board_ramdisk_obj, board_ramdisk);

static const mp_rom_map_elem_t board_globals_table[] = {
    { MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR__board) },
    { MP_ROM_QSTR(MP_QSTR_ramdisk), MP_ROM_PTR(&board_ramdisk_obj) },
};
static MP_DEFINE_CONST_DICT(board_globals, board_globals_table);

const mp_obj_module_t board_module = {
    .base = { &mp_type_module },
    .globals = (mp_obj_dict_t *)&board_globals,
};
MP_REGISTER_MODULE(MP_QSTR__board, board_module);

void board_init(void) {
    #ifdef BOARD_STACK_BYTES // the port's limit is 10 kB, whatever the board has
    MP_STATE_THREAD(stack_limit) = BOARD_STACK_BYTES;
    #endif
    pyexec_frozen_module("_boot.py", false);
}
