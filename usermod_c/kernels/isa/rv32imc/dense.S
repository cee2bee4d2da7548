// Eight rows of weights, each byte 128 too large, against x on RV32IM: x is loaded once for eight uses.
    .option norelax
#include "registers.inc"
    .section .text.mica_rv32_dense, "ax", @progbits

.macro ELEMENT k
    lb s8, \k(a0)
    lbu t0, \k(a1)
    lbu t1, \k(a2)
    lbu t2, \k(a3)
    lbu t3, \k(a4)
    mul t0, t0, s8
    mul t1, t1, s8
    mul t2, t2, s8
    mul t3, t3, s8
    add s0, s0, t0
    add s1, s1, t1
    add s2, s2, t2
    add s3, s3, t3
    lbu t0, \k(a5)
    lbu t1, \k(a6)
    lbu t2, \k(a7)
    lbu t3, \k(t6)
    mul t0, t0, s8
    mul t1, t1, s8
    mul t2, t2, s8
    mul t3, t3, s8
    add s4, s4, t0
    add s5, s5, t1
    add s6, s6, t2
    add s7, s7, t3
.endm

.macro ADVANCE n
    addi a0, a0, \n
    addi a1, a1, \n
    addi a2, a2, \n
    addi a3, a3, \n
    addi a4, a4, \n
    addi a5, a5, \n
    addi a6, a6, \n
    addi a7, a7, \n
    addi t6, t6, \n
.endm

// Requantises \acc, for channel \i, and stores it: rounding once, as kernels/requant.h says. a1 = mult, a2 = shift, a3
// = y, a4 = y_zero - act_min, a5 = act_max - act_min, a6 = act_min
.macro STORE acc, i
    lw t0, 4*\i(a1)
    lb t1, \i(a2)
    slli \acc, \acc, 1
    mulh \acc, \acc, t0
    addi t1, t1, -1
    sra \acc, \acc, t1
    addi \acc, \acc, 1
    srai \acc, \acc, 1
    add \acc, \acc, a4
    bltu a5, \acc, saturate_\i
store_\i:
    add \acc, \acc, a6
    sb \acc, \i(a3)
.endm

.macro BEGIN acc, i
    lw \acc, 4*\i(t1)
    add \acc, \acc, t2
.endm

// void mica_rv32_dense(const mica_rv32_dense_t *args)
    FUNCTION mica_rv32_dense
    addi sp, sp, -48
    EACH sw, 0, 4, sp, s0, s1, s2, s3, s4, s5, s6, s7, s8
    mv t5, a0
    lw t1, 16(t5)               // bias
    lw t2, 20(t5)               // begin
    BEGIN s0, 0
    BEGIN s1, 1
    BEGIN s2, 2
    BEGIN s3, 3
    BEGIN s4, 4
    BEGIN s5, 5
    BEGIN s6, 6
    BEGIN s7, 7
    lw a0, 0(t5)                // x
    lw a1, 4(t5)                // its length
    lw t0, 12(t5)               // row
    add t4, a0, a1              // the end of x
    sw t4, 36(sp)
    andi t4, a1, -16
    add t4, t4, a0              // and of what is unrolled
    lw a1, 8(t5)                // w
    add a2, a1, t0
    add a3, a2, t0
    add a4, a3, t0
    add a5, a4, t0
    add a6, a5, t0
    add a7, a6, t0
    add t6, a7, t0
    beq a0, t4, 2f
1:  .set k, 0
    .rept 16
    ELEMENT k
    .set k, k + 1
    .endr
    ADVANCE 16
    bne a0, t4, 1b
2:  lw t4, 36(sp)
    beq a0, t4, 4f
3:  ELEMENT 0
    ELEMENT 1
    ELEMENT 2
    ELEMENT 3
    ADVANCE 4
    bne a0, t4, 3b
4:  lw a1, 24(t5)
    lw a2, 28(t5)
    lw a3, 32(t5)
    lw a4, 36(t5)
    lw a5, 40(t5)
    lw a6, 44(t5)
    STORE s0, 0
    STORE s1, 1
    STORE s2, 2
    STORE s3, 3
    STORE s4, 4
    STORE s5, 5
    STORE s6, 6
    STORE s7, 7
    EACH lw, 0, 4, sp, s0, s1, s2, s3, s4, s5, s6, s7, s8
    addi sp, sp, 48
    ret
    SATURATE s0, 0, a5
    SATURATE s1, 1, a5
    SATURATE s2, 2, a5
    SATURATE s3, 3, a5
    SATURATE s4, 4, a5
    SATURATE s5, 5, a5
    SATURATE s6, 6, a5
    SATURATE s7, 7, a5
    .size mica_rv32_dense, . - mica_rv32_dense
