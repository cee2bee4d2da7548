// Cycles of Hazard3, from "Instruction Cycle Counts" of its documentation, with the RP2350's options (MUL, MULH: 1).
//
//     load                1; the next instruction waits one more if it computes with the value (a store does not)
//     branch taken, jump  1 more, and one more if the target is 32 bits wide and not at a multiple of 4
//     DIV, REM            18
//     all else            1
//
// The branch predictor of the RP2350 is left out: it would save the cycle of a jump in some loops.
#include "cycles.h"

static uint32_t bit(uint32_t r) {
    return r == 0 ? 0 : (uint32_t)1 << r;
}

static void load(instruction_t *i, uint32_t to) {
    i->loads = 1;
    i->writes = bit(to);
}

static void wide(uint32_t op, instruction_t *i) {
    uint32_t rd = op >> 7 & 31, kind = op >> 12 & 7, rs1 = bit(op >> 15 & 31), rs2 = bit(op >> 20 & 31);
    switch (op & 0x7f) {
        case 0x03:
            load(i, rd);
            i->waits_for = rs1;
            break;
        case 0x33:
            i->waits_for = rs1 | rs2;
            if (op >> 25 == 1 && kind >= 4) {
                i->cycles = i->after_load = 18;
            }
            break;
        case 0x63:
            i->waits_for = rs1 | rs2;
            break;
        case 0x13:
        case 0x23: // of a store only the address
        case 0x67:
        case 0x73:
            i->waits_for = rs1;
            break;
        default:
            break;
    }
}

// Compressed instructions, by quadrant and the upper three bits.
static void narrow(uint32_t op, instruction_t *i) {
    uint32_t rd = op >> 7 & 31, rs2 = op >> 2 & 31, small1 = 8 + (op >> 7 & 7), small2 = 8 + (op >> 2 & 7), sp = bit(2);
    switch ((op & 3) << 3 | op >> 13) {
        case 000: // ADDI4SPN
            i->waits_for = sp;
            break;
        case 002: // LW
            load(i, small2);
            i->waits_for = bit(small1);
            break;
        case 006: // SW
            i->waits_for = bit(small1);
            break;
        case 010: // ADDI
        case 020: // SLLI
            i->waits_for = bit(rd);
            break;
        case 013: // ADDI16SP; LUI reads nothing
            i->waits_for = rd == 2 ? sp : 0;
            break;
        case 014: // shifts and AND of a constant; of two registers
            i->waits_for = bit(small1) | ((op >> 10 & 3) == 3 ? bit(small2) : 0);
            break;
        case 016: // BEQZ, BNEZ
        case 017:
            i->waits_for = bit(small1);
            break;
        case 022: // LWSP
            load(i, rd);
            i->waits_for = sp;
            break;
        case 024: // JR, JALR, MV, ADD
            i->waits_for = rs2 == 0 ? bit(rd) : bit(rs2) | (op >> 12 & 1 ? bit(rd) : 0);
            break;
        case 026: // SWSP
            i->waits_for = sp;
            break;
        default:
            break;
    }
}

void decode_hazard3(const uint8_t *code, instruction_t *i) {
    uint32_t op = code[0] | (uint32_t)code[1] << 8 | (uint32_t)code[2] << 16 | (uint32_t)code[3] << 24;
    i->cycles = i->after_load = 1;
    i->taken = 1;
    i->stalls = 1;
    i->target_penalty = i->bytes == 4 && (i->address & 2);
    if (i->bytes == 2) {
        narrow(op & 0xffff, i);
    } else {
        wide(op, i);
    }
}
