// norm_s8 on a Cortex-M0+: rows of a multiple of 8 elements over the whole int8, from the first sum to the last byte.
// kernels/ref/norm.c has the same in C, and does the others.
#if !defined(MICA_WITHOUT_NORM_S8) && !defined(MICA_WITHOUT_NORM_LOOPS)
#include "hot.inc"

// mica_norm_s8_t
    .equ MODE, 0
    .equ EACH, 1
    .equ FRACTION, 2
    .equ X_ZERO, 3
    .equ ACT, 4                 // act_min and act_max
    .equ N, 6
    .equ FACTOR, 8
    .equ UP, 12
    .equ EPSILON, 16
    .equ OFFSET, 20
    .equ TERMS, 24
    .equ X, 28
    .equ Y, 32

// v = byte i of w, which is used up with the last
.macro BYTE v, w, i
    .if \i == 0
    sxtb \v, \w
    .elseif \i == 3
    asrs \v, \w, #24
    .else
    lsls \v, \w, #24 - 8 * \i
    asrs \v, \v, #24
    .endif
.endm

// r4 = sum of squares; r5 = sum (deviation), or where it is the zero point, that of x - r5
.macro SQUARE v, w, i, deviation
    BYTE \v, \w, \i
    .if \deviation
    adds r5, r5, \v
    .else
    subs \v, \v, r5
    .endif
    muls \v, \v, \v
    adds r4, r4, \v
.endm

.macro SUMS deviation
1:  ldm r1!, {r2, r3}
    SQUARE r6, r2, 0, \deviation
    SQUARE r6, r2, 1, \deviation
    SQUARE r6, r2, 2, \deviation
    SQUARE r2, r2, 3, \deviation
    SQUARE r6, r3, 0, \deviation
    SQUARE r6, r3, 1, \deviation
    SQUARE r6, r3, 2, \deviation
    SQUARE r3, r3, 3, \deviation
    cmp r1, r11
    bne 1b
.endm

// r4 << shift until its uppermost bits are not all 0; r3 counts half of the shift
.macro UP_BY shift
    lsrs r6, r4, #32 - \shift
    bne 1f
    lsls r4, r4, #\shift
    adds r3, #\shift / 2
1:
.endm

// One of Newton's steps for r6, the reciprocal root of r4; r2 = 63 * 2^24 - r4 / 2
.macro NEWTON
    movs r7, r6
    muls r7, r7, r7
    lsrs r7, r7, #16
    muls r7, r4, r7
    subs r7, r2, r7
    asrs r7, r7, #14
    muls r7, r6, r7
    asrs r7, r7, #17
    adds r6, r6, r7
.endm

// v = element i of r3, with gamma, or with `each` with gamma and offset from where r1 points; an int8 is 0 to 255.
.macro ELEMENT v, i, gamma, each
    BYTE \v, r3, \i
    muls \v, r2, \v
    add \v, r8
    .if \each
    ldm r1!, {r4, r5}
    .endif
    asrs \v, \v, #16
    muls \v, \gamma, \v
    .if \each
    adds \v, \v, r5
    .else
    add \v, r9
    .endif
    asrs \v, \v, #20
.endm

// Four elements: r0 = x, r1 = terms, r2 = factor of the row, r8 = 2^15 - centre, r9 = offset without `each`,
// r10 = y - x - 4, r12 = 0x80808080, lr = 0xff00ff00. r7 becomes elements 0 and 2, 16 bits each, r6 1 and 3.
.macro FOUR each, label
    ldm r0!, {r3}
    .if \each
    ELEMENT r7, 0, r4, 1
    ELEMENT r6, 1, r4, 1
    mov r9, r6
    ELEMENT r6, 2, r4, 1
    lsls r6, r6, #16
    adds r7, r7, r6
    ELEMENT r6, 3, r4, 1
    lsls r6, r6, #16
    add r6, r9
    .else
    ldm r1!, {r4, r5}
    ELEMENT r7, 0, r4, 0
    ELEMENT r6, 1, r5, 0
    ldm r1!, {r4}
    ELEMENT r5, 2, r4, 0
    lsls r5, r5, #16
    adds r7, r7, r5
    ldm r1!, {r4}
    ELEMENT r5, 3, r4, 0
    lsls r5, r5, #16
    adds r6, r6, r5
    .endif
    movs r4, r7
    orrs r4, r6
    mov r5, lr
    tst r4, r5
    bne saturate_\label
store_\label:
    lsls r6, r6, #8
    orrs r7, r6
    mov r3, r12
    eors r7, r3
    mov r3, r10
    str r7, [r0, r3]
.endm

// What is rare of four, near enough to branch to.
.macro BESIDE label
saturate_\label:
    bl saturate
    mov lr, r5
    b store_\label
.endm

.macro RESULTS each
results_\each:
    FOUR \each, even_\each
    FOUR \each, odd_\each
    cmp r0, r11
    bne results_\each
.endm

.macro LIMIT v
    cmp \v, #255
    bls 1f
    asrs \v, \v, #31
    mvns \v, \v
    uxtb \v, \v
1:
.endm

.macro LIMIT_BOTH v
    sxth r3, \v
    subs \v, \v, r3
    asrs \v, \v, #16
    LIMIT r3
    LIMIT \v
    lsls \v, \v, #16
    orrs \v, r3
.endm

    .type saturate, %function
    .balign 4
    .thumb_func
saturate:                       // keeps r5
    LIMIT_BOTH r7
    LIMIT_BOTH r6
    bx lr

// void mica_norm_s8_armv6m(const mica_norm_s8_t *p, MICA_KERNEL_ARGS)
    FUNCTION mica_norm_s8_armv6m    // r0 = p, r1 = row_begin, r2 = row_end
    mov r12, r3
    ldrh r3, [r0, #N]
    lsls r3, r3, #29
    bne other
    ldr r3, [r0, #X]
    lsls r3, r3, #30
    bne other
    ldr r3, [r0, #Y]
    lsls r3, r3, #30
    bne other
    ldrh r3, [r0, #ACT]
    adds r3, #0x80              // 0x7f80 becomes 0x8000, and nothing else does
    lsls r3, r3, #17
    bne other
    bcs whole
other:
    mov r3, r12
    push {r0, r1}
    ldr r0, =mica_norm_s8_ref
    str r0, [sp, #4]
    pop {r0, pc}
whole:
    push {r4-r7, lr}
    mov r4, r8
    mov r5, r9
    mov r6, r10
    mov r7, r11
    subs r3, r2, r1
    push {r0, r3, r4-r7}
    ldrh r2, [r0, #N]
    muls r2, r1, r2
    ldr r1, [r0, #X]
    ldr r3, [r0, #Y]
    subs r3, r3, r1
    subs r3, #4
    mov r10, r3
    adds r1, r1, r2
    LOAD_HIGH r9, r2, [r0, #OFFSET]
    ldr r2, =0x80808080
    mov r12, r2
    ldr r2, =0xff00ff00
    mov lr, r2
row:                            // r0 = p, r1 = x
    ldrh r2, [r0, #N]
    adds r2, r2, r1
    mov r11, r2
    movs r4, #0
    ldrb r2, [r0, #MODE]
    cmp r2, #0
    bne squares
    movs r5, #0
    SUMS 1
    ldrh r2, [r0, #N]
    mov r8, r2
    muls r4, r2, r4
    movs r6, r5
    muls r6, r6, r6
    subs r4, r4, r6
    b root
squares:
    movs r5, #X_ZERO
    ldrsb r5, [r0, r5]
    SUMS 0
    movs r2, #1
    mov r8, r2
root:                           // r4 = spread; t = (r8 * x - r5) * the scale of the row
    ldrb r2, [r0, #FRACTION]
    lsls r4, r4, r2
    ldr r2, [r0, #EPSILON]
    ldr r3, [r0, #UP]
    adds r4, r4, r2
    beq flat
    UP_BY 16
    UP_BY 8
    UP_BY 4
    UP_BY 2
    lsrs r4, r4, #15
    adds r4, #1
    lsrs r4, r4, #1
    ldr r2, =63 << 24
    lsrs r6, r4, #1
    subs r2, r2, r6
    ldr r7, =39500
    muls r7, r4, r7
    lsrs r7, r7, #16
    ldr r6, =69250
    subs r6, r6, r7
    NEWTON
    NEWTON
    NEWTON
    ldrh r2, [r0, #FACTOR]
    muls r2, r6, r2
    lsrs r2, r2, #15
    adds r2, #1
    lsrs r2, r2, #1
    muls r5, r2, r5
    mov r6, r8
    muls r2, r6, r2
    cmp r3, #0
    blt right
    lsls r5, r5, r3
    lsls r2, r2, r3
    b centre
right:
    mvns r3, r3
    asrs r5, r5, r3
    adds r5, #1
    asrs r5, r5, #1
    asrs r2, r2, r3
    adds r2, #1
    asrs r2, r2, #1
    b centre
flat:
    movs r2, #0
    movs r5, #0
centre:
    movs r3, #128
    lsls r3, r3, #8
    subs r3, r3, r5
    mov r8, r3
    ldrb r6, [r0, #EACH]
    ldrh r3, [r0, #N]
    ldr r4, [r0, #TERMS]
    subs r0, r1, r3
    movs r1, r4
    cmp r6, #0
    bne results_1
    b results_0
    BESIDE even_1
    RESULTS 1
    b next
    BESIDE odd_1
    BESIDE even_0
    RESULTS 0
    b next
    BESIDE odd_0
next:
    movs r1, r0
    ldr r0, [sp]
    ldr r3, [sp, #4]
    subs r3, #1
    str r3, [sp, #4]
    beq 1f
    b row
1:  pop {r0, r3, r4-r7}
    mov r8, r4
    mov r9, r5
    mov r10, r6
    mov r11, r7
    pop {r4-r7, pc}
    .balign 4
    .ltorg
    .size mica_norm_s8_armv6m, . - mica_norm_s8_armv6m
#endif
