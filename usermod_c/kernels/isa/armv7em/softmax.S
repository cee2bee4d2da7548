// Softmax over the last axis on a Cortex-M with DSP instructions, four elements at a time: USUB8 makes four places in the
// table of what they lie below the largest. What the table has there waits on the stack, 512 bytes at most, until their sum is
// known; a longer row reads its elements once more. Words and halfwords may lie at any address.
#ifndef MICA_WITHOUT_SOFTMAX_S8
    .syntax unified
    .thumb
#include "../thumb.inc"
    .section .text.mica_softmax_s8_armv7em, "ax", %progbits

    // mica_softmax_s8_t: x, y, table, rows, then axis (16 bits), wide (8), y_zero (8)
    .equ P_AXIS, 16

    .equ LONGEST, 128           // row that waits on the stack

// The largest of a row of four or more to all bytes of r4. r7: the last four, which may overlap those before.
.macro MOST
    adds r7, r0, r3
    ldr r4, [r7]
    mov r6, r0
1:  ldr r9, [r6], #4
    ssub8 r10, r9, r4
    sel r4, r9, r4
    cmp r6, r7
    blo 1b
    ror r9, r4, #16
    ssub8 r10, r9, r4
    sel r4, r9, r4
    ror r9, r4, #8
    ssub8 r10, r9, r4
    sel r4, r9, r4
    movs r8, #0                 // the sum
.endm

// Byte \n of \d to \to.
.macro BYTE to, d, n
.if \n == 0
    uxtb \to, \d
.elseif \n == 3
    lsr \to, \d, #24
.else
    uxtb \to, \d, ror #8 * \n
.endif
.endm

// table[byte \n of \d] to \to.
.macro TERM to, d, n
    BYTE \to, \d, \n
    ldr \to, [lr, \to, lsl #2]
.endm

// A term becomes (256 * term + sum / 2) / sum, at most 256.
.macro QUOTIENT q
    add \q, r11, \q, lsl #8
    udiv \q, \q, r8
.endm

// Quotients \a, \b, \c, \d, saturated, to the four bytes of y in front of r5.
.macro STORE a, b, c, d
    pkhbt \a, \a, \c, lsl #16
    pkhbt \b, \b, \d, lsl #16
    usat16 \a, #8, \a
    usat16 \b, #8, \b
    orr \a, \a, \b, lsl #8
    eor \a, \a, #0x80808080     // less 128 each
    str \a, [r5, #-4]!
.endm

// void mica_softmax_s8_armv7em(const mica_softmax_s8_t *p, MICA_KERNEL_ARGS)
    FUNCTION mica_softmax_s8_armv7em
    ldr r12, [r0, #P_AXIS]
    eor r12, r12, #0x80000000   // the axis, unless the table is wide or the zero point not -128
    cmp r12, #2
    beq.w two
any:
    cmp r12, #0x10000
    bhs.w plain
    push {r4-r11, lr}
    subs r2, r1                 // rows
    mul r1, r1, r12
    ldm r0, {r6, r7, lr}        // lr: the table
    adds r0, r6, r1             // x
    adds r1, r7                 // y
    sub r3, r12, #4
row:
    cmp r3, #LONGEST - 4
    bhi.w unusual
    MOST
2:  ldr r6, [r0], #4
    usub8 r6, r4, r6
    BYTE r9, r6, 0
    BYTE r10, r6, 1
    BYTE r11, r6, 2
    BYTE r6, r6, 3
    ldr r9, [lr, r9, lsl #2]    // loads one after the other take a cycle less each on some cores
    ldr r10, [lr, r10, lsl #2]
    ldr r11, [lr, r11, lsl #2]
    ldr r6, [lr, r6, lsl #2]
    push {r6, r9-r11}
    add r8, r9
    add r8, r10
    add r8, r11
    add r8, r6
    cmp r0, r7
    bls 2b
tail:
    lsls r6, r12, #31           // carry: two more; negative: one more
    bcc 3f
    ldrh r9, [r0], #2
    usub8 r9, r4, r9
    TERM r10, r9, 0
    TERM r9, r9, 1
    push {r9, r10}
    add r8, r9
    add r8, r10
3:  bpl 4f
    ldrb r9, [r0], #1
    usub8 r9, r4, r9
    TERM r9, r9, 0
    push {r9}
    add r8, r9
4:  lsrs r11, r8, #1            // half of the sum
    beq.w tiny
divide:                         // from the row's end to its begin
    add r5, r1, r12
    lsls r6, r12, #31
    bpl 5f
    pop {r9}
    QUOTIENT r9
    usat r9, #8, r9
    eor r9, r9, #0x80
    strb r9, [r5, #-1]!
5:  bcc 6f
    pop {r9, r10}
    QUOTIENT r9
    QUOTIENT r10
    pkhbt r10, r10, r9, lsl #16
    usat16 r10, #8, r10
    orr r10, r10, r10, lsr #8
    eor r10, r10, #0x80808080
    strh r10, [r5, #-2]!
6:  cmp r3, #LONGEST - 4
    bhi.w again
7:  pop {r6, r7, r9, r10}       // elements 3, 0, 1, 2
    QUOTIENT r7
    QUOTIENT r9
    QUOTIENT r10
    QUOTIENT r6
    STORE r7, r9, r10, r6
    cmp r5, r1
    bne 7b
next:
    add r1, r12
    subs r2, #1
    bne row
    pop {r4-r11, pc}

    // A sum of 1, or 0: only a file that changed after it was loaded comes to that. No division by zero then, either.
tiny:
    mov r8, #1
    b divide

unusual:
    cmp r12, #4
    blo few
    MOST
2:  ldr r9, [r0], #4
    usub8 r9, r4, r9
.irp n, 0, 1, 2, 3
    TERM r10, r9, \n
    add r8, r10
.endr
    cmp r0, r7
    bls 2b
    b tail
few:
    add r6, r0, r12
    ldrb r4, [r6, #-1]
    cmp r12, #1
    beq 1f
    ldrh r9, [r0]               // the first two; the last may be one of them
    ssub8 r10, r9, r4
    sel r4, r9, r4
    lsr r9, r9, #8
    ssub8 r10, r9, r4
    sel r4, r9, r4
1:  uxtb r4, r4
    orr r4, r4, r4, lsl #8
    movs r8, #0
    b tail

    // The whole words of a long row, or nothing of a short one.
again:
    cmp r5, r1
    beq next
    and r6, r12, #3
    subs r6, r0, r6
2:  ldr r9, [r6, #-4]!
    usub8 r9, r4, r9
    TERM r3, r9, 0
    TERM r7, r9, 1
    TERM r10, r9, 2
    TERM r9, r9, 3
    QUOTIENT r3
    QUOTIENT r7
    QUOTIENT r10
    QUOTIENT r9
    STORE r3, r7, r10, r9
    cmp r5, r1
    bne 2b
    sub r3, r12, #4
    b next

    // One row of two: one of them is the larger, whose term is the table's first.
two:
    cmp r2, #1                  // row_end
    bne any
    ldm r0, {r0, r3, r12}       // x, y, table
    ldrsb r1, [r0, #1]
    ldrsb r0, [r0]
    subs r1, r0, r1
    it mi
    rsbmi r1, r1, #0
    ldr r1, [r12, r1, lsl #2]
    ldr r12, [r12]
    add r0, r1, r12
    lsr r2, r0, #1
    cbz r2, 8f
7:  add r12, r2, r12, lsl #8
    udiv r12, r12, r0
    add r1, r2, r1, lsl #8
    udiv r1, r1, r0
    usat r12, #8, r12
    usat r1, #8, r1
    orr r1, r12, r1, lsl #8
    it mi
    rev16mi r1, r1
    eor r1, r1, #0x80808080
    strh r1, [r3]
    bx lr
8:  mov r0, #1
    b 7b
plain:
    b.w mica_softmax_s8_ref
    .size mica_softmax_s8_armv7em, . - mica_softmax_s8_armv7em
#endif
