// Three multiply-accumulates with one MULS: a row of two neighbouring outputs, the pair, of windows 3 columns wide.
//
// y0 = x0 w0 + x1 w1 + x2 w2 and y1 = x1 w0 + x2 w1 + x3 w2. With words of two halves, as integer sums, modulo 2^32:
//   (x1 + x0 * 2^16) * (w0 + w1 * 2^16) = x1 w0 + 2^16 * (x1 w1 + x0 w0)    one of y1's products, two of y0's.
//   (x2 + x3 * 2^16) * (w2 + w1 * 2^16) = x2 w2 + 2^16 * (x2 w1 + x3 w2)    one of y0's, two of y1's.
// gemm.S has two products of a MULS and a stray one; here all three are terms. The upper half is rounded to as there,
// by ASRS and ADCS: the lower one is below 2^15, two products of the upper one as well. Beside the sum U of upper
// halves runs the sum T of whole words: T - U * 2^16 is the sum of the lower halves, modulo 2^32. 24 cycles for 12
// multiply-accumulates.
//
// A call is one of the two lines above for one output channel: sums of both outputs go from one call to the next, of
// the first U and T for four pairs of outputs, side by side or anywhere ("lanes"). Their words are interleaved in one
// stream, in which rows follow one another: the next row of outputs begins a row of words later.
#ifndef MICA_WITHOUT_PAIRED
#include "hot.inc"

    .equ PAIRS, 96              // MICA_PAIRED_WORDS: what the loop is unrolled for
    .equ STEP_CODE, 38

// The stack: the weights, the first highest; then what a row of outputs needs.
    .equ F_ARGS, 4 * PAIRS
    FIELDS F_, F_ARGS + 4, X, ENTRY, BIAS
    .equ F_BOTH, F_ARGS + 16    // bias + bias * 2^16
    .equ F_FLAGS, F_ARGS + 20
    .equ F_READ, F_ARGS + 24    // running sums
    .equ F_WRITE, F_ARGS + 28
    .equ F_ROWS, F_ARGS + 32
    .equ F_GROUPS, F_ARGS + 36  // these four as in mica_paired_t
    FIELDS F_, F_ARGS + 40, PLACES, NEXT, PITCH
    .equ F_Y, F_ARGS + 52       // the second of the first lane's paired outputs
    .equ F_LANES, F_ARGS + 56   // from behind a lane's outputs to the next lane's: three
    .equ F_SUMS, F_ARGS + 68    // of the first pair: four
    .equ F_REQUANT, F_ARGS + 84 // what r8 to r11 hold while the registers requantise
    .equ F_ML, F_ARGS + 100
    .equ F_MH, F_ARGS + 104
    .equ FRAME, F_ARGS + 108
    .equ HALF_FRAME, FRAME / 2 / 4 * 4

// mica_paired_t in kernels.h.
    FIELDS A_, 0, X, GROUPS, PLACES, NEXT, PITCH, ROWS, NEXT_GROUP, SUMS, FLAGS, WEIGHTS, FIRST, SECOND
    FIELDS A_, 48, KERNEL_ROWS, CHANNELS, WEIGHTS_PITCH, BIAS, MULT, SHIFT, Y_OFFSET, BACK, ZERO, RANGE, LOW
    .equ A_PAIRS, 92

// Opens the frame; r5 = channels, r4 = where the words of the weights end, where the steps for as many words begin.
.macro BEGIN
    PUSH_ALL
    sub sp, #HALF_FRAME
    sub sp, #(FRAME - HALF_FRAME)
    str r0, [sp, #F_ARGS]
    ldr r5, [r0, #A_CHANNELS]
    LOAD_HIGH r10, r4, [r0, #A_KERNEL_ROWS]
    muls r4, r5, r4
    movs r7, #STEP_CODE
    muls r7, r4, r7
    ldr r6, =steps_end + 1
    subs r6, r6, r7
    str r6, [sp, #F_ENTRY]
    lsls r4, r4, #2
    add r4, sp
.endm

// Of the next byte of codes in either column the words of both weights. A pair is the second + the first * 2^16; ASRS
// leaves in the carry what the upper half lacks where the lower one is negative.
.macro TWO_WORDS first, second, a, b
    ldrb \a, [r1]
    lsls \a, \a, #2
    ldr \a, [r0, \a]
    ldrb \b, [r1, r2]
    lsls \b, \b, #2
    ldr \b, [r0, \b]
    adds r1, #1
    sxth \second, \a
    asrs \first, \a, #16
    adcs \first, \b
    sxth \b, \b
    subs \first, \first, \b
    lsls \b, \b, #16
    adds \second, \second, \b
.endm

// void mica_armv6m_paired_codes(const mica_paired_t *args): the same of weights in codes, whole words of four channels.
// The words go onto the stack in order, from its pointer raised to where they end.
    FUNCTION mica_armv6m_paired_codes
    BEGIN
    mov sp, r4
    lsrs r5, r5, #1
    mov r12, r5                 // bytes of a row of the kernel
    ldr r1, [r0, #A_WEIGHTS_PITCH]
    subs r1, r1, r5
    mov r9, r1
    ldr r1, [r0, #A_WEIGHTS]
    ldr r3, [r0, #A_FIRST]
    ldr r2, [r0, #A_SECOND]
    adds r1, r1, r3
    subs r2, r2, r3
    ldr r0, [r0, #A_PAIRS]
codes_row:
    mov r3, r12
    adds r3, r1, r3
    mov r8, r3
1:  TWO_WORDS r7, r5, r4, r6    // of weights 0 and 2
    TWO_WORDS r6, r4, r6, r3    // of 1 and 3
    push {r4-r7}
    cmp r1, r8
    bne 1b
    add r1, r9
    mov r3, r10
    subs r3, #1
    mov r10, r3
    bne codes_row
    ldr r0, [sp, #F_ARGS]
    b unpacked
    .size mica_armv6m_paired_codes, . - mica_armv6m_paired_codes

// To F_SUMS + \at: the first of two sums, of which \both has 2^16 times the second, \second.
.macro FIRST_SUM second, both, at
    lsls r4, \second, #16
    mov r5, \both
    subs r5, r5, r4
    str r5, [sp, #F_SUMS + \at]
.endm

// void mica_armv6m_paired(const mica_paired_t *args)
    FUNCTION mica_armv6m_paired
    BEGIN

    // The weights as words.
    mov r8, r5
    ldr r1, [r0, #A_WEIGHTS_PITCH]
    subs r1, r1, r5
    mov r9, r1
    ldr r1, [r0, #A_WEIGHTS]
    ldr r2, [r0, #A_FIRST]
    ldr r3, [r0, #A_SECOND]
weights_row:
    mov r5, r8
    subs r5, #4
    bcc 2f
1:  subs r4, #16
    .set i, 12
    .rept 4
    ldrsb r6, [r1, r2]
    ldrsb r7, [r1, r3]
    lsls r7, r7, #16
    adds r6, r6, r7
    str r6, [r4, #i]
    adds r1, #1
    .set i, i - 4
    .endr
    subs r5, #4
    bcs 1b
2:  adds r5, #4
    beq 4f
3:  ldrsb r6, [r1, r2]
    ldrsb r7, [r1, r3]
    lsls r7, r7, #16
    adds r6, r6, r7
    subs r4, #4
    str r6, [r4]
    adds r1, #1
    subs r5, #1
    bne 3b
4:  add r1, r9
    mov r5, r10
    subs r5, #1
    mov r10, r5
    bne weights_row

unpacked:
    ldr r1, [r0, #A_BIAS]
    str r1, [sp, #F_BIAS]
    lsls r2, r1, #16
    adds r2, r2, r1
    str r2, [sp, #F_BOTH]
    ldr r1, [r0, #A_FLAGS]
    str r1, [sp, #F_FLAGS]
    ldr r1, [r0, #A_SUMS]
    str r1, [sp, #F_READ]
    str r1, [sp, #F_WRITE]
    adds r1, r0, #A_GROUPS
    ldm r1!, {r2-r5}
    add r1, sp, #F_GROUPS
    stm r1!, {r2-r5}
    LOAD_HIGH lr, r1, [r0, #A_BACK]
    ldr r1, [r0, #A_MULT]
    uxth r2, r1
    str r2, [sp, #F_ML]
    lsrs r1, r1, #16
    str r1, [sp, #F_MH]
    ldr r7, [r0, #A_SHIFT]
    ldr r5, [r0, #A_ZERO]
    lsls r5, r5, r7
    HALF_BIT r4, r7
    adds r5, r5, r4
    ldr r6, [r0, #A_RANGE]
    ldr r4, [r0, #A_LOW]
    add r3, sp, #F_REQUANT
    stm r3!, {r4-r7}
    ldr r7, [r0, #A_X]

    ldr r1, =group + 1
    bx r1
    .ltorg

    .balign 4
    .set i, PAIRS - 1
    .rept PAIRS
    ldr r6, [sp, #(4 * i)]
    ldm r7!, {r4, r5}
    muls r4, r6, r4
    add r8, r4
    asrs r4, r4, #16
    adcs r0, r4
    muls r5, r6, r5
    add r9, r5
    asrs r5, r5, #16
    adcs r1, r5
    ldm r7!, {r4, r5}
    muls r4, r6, r4
    add r10, r4
    asrs r4, r4, #16
    adcs r2, r4
    muls r5, r6, r5
    add r11, r5
    asrs r5, r5, #16
    adcs r3, r5
    .set i, i - 1
    .endr
steps_end:
    ldr r6, [sp, #F_FLAGS]
    lsrs r6, r6, #2             // flag 2: another call goes on
    bcc finish
    mov r12, r7
    ldr r6, [sp, #F_WRITE]      // it begins with the other pair
    lsls r4, r0, #16
    mov r7, r8
    subs r4, r7, r4
    lsls r5, r1, #16
    mov r7, r9
    subs r5, r7, r5
    stm r6!, {r4, r5}
    lsls r4, r2, #16
    mov r7, r10
    subs r4, r7, r4
    lsls r5, r3, #16
    mov r7, r11
    subs r5, r7, r5
    stm r6!, {r4, r5}
    stm r6!, {r0-r3}
    str r6, [sp, #F_WRITE]
    mov r7, r12
next:
    ldr r4, [sp, #F_ROWS]
    subs r4, #1
    beq group_done
    str r4, [sp, #F_ROWS]
    ldr r4, [sp, #F_NEXT]
    adds r7, r7, r4
    b row
group:
    ldr r0, [sp, #F_ARGS]
    ldr r1, [sp, #F_PLACES]
    ldm r1!, {r2-r5}
    str r1, [sp, #F_PLACES]
    ldr r6, [r0, #A_Y_OFFSET]
    adds r2, r2, r6
    add r6, sp, #F_Y
    stm r6!, {r2-r5}
    ldr r0, [r0, #A_ROWS]
    str r0, [sp, #F_ROWS]
row:
    ldr r4, [sp, #F_FLAGS]
    lsrs r4, r4, #1             // flag 1: there are sums to go on from
    bcs 1f
    ldr r0, [sp, #F_BIAS]
    movs r1, r0
    movs r2, r0
    movs r3, r0
    LOAD_HIGH r8, r4, [sp, #F_BOTH]
    mov r9, r4
    mov r10, r4
    mov r11, r4
    ldr r4, [sp, #F_ENTRY]
    bx r4
1:  ldr r6, [sp, #F_READ]
    ldm r6!, {r0-r3}
    mov r12, r7
    ldm r6!, {r4, r5}
    lsls r7, r0, #16
    adds r4, r4, r7
    mov r8, r4
    lsls r7, r1, #16
    adds r5, r5, r7
    mov r9, r5
    ldm r6!, {r4, r5}
    lsls r7, r2, #16
    adds r4, r4, r7
    mov r10, r4
    lsls r7, r3, #16
    adds r5, r5, r7
    mov r11, r5
    str r6, [sp, #F_READ]
    mov r7, r12
    ldr r4, [sp, #F_ENTRY]
    bx r4

group_done:
    ldr r1, [sp, #F_GROUPS]
    subs r1, #1
    beq done
    str r1, [sp, #F_GROUPS]
    ldr r0, [sp, #F_ARGS]
    ldr r1, [r0, #A_NEXT_GROUP]
    adds r7, r7, r1
    b group
done:
    add sp, #HALF_FRAME
    add sp, #(FRAME - HALF_FRAME)
    POP_ALL

    // The second pair is r0 to r3; the first ones wait in the stack.
finish:
    str r7, [sp, #F_X]
    FIRST_SUM r0, r8, 0
    FIRST_SUM r1, r9, 4
    FIRST_SUM r2, r10, 8
    FIRST_SUM r3, r11, 12
    add r4, sp, #F_REQUANT
    ldm r4, {r4-r7}
    mov r8, r4
    mov r9, r5
    mov r10, r6
    mov r11, r7
    LOAD_HIGH r12, r4, [sp, #F_Y]
    ldr r5, [sp, #F_PITCH]
    adds r4, r4, r5
    str r4, [sp, #F_Y]
    ldr r6, [sp, #F_ML]
    ldr r7, [sp, #F_MH]
    MICA_REQUANT r0, a
    ldr r0, [sp, #F_SUMS]
    MICA_REQUANT r0, b
    ldr r4, [sp, #F_LANES]
    add r12, r4
    MICA_REQUANT r1, c
    ldr r1, [sp, #F_SUMS + 4]
    MICA_REQUANT r1, d
    b 1f
    MICA_SATURATE a
    MICA_SATURATE b
    MICA_SATURATE c
    MICA_SATURATE d
1:  ldr r4, [sp, #F_LANES + 4]
    add r12, r4
    MICA_REQUANT r2, e
    ldr r2, [sp, #F_SUMS + 8]
    MICA_REQUANT r2, f
    ldr r4, [sp, #F_LANES + 8]
    add r12, r4
    MICA_REQUANT r3, g
    ldr r3, [sp, #F_SUMS + 12]
    MICA_REQUANT r3, h
    ldr r7, [sp, #F_X]
    b next
    MICA_SATURATE e
    MICA_SATURATE f
    MICA_SATURATE g
    MICA_SATURATE h
    .size mica_armv6m_paired, . - mica_armv6m_paired

// mica_armv6m_paired_words(x, to, first, second, channels, rows, pitch)
// The words of a lane, 16 bytes apart: x[first] + x[second] * 2^16 for `channels` x, of `rows` rows `pitch` apart.
    FUNCTION mica_armv6m_paired_words
    push {r4-r7, lr}
    LOAD_HIGH r12, r4, [sp, #20]
    ldr r6, [sp, #24]
    ldr r5, [sp, #28]
    subs r5, r5, r4
    mov lr, r5
words_row:
    mov r7, r12
    subs r7, #4
    bcc 2f
1:  .set i, 0
    .rept 4
    ldrsb r4, [r0, r2]
    ldrsb r5, [r0, r3]
    lsls r5, r5, #16
    adds r4, r4, r5
    str r4, [r1, #i]
    adds r0, #1
    .set i, i + 16
    .endr
    adds r1, #64
    subs r7, #4
    bcs 1b
2:  adds r7, #4
    beq 4f
3:  ldrsb r4, [r0, r2]
    ldrsb r5, [r0, r3]
    lsls r5, r5, #16
    adds r4, r4, r5
    str r4, [r1]
    adds r0, #1
    adds r1, #16
    subs r7, #1
    bne 3b
4:  add r0, lr
    subs r6, #1
    bne words_row
    pop {r4-r7, pc}
    .size mica_armv6m_paired_words, . - mica_armv6m_paired_words

// mica_armv6m_decode(to, codes, codes_end, bytes): whole words of codes
    FUNCTION mica_armv6m_decode
    push {r4-r7, lr}
    mov r12, r2
    movs r6, #255
    lsls r6, r6, #2
1:  ldm r1!, {r2}
    lsls r4, r2, #2
    ands r4, r4, r6
    ldr r4, [r3, r4]
    lsrs r5, r2, #6
    ands r5, r5, r6
    ldr r5, [r3, r5]
    lsls r5, r5, #8
    orrs r4, r4, r5
    lsrs r5, r2, #14
    ands r5, r5, r6
    ldr r5, [r3, r5]
    lsrs r2, r2, #24
    lsls r2, r2, #2
    ldr r7, [r3, r2]
    lsls r7, r7, #8
    orrs r5, r5, r7
    stm r0!, {r4, r5}
    cmp r1, r12
    bne 1b
    pop {r4-r7, pc}
    .size mica_armv6m_decode, . - mica_armv6m_decode
#endif
