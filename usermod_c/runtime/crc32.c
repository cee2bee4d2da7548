// mica: the checksum of files, CRC-32 as zlib has it: polynomial 0xedb88320, reflected.
//
// Four bytes at a time ("slicing"): table s says what a byte does that has s bytes behind it in its word. 4 kB of
// constants, and half of the time of one table of 256; a native module, whose constants lie in RAM, keeps to that one.
#include "mica.h"
#include "mica_port.h"

#ifndef MICA_CRC_TABLES
#define MICA_CRC_TABLES (4)  // or 0: 64 bytes, for half a byte at a time
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
    T8(0x01c26a37, 0x0384d46e, 0x0709a8dc, 0x0e1351b8, 0x1c26a370, 0x384d46e0, 0x709a8dc0, 0xe1351b80),
    T8(0xb8bc6765, 0xaa09c88b, 0x8f629757, 0xc5b428ef, 0x5019579f, 0xa032af3e, 0x9b14583d, 0xed59b63b),
};
#endif

#if defined(__ARM_ARCH_6M__) && MICA_CRC_TABLES != 0
// Two words a round, each in 24 cycles where a compiler's code takes 38. A shift and a mask make an index times 4.
#define CRC_WORD \
    "ldmia r1!, {r2}\n\teors r0, r2\n\tlsls r2, r0, #2\n\tands r2, r5\n\tldr r4, [r3, r2]\n\t" \
    "lsrs r2, r0, #6\n\tands r2, r5\n\tldr r2, [r6, r2]\n\teors r4, r2\n\tlsrs r2, r0, #14\n\tands r2, r5\n\t" \
    "ldr r2, [r7, r2]\n\teors r4, r2\n\tlsrs r0, r0, #24\n\tlsls r0, r0, #2\n\tadd r0, r8\n\tldr r0, [r0]\n\t" \
    "eors r0, r4\n\t"

// An even number of words, two at least.
static uint32_t pairs_of_words(uint32_t crc, const mica_word_t *word, const mica_word_t *end) {
    register uint32_t r0 __asm__("r0") = crc;
    register const mica_word_t *r1 __asm__("r1") = word;
    register const mica_word_t *r2 __asm__("r2") = end;
    register const uint32_t *r3 __asm__("r3") = table[0];
    __asm__ volatile (  // r7 may be the frame pointer
        ".syntax unified\n\tmov r12, r7\n\tmov r9, r2\n\tmov r8, r3\n\tmovs r4, #4\n\tlsls r4, r4, #8\n\t"
        "adds r7, r3, r4\n\tadds r6, r7, r4\n\tadds r3, r6, r4\n\t"
        "subs r5, r4, #4\n1:\t" CRC_WORD CRC_WORD "cmp r1, r9\n\tbne 1b\n\tmov r7, r12"
        : "+r" (r0), "+r" (r1), "+r" (r2), "+r" (r3) : : "r4", "r5", "r6", "r8", "r9", "r12", "cc", "memory");
    return r0;
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
    #ifdef __ARM_ARCH_6M__
    if (n >= 8) {
        crc = pairs_of_words(crc, word, word + (n / 8) * 2);
        word += (n / 8) * 2;
    }
    #endif
    for (; word != end; ++word) {
        crc ^= *word;
        crc = table[3][crc & 255] ^ table[2][crc >> 8 & 255] ^ table[1][crc >> 16 & 255] ^ table[0][crc >> 24];
    }
    p = (const uint8_t *)word;
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
