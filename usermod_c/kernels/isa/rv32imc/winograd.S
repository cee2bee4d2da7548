// Winograd's F(2x2,3x3) on RV32IM: the products of sixteen positions, four tiles against four channels, and what
// becomes of their sums. Layouts and the order of positions: conv2d_winograd.c.
#ifndef MICA_WITHOUT_WINOGRAD
    .option norelax
#include "registers.inc"
    .section .text.mica_rv32_winograd, "ax", @progbits

    .equ PITCH, 128             // bytes from an input channel to the next, of tiles and of weights

// Input channel \k of tile \t against four channels: a4-a7 are their weights.
.macro TILE k, t, acc0, acc1, acc2, acc3
    lh t0, PITCH*\k+2*\t(a0)
    mul t1, t0, a4
    mul t2, t0, a5
    mul a3, t0, a6
    mul t0, t0, a7
    add \acc0, \acc0, t1
    add \acc1, \acc1, t2
    add \acc2, \acc2, a3
    add \acc3, \acc3, t0
.endm

.macro INPUT k
    lh a4, PITCH*\k+0(a1)
    lh a5, PITCH*\k+2(a1)
    lh a6, PITCH*\k+4(a1)
    lh a7, PITCH*\k+6(a1)
    TILE \k, 0, s0, s1, s2, s3
    TILE \k, 1, s4, s5, s6, s7
    TILE \k, 2, s8, s9, s10, s11
    TILE \k, 3, t3, t4, t5, t6
.endm

    .equ F_ARGS, 52
    .equ F_BACK, 56             // from the end of a position to the next: 8 less what one takes
    .equ F_SUMS, 60
    .equ F_SUMS_END, 64
    .equ FRAME, 80

// mica_rv32_winograd_t in kernels.h.
    .equ A_X, 0
    .equ A_W, 4
    .equ A_SUMS, 8
    .equ A_BYTES, 12
    .equ A_CONSTANTS, 16
    .equ A_COLUMN, 20
    .equ A_ROW, 24
    .equ A_Y, 28

// void mica_rv32_winograd(mica_rv32_winograd_t *args)
    FUNCTION mica_rv32_winograd
    addi sp, sp, -FRAME
    CALLERS sw
    sw a0, F_ARGS(sp)
    lw ra, A_SUMS(a0)
    lw t0, A_BYTES(a0)
    lw a1, A_W(a0)
    lw a0, A_X(a0)
    addi t1, ra, 1024 - 512
    addi t1, t1, 512
    sw t1, F_SUMS_END(sp)
    add a2, a0, t0
    li t1, 8
    sub t1, t1, t0
    sw t1, F_BACK(sp)
column:
    addi t0, ra, 256
    sw t0, F_SUMS(sp)
    .irp sum, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, t3, t4, t5, t6
    li \sum, 0
    .endr
position:
    INPUT 0
    INPUT 1
    INPUT 2
    INPUT 3
    addi a0, a0, 4*PITCH
    addi a1, a1, 4*PITCH
    beq a0, a2, 1f
    j position
1:  lw t0, F_BACK(sp)
    lw t1, F_SUMS(sp)
    EACH sw, 0, 4, ra, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, t3, t4, t5, t6
    addi ra, ra, 64
    add a0, a0, t0
    add a1, a1, t0
    addi a2, a2, 8
    beq ra, t1, 2f
    j position
2:  lw t0, F_SUMS_END(sp)
    beq ra, t0, 3f
    j column

// \to = sum \i of column \j, of the tile and channel at a0
.macro SUM to, i, j
    lw \to, 256*\j+64*\i(a0)
.endm

// Of each column N = -m3, P = N + m1, Q = P + m2, F = Q + m0 were stored: m0 + m1 + m2 = F - N, m1 - m2 - m3 = 2 P - Q.
.macro UPPER to, j
    SUM \to, 3, \j
    SUM t0, 0, \j
    sub \to, \to, t0
.endm

.macro LOWER to, j
    SUM \to, 1, \j
    SUM t0, 2, \j
    slli \to, \to, 1
    sub \to, \to, t0
.endm

// t3 = multiplier, t4 = 2^s + ((zero + 128) << (s+1)), t5 = s + 1, a2 = 255.
.macro STORE acc, y, id
    mulh \acc, \acc, t3
    add \acc, \acc, t4
    sra \acc, \acc, t5
    bltu a2, \acc, saturate_\id
store_\id:
    addi \acc, \acc, -128
    sb \acc, 0(\y)
.endm

3:  lw s0, F_ARGS(sp)
    lw a0, A_SUMS(s0)
    lw s1, A_CONSTANTS(s0)
    lw s2, A_COLUMN(s0)
    lw s3, A_ROW(s0)
    addi s4, a0, 16             // behind the last channel
    li a2, 255
channel:
    lw t2, 0(s1)                // the bias
    lw t3, 4(s1)
    lw t4, 8(s1)
    lw t5, 12(s1)
    addi s1, s1, 16
    addi a0, a0, 48
    addi s5, s0, A_Y + 12       // tiles from the last on: one that does not exist has an output of another's
tile:
    lw a1, 0(s5)
    UPPER a4, 1
    UPPER a5, 2
    LOWER a6, 1
    LOWER a7, 2
    add a4, a4, t2
    add a6, a6, t2
    sub t6, a4, a5
    add a4, a4, a5
    sub t1, a6, a7
    add a6, a6, a7
    UPPER a5, 0
    LOWER a7, 0
    add a4, a4, a5
    add a6, a6, a7
    UPPER a5, 3
    LOWER a7, 3
    sub t6, t6, a5
    sub t1, t1, a7
    addi t0, a1, 1
    sw t0, 0(s5)
    add a5, a1, s2
    add a7, a1, s3
    STORE a4, a1, 0
    STORE t6, a5, 1
    STORE a6, a7, 2
    add a7, a7, s2
    STORE t1, a7, 3
    addi s5, s5, -4
    addi a0, a0, -16
    addi t0, s0, A_Y - 4
    bne s5, t0, tile
    addi a0, a0, 16 + 4
    bne a0, s4, channel
    CALLERS lw
    addi sp, sp, FRAME
    ret
    SATURATE a4, 0, a2
    SATURATE t6, 1, a2
    SATURATE a6, 2, a2
    SATURATE t1, 3, a2
    .size mica_rv32_winograd, . - mica_rv32_winograd
#endif
