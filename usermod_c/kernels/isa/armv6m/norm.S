// Sums of a row, and its normalisation, for layer_norm.c.
#ifndef MICA_WITHOUT_NORM_LOOPS
#include "hot.inc"

// v = byte i of w, as it is or less r2
.macro ELEMENT v, w, i, of
    .if \i == 0
    sxtb \v, \w
    .elseif \i == 3
    asrs \v, \w, #24
    .else
    lsls \v, \w, #24 - 8 * \i
    asrs \v, \v, #24
    .endif
    .if \of
    adds r6, r6, \v
    .else
    subs \v, \v, r2
    .endif
    muls \v, \v, \v
    adds r3, r3, \v
.endm

.macro SQUARES name, of
    FUNCTION \name
    push {r4-r7, lr}
    movs r3, #0
    movs r6, #0
1:  ldm r0!, {r4, r5}
    ELEMENT r7, r4, 0, \of
    ELEMENT r7, r4, 1, \of
    ELEMENT r7, r4, 2, \of
    ELEMENT r4, r4, 3, \of
    ELEMENT r7, r5, 0, \of
    ELEMENT r7, r5, 1, \of
    ELEMENT r7, r5, 2, \of
    ELEMENT r5, r5, 3, \of
    cmp r0, r1
    bne 1b
    .if \of
    str r6, [r2]
    .endif
    movs r0, r3
    pop {r4-r7, pc}
    .size \name, . - \name
.endm

    SQUARES mica_armv6m_norm_squares, 0
    SQUARES mica_armv6m_norm_sums, 1

// One element: r0 = end of x, r4 = factor, r5 = index, r8 = centre, r9 = offset, r10 = limit, r12 = where indices are left.
// Without beta \gamma is its gamma and r7 the end of y. With beta r6 and r7 are where gamma and beta lie, r3 the shift of beta and
// r11 the end of y.
.macro NORMAL places, beta, gamma, label
    ldrsb r1, [r0, r5]
    muls r1, r4, r1
    add r1, r8
    asrs r1, r1, #11
    .if \beta
    ldm r6!, {r2}
    .endif
    asrs \gamma, \gamma, #12
    muls r1, \gamma, r1
    .if \beta
    ldm r7!, {r2}
    asrs r2, r2, r3
    adds r1, r1, r2
    .endif
    add r1, r9
    lsls r2, r1, #32 - \places
    asrs r1, r1, #\places
    cmp r2, r10
    bhs left_\label
    cmp r1, #255
    bhi saturate_\label
store_\label:
    subs r1, #128
    .if \beta
    mov r2, r11
    strb r1, [r2, r5]
    .else
    strb r1, [r7, r5]
    .endif
next_\label:
    adds r5, #1
.endm

// What is rare of it.
.macro BESIDE label
left_\label:
    mov r1, r12
    strb r5, [r1]
    adds r1, #1
    mov r12, r1
    b next_\label
saturate_\label:
    mvns r1, r1
    asrs r1, r1, #31
    uxtb r1, r1
    b store_\label
.endm

.macro NORM name, places, beta
    FUNCTION \name
    PUSH_ALL
    ldm r0!, {r1-r5}            // centre, offset, limit, left, y_end
    mov r8, r1
    mov r9, r2
    mov r10, r3
    mov r12, r4
    mov r11, r5
    ldm r0!, {r3-r7}            // beta_shift, factor, index, gamma, beta
    ldr r0, [r0]                // x_end
    .ifeq \beta
    mov r7, r11
    .endif
1:
    .ifeq \beta
    ldm r6!, {r2, r3}
    .endif
    NORMAL \places, \beta, r2, \name\()_even
    .if \beta
    NORMAL \places, \beta, r2, \name\()_odd
    .else
    NORMAL \places, \beta, r3, \name\()_odd
    .endif
    bne 1b
    mov r0, r12
    POP_ALL
    BESIDE \name\()_even
    BESIDE \name\()_odd
    .size \name, . - \name
.endm

    NORM mica_armv6m_norm_21, 21, 0
    NORM mica_armv6m_norm_19, 19, 0
    NORM mica_armv6m_norm_21_beta, 21, 1
    NORM mica_armv6m_norm_19_beta, 19, 1
#endif
