// Softmax over the last axis on a Cortex-M with DSP instructions, four elements at a time: USUB8 makes four places in the
// table of what they lie below the largest. 12.3 instructions an element. Words may lie at any address.
#ifndef MICA_WITHOUT_SOFTMAX_S8
    .syntax unified
    .thumb
    .section .text.mica_softmax_s8_armv7em, "ax", %progbits

    // mica_softmax_s8_t
    .equ P_TABLE, 8
    .equ P_AXIS, 16
    .equ P_WIDE, 18
    .equ P_Y_ZERO, 19

// 256 * table[byte \n of r9] + sum / 2, over the sum, to \q.
.macro QUOTIENT q, n
.if \n == 3
    lsr \q, r9, #24
.else
    uxtb \q, r9, ror #8 * \n
.endif
    ldr \q, [r12, \q, lsl #2]
    add \q, r11, \q, lsl #8
    udiv \q, \q, r8
.endm

// table[byte \n of r9] is added to the sum.
.macro TERM n
.if \n == 3
    lsr r10, r9, #24
.else
    uxtb r10, r9, ror #8 * \n
.endif
    ldr r10, [r12, r10, lsl #2]
    add r8, r10
.endm

// void mica_softmax_s8_armv7em(const mica_softmax_s8_t *p, MICA_KERNEL_ARGS)
    .global mica_softmax_s8_armv7em
    .type mica_softmax_s8_armv7em, %function
    .balign 4
    .thumb_func
mica_softmax_s8_armv7em:
    ldrb r12, [r0, #P_WIDE]
    cmp r12, #0
    bne.w wide
    push {r4-r11, lr}
    subs r2, r1                 // rows
    bls 9f
    ldrh r4, [r0, #P_AXIS]
    ldrsb r5, [r0, #P_Y_ZERO]
    mul r1, r1, r4
    add r5, #128                // zero + 128, four times
    orr r5, r5, r5, lsl #8
    orr r5, r5, r5, lsl #16
    ldrd r6, r7, [r0]
    ldr r12, [r0, #P_TABLE]
    add r0, r6, r1              // x
    add r1, r7                  // y
row:
    bic r7, r4, #3
    add r7, r0                  // the end of whole words
    subs r8, r4, #4
    blo 8f
    ldr r3, [r0, r8]            // the largest so far: the last four, which may overlap those before
    adds r8, r0
    mov r6, r0
    cmp r6, r8
    beq 2f
1:  ldr r9, [r6], #4
    ssub8 r10, r9, r3
    sel r3, r9, r3
    cmp r6, r8
    blo 1b
2:  ror r9, r3, #16
    ssub8 r10, r9, r3
    sel r3, r9, r3
    ror r9, r3, #8
    ssub8 r10, r9, r3
    sel r3, r9, r3              // the largest of all, four times
    mov r6, r0
    movs r8, #0
3:  ldr r9, [r6], #4
    usub8 r9, r3, r9
    TERM 0
    TERM 1
    TERM 2
    TERM 3
    cmp r6, r7
    bne 3b
    ands r11, r4, #3
    beq 5f
tail:
4:  ldrb r9, [r6], #1
    usub8 r9, r3, r9
    TERM 0
    subs r11, #1
    bne 4b
5:  lsrs r11, r8, #1            // half of the sum
    beq tiny
divide:
    cmp r0, r7
    beq 6f
    // A quotient is at most 256, and y = min(255, min(255, quotient) + zero + 128) - 128.
5:  ldr r9, [r0], #4
    usub8 r9, r3, r9
    QUOTIENT r6, 0
    QUOTIENT r10, 2
    pkhbt r6, r6, r10, lsl #16
    QUOTIENT r10, 1
    QUOTIENT lr, 3
    pkhbt r10, r10, lr, lsl #16
    usat16 r6, #8, r6
    usat16 r10, #8, r10
    orr r6, r6, r10, lsl #8
    uqadd8 r6, r6, r5
    eor r6, r6, #0x80808080
    str r6, [r1], #4
    cmp r0, r7
    bne 5b
6:  ands r10, r4, #3
    beq 7f
6:  ldrb r9, [r0], #1
    usub8 r9, r3, r9
    QUOTIENT r6, 0
    usat r6, #8, r6
    uqadd8 r6, r6, r5
    eor r6, r6, #0x80
    strb r6, [r1], #1
    subs r10, #1
    bne 6b
7:  subs r2, #1
    bne row
9:  pop {r4-r11, pc}
    // A sum of 1, or 0: only a file that changed after it was loaded comes to that. No division by zero then, either.
tiny:
    mov r8, #1
    b divide
    // Fewer than four.
8:  mvn r3, #127
    mov r6, r0
    add r8, r0, r4
1:  ldrsb r9, [r6], #1
    cmp r9, r3
    it gt
    movgt r3, r9
    cmp r6, r8
    bne 1b
    uxtb r3, r3
    mov r6, r0
    movs r8, #0
    mov r11, r4
    b.w tail
wide:
    b.w mica_softmax_s8_ref
    .size mica_softmax_s8_armv7em, . - mica_softmax_s8_armv7em
#endif
