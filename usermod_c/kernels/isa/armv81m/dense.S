// Matrix products with MVE, of one row of x: four rows of weights at once, sixteen elements each to a core register.
#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8
    .syntax unified
    .thumb
#include "../thumb.inc"
    .section .text.mica_mve_dense, "ax", %progbits

    // mica_mve_dense_t: x, k, w, row, y, fours, sign, then bias, mult, shift, low, high, zero
    .equ D_BIAS, 28

// void mica_mve_dense(const mica_mve_dense_t *args): `fours` times four outputs. Weights are taken with `sign` changed.
    ENTER mica_mve_dense
    vpush {d8-d15}
    ldr r1, [r0, #24]
    vdup.8 q7, r1
    add r1, r0, #D_BIAS
    ldm r1, {r1, r3, r4, r5, r6, r12}
    vdup.32 q5, r5
    vdup.32 q6, r6
    sub sp, #12
    strd r1, r3, [sp]           // bias, mult
    str r4, [sp, #8]            // shift
    ldm r0, {r8, r9, r10, r11}  // x, k, w, row
    ldrd r7, r3, [r0, #16]      // y, fours
1:  movs r0, #0
    movs r2, #0
    movs r4, #0
    movs r6, #0
    push {r3, r7}
    mov r1, r10
    add r3, r1, r11
    add r5, r3, r11
    add r7, r5, r11
    add r10, r7, r11
    push {r8}
    wlstp.8 lr, r9, 3f
2:  vldrb.8 q0, [r8], #16
    vldrb.8 q1, [r1], #16
    veor q1, q1, q7
    vldrb.8 q2, [r3], #16
    vmladava.s8 r0, q0, q1
    veor q2, q2, q7
    vldrb.8 q1, [r5], #16
    vmladava.s8 r2, q0, q2
    veor q1, q1, q7
    vldrb.8 q2, [r7], #16
    vmladava.s8 r4, q0, q1
    veor q2, q2, q7
    vmladava.s8 r6, q0, q2
    letp lr, 2b
3:  pop {r8}
    vmov q0[2], q0[0], r0, r4
    vmov q0[3], q0[1], r2, r6
    pop {r3, r7}
    ldrd r0, r2, [sp]
    ldr r4, [sp, #8]
    vldrw.32 q1, [r0], #16
    vldrw.32 q2, [r2], #16
    vldrb.s32 q3, [r4], #4
    strd r0, r2, [sp]
    str r4, [sp, #8]
    vadd.i32 q0, q0, q1
    vneg.s32 q3, q3
    vqdmulh.s32 q0, q0, q2      // floor(sum * mult / 2^31)
    vrshl.s32 q0, q0, q3
    vadd.i32 q0, q0, r12
    vmax.s32 q0, q0, q5
    vmin.s32 q0, q0, q6
    vstrb.32 q0, [r7], #4
    subs r3, #1
    bne 1b
    add sp, #12
    vpop {d8-d15}
    LEAVE mica_mve_dense
#endif
