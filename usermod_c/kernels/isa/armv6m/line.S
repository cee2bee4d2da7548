// Depthwise convolution along a line: taps one behind the other, as in networks for sound and other signals. Channel
// after channel, whose weights lie on the stack as words. Where windows follow one another by one tap, two outputs go
// at once, and each input is a factor of both: a tap of the two takes 9 cycles, what is left of them 83. Otherwise a
// tap takes 7, what is left of an output 41.
#include "hot.inc"
#ifndef MICA_WITHOUT_LINES

    .equ MOST, 16               // taps; MICA_LINE_TAPS
    .equ F_BIAS, 4 * MOST       // behind the weights
    .equ F_BACK, F_BIAS + 4     // from behind a window to the next
    .equ F_CODE, F_BIAS + 8     // as many taps as there are
    .equ F_END, F_BIAS + 12     // r1 behind the last output
    .equ F_ARGS, F_BIAS + 16
    .equ F_ML, F_BIAS + 20      // the multiplier's halves
    .equ F_MH, F_BIAS + 24
    .equ F_BACK2, F_BIAS + 28   // the same of two windows
    .equ F_CODE2, F_BIAS + 32
    .equ F_END2, F_BIAS + 36
    .equ F_SPAN2, F_BIAS + 40   // bytes from the first output of two windows behind the last
    .equ FRAME, F_BIAS + 44

// mica_line_t in kernels.h.
    FIELDS A_, 0, X, Y, WEIGHTS, BIAS, MULT, SHIFT, CHANNELS, TAPS, TAP, STEP, COUNT, PITCH, ZERO, RANGE, LOW

// void mica_armv6m_line(mica_line_t *args)
    ENTER mica_armv6m_line
    sub sp, #FRAME
    str r0, [sp, #F_ARGS]
    ldr r1, [r0, #A_TAPS]
    ldr r2, [r0, #A_TAP]
    ldr r3, [r0, #A_STEP]
    movs r4, #0
    cmp r2, r3
    bne 1f                      // no pairs
    ldr r4, [r0, #A_COUNT]
    lsrs r4, r4, #1
    lsls r4, r4, #1
    muls r4, r3, r4
1:  str r4, [sp, #F_SPAN2]
    muls r2, r1, r2
    subs r4, r3, r2
    str r4, [sp, #F_BACK]
    adds r4, r4, r3
    str r4, [sp, #F_BACK2]
    movs r2, #10                // bytes of a tap's code
    muls r2, r1, r2
    ldr r3, =line_done + 1
    subs r3, r3, r2
    str r3, [sp, #F_CODE]
    movs r2, #14
    muls r2, r1, r2
    ldr r3, =pair_done + 1
    subs r3, r3, r2
    str r3, [sp, #F_CODE2]
    LOAD_HIGH r8, r1, [r0, #A_LOW]
    LOAD_HIGH r10, r1, [r0, #A_RANGE]
    LOAD_HIGH lr, r1, [r0, #A_PITCH]
line_channel:
    ldr r1, [r0, #A_WEIGHTS]
    ldr r2, [r0, #A_TAPS]
    mov r3, sp
    movs r5, #0
1:  ldrsb r4, [r1, r5]
    stm r3!, {r4}
    adds r1, #1
    subs r2, #1
    bne 1b
    str r1, [r0, #A_WEIGHTS]
    ldr r1, [r0, #A_BIAS]
    ldm r1!, {r2}
    str r1, [r0, #A_BIAS]
    str r2, [sp, #F_BIAS]
    ldr r1, [r0, #A_MULT]
    ldm r1!, {r7}
    str r1, [r0, #A_MULT]
    uxth r6, r7
    lsrs r7, r7, #16
    str r6, [sp, #F_ML]
    str r7, [sp, #F_MH]
    ldr r1, [r0, #A_SHIFT]
    ldrb r2, [r1]
    adds r1, #1
    str r1, [r0, #A_SHIFT]
    mov r11, r2
    ldr r3, [r0, #A_ZERO]
    lsls r3, r3, r2
    HALF_BIT r1, r2
    adds r3, r3, r1
    mov r9, r3
    LOAD_HIGH r12, r1, [r0, #A_Y]
    adds r1, #1
    str r1, [r0, #A_Y]
    ldr r1, [r0, #A_X]
    adds r2, r1, #1
    str r2, [r0, #A_X]
    ldr r3, [r0, #A_TAP]
    subs r1, r1, r3
    ldr r4, [r0, #A_STEP]
    ldr r5, [r0, #A_COUNT]
    muls r4, r5, r4
    adds r4, r4, r1
    str r4, [sp, #F_END]
    ldr r4, [sp, #F_SPAN2]
    cmp r4, #0
    bne 1f
    b line_output
1:  adds r4, r4, r1
    str r4, [sp, #F_END2]
pair_output:                    // r0, r6: sums; r7: the weight of the tap before
    ldr r0, [sp, #F_BIAS]
    movs r6, r0
    movs r7, #0
    mov r2, sp
    ldr r4, [sp, #F_CODE2]
    bx r4
    .ltorg
    .balign 4
    .rept MOST
    ldrsb r4, [r1, r3]
    adds r1, r1, r3
    muls r7, r4, r7
    adds r6, r6, r7
    ldm r2!, {r7}
    muls r4, r7, r4
    adds r0, r0, r4
    .endr
pair_done:
    ldrsb r4, [r1, r3]
    muls r4, r7, r4
    adds r2, r6, r4
    ldr r6, [sp, #F_ML]
    ldr r7, [sp, #F_MH]
    MICA_REQUANT r0, first
    MICA_REQUANT r2, second
    ldr r4, [sp, #F_BACK2]
    adds r1, r1, r4
    ldr r4, [sp, #F_END2]
    cmp r1, r4
    beq 1f
    b pair_output
1:  ldr r4, [sp, #F_END]
    cmp r1, r4
    bne line_output
    b line_next
    MICA_SATURATE first
    MICA_SATURATE second
line_output:
    ldr r0, [sp, #F_BIAS]
    mov r2, sp
    ldr r4, [sp, #F_CODE]
    bx r4
    .balign 4
    .rept MOST
    ldrsb r4, [r1, r3]
    adds r1, r1, r3
    ldm r2!, {r5}
    muls r4, r5, r4
    adds r0, r0, r4
    .endr
line_done:
    MICA_REQUANT r0, line
    ldr r4, [sp, #F_BACK]
    adds r1, r1, r4
    ldr r4, [sp, #F_END]
    cmp r1, r4
    bne line_output
line_next:
    ldr r0, [sp, #F_ARGS]
    ldr r1, [r0, #A_CHANNELS]
    subs r1, #1
    str r1, [r0, #A_CHANNELS]
    beq 1f
    b line_channel
1:  add sp, #FRAME
    POP_ALL
    MICA_SATURATE line
    .size mica_armv6m_line, . - mica_armv6m_line
#endif
