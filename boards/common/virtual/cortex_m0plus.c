// Cycles of a Cortex-M0+ with its fast multiplier, from its technical reference manual (Arm DDI 0484, 3.3), as rp2040js
// has them: memory never waits, and PUSH does not count LR.
//
//     load, store of one register     2; LDM, STM, PUSH, POP 1 and 1 a register
//     branch taken                    2; BL 3; BX, BLX, and ADD and MOV to PC 2; POP of PC 2 more
//     MRS, MSR, barriers              3; WFE, WFI 2
//     all else                        1
#include "cycles.h"

void decode_cortex_m0plus(const uint8_t *code, instruction_t *i) {
    uint32_t op = code[0] | (uint32_t)code[1] << 8, kind = op >> 11;
    uint32_t listed = 1 + (uint32_t)__builtin_popcount(op & 0xff);
    i->cycles = 1;
    i->taken = kind >> 1 == 13 && (op >> 8 & 15) < 14;
    if (i->bytes == 4) {
        i->cycles = 3;
    } else if (kind == 8 && op & 0x400) { // of high registers
        uint32_t what = op >> 8 & 3, to = (op >> 4 & 8) | (op & 7);
        i->cycles = what == 3 || (what != 1 && to == 15) ? 2 : 1;
    } else if ((kind >= 9 && kind <= 19) || kind == 28 || op == 0xbf20 || op == 0xbf30) {
        i->cycles = 2;
    } else if (op >> 9 == 0x5a || op >> 9 == 0x5e || kind >> 1 == 12) {
        i->cycles = (uint8_t)(listed + (op >> 8 == 0xbd ? 2 : 0));
    }
    i->after_load = i->cycles;
}
