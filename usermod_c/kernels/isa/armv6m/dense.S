// Matrix product of one row with constant weights. A weight is used once, so nothing pays for unpacking it to memory: a word
// of four weights, each 128 too large (layout OFFSET_ROWS), is taken apart by a mask, a shift and an addition. x comes
// as pairs, crossed here because the weights are not: X = x1 + x0 * 2^16 against W = w0 + w1 * 2^16. 17 cycles for 4
// multiply-accumulates; how they come about says gemm.S.
#include "hot.inc"

    .equ WORDS, 32              // unrolled

    .equ F_X, 0
    .equ F_WEIGHTS_END, 4
    .equ F_DELTA, 8             // from bias + 1 to mult
    .equ F_ZERO, 12
    .equ F_RANGE, 16
    .equ F_LOW, 20
    .equ F_MASK, 24
    .equ F_PAIRS, 28
    .equ FRAME, 32

// One row against all channels. OFFSET: the weights are 128 too large; ROWS: they are as they are, and the sign bit has to
// be turned first, which takes the register of the second pair; CODES: a byte is the number of a crossed pair in a table.
    .equ ROWS, 0
    .equ OFFSET, 1
    .equ CODES, 2

.macro PAIR_OF_CODES shift, by
    \shift r4, r3, #\by
    ands r4, r4, r6
    ldr r4, [r7, r4]
    ldm r2!, {r5}
    muls r4, r5, r4
    asrs r4, r4, #16
    adcs r0, r4
.endm

// What the loop keeps in r7.
.macro LOAD_R7 layout
    .if \layout == ROWS
    ldr r7, =0x80808080
    .endif
    .if \layout == CODES
    ldr r7, [sp, #F_PAIRS]
    .endif
.endm

.macro DENSE name, layout, code
    .global \name
    .type \name, %function
    .balign 4
    .thumb_func
\name:
    push {r4-r7, lr}
    mov r4, r8
    mov r5, r9
    mov r6, r10
    mov r7, r11
    push {r4-r7}
    sub sp, #FRAME
    ldm r0!, {r1-r7}            // x, x_end, weights, weights_end, bias, mult, shift
    str r1, [sp, #F_X]
    mov r9, r2
    str r4, [sp, #F_WEIGHTS_END]
    mov r11, r5
    mov lr, r7
    subs r6, r6, r5
    subs r6, #4
    str r6, [sp, #F_DELTA]
    subs r2, r2, r1             // bytes of x, 8 a word of weights
    .if \layout == CODES
    lsrs r2, r2, #4             // 16 a word of codes
    .else
    lsrs r2, r2, #3
    .endif
    subs r2, #1
    movs r5, #WORDS - 1
    ands r2, r2, r5
    adds r2, #1                 // words of the first round: the rest, or all
    movs r5, #\code             // bytes of code for each
    muls r2, r5, r2
    ldr r5, =words_end_\name + 1
    subs r5, r5, r2
    mov r10, r5
    mov r1, r3
    ldm r0!, {r4-r7}            // y, zero, range, low
    mov r12, r4
    str r5, [sp, #F_ZERO]
    str r6, [sp, #F_RANGE]
    str r7, [sp, #F_LOW]
    .if \layout == CODES
    ldr r3, [r0]
    str r3, [sp, #F_PAIRS]
    movs r6, #255
    lsls r6, r6, #2
    .else
    ldr r3, =-0x00800080
    mov r8, r3
    ldr r6, =0x00ff00ff
    .endif
    str r6, [sp, #F_MASK]
    LOAD_R7 \layout
    ldr r2, [sp, #F_X]
    mov r3, r11
    ldm r3!, {r0}
    mov r11, r3
    bx r10
    .ltorg
    .balign 4
words_\name:
    .rept WORDS
    ldm r1!, {r3}
    .if \layout == CODES
    PAIR_OF_CODES lsls, 2
    PAIR_OF_CODES lsrs, 6
    PAIR_OF_CODES lsrs, 14
    PAIR_OF_CODES lsrs, 22
    .elseif \layout == OFFSET
    movs r4, r3
    ands r4, r4, r6
    add r4, r8
    lsrs r3, r3, #8
    ands r3, r3, r6
    add r3, r8
    ldm r2!, {r5, r7}
    muls r4, r5, r4
    asrs r4, r4, #16
    adcs r0, r4
    muls r3, r7, r3
    asrs r3, r3, #16
    adcs r0, r3
    .else
    eors r3, r3, r7
    movs r4, r3
    ands r4, r4, r6
    add r4, r8
    ldm r2!, {r5}
    muls r4, r5, r4
    asrs r4, r4, #16
    adcs r0, r4
    lsrs r3, r3, #8
    ands r3, r3, r6
    add r3, r8
    ldm r2!, {r5}
    muls r3, r5, r3
    asrs r3, r3, #16
    adcs r0, r3
    .endif
    .endr
words_end_\name:
    cmp r2, r9
    beq 1f
    ldr r3, =words_\name + 1
    bx r3
1:  mov r3, r11
    ldr r4, [sp, #F_DELTA]
    ldr r6, [r3, r4]
    uxth r7, r6
    lsrs r6, r6, #16
    sxth r4, r0                 // as MICA_REQUANT; r7 and r6 are the halves of the multiplier
    subs r0, r0, r4
    asrs r0, r0, #16
    movs r5, r4
    muls r5, r7, r5
    asrs r5, r5, #16
    muls r4, r6, r4
    adds r5, r5, r4
    movs r4, r0
    muls r4, r7, r4
    adds r5, r5, r4
    muls r0, r6, r0
    adds r0, r0, r0
    asrs r5, r5, #15
    adds r5, r5, r0
    mov r3, lr
    ldrb r4, [r3]
    adds r3, #1
    mov lr, r3
    ldr r3, [sp, #F_ZERO]
    asrs r5, r5, r4             // the carry is the rounding bit
    adcs r5, r3
    ldr r3, [sp, #F_RANGE]
    cmp r5, r3
    bhi 4f
2:  ldr r3, [sp, #F_LOW]
    adds r5, r5, r3
    mov r3, r12
    strb r5, [r3]
    adds r3, #1
    mov r12, r3
    ldr r6, [sp, #F_MASK]
    ldr r3, [sp, #F_WEIGHTS_END]
    cmp r1, r3
    beq 3f
    LOAD_R7 \layout
    ldr r2, [sp, #F_X]          // the next row
    mov r3, r11
    ldm r3!, {r0}
    mov r11, r3
    bx r10
3:  add sp, #FRAME
    pop {r4-r7}
    mov r8, r4
    mov r9, r5
    mov r10, r6
    mov r11, r7
    pop {r4-r7, pc}
4:  asrs r4, r5, #31
    mov r5, r3
    bics r5, r5, r4
    b 2b
    .ltorg
    .size \name, . - \name
.endm

// void mica_armv6m_dense(const mica_dense_t *args), for weights in OFFSET_ROWS; mica_armv6m_dense_rows for ROWS, _codes for CODES4
    DENSE mica_armv6m_dense, OFFSET, 28
    DENSE mica_armv6m_dense_rows, ROWS, 32
    DENSE mica_armv6m_dense_codes, CODES, 58
