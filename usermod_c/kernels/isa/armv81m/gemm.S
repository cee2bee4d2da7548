// Convolutions with MVE: VMLADAVA adds sixteen products of int8 to a sum in a core register, which has to be an even
// one. Pairs of pixels times four channels are eight sums, all there are; so pixels come interleaved by sixteen bytes,
// behind one pointer.
#ifndef MICA_WITHOUT_CONV2D_S8
    .syntax unified
    .thumb
#include "../thumb.inc"
    .section .text.mica_mve_gemm, "ax", %progbits

    // mica_mve_gemm_t
    .equ G_WEIGHTS, 0           // w[4], blocks
    .equ G_Y, 20                // y, second, step, zero, x_end
    .equ G_X, 40
    .equ G_TAIL, 44
    .equ G_BIAS, 48             // bias, mult, shift, low, high

    .equ ARGS, 0
    .equ OUT, 4                 // args + G_Y
    .equ TAIL, 8
    .equ FRAME, 16

// Sixteen elements, of which weights beyond the last are taken for 0 where \t is t. \a: a where there is a sum already.
.macro STEP a, t
    vldrb.8 q0, [r9], #16
    vldrb.8 q1, [r9], #16
    .ifc \t, t
    vpstttt
    .endif
    vldrb\t\().8 q2, [r1], #16
    vmladav\a\t\().s8 r0, q0, q2
    vmladav\a\t\().s8 r2, q1, q2
    vldrb\t\().8 q2, [r3], #16
    .ifc \t, t
    vpstttt
    .endif
    vmladav\a\t\().s8 r4, q0, q2
    vmladav\a\t\().s8 r6, q1, q2
    vldrb\t\().8 q2, [r5], #16
    vmladav\a\t\().s8 r8, q0, q2
    .ifc \t, t
    vpstttt
    .endif
    vmladav\a\t\().s8 r10, q1, q2
    vldrb\t\().8 q2, [r7], #16
    vmladav\a\t\().s8 r12, q0, q2
    vmladav\a\t\().s8 lr, q1, q2
.endm

// A pair of pixels. What follows the sums is the same for all.
.macro PAIR tail
1:  ldr r0, [sp, #ARGS]
    ldm r0, {r1, r3, r5, r7, r11}
    .if \tail
    cmp r11, #0
    beq.w 4f
    .endif
    subs r11, #1
    STEP
    beq 3f
    lsrs r11, r11, #1           // two blocks a turn, before them the odd one; no vector instruction changes flags
    bcc 2f
    STEP a
    beq 3f
2:  STEP a
    STEP a
    subs r11, #1
    bne 2b
3:
    .if \tail
    ldr r11, [sp, #TAIL]
    vctp.8 r11
    STEP a, t
    b 5f
4:  ldr r11, [sp, #TAIL]
    vctp.8 r11
    STEP , t
5:
    .endif
    vmov q0[2], q0[0], r0, r8
    vmov q0[3], q0[1], r4, r12
    vmov q1[2], q1[0], r2, r10
    vmov q1[3], q1[1], r6, lr
    ldr r0, [sp, #OUT]
    vadd.i32 q0, q0, q4
    vadd.i32 q1, q1, q4
    vqdmulh.s32 q0, q0, q5      // floor(sum * mult / 2^31)
    vqdmulh.s32 q1, q1, q5
    ldm r0, {r2, r4, r6, r8, r10}
    vrshl.s32 q0, q0, q6
    vrshl.s32 q1, q1, q6
    add r4, r2
    vadd.i32 q0, q0, r8
    vadd.i32 q1, q1, r8
    add r6, r2
    vmax.s32 q1, q1, q7
    vmax.s32 q0, q0, q7
    str r6, [r0]
    vmin.s32 q1, q1, q3
    vmin.s32 q0, q0, q3
    cmp r9, r10
    vstrb.32 q1, [r4]           // may be the first, too
    vstrb.32 q0, [r2]
    bne.w 1b
.endm

// void mica_mve_gemm(mica_mve_gemm_t *args): moves args->y.
    ENTER mica_mve_gemm
    vpush {d8-d15}
    sub sp, #FRAME + 4
    str r0, [sp, #ARGS]
    add r1, r0, #G_Y
    str r1, [sp, #OUT]
    ldrd r9, r2, [r0, #G_X]
    str r2, [sp, #TAIL]
    add r0, #G_BIAS
    ldm r0, {r1, r3, r4, r5, r6}
    vldrw.32 q4, [r1]
    vldrw.32 q5, [r3]
    vldrb.s32 q6, [r4]
    vneg.s32 q6, q6
    vdup.32 q7, r5
    vdup.32 q3, r6
    cmp r2, #0
    bne 9f
    PAIR 0
    b 8f
9:  PAIR 1
8:  add sp, #FRAME + 4
    vpop {d8-d15}
    LEAVE mica_mve_gemm
#endif
