// Matrix product of one row with constant weights. A weight is used once, so nothing pays for unpacking it to memory: a
// word of four weights, each 128 too large (layout OFFSET_ROWS), is taken apart by a mask, a shift and an addition. x
// comes as pairs, crossed here because the weights are not: X = x1 + x0 * 2^16 against W = w0 + w1 * 2^16. 17 cycles
// for 4 multiply-accumulates; how they come about says gemm.S. Weights in codes have a loop of their own, at the end.
#include "hot.inc"

    .equ WORDS, 32              // unrolled

    .equ F_X, 0
    .equ F_WEIGHTS_END, 4
    .equ F_DELTA, 8             // from bias + 1 to mult
    FIELDS F_, 12, ZERO, RANGE, LOW, MASK
    .equ FRAME, 28

// One row against all channels. OFFSET: the weights are 128 too large; ROWS: they are as they are, and the sign bit has
// to be turned first, which takes the register of the second pair.
    .equ ROWS, 0
    .equ OFFSET, 1

// What the loop keeps in r7.
.macro LOAD_R7 layout
    .if \layout == ROWS
    ldr r7, =0x80808080
    .endif
.endm

.macro DENSE name, layout, code
    ENTER \name
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
    lsrs r2, r2, #3
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
    ldr r3, =-0x00800080
    mov r8, r3
    ldr r6, =0x00ff00ff
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
    .if \layout == OFFSET
    movs r4, r3
    ands r4, r4, r6
    add r4, r8
    lsrs r3, r3, #8
    ands r3, r3, r6
    add r3, r8
    ldm r2!, {r5, r7}
    TWO_PRODUCTS r0, r4, r5
    TWO_PRODUCTS r0, r3, r7
    .else
    TWO_PAIRS
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
    POP_ALL
4:  asrs r4, r5, #31
    mov r5, r3
    bics r5, r5, r4
    b 2b
    .ltorg
    .size \name, . - \name
.endm

// void mica_armv6m_dense(const mica_dense_t *args), for weights in OFFSET_ROWS; mica_armv6m_dense_rows for ROWS
    DENSE mica_armv6m_dense, OFFSET, 28
    DENSE mica_armv6m_dense_rows, ROWS, 32

// Two rows of codes at once, so that a pair of x is loaded for both: 18 cycles for 4 multiply-accumulates. A byte is
// the number of a crossed pair in a table.

    .equ COLUMNS, 32            // unrolled: what the offset of a LDRB reaches
    .equ COLUMN_CODE, 26        // bytes of code for each

    .equ C_DELTA, 0             // from bias to mult
    .equ C_LAST, 4              // where the last pair's second row ends, and COLUMNS before that
    .equ C_ZERO, 8              // zero, range, low
    .equ C_NEXT, 20             // columns of the first round, bytes from a row to its neighbour, x, table
    .equ C_FRAME, 36

.macro CODE_OF acc, row, i
    ldrb r4, [\row, #\i]
    lsls r4, r4, #2
    ldr r4, [r7, r4]
    TWO_PRODUCTS \acc, r4, r5
.endm

// acc = floor(acc * mult / 2^31), as MICA_REQUANT; uses mult, r4, r5, r6
.macro SCALE acc, mult
    lsrs r6, \mult, #16
    uxth \mult, \mult
    sxth r4, \acc
    subs \acc, \acc, r4
    asrs \acc, \acc, #16
    movs r5, r4
    muls r5, \mult, r5
    asrs r5, r5, #16
    muls r4, r6, r4
    adds r5, r5, r4
    muls \mult, \acc, \mult
    adds r5, r5, \mult
    muls \acc, r6, \acc
    adds \acc, \acc, \acc
    asrs r5, r5, #15
    adds \acc, \acc, r5
.endm

#ifndef MICA_WITHOUT_CODES4
// void mica_armv6m_dense_code_pairs(const mica_dense_t *args): an even number of rows
    ENTER mica_armv6m_dense_code_pairs
    sub sp, #C_FRAME
    ldm r0!, {r1-r7}            // x, x_end, weights, weights_end, bias, mult, shift
    str r1, [sp, #C_NEXT + 8]
    mov r9, r2
    mov r11, r5
    mov lr, r7
    subs r6, r6, r5
    str r6, [sp, #C_DELTA]
    movs r6, #COLUMNS
    subs r4, r4, r6
    str r4, [sp, #C_LAST]
    subs r2, r2, r1
    lsrs r2, r2, #2             // columns: bytes of a row
    subs r2, #1
    movs r5, #COLUMNS - 1
    ands r2, r2, r5
    adds r2, #1                 // of the first round: the rest, or all
    str r2, [sp, #C_NEXT]
    subs r3, r3, r6
    adds r3, r3, r2             // where the first row would begin if its first round were a whole one
    mov r8, r3
    movs r5, #COLUMN_CODE
    muls r2, r5, r2
    ldr r5, =columns_end + 1
    subs r5, r5, r2
    mov r10, r5
    ldm r0!, {r2, r4-r7}        // y, zero, range, low, table
    mov r12, r2
    add r2, sp, #C_ZERO
    stm r2!, {r4-r6}
    str r7, [sp, #C_NEXT + 12]
    ldr r4, [r0]                // bytes from a row to its neighbour, 0 where there is one row
    str r4, [sp, #C_NEXT + 4]
    movs r6, r1
    mov r2, r8
    adds r3, r2, r4
    mov r5, r11
    ldm r5!, {r0, r1}
    mov r11, r5
    bx r10
    .ltorg
    .balign 4
columns:
    .set i, 0
    .rept COLUMNS
    ldm r6!, {r5}
    CODE_OF r0, r2, i
    CODE_OF r1, r3, i
    .set i, i + 1
    .endr
columns_end:
    cmp r6, r9
    beq 1f
    adds r2, #COLUMNS
    adds r3, #COLUMNS
    b columns
1:  mov r8, r3
    ldr r2, [sp, #C_DELTA]
    subs r2, #8
    add r2, r11
    ldm r2, {r2, r3}
    SCALE r0, r2
    SCALE r1, r3
    mov r7, lr
    ldrb r2, [r7]
    ldrb r3, [r7, #1]
    adds r7, #2
    mov lr, r7
    add r7, sp, #C_ZERO
    ldm r7!, {r4-r6}
    asrs r0, r0, r2             // the carry is the rounding bit
    adcs r0, r4
    cmp r0, r5
    bhi 4f
2:  adds r0, r0, r6
    asrs r1, r1, r3
    adcs r1, r4
    cmp r1, r5
    bhi 5f
3:  adds r1, r1, r6
    mov r7, r12
    strb r0, [r7]
    strb r1, [r7, #1]
    adds r7, #2
    mov r12, r7
    mov r3, r8
    ldr r4, [sp, #C_LAST]
    cmp r3, r4
    beq 6f
    add r7, sp, #C_NEXT
    ldm r7, {r2, r4, r6, r7}
    adds r2, r2, r3             // the next two rows
    adds r3, r2, r4
    mov r5, r11
    ldm r5!, {r0, r1}
    mov r11, r5
    bx r10
4:  asrs r2, r0, #31
    movs r0, r5
    bics r0, r0, r2
    b 2b
5:  asrs r3, r1, #31
    movs r1, r5
    bics r1, r1, r3
    b 3b
6:  add sp, #C_FRAME
    LEAVE mica_armv6m_dense_code_pairs
#endif
