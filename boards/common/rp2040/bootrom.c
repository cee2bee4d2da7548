// A boot ROM for the virtual Pico: what RP2040 firmware needs of the chip's own ROM, written from the data sheet's
// description (section 2.8). The chip's ROM is not ours to ship, and programs flash through hardware that the emulator
// lacks; here BKPT instructions ask the emulator to do it (machine.mjs answers them).
//
// Float and double are libgcc's. They round as the ROM's do, but also know NaN and denormals (the ROM does not).
// arithmetic.mjs charges the cycles of the chip's.

#include <stddef.h>
#include <stdint.h>

#define FLASH_BASE (0x10000000)
#define BOOT2_RAM (0x20041f00)
#define BOOT2_BYTES (256) // the last four are its checksum

// Numbers of BKPT; machine.mjs has them too.
#define TRAP_ERASE "0xe0" // r0 offset, r1 bytes
#define TRAP_PROGRAM "0xe1" // r0 offset, r1 source, r2 bytes
#define TRAP_BOOTSEL "0xe2" // the firmware asked for the boot loader
#define TRAP_NO_FIRMWARE "0xe3" // no second stage with a good checksum at the start of flash
#define TRAP_MISSING "0xe4" // a ROM function that is not here; lr tells who has called
#define TRAP_FAULT "0xe5" // a fault before the firmware has set its own vectors

#define TRAP(number) __asm volatile("bkpt " number "\n bx lr")

// --- start ----------------------------------------------------------------------------------------------

// As the chip does: check the second stage in the first 256 bytes of flash, copy it to RAM, enter it with lr = 0.
static uint32_t boot2_checksum(const uint8_t *p) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < BOOT2_BYTES - 4; i++) {
        crc ^= (uint32_t)p[i] << 24;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc << 1) ^ (crc & 0x80000000 ? 0x04c11db7 : 0);
        }
    }
    return crc;
}

void rom_reset(void) {
    const uint32_t *flash = (const uint32_t *)FLASH_BASE;
    if (boot2_checksum((const uint8_t *)flash) != flash[BOOT2_BYTES / 4 - 1]) {
        __asm volatile ("bkpt " TRAP_NO_FIRMWARE);
    }
    uint32_t *ram = (uint32_t *)BOOT2_RAM;
    for (size_t i = 0; i < BOOT2_BYTES / 4; i++) {
        ram[i] = flash[i];
    }
    __asm volatile ("movs r1, #0\n mov lr, r1\n bx %0" : : "r" (BOOT2_RAM + 1) : "r1", "lr");
    for (;;) {
    }
}

__attribute__((naked)) void rom_fault(void) {
    TRAP(TRAP_FAULT);
}

// Where core 1 comes to when what it was started with returns. (That it waits to be started is second_core.mjs's part.)
void rom_ended(void) {
    for (;;) {
        __asm volatile ("wfi");
    }
}

__attribute__((naked)) static void rom_missing(void) {
    TRAP(TRAP_MISSING);
}

// --- flash ----------------------------------------------------------------------------------------------

__attribute__((naked)) static void flash_range_erase(uint32_t offset, size_t count, uint32_t block, uint8_t command) {
    (void)offset, (void)count, (void)block, (void)command;
    TRAP(TRAP_ERASE);
}

__attribute__((naked)) static void flash_range_program(uint32_t offset, const uint8_t *data, size_t count) {
    (void)offset, (void)data, (void)count;
    TRAP(TRAP_PROGRAM);
}

__attribute__((naked)) static void reset_usb_boot(uint32_t led_mask, uint32_t disable) {
    (void)led_mask, (void)disable;
    TRAP(TRAP_BOOTSEL);
}

// Flash is always there, so leaving and entering execute-in-place is nothing.
static void nothing(void) {
}

// --- bits and memory ------------------------------------------------------------------------------------

static uint32_t popcount32(uint32_t x) {
    x -= (x >> 1) & 0x55555555;
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333);
    x = (x + (x >> 4)) & 0x0f0f0f0f;
    return (x * 0x01010101) >> 24;
}

static uint32_t reverse32(uint32_t x) {
    x = ((x >> 1) & 0x55555555) | ((x & 0x55555555) << 1);
    x = ((x >> 2) & 0x33333333) | ((x & 0x33333333) << 2);
    x = ((x >> 4) & 0x0f0f0f0f) | ((x & 0x0f0f0f0f) << 4);
    return __builtin_bswap32(x);
}

static uint32_t clz32(uint32_t x) {
    uint32_t n = 32;
    for (uint32_t half = 16; half; half >>= 1) {
        if (x >> half) {
            n -= half;
            x >>= half;
        }
    }
    return n - x;
}

static uint32_t ctz32(uint32_t x) {
    return x ? 31 - clz32(x & -x) : 32;
}

// The names are the compiler's: it may call them.
void *memset(void *to, int c, size_t n) {
    uint8_t *p = to;
    uint8_t *end = p + n;
    for (; p < end && (uintptr_t)p & 3; p++) {
        *p = (uint8_t)c;
    }
    uint32_t word = (uint8_t)c * 0x01010101u;
    for (; end - p >= 16; p += 16) {
        uint32_t *w = (uint32_t *)(void *)p;
        w[0] = word, w[1] = word, w[2] = word, w[3] = word;
    }
    for (; p < end; p++) {
        *p = (uint8_t)c;
    }
    return to;
}

void *memcpy(void *to, const void *from, size_t n) {
    uint8_t *p = to;
    const uint8_t *q = from;
    uint8_t *end = p + n;
    if ((((uintptr_t)p ^ (uintptr_t)q) & 3) == 0) {
        for (; p < end && (uintptr_t)p & 3;) {
            *p++ = *q++;
        }
        for (; end - p >= 16; p += 16, q += 16) {
            uint32_t *w = (uint32_t *)(void *)p;
            const uint32_t *v = (const uint32_t *)(const void *)q;
            w[0] = v[0], w[1] = v[1], w[2] = v[2], w[3] = v[3];
        }
    }
    while (p < end) {
        *p++ = *q++;
    }
    return to;
}

// --- float and double -----------------------------------------------------------------------------------

typedef void (*rom_function_t)(void);
#define F(function) ((rom_function_t)(uintptr_t)(function))

// libgcc's, by their names in the Arm run-time ABI. Declared without their types: only the addresses are used here.
#define LIBGCC(name) extern void __aeabi_##name(void)
LIBGCC(fadd); LIBGCC(fsub); LIBGCC(fmul); LIBGCC(fdiv); LIBGCC(f2iz); LIBGCC(f2uiz); LIBGCC(i2f); LIBGCC(ui2f);
LIBGCC(l2f); LIBGCC(ul2f); LIBGCC(f2lz); LIBGCC(f2ulz); LIBGCC(f2d);
LIBGCC(dadd); LIBGCC(dsub); LIBGCC(dmul); LIBGCC(ddiv); LIBGCC(d2iz); LIBGCC(d2uiz); LIBGCC(i2d); LIBGCC(ui2d);
LIBGCC(l2d); LIBGCC(ul2d); LIBGCC(d2lz); LIBGCC(d2ulz); LIBGCC(d2f);

// Of the 32 entries, those that firmware built with pico-sdk reaches through the compiler's arithmetic. The others
// (fixed point, square root, trigonometry) stop the emulator with a message that says so.
#define ARITHMETIC(s, other) { \
        [0] = F(__aeabi_##s##add), [1] = F(__aeabi_##s##sub), [2] = F(__aeabi_##s##mul), [3] = F(__aeabi_##s##div), \
        [4] = rom_missing, [5] = rom_missing, [6] = rom_missing, [7] = F(__aeabi_##s##2iz), [8] = rom_missing, \
        [9] = F(__aeabi_##s##2uiz), [10] = rom_missing, [11] = F(__aeabi_i2##s), [12] = rom_missing, \
        [13] = F(__aeabi_ui2##s), [14] = rom_missing, [15] = rom_missing, [16] = rom_missing, [17] = rom_missing, \
        [18] = rom_missing, [19] = rom_missing, [20] = rom_missing, [21] = rom_missing, [22] = rom_missing, \
        [23] = F(__aeabi_l2##s), [24] = rom_missing, [25] = F(__aeabi_ul2##s), [26] = rom_missing, \
        [27] = F(__aeabi_##s##2lz), [28] = rom_missing, [29] = F(__aeabi_##s##2ulz), [30] = rom_missing, \
        [31] = F(__aeabi_##s##2##other), \
}
static const rom_function_t float_table[32] = ARITHMETIC(f, d);
static const rom_function_t double_table[32] = ARITHMETIC(d, f);

// --- the tables -----------------------------------------------------------------------------------------

typedef struct {
    uint32_t code;
    const void *what;
} rom_entry_t;

#define CODE(a, b) ((uint32_t)(a) | (uint32_t)(b) << 8)

const rom_entry_t rom_functions[] = {
    { CODE('P', '3'), popcount32 },
    { CODE('R', '3'), reverse32 },
    { CODE('L', '3'), clz32 },
    { CODE('T', '3'), ctz32 },
    { CODE('M', 'S'), memset },
    { CODE('S', '4'), memset },
    { CODE('M', 'C'), memcpy },
    { CODE('C', '4'), memcpy },
    { CODE('U', 'B'), reset_usb_boot },
    { CODE('I', 'F'), nothing },
    { CODE('E', 'X'), nothing },
    { CODE('F', 'C'), nothing },
    { CODE('C', 'X'), nothing },
    { CODE('R', 'E'), flash_range_erase },
    { CODE('R', 'P'), flash_range_program },
    { 0, NULL },
};

const rom_entry_t rom_data[] = {
    { CODE('S', 'F'), float_table },
    { CODE('S', 'D'), double_table },
    { 0, NULL },
};

const void *rom_lookup(const rom_entry_t *table, uint32_t code) {
    for (; table->code; table++) {
        if (table->code == code) {
            return table->what;
        }
    }
    return NULL;
}
