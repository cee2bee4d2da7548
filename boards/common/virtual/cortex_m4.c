// Cycles of a Cortex-M4, from its technical reference manual (Arm DDI 0439, 100166): the table of processor
// instructions, and the text about loads and stores in a row. Memory never waits.
//
//     LDR of one register      2; 1 right behind another such load that does not make its address
//     STR of one register      1 with an immediate offset; with a register 2 (1 behind a load that does not make it)
//     LDRD, STRD               3; LDM, STM, PUSH, POP 1 and 1 a register
//     branch taken, PC loaded  2 more (the table says 1 to 3, by the target's place and what was fetched early)
//     SDIV, UDIV               12, the most
//     all else                 1, also SMLAD, SMLAL, MLA, SSAT, and instructions that IT skips
//
// By the manual, a load or store also stalls for a cycle if the instruction before it computes its address. The table
// has no figure for that; the plugin counts it apart.
#include "cycles.h"

#define REFILL 2

enum { SP = 13, PC = 15 };

static uint32_t bit(uint32_t r) {
    return r < 15 ? (uint32_t)1 << r : 0;
}

// `offset`: a register is added to the base.
static void one_load(instruction_t *i, uint32_t to, uint32_t made_of) {
    i->cycles = 2;
    i->after_load = 1;
    i->stalls = 0;
    i->loads = to != PC;
    i->writes = bit(to);
    i->waits_for = i->address_of = made_of;
}

static void one_store(instruction_t *i, uint32_t made_of, int offset) {
    i->cycles = offset ? 2 : 1;
    i->after_load = 1;
    i->waits_for = i->address_of = made_of;
}

static void many(instruction_t *i, uint32_t list, uint32_t base) {
    i->cycles = i->after_load = (uint8_t)(1 + __builtin_popcount(list));
    i->address_of = bit(base);
}

static void narrow(uint32_t op, instruction_t *i) {
    uint32_t rt = op & 7, rn = op >> 3 & 7, rm = op >> 6 & 7, high = op >> 8 & 7;
    if (op >> 11 == 0x09) {  // LDR, literal
        one_load(i, high, 0);
    } else if (op >> 12 == 0x5) {  // a register added to the base
        if ((op >> 9 & 7) >= 3) {
            one_load(i, rt, bit(rn) | bit(rm));
        } else {
            one_store(i, bit(rn) | bit(rm), 1);
        }
    } else if (op >> 13 == 0x3 || op >> 12 == 0x8) {
        if (op >> 11 & 1) {
            one_load(i, rt, bit(rn));
        } else {
            one_store(i, bit(rn), 0);
        }
    } else if (op >> 12 == 0x9) {
        if (op >> 11 & 1) {
            one_load(i, high, bit(SP));
        } else {
            one_store(i, bit(SP), 0);
        }
    } else if ((op & 0xf600) == 0xb400) {  // PUSH, POP
        many(i, op & 0x1ff, SP);
    } else if (op >> 12 == 0xc) {
        many(i, op & 0xff, high);
    } else if (op >> 14 == 0 || (op & 0xfc00) == 0x4000) {  // computes into a low register; comparisons do not
        int compares = op >> 11 == 0x05 || (op & 0xffc0) == 0x4280 || (op & 0xffc0) == 0x42c0
            || (op & 0xffc0) == 0x4200;
        i->made = compares ? 0 : bit((op >> 13 == 1) ? high : rt);
    } else if ((op & 0xfc00) == 0x4400 && (op & 0x300) != 0x100 && (op & 0x300) != 0x300) {  // high registers
        i->made = bit((op & 7) | (op >> 4 & 8));
    } else if (op >> 12 == 0xa) {  // ADR, ADD of SP
        i->made = bit(high);
    }
}

static void wide(uint32_t a, uint32_t b, instruction_t *i) {
    uint32_t rn = a & 15;
    if ((a & 0xfe40) == 0xe800) {
        many(i, b, rn);
    } else if ((a & 0xfff0) == 0xe8d0 && (b & 0xffe0) == 0xf000) {  // TBB, TBH
        i->cycles = i->after_load = 2;
        i->address_of = bit(rn) | bit(b & 15);
    } else if ((a & 0xff60) == 0xe840) {  // exclusive ones
        i->cycles = i->after_load = 2;
        i->address_of = bit(rn);
    } else if ((a & 0xfe40) == 0xe840) {
        i->cycles = i->after_load = 3;
        i->address_of = bit(rn);
    } else if ((a & 0xfe00) == 0xf800) {
        int immediate = (a & 0x0080) || rn == PC || (b & 0x0800);
        uint32_t made_of = bit(rn) | (immediate ? 0 : bit(b & 15));
        if (a & 0x0010) {
            one_load(i, b >> 12, made_of);
        } else {
            one_store(i, made_of, !immediate);
        }
    } else if ((a & 0xffd0) == 0xfb90) {  // SDIV, UDIV
        i->cycles = i->after_load = 12;
        i->made = bit(b >> 8 & 15);
    } else if ((a & 0xec00) != 0xec00 && !(a >> 11 == 0x1e && b >> 15)) {  // no coprocessor, no branch
        i->made = bit(b >> 8 & 15);
    }
}

void decode_cortex_m4(const uint8_t *code, instruction_t *i) {
    uint32_t a = code[0] | (uint32_t)code[1] << 8, b = code[2] | (uint32_t)code[3] << 8;
    i->cycles = i->after_load = 1;
    i->taken = REFILL;
    if (i->bytes == 2) {
        narrow(a, i);
    } else {
        wide(a, b, i);
    }
}
