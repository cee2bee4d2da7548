// Convolution on RV32IM: two output channels with every multiplication.
// Weights are packed as W = w0 + w1 * 2^16. Two products x * W + x' * W' are one sum p, whose lower field |x * w0 + x'
// * w0'| <= 2 * 128 * 127 fits 16 bits with its sign, so that (p + 2^15) >> 16 is channel 1 exactly. These go into a
//   sum U, p itself into T,
// modulo 2^32; in the end U is channel 1, and T - U * 2^16 channel 0. Seven instructions for four multiply-accumulates.
    .option norelax
#include "registers.inc"
    .section .text.mica_rv32_gemm, "ax", @progbits

// Elements \k and \k + 1 of pixel \px against four channels: a4, a5 and a6, a7 are their weights.
.macro PIXEL k, px, t01, u01, t23, u23
    lb t0, 4*\px+\k(a0)
    lb t1, 4*\px+\k+1(a0)
    mul t2, t0, a4
    mul ra, t1, a6
    mul t0, t0, a5
    mul t1, t1, a7
    add t2, t2, ra
    add t0, t0, t1
    add \t01, \t01, t2
    add \t23, \t23, t0
    add t2, t2, a3
    add t0, t0, a3
    srai t2, t2, 16
    srai t0, t0, 16
    add \u01, \u01, t2
    add \u23, \u23, t0
.endm

.macro ELEMENTS k
    lw a4, 8*\k+0(a1)
    lw a5, 8*\k+4(a1)
    lw a6, 8*\k+8(a1)
    lw a7, 8*\k+12(a1)
    PIXEL \k, 0, s8, s0, s9, s1
    PIXEL \k, 1, s10, s2, s11, s3
    PIXEL \k, 2, t3, s4, t4, s5
    PIXEL \k, 3, t5, s6, t6, s7
.endm

// Requantises \acc and stores it: t0 = multiplier, t1 = 2^(s-2) + ((zero + 128) << (s-1)), t2 = s - 1, a2 = 255.
.macro STORE acc, y, at, id
    mulh \acc, \acc, t0
    add \acc, \acc, t1
    sra \acc, \acc, t2
    bltu a2, \acc, saturate_\id
store_\id:
    addi \acc, \acc, -128
    sb \acc, \at(\y)
.endm

.macro CHANNEL0 t, u, y, at, id
    slli ra, \u, 16
    sub \t, \t, ra
    STORE \t, \y, \at, \id
.endm

.macro CONSTANTS at
    lw t0, 12*\at+0(a1)
    lw t1, 12*\at+4(a1)
    lw t2, 12*\at+8(a1)
.endm

    .equ F_W, 52
    .equ F_W_END, 56
    .equ F_X_END, 60
    .equ F_Y, 64
    .equ F_STEP, 68
    .equ FRAME, 80

// void mica_rv32_gemm(const mica_rv32_gemm_t *args)
    FUNCTION mica_rv32_gemm
    addi sp, sp, -FRAME
    CALLERS sw
    EACH lw, 4, 4, a0, t0, t1, t2, t3, t4
    lw a0, 0(a0)
    sw t0, F_X_END(sp)
    sw t1, F_W(sp)
    sw t2, F_W_END(sp)
    sw t3, F_Y(sp)
    sw t4, F_STEP(sp)
    li a3, 0x8000
1:  lw a1, F_W(sp)              // a group of four pixels
    lw a2, F_W_END(sp)
    lw s8, 0(a1)                // the bias: T of channels 0 and 1, U of it, T of 2 and 3, U
    lw s0, 4(a1)
    lw s9, 8(a1)
    lw s1, 12(a1)
    addi a1, a1, 16
    mv s10, s8
    mv t3, s8
    mv t5, s8
    mv s2, s0
    mv s4, s0
    mv s6, s0
    mv s11, s9
    mv t4, s9
    mv t6, s9
    mv s3, s1
    mv s5, s1
    mv s7, s1
2:  ELEMENTS 0
    ELEMENTS 2
    addi a0, a0, 16
    addi a1, a1, 32
    bne a1, a2, 2b
    lw a4, F_Y(sp)
    lw ra, F_STEP(sp)
    li a2, 255
    add a5, a4, ra
    add a6, a5, ra
    add a7, a6, ra
    CONSTANTS 0
    CHANNEL0 s8, s0, a4, 0, 00
    CHANNEL0 s10, s2, a5, 0, 01
    CHANNEL0 t3, s4, a6, 0, 02
    CHANNEL0 t5, s6, a7, 0, 03
    CONSTANTS 1
    STORE s0, a4, 1, 10
    STORE s2, a5, 1, 11
    STORE s4, a6, 1, 12
    STORE s6, a7, 1, 13
    CONSTANTS 2
    CHANNEL0 s9, s1, a4, 2, 20
    CHANNEL0 s11, s3, a5, 2, 21
    CHANNEL0 t4, s5, a6, 2, 22
    CHANNEL0 t6, s7, a7, 2, 23
    CONSTANTS 3
    STORE s1, a4, 3, 30
    STORE s3, a5, 3, 31
    STORE s5, a6, 3, 32
    STORE s7, a7, 3, 33
    lw t0, F_STEP(sp)
    lw t1, F_X_END(sp)
    add a7, a7, t0
    sw a7, F_Y(sp)
    beq a0, t1, 3f
    j 1b
3:  CALLERS lw
    addi sp, sp, FRAME
    ret
    SATURATE s8, 00, a2
    SATURATE s10, 01, a2
    SATURATE t3, 02, a2
    SATURATE t5, 03, a2
    SATURATE s0, 10, a2
    SATURATE s2, 11, a2
    SATURATE s4, 12, a2
    SATURATE s6, 13, a2
    SATURATE s9, 20, a2
    SATURATE s11, 21, a2
    SATURATE t4, 22, a2
    SATURATE t6, 23, a2
    SATURATE s1, 30, a2
    SATURATE s3, 31, a2
    SATURATE s5, 32, a2
    SATURATE s7, 33, a2
    .size mica_rv32_gemm, . - mica_rv32_gemm

// void mica_rv32_weights(const int8_t *w, uint32_t row, uint32_t words, uint32_t *to)
// Four rows of weights, `row` bytes apart, packed: of each element channels 0 and 1, then 2 and 3.
    .section .text.mica_rv32_weights, "ax", @progbits
.macro PACK k
    lb t0, \k(a4)
    lb t1, \k(a5)
    lb t2, \k(a0)
    lb t3, \k(a1)
    slli t0, t0, 16
    slli t1, t1, 16
    add t0, t0, t2
    add t1, t1, t3
    sw t0, 8*\k(a3)
    sw t1, 8*\k+4(a3)
.endm
    FUNCTION mica_rv32_weights
    add a4, a0, a1              // channel 1
    add a1, a4, a1              // 2
    sub a5, a1, a0
    add a5, a5, a4              // 3
    slli a2, a2, 2
    add a2, a2, a0
1:  PACK 0
    PACK 1
    PACK 2
    PACK 3
    addi a0, a0, 4
    addi a4, a4, 4
    addi a1, a1, 4
    addi a5, a5, 4
    addi a3, a3, 32
    bne a0, a2, 1b
    ret
    .size mica_rv32_weights, . - mica_rv32_weights
