// Two rows of weights against x on a Cortex-M3, two multiply-accumulates a multiplication. Of each word of four weights
// those two that are 16 bits apart make one operand, w0 + w2 * 2^16; the pair of x crossed, x2 + x0 * 2^16, makes the
// other. Their product is (x0 * w0 + x2 * w2) * 2^16 + x2 * w0: with weights of at least -127 the upper half is below
// 2^15, and the stray product below it is removed by rounding. MLA rounds, and ADD shifts, at no cost.
    .syntax unified
    .thumb
#include "../thumb.inc"
    .section .text.mica_armv7m_dense, "ax", %progbits

// One word of weights at [\w], both of its products added to \acc. Stored weights are 128 too large: r8 and r9 take
// what that makes of the products off again.
//   r6, r7 = crossed pairs of x, r10 = 0x00ff00ff
.macro ROW w, acc
    ldr r5, [\w], #4
    and r4, r10, r5
    mla r4, r4, r6, r8
    and r5, r10, r5, lsr #8
    mla r5, r5, r7, r9
    add \acc, \acc, r4, asr #16
    add \acc, \acc, r5, asr #16
.endm

// Four elements, 8 multiply-accumulates in 17 instructions. r11 = 0x00800080, r12 = 0x8000
.macro STEP
    ldrd r6, r7, [r1], #8
    mls r8, r6, r11, r12
    mls r9, r7, r11, r12
    ROW r2, r0
    ROW r3, lr
.endm

    .equ WORDS, 8               // of four elements that are unrolled
    .equ WORD_CODE, 68          // bytes of code for each

// void mica_armv7m_dense(int32_t *sums, const uint32_t *x, uint32_t words, const int8_t *w, uint32_t row)
    ENTER mica_armv7m_dense
    ldr r4, [sp, #36]           // row
    add r5, r1, r2, lsl #3      // the end of x
    push {r0, r5}
    ldrd r0, lr, [r0]
    subs r2, #1
    and r2, r2, #WORDS - 1
    adds r2, #1                 // words of the first round: the rest, or all
    movs r6, #WORD_CODE
    muls r6, r2, r6
    adr.w r5, words_end
    subs r5, r6
    adds r5, #1
    mov r2, r3
    add r3, r4
    ldr r10, =0x00ff00ff
    ldr r11, =0x00800080
    mov r12, #0x8000
    bx r5
    .ltorg
    .balign 4
words:
    .rept WORDS
    STEP
    .endr
words_end:
    ldr r4, [sp, #4]
    cmp r1, r4
    bne.w words
    pop {r4, r5}
    strd r0, lr, [r4]
    pop {r4-r11, pc}
    .if words_end - words - WORDS * WORD_CODE
    .error "WORD_CODE is wrong"
    .endif
    .size mica_armv7m_dense, . - mica_armv7m_dense
