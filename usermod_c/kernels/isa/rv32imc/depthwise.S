// Depthwise 3x3 convolution of one channel on RV32IM, over rows of a padded plane of bytes. The nine weights and three
// sums are in registers: each column of the image is loaded once and adds to the outputs whose windows it lies in.
    .option norelax
#include "registers.inc"
    .section .text.mica_rv32_depthwise, "ax", @progbits

// A column at \at from the three rows: finishes \a (begun two columns ago), goes on with \b, begins \c.
//   a0, a1, a2 = rows; s0-s8 = weights, row by row; t0 = bias
.macro COLUMN at, a, b, c
    lb t1, \at(a0)
    lb t2, \at(a1)
    lb t3, \at(a2)
.ifnb \a
    mul t4, t1, s2
    mul t6, t2, s5
    add \a, \a, t4
    mul t4, t3, s8
    add \a, \a, t6
    add \a, \a, t4
.endif
.ifnb \b
    mul t4, t1, s1
    mul t6, t2, s4
    add \b, \b, t4
    mul t4, t3, s7
    add \b, \b, t6
    add \b, \b, t4
.endif
.ifnb \c
    mul t4, t1, s0
    mul t6, t2, s3
    add \c, t0, t4
    mul t4, t3, s6
    add \c, \c, t6
    add \c, \c, t4
.endif
.endm

// Requantises \a and stores it: s9 = multiplier, s10 = 2^(s-2) + ((zero + 128) << (s-1)), s11 = s - 1, a7 = 255.
.macro STORE a, id
    mulh \a, \a, s9
    add \a, \a, s10
    sra \a, \a, s11
    bltu a7, \a, saturate_\id
store_\id:
    addi \a, \a, -128
    sb \a, 0(a3)
    add a3, a3, a4
.endm

    .equ F_X, 52
    .equ F_ROWS, 56
    .equ F_NEXT, 60
    .equ F_LENGTH, 64
    .equ FRAME, 80

.macro BEGIN name
    FUNCTION \name
    addi sp, sp, -FRAME
    CALLERS sw
    lw t0, 12(a0)               // weights
    EACH lb, 0, 1, t0, s0, s1, s2, s3, s4, s5, s6, s7, s8
    lw t0, 16(a0)
    lw s9, 20(a0)
    lw s10, 24(a0)
    lw s11, 28(a0)
    lw t1, 32(a0)               // rows
    lw t2, 36(a0)               // next
    lw t3, 40(a0)               // length
    sw t1, F_ROWS(sp)
    sw t2, F_NEXT(sp)
    sw t3, F_LENGTH(sp)
    lw a3, 4(a0)                // y
    lw a4, 8(a0)                // step
    lw a1, 44(a0)               // pitch
    lw a0, 0(a0)                // x
    add a2, a1, a0
    add a2, a2, a1
    add a1, a1, a0
    li a7, 255
.endm

// Behind a row, whose begin is in F_X: the next one, or the end.
.macro NEXT_ROW loop
    lw t1, F_X(sp)
    lw t2, F_NEXT(sp)
    lw t3, F_ROWS(sp)
    sub t1, t1, a0
    add t1, t1, t2
    add a0, a0, t1
    add a1, a1, t1
    add a2, a2, t1
    addi t3, t3, -1
    sw t3, F_ROWS(sp)
    beqz t3, 9f
    j \loop
9:  CALLERS lw
    addi sp, sp, FRAME
    ret
.endm

// void mica_rv32_depthwise1(const mica_rv32_depthwise_t *args): stride 1
    BEGIN mica_rv32_depthwise1
1:  sw a0, F_X(sp)
    lw ra, F_LENGTH(sp)
    add ra, ra, a3              // behind the last output of the row
    COLUMN 0, , , a5
    COLUMN 1, , a5, a6
2:  COLUMN 2, a5, a6, t5
    STORE a5, 10
    beq a3, ra, 3f
    COLUMN 3, a6, t5, a5
    STORE a6, 11
    beq a3, ra, 3f
    COLUMN 4, t5, a5, a6
    STORE t5, 12
    addi a0, a0, 3
    addi a1, a1, 3
    addi a2, a2, 3
    beq a3, ra, 3f
    j 2b
3:  NEXT_ROW 1b
    SATURATE a5, 10, a7
    SATURATE a6, 11, a7
    SATURATE t5, 12, a7
    .size mica_rv32_depthwise1, . - mica_rv32_depthwise1

// void mica_rv32_depthwise2(const mica_rv32_depthwise_t *args): stride 2
    BEGIN mica_rv32_depthwise2
1:  sw a0, F_X(sp)
    lw ra, F_LENGTH(sp)
    add ra, ra, a3
    COLUMN 0, , , a5
2:  COLUMN 1, , a5,
    COLUMN 2, a5, , a6
    STORE a5, 20
    beq a3, ra, 3f
    COLUMN 3, , a6,
    COLUMN 4, a6, , a5
    STORE a6, 21
    addi a0, a0, 4
    addi a1, a1, 4
    addi a2, a2, 4
    beq a3, ra, 3f
    j 2b
3:  NEXT_ROW 1b
    SATURATE a5, 20, a7
    SATURATE a6, 21, a7
    .size mica_rv32_depthwise2, . - mica_rv32_depthwise2
