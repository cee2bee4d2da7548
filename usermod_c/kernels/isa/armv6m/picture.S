// The area method of kernels/picture.c for frames of 565 words: sums of columns, and means of boxes of these. Reads its flash in order and
// calls nothing, so it stays where code is.
    .syntax unified
    .thumb
    .cpu cortex-m0plus
    .section .text.mica_armv6m_picture, "ax", %progbits

    .equ MOST_ROWS, 8
    .equ MOST_COLUMNS, 32

// A word of two pixels has two parts with room between the fields: red and blue of the first with green of the second; and
// five bits further down green of the first with blue and red of the second.
.macro WORD swapped
    ldr r4, [r0]
    adds r0, r0, r1
    .if \swapped
    rev16 r4, r4
    .endif
.endm

.macro SUM_WORDS name, swapped, code
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
    mov r9, r3                  // to
    ldr r4, [sp, #36]
    mov r10, r4                 // to_end
    movs r4, r1
    muls r4, r2, r4
    movs r5, #4
    subs r5, r5, r4
    mov r8, r5                  // from behind the last row to the next word
    movs r4, #MOST_ROWS
    subs r4, r4, r2             // rows that are not there
    movs r2, #\code
    muls r4, r2, r4
    adr r2, 2f
    adds r4, r4, r2
    adds r4, #1
    mov r11, r4
    ldr r6, 3f
    ldr r7, 4f
1:  WORD \swapped
    lsrs r3, r4, #5
    ands r3, r3, r7
    movs r2, r4
    ands r2, r2, r6
    bx r11
    .balign 4
2:  .rept MOST_ROWS - 1
    WORD \swapped
    lsrs r5, r4, #5
    ands r5, r5, r7
    adds r3, r3, r5
    ands r4, r4, r6
    adds r2, r2, r4
    .endr
    lsrs r4, r2, #21            // green of the second
    lsls r4, r4, #21
    subs r2, r2, r4
    lsls r5, r3, #21            // green of the first
    adds r2, r2, r5
    lsrs r3, r3, #11
    adds r3, r3, r4
    mov r5, r9
    stm r5!, {r2, r3}
    mov r9, r5
    add r0, r8
    cmp r5, r10
    bne 1b
    pop {r4-r7}
    mov r8, r4
    mov r9, r5
    mov r10, r6
    mov r11, r7
    pop {r4-r7, pc}
    .balign 4
3:  .word 0x07e0f81f
4:  .word 0x07c0f83f
    .size \name, . - \name
.endm

// void mica_armv6m_picture_words(const uint8_t *row, uint32_t stride, uint32_t rows, uint32_t *to, uint32_t *to_end): the low byte first;
// _swapped: the high one. 1 to MOST_ROWS rows.
    SUM_WORDS mica_armv6m_picture_words, 0, 14
    SUM_WORDS mica_armv6m_picture_swapped, 1, 16

    .equ F_OF, 0
    .equ F_WIDE, 4
    .equ F_TABLES, 8
    .equ F_TO, 20
    .equ F_PIXEL, 32
    .equ FRAME, 36

// Times the reciprocal of a box's pixels.
.macro MEAN v
    muls \v, r7, \v
    lsrs \v, \v, #19
.endm

.macro STORE v, k
    ldr r2, [sp, #F_TABLES + 4 * \k]
    ldrsb \v, [r2, \v]
    ldr r2, [sp, #F_TO + 4 * \k]
    strb \v, [r1, r2]
.endm

.macro MEANS name, colour
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
    ldm r0!, {r1-r7}            // out, over, rest, of, thin, columns of a narrow box, pixel
    subs r2, r2, r4             // less `of`, as it stays
    mov r8, r2
    mov r9, r3
    mov r11, r5
    str r7, [sp, #F_PIXEL]
    movs r3, #MOST_COLUMNS
    subs r3, r3, r6             // columns that are not there
    lsls r3, r3, #2
    adr r6, 5f
    adds r3, r3, r6
    adds r3, #1
    mov r10, r3                 // where a narrow box begins
    mov r7, sp
    ldm r0!, {r2, r3, r5, r6}   // wide, tables
    stm r7!, {r4}
    stm r7!, {r2, r3, r5, r6}
    ldm r0!, {r2, r3, r5, r6}   // places, end
    stm r7!, {r2, r3, r5}
    mov r12, r6
    ldr r0, [r0]                // columns
    .ifeq \colour
    ldr r6, [sp, #F_TABLES]
    ldr r7, 7f
    mov lr, r7
    .endif
1:  mov r3, r8
    add r3, r9
    cmp r3, #0
    bge 6f
    mov r8, r3
    mov r7, r11
    ldm r0!, {r2}
    bx r10
6:  ldr r4, [sp, #F_OF]
    subs r3, r3, r4
    mov r8, r3
    ldr r7, [sp, #F_WIDE]
    mov r3, r10
    subs r3, #4
    ldm r0!, {r2}
    bx r3
    .balign 4
5:  .rept MOST_COLUMNS - 1
    ldm r0!, {r4}
    adds r2, r2, r4
    .endr
    lsls r3, r2, #11            // red
    lsrs r3, r3, #22
    lsrs r4, r2, #21            // green
    lsls r5, r2, #21            // blue
    lsrs r5, r5, #21
    MEAN r3
    MEAN r4
    MEAN r5
    .if \colour
    ldr r7, 7f
    muls r3, r7, r3
    muls r5, r7, r5
    ldr r7, 8f
    muls r4, r7, r4
    movs r7, #0
    lsrs r3, r3, #16            // the carry is the rounding bit
    adcs r3, r7
    lsrs r4, r4, #16
    adcs r4, r7
    lsrs r5, r5, #16
    adcs r5, r7
    STORE r3, 0
    STORE r4, 1
    STORE r5, 2
    ldr r2, [sp, #F_PIXEL]
    adds r1, r1, r2
    .else
    mov r7, lr
    muls r3, r7, r3
    ldr r7, 8f
    muls r4, r7, r4
    adds r3, r3, r4
    ldr r7, 9f
    muls r5, r7, r5
    adds r3, r3, r5
    movs r7, #0
    lsrs r3, r3, #16
    adcs r3, r7
    ldrsb r3, [r6, r3]
    strb r3, [r1]
    adds r1, #1
    .endif
    cmp r1, r12
    bne 1b
    mov r0, r8
    ldr r1, [sp, #F_OF]
    adds r0, r0, r1
    add sp, #FRAME
    pop {r4-r7}
    mov r8, r4
    mov r9, r5
    mov r10, r6
    mov r11, r7
    pop {r4-r7, pc}
    .balign 4
    .if \colour
7:  .word 16847
8:  .word 8290
    .else
7:  .word 5067
8:  .word 4857
9:  .word 1908
    .endif
    .size \name, . - \name
.endm

// uint32_t mica_armv6m_picture_grey(const mica_picture_means_t *args); _colours
    MEANS mica_armv6m_picture_grey, 0
    MEANS mica_armv6m_picture_colours, 1
