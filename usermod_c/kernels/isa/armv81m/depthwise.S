// Depthwise convolution of 3x3 taps with MVE. A word has four rows of one column of a channel; three words side by
// side, gathered, are the taps of one output, or of two below each other, with the weights moved by a byte.
#ifndef MICA_WITHOUT_DEPTHWISE_CONV2D_S8
    .syntax unified
    .thumb
#include "../thumb.inc"
    .section .text.mica_mve_depthwise, "ax", %progbits

    // mica_mve_depthwise_t: y, second, next, pixels, fours, zero, low, high; x, column, step; taps, shift, bias, mult
    .equ D_X, 32
    .equ D_TAPS, 44

    .equ ARGS, 0
    .equ FRAME, 8

// Four channels of a pixel; \two: of the pixel below it, too.
.macro CHANNELS two
    vldrb.8 q1, [r1], #16
    vldrw.u32 q0, [q7, #16]!
    vmladav.s8 r0, q0, q1
    .if \two
    vshl.i32 q1, q1, #8
    vmladav.s8 r2, q0, q1
    .endif
    vldrb.8 q1, [r1], #16
    vldrw.u32 q0, [q7, #4]
    vmladav.s8 r4, q0, q1
    .if \two
    vshl.i32 q1, q1, #8
    vmladav.s8 r6, q0, q1
    .endif
    vldrb.8 q1, [r1], #16
    vldrw.u32 q0, [q7, #8]
    vmladav.s8 r8, q0, q1
    .if \two
    vshl.i32 q1, q1, #8
    vmladav.s8 r10, q0, q1
    .endif
    vldrb.8 q1, [r1], #16
    vldrw.u32 q0, [q7, #12]
    vmladav.s8 r12, q0, q1
    .if \two
    vshl.i32 q1, q1, #8
    vmladav.s8 lr, q0, q1
    .endif
.endm

.macro FINISH v
    vadd.i32 \v, \v, q2
    vqdmulh.s32 \v, \v, q3      // floor(sum * mult / 2^31)
    vrshl.s32 \v, \v, q4
    vadd.i32 \v, \v, r0
    vmax.s32 \v, \v, q5
    vmin.s32 \v, \v, q6
.endm

.macro PIXELS two
1:  ldr r0, [sp, #ARGS]
    add r1, r0, #D_TAPS
    ldm r1, {r1, r5, r7, r9}    // taps, shift, bias, mult
    ldr r11, [r0, #16]          // fours
2:  CHANNELS \two
    vldrw.32 q2, [r7], #16
    vldrw.32 q3, [r9], #16
    vldrb.s32 q4, [r5], #4
    vmov q0[2], q0[0], r0, r8
    vmov q0[3], q0[1], r4, r12
    ldr r0, [sp, #ARGS + 4]     // zero
    .if \two
    vmov q1[2], q1[0], r2, r10
    vmov q1[3], q1[1], r6, lr
    ldr r2, [sp, #ARGS + 8]     // second
    FINISH q1
    add r2, r3
    vstrb.32 q1, [r2]
    .endif
    FINISH q0
    vstrb.32 q0, [r3], #4
    subs r11, #1
    bne 2b
    // The next pixel: in x from behind the last channel of this one.
    ldr r0, [sp, #ARGS]
    ldr r2, [r0, #8]            // next
    ldr r6, [r0, #D_X + 8]      // step
    add r3, r2
    vadd.i32 q7, q7, r6
    ldr r4, [r0, #12]           // pixels
    subs r4, #1
    str r4, [r0, #12]
    bne 1b
.endm

// void mica_mve_depthwise(mica_mve_depthwise_t *args)
    ENTER mica_mve_depthwise
    vpush {d8-d15}
    sub sp, #FRAME + 4
    str r0, [sp, #ARGS]
    ldrd r3, r2, [r0]           // y, second
    ldrd r4, r5, [r0, #20]      // zero, low
    ldr r6, [r0, #28]           // high
    strd r4, r2, [sp, #ARGS + 4]
    vdup.32 q5, r5
    vdup.32 q6, r6
    ldrd r1, r8, [r0, #D_X]     // x, column
    mvn r4, #15                 // the first gather adds 16
    add r5, r4, r8
    add r6, r5, r8
    add r7, r6, r8
    vmov q7[2], q7[0], r4, r6
    vmov q7[3], q7[1], r5, r7
    vadd.i32 q7, q7, r1
    cmp r2, #0
    bne 9f
    PIXELS 0
    b 8f
9:  PIXELS 1
8:  add sp, #FRAME + 4
    vpop {d8-d15}
    LEAVE mica_mve_depthwise
#endif
