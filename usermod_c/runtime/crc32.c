// mica: the checksum of files, CRC-32 as zlib has it: polynomial 0xedb88320, reflected.
//
// Two bytes at a time ("slicing"): table[s] says what a byte does that has s bytes behind it in its half of a word.
// That is 2 kB of constants; a native module, whose constants lie in RAM, does half a byte at a time with 64 bytes.
#include "mica.h"
#include "mica_port.h"

#ifndef MICA_CRC_TABLES
#define MICA_CRC_TABLES (2)  // or 0: 64 bytes, for half a byte at a time
#endif

// An entry is the XOR of its bits' entries. T8: the 256 entries from x = 0, of bits 0 to 7 in a to h.
#define T1(x, a) (x), (x) ^ (a)
#define T2(x, a, b) T1(x, a), T1((x) ^ (b), a)
#define T3(x, a, b, c) T2(x, a, b), T2((x) ^ (c), a, b)
#define T4(x, a, b, c, d) T3(x, a, b, c), T3((x) ^ (d), a, b, c)
#define T5(x, a, b, c, d, e) T4(x, a, b, c, d), T4((x) ^ (e), a, b, c, d)
#define T6(x, a, b, c, d, e, f) T5(x, a, b, c, d, e), T5((x) ^ (f), a, b, c, d, e)
#define T7(x, a, b, c, d, e, f, g) T6(x, a, b, c, d, e, f), T6((x) ^ (g), a, b, c, d, e, f)
#define T8(a, b, c, d, e, f, g, h) { T7(0, a, b, c, d, e, f, g), T7(h, a, b, c, d, e, f, g) }

// From the last constant of the first row backwards each is the one before, shifted by one bit: (c >> 1) ^ (c & 1 ?
// polynomial : 0).
#if MICA_CRC_TABLES == 0
static const uint32_t table[16] = { T4(0, 0x1db71064, 0x3b6e20c8, 0x76dc4190, 0xedb88320) };
#else
static const uint32_t table[MICA_CRC_TABLES][256] = {
    T8(0x77073096, 0xee0e612c, 0x076dc419, 0x0edb8832, 0x1db71064, 0x3b6e20c8, 0x76dc4190, 0xedb88320),
    T8(0x191b3141, 0x32366282, 0x646cc504, 0xc8d98a08, 0x4ac21251, 0x958424a2, 0xf0794f05, 0x3b83984b),
};
#endif

// The entry for bits 8 * byte to 8 * byte + 7 of v. A Cortex-M0+ has no scaled index: a shift and a mask make it.
#ifdef __ARM_ARCH_6M__
#define ENTRY(s, v, byte) \
    (*(const uint32_t *)(const void *)((const uint8_t *)table[s] + (((byte) ? (v) >> 6 : (v) << 2) & 1020)))
#else
#define ENTRY(s, v, byte) (table[s][(v) >> 8 * (byte) & 255])
#endif
#define HALF(v) ((v) >> 16 ^ ENTRY(1, v, 0) ^ ENTRY(0, v, 1))

#if MICA_CRC_TABLES != 0
// By itself, so that all of it has registers.
static __attribute__((noinline)) uint32_t words(uint32_t crc, const mica_word_t *word, const mica_word_t *end) {
    while (word != end) {
        crc ^= *word++;
        crc = HALF(crc);
        crc = HALF(crc);
    }
    return crc;
}
#endif

uint32_t mica_crc32(uint32_t crc, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    crc = ~crc;
    #if MICA_CRC_TABLES != 0
    for (; n != 0 && ((uintptr_t)p & 3) != 0; --n) {
        crc = crc >> 8 ^ table[0][(crc ^ *p++) & 255];
    }
    const mica_word_t *word = (const mica_word_t *)(const void *)p, *const end = word + n / 4;
    crc = words(crc, word, end);
    p = (const uint8_t *)end;
    n &= 3;
    #endif
    for (; n != 0; --n) {
        #if MICA_CRC_TABLES == 0
        crc ^= *p++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
        #else
        crc = crc >> 8 ^ table[0][(crc ^ *p++) & 255];
        #endif
    }
    return ~crc;
}
