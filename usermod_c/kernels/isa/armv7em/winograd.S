// Winograd's F(2x2,3x3) on a Cortex-M with the DSP instructions: transforms of int16 pairs and their products, modulo
// 2^32. Layouts and the order of positions: conv2d_winograd.c.
#ifndef MICA_WITHOUT_WINOGRAD
    .syntax unified
    .thumb
#include "../thumb.inc"
#include "step.inc"

// A row of the tile and what its columns become, column 0 in \a, 2 in \c, 3 in \d, 1 in \t; \b is free then.
//   r0 = x, r2 = step, r3 = 3 * step
.macro ROW a, b, c, d, t, turn
    ldr \a, [r0]
    ldr \b, [r0, r2]
    ldr \c, [r0, r2, lsl #1]
    ldr \d, [r0, r3]
    sxtb16 \a, \a, ror #\turn
    sxtb16 \b, \b, ror #\turn
    sxtb16 \c, \c, ror #\turn
    sxtb16 \d, \d, ror #\turn
    sadd16 \t, \b, \c
    ssub16 \a, \a, \c
    ssub16 \c, \c, \b
    ssub16 \d, \b, \d
.endm

// Row \row of the transform: the four \a \op \b, by way of \t.
.macro OUT op, row, to, a0, a1, a2, a3, b0, b1, b2, b3, t0, t1, t2, t3
    \op \t0, \a0, \b0
    \op \t1, \a1, \b1
    \op \t2, \a2, \b2
    \op \t3, \a3, \b3
    str \t0, [r12, #\to + 32 * \row]
    str \t1, [r12, #\to + 32 * \row + 8]
    str \t2, [r12, #\to + 32 * \row + 16]
    str \t3, [r12, #\to + 32 * \row + 24]
.endm

// Two of each four channels: bytes 0 and 2 of the words, or with \turn 8 bytes 1 and 3.
.macro HALF turn, to
    ROW r4, r5, r6, r7, lr, \turn
    add r0, r0, r1, lsl #1
    ROW r8, r9, r10, r11, r5, \turn
    sub r0, r0, r1
    OUT ssub16, 0, \to, r4, lr, r6, r7, r8, r5, r10, r11, r4, lr, r6, r7
    ROW r4, r6, r7, r9, lr, \turn
    add r0, r0, r1, lsl #1
    sadd16 r6, r4, r8
    str r6, [r12, #\to + 32]
    sadd16 r6, lr, r5
    str r6, [r12, #\to + 40]
    sadd16 r6, r7, r10
    str r6, [r12, #\to + 48]
    sadd16 r6, r9, r11
    str r6, [r12, #\to + 56]
    OUT ssub16, 2, \to, r8, r5, r10, r11, r4, lr, r7, r9, r8, r5, r10, r11
    ROW r8, r5, r10, r11, r6, \turn
    sub r0, r0, r1
    OUT ssub16, 3, \to, r8, r6, r10, r11, r4, lr, r7, r9, r8, r6, r10, r11
    sub r0, r0, r1, lsl #1
.endm

// void mica_dsp_winograd_input(const int8_t *x, uint32_t row, uint32_t step, uint32_t words, uint32_t *to)
// B' d B of a tile of 4x4 pixels, each `step` bytes from the one before, rows `row` bytes apart, for `words` words of
// four channels. Words of x may lie at any address.
    .section .text.mica_dsp_winograd_input, "ax", %progbits
    FUNCTION mica_dsp_winograd_input
    push {r3-r11, lr}
    ldr r12, [sp, #40]
    add r3, r2, r2, lsl #1
1:  HALF 0, 0
    HALF 8, 128
    ldr r4, [sp]
    adds r0, #4
    add r12, #256
    subs r4, #1
    str r4, [sp]
    bne.w 1b
    pop {r3-r11, pc}
    .size mica_dsp_winograd_input, . - mica_dsp_winograd_input

.macro TAPS a, b, c, turn
    ldr \a, [r0]
    ldr \b, [r0, r1]
    ldr \c, [r0, r1, lsl #1]
    sxtb16 \a, \a, ror #\turn
    sxtb16 \b, \b, ror #\turn
    sxtb16 \c, \c, ror #\turn
.endm

// A row of three as a row of four; \twice: of the double of it.
.macro EXPAND a, b, c, twice
.if \twice
    sadd16 \a, \a, \a
    sadd16 \b, \b, \b
    sadd16 \c, \c, \c
.endif
    sadd16 r10, \a, \c
    sadd16 r11, \a, \a
    sadd16 r12, \c, \c
    str r11, [r2]
    str r12, [r2, lr]
    sadd16 r11, r10, \b
    ssub16 r10, r10, \b
    str r11, [r2, r3]
    str r10, [r2, r3, lsl #1]
.endm

.macro WEIGHTS turn
    TAPS r4, r5, r6, \turn      // the first row
    add r0, r0, r1, lsl #1
    add r0, r0, r1, lsl #2
    TAPS r7, r8, r9, \turn      // the third
    sub r0, r0, r1
    sub r0, r0, r1, lsl #1
    sadd16 r10, r4, r7          // their sum, kept in the stack while each of them is expanded
    sadd16 r11, r5, r8
    sadd16 r12, r6, r9
    push {r10-r12}
    EXPAND r4, r5, r6, 1
    sub r2, r2, r3
    add r2, r2, r3, lsr #2
    EXPAND r7, r8, r9, 1
    add r2, r2, r3, lsr #2
    pop {r7-r9}
    TAPS r4, r5, r6, \turn      // the second
    sub r0, r0, r1
    sub r0, r0, r1, lsl #1
    sadd16 r7, r7, r4
    sadd16 r8, r8, r5
    sadd16 r9, r9, r6
    EXPAND r7, r8, r9, 0
    add r2, r2, r3, lsr #2
    ssub16 r7, r7, r4           // less the second instead of more
    ssub16 r8, r8, r5
    ssub16 r9, r9, r6
    ssub16 r7, r7, r4
    ssub16 r8, r8, r5
    ssub16 r9, r9, r6
    EXPAND r7, r8, r9, 0
    add r2, r2, r3, lsr #2
.endm

// void mica_dsp_winograd_weights(const int8_t *w, uint32_t step, uint32_t words, uint32_t *to, uint32_t column)
// 2G g (2G)' of one output channel, whose taps are `step` bytes apart, for `words` words of four input channels. to: of
// the first column the fourth position; `column`: bytes from column to column, four positions.
    .section .text.mica_dsp_winograd_weights, "ax", %progbits
    FUNCTION mica_dsp_winograd_weights
    push {r2, r4-r11, lr}
    mov r2, r3
    ldr r3, [sp, #40]
    add lr, r3, r3, lsl #1
1:  WEIGHTS 0
    adds r2, #16
    WEIGHTS 8
    adds r2, #16
    adds r0, #4
    ldr r4, [sp]
    subs r4, #1
    str r4, [sp]
    bne.w 1b
    pop {r2, r4-r11, pc}
    .size mica_dsp_winograd_weights, . - mica_dsp_winograd_weights

// void mica_dsp_winograd(const uint32_t *x, const uint32_t *w, mica_dsp_winograd_t *args)
// Two tiles and four channels. w begins with a position's first piece of code; each stretch of up to STEPS pairs of
// channels ends with the address of what follows it.
    .equ STEPS, 8
    .equ STEP_CODE, 44

    .section .text.mica_dsp_winograd, "ax", %progbits
    FUNCTION mica_dsp_winograd
    push {r2, r4-r11, lr}
    ldr r12, [r1], #4
fresh:
    movs r4, #0
    movs r5, #0
    movs r6, #0
    movs r7, #0
    mov r8, r4
    mov r9, r4
    mov r10, r4
    mov r11, r4
    bx r12
    .balign 4
steps:
    .rept STEPS
    STEP 128
    .endr
steps_end:
    ldr pc, [r1], #4
stored:                         // a position's sums: 16 times eight, the last at sp
    push {r4-r11}
    ldm r1!, {r2, r3, r12}
    add r0, r2
    bx r3

    .equ TILE, 16               // from a tile's sums to the other's
    .equ SUMS, 512
    .equ F_Y, 0                 // of mica_dsp_winograd_t
    .equ F_COLUMN, 8
    .equ F_ROW, 12

// \to = sum \i of column \j at r0, of tile \t
.macro SUM to, i, j, t
    ldr \to, [r0, #32 * (15 - 4 * \j - \i) + TILE * \t]
.endm

// Of each column N = -m3, P = N + m1, Q = P + m2, F = Q + m0 were stored: m0 + m1 + m2 = F - N, m1 - m2 - m3 = 2 P - Q.
.macro UPPER to, j, t
    SUM \to, 3, \j, \t
    SUM lr, 0, \j, \t
    sub \to, \to, lr
.endm

.macro LOWER to, j, t
    SUM \to, 1, \j, \t
    SUM lr, 2, \j, \t
    rsb \to, lr, \to, lsl #1
.endm

.macro REQUANT v
    smmla \v, \v, r3, r4
    asr \v, \v, r5
    ssat \v, #8, \v
.endm

// A channel of a tile.
.macro OUTPUT t
    UPPER r9, 1, \t
    UPPER r10, 2, \t
    LOWER r11, 1, \t
    LOWER r12, 2, \t
    add r9, r2
    add r11, r2
    sub r10, r9, r10
    sub r12, r11, r12
    rsb r9, r10, r9, lsl #1
    rsb r11, r12, r11, lsl #1
    SUM lr, 3, 0, \t
    add r9, lr
    SUM lr, 0, 0, \t
    sub r9, lr
    SUM lr, 1, 0, \t
    add r11, r11, lr, lsl #1
    SUM lr, 2, 0, \t
    sub r11, lr
    SUM lr, 3, 3, \t
    sub r10, lr
    SUM lr, 0, 3, \t
    add r10, lr
    SUM lr, 1, 3, \t
    sub r12, r12, lr, lsl #1
    SUM lr, 2, 3, \t
    add r12, lr
    ldr lr, [sp, #SUMS]
    ldr r6, [lr, #F_Y + 4 * \t]
    REQUANT r9
    REQUANT r10
    REQUANT r11
    REQUANT r12
    strb r10, [r6, r7]
    strb r11, [r6, r8]
    strb r9, [r6], #1
    str r6, [lr, #F_Y + 4 * \t]
    add r6, r8
    subs r6, #1
    strb r12, [r6, r7]
.endm

done:
    mov r0, sp
    ldr lr, [sp, #SUMS]
    ldrd r7, r8, [lr, #F_COLUMN]
1:  ldm r1!, {r2-r5}            // bias, mult, round, shift
    OUTPUT 1                    // first: where there is no second tile its outputs are the first's place
    OUTPUT 0
    adds r0, #4
    add lr, sp, #TILE
    cmp r0, lr
    bne.w 1b
    add sp, #SUMS
    pop {r2, r4-r11, pc}
    .size mica_dsp_winograd, . - mica_dsp_winograd

// What C puts into a stream of weights: code for 1 to STEPS pairs, to store a position, begin a column, end it all.
    .section .rodata.mica_dsp_winograd_code, "a", %progbits
    .global mica_dsp_winograd_code
    .type mica_dsp_winograd_code, %object
    .balign 4
mica_dsp_winograd_code:
    .word steps_end + 1, stored + 1, fresh + 1, done + 1
    .size mica_dsp_winograd_code, . - mica_dsp_winograd_code
#endif
