// Pairs of rows of weights, each byte 128 too large, against pairs of x: 16 multiply-accumulates in 19 instructions.
    .syntax unified
    .thumb
#include "../thumb.inc"
    .section .text.mica_dsp_dense, "ax", %progbits

    .equ WORDS, 8               // of four elements that are unrolled, two at a time
    .equ TWO_WORDS_CODE, 76     // bytes of code for two

// \a += four weights in \w times (x0, x2) in \x and (x1, x3) in \x1
.macro FOUR a, w, x, x1
    uxtb16 r11, \w
    smlad \a, \x, r11, \a
    uxtb16 \w, \w, ror #8
    smlad \a, \x1, \w, \a
.endm

    .equ F_X, 0
    .equ F_ROW, 4
    .equ F_FIRST, 8             // where a pair of rows begins: at an odd word, or
    .equ F_ENTRY, 12            // where the rest of its words does
    .equ FRAME, 16
    .equ F_PAIRS, FRAME + 36
    .equ F_SUMS, FRAME + 40

// void mica_dsp_dense(const uint32_t *x, const int8_t *w, uint32_t row, uint32_t words, uint32_t pairs, int32_t *sums)
    ENTER mica_dsp_dense
    add r12, r0, r3, lsl #3
    mov r4, r2
    add r2, r1, r4
    ldr r7, =done + 1
    lsrs r5, r3, #1
    beq 1f
    subs r5, #1
    and r5, r5, #WORDS / 2 - 1
    adds r5, #1                 // pairs of words of the first round: the rest, or all
    movs r6, #TWO_WORDS_CODE
    muls r5, r6, r5
    ldr r7, =words_end + 1
    subs r7, r7, r5
1:  mov r6, r7
    lsls r3, r3, #31
    it ne
    ldrne r6, =odd + 1
    mov r3, r0
    push {r3, r4, r6, r7}
pair:
    ldr r0, [sp, #F_X]
    movs r4, #0
    mov lr, #0
    ldr pc, [sp, #F_FIRST]
odd:
    ldrd r5, r6, [r0], #8
    ldr r9, [r1], #4
    ldr r10, [r2], #4
    FOUR r4, r9, r5, r6
    FOUR lr, r10, r5, r6
    ldr pc, [sp, #F_ENTRY]
done:
    ldr r5, [sp, #F_SUMS]
    strd r4, lr, [r5], #8
    str r5, [sp, #F_SUMS]
    ldr r5, [sp, #F_ROW]
    mov r1, r2
    add r2, r5
    ldr r5, [sp, #F_PAIRS]
    subs r5, #1
    str r5, [sp, #F_PAIRS]
    bne pair
    add sp, #FRAME
    pop {r4-r11, pc}
    .ltorg
    .balign 4
words:
    .rept WORDS / 2
    ldm r0!, {r5-r8}
    ldrd r9, r10, [r1], #8
    FOUR r4, r9, r5, r6
    FOUR r4, r10, r7, r8
    ldrd r9, r10, [r2], #8
    FOUR lr, r9, r5, r6
    FOUR lr, r10, r7, r8
    .endr
words_end:
    cmp r0, r12
    bne.w words
    b done
    .if words_end - words - WORDS / 2 * TWO_WORDS_CODE
    .error "TWO_WORDS_CODE is wrong"
    .endif
    .size mica_dsp_dense, . - mica_dsp_dense
