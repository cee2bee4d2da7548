// The area method of kernels/picture.c for frames of 565 words and of bytes: sums of columns, and means of boxes of these. It stays where
// code is: a camera's frame is in RAM, and the loops fit a flash cache.
#ifndef MICA_WITHOUT_PICTURE_LOOPS
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
    add r0, r9
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
    mov r9, r1
    ldr r4, [sp, #36]
    mov r10, r4                 // to_end
    movs r4, r1
    muls r4, r2, r4
    movs r5, #4
    subs r5, r5, r4
    mov r8, r5                  // from behind the last row to the next word
    movs r1, r3                 // to
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
    stm r1!, {r2, r3}
    add r0, r8
    cmp r1, r10
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

// Sums of the bytes of four columns, uint16 each; a word has them in two parts.
// void mica_armv6m_picture_bytes(const uint8_t *row, uint32_t stride, uint32_t rows, uint32_t *to, uint32_t *to_end)
    .equ BYTES_CODE, 14
    .global mica_armv6m_picture_bytes
    .type mica_armv6m_picture_bytes, %function
    .balign 4
    .thumb_func
mica_armv6m_picture_bytes:
    push {r4-r7, lr}
    mov r4, r8
    mov r5, r9
    mov r6, r10
    mov r7, r11
    push {r4-r7}
    movs r7, r3                 // to
    mov r9, r1
    ldr r4, [sp, #36]
    mov r10, r4                 // to_end
    movs r4, r1
    muls r4, r2, r4
    movs r5, #4
    subs r5, r5, r4
    mov r8, r5                  // from behind the last row to the next word
    movs r4, #MOST_ROWS
    subs r4, r4, r2             // rows that are not there
    movs r2, #BYTES_CODE
    muls r4, r2, r4
    adr r2, 2f
    adds r4, r4, r2
    adds r4, #1
    mov r11, r4
    ldr r6, 3f
1:  WORD 0
    lsrs r3, r4, #8
    ands r3, r3, r6
    movs r2, r4
    ands r2, r2, r6
    bx r11
    .balign 4
2:  .rept MOST_ROWS - 1
    WORD 0
    lsrs r5, r4, #8
    ands r5, r5, r6
    adds r3, r3, r5
    ands r4, r4, r6
    adds r2, r2, r4
    .endr
    lsls r4, r3, #16
    uxth r5, r2
    adds r4, r4, r5
    lsrs r2, r2, #16
    lsrs r5, r3, #16
    lsls r5, r5, #16
    adds r5, r5, r2
    stm r7!, {r4, r5}
    add r0, r8
    cmp r7, r10
    bne 1b
    pop {r4-r7}
    mov r8, r4
    mov r9, r5
    mov r10, r6
    mov r11, r7
    pop {r4-r7, pc}
    .balign 4
3:  .word 0x00ff00ff
    .size mica_armv6m_picture_bytes, . - mica_armv6m_picture_bytes

// The same of a byte of two: of the lower one, _high: of the upper one.
.macro SUM_PAIRS name, high, code
    .global \name
    .type \name, %function
    .balign 4
    .thumb_func
\name:
    push {r4-r7, lr}
    movs r7, r3                 // to
    ldr r3, [sp, #20]           // to_end
    movs r4, r1
    muls r4, r2, r4
    movs r5, #4
    subs r5, r5, r4             // from behind the last row to the next word
    mov r12, r5
    movs r4, #MOST_ROWS
    subs r4, r4, r2             // rows that are not there
    movs r2, #\code
    muls r4, r2, r4
    adr r5, 2f
    adds r5, r5, r4
    adds r5, #1
    ldr r6, 3f
1:  ldr r2, [r0]
    adds r0, r0, r1
    .if \high
    lsrs r2, r2, #8
    .endif
    ands r2, r2, r6
    bx r5
    .balign 4
2:  .rept MOST_ROWS - 1
    ldr r4, [r0]
    adds r0, r0, r1
    .if \high
    lsrs r4, r4, #8
    .endif
    ands r4, r4, r6
    adds r2, r2, r4
    .endr
    stm r7!, {r2}
    add r0, r12
    cmp r7, r3
    bne 1b
    pop {r4-r7, pc}
    .balign 4
3:  .word 0x00ff00ff
    .size \name, . - \name
.endm

    SUM_PAIRS mica_armv6m_picture_pairs, 0, 8
    SUM_PAIRS mica_armv6m_picture_pairs_high, 1, 10

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

// Up to where boxes begin: r0 = columns, r1 = out, r6 = the only table or 0, r8 = over less `of`, r9 = rest, r10 = the code of a narrow
// box, of `most` columns of `code` bytes each, r11 = its reciprocal, r12 = the end of out.
.macro BEGIN name, most, code, table
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
    movs r3, #\most
    subs r3, r3, r6             // columns that are not there
    movs r6, #\code
    muls r3, r6, r3
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
    .if \table
    ldr r6, [sp, #F_TABLES]
    .else
    movs r6, #0
    .endif
.endm

.macro END
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
.endm

// To the code of the next box, behind its first column; r7 = its reciprocal. Uses r5.
.macro NEXT first, code
    mov r5, r8
    add r5, r9
    cmp r5, #0
    bge 6f
    mov r8, r5
    mov r7, r11
    \first
    bx r10
6:  ldr r7, [sp, #F_OF]
    subs r5, r5, r7
    mov r8, r5
    ldr r7, [sp, #F_WIDE]
    mov r5, r10
    subs r5, #\code
    \first
    bx r5
.endm

.macro FIRST_WORD
    ldm r0!, {r2}
.endm

.macro MEANS name, colour
    BEGIN \name, MOST_COLUMNS, 4, 1 - \colour
    .ifeq \colour
    ldr r7, 7f
    mov lr, r7
    .endif
1:  NEXT FIRST_WORD, 4
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
    END
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

// The same of three columns of bytes a pixel. Grey: `to` holds the weights of the three.
    .equ MOST_TRIPLES, 8
    .equ TRIPLE_CODE, 14

.macro FIRST_TRIPLE
    ldrh r2, [r0]
    ldrh r3, [r0, #2]
    ldrh r4, [r0, #4]
    adds r0, #6
.endm

// Of colours the mean's fraction is not wanted: its rounding bit is the carry.
.macro STORE_TRIPLE v, k
    muls \v, r7, \v
    lsrs \v, \v, #24
    adcs \v, r6
    ldr r5, [sp, #F_TABLES + 4 * \k]
    ldrsb \v, [r5, \v]
    ldr r5, [sp, #F_TO + 4 * \k]
    strb \v, [r1, r5]
.endm

.macro TRIPLES name, colour
    BEGIN \name, MOST_TRIPLES, TRIPLE_CODE, 1 - \colour
1:  NEXT FIRST_TRIPLE, TRIPLE_CODE
    .balign 4
5:  .rept MOST_TRIPLES - 1
    ldrh r5, [r0]
    adds r2, r2, r5
    ldrh r5, [r0, #2]
    adds r3, r3, r5
    ldrh r5, [r0, #4]
    adds r4, r4, r5
    adds r0, #6
    .endr
    .if \colour
    STORE_TRIPLE r2, 0
    STORE_TRIPLE r3, 1
    STORE_TRIPLE r4, 2
    ldr r5, [sp, #F_PIXEL]
    adds r1, r1, r5
    .else
    MEAN r2
    MEAN r3
    MEAN r4
    ldr r5, [sp, #F_TO]
    muls r2, r5, r2
    ldr r5, [sp, #F_TO + 4]
    muls r3, r5, r3
    adds r2, r2, r3
    ldr r5, [sp, #F_TO + 8]
    muls r4, r5, r4
    adds r2, r2, r4
    movs r5, #0
    lsrs r2, r2, #13
    adcs r2, r5
    ldrsb r2, [r6, r2]
    strb r2, [r1]
    adds r1, #1
    .endif
    END
    .size \name, . - \name
.endm

// uint32_t mica_armv6m_picture_triples_grey(const mica_picture_means_t *args); _colours
    TRIPLES mica_armv6m_picture_triples_grey, 0
    TRIPLES mica_armv6m_picture_triples_colours, 1

// The same of one column of bytes a pixel.
    .equ MOST_SINGLES, 16
    .equ SINGLE_CODE, 6

.macro FIRST_SINGLE
    ldrh r2, [r0]
    adds r0, #2
.endm

// uint32_t mica_armv6m_picture_singles(const mica_picture_means_t *args)
    BEGIN mica_armv6m_picture_singles, MOST_SINGLES, SINGLE_CODE, 1
    movs r3, #0
1:  NEXT FIRST_SINGLE, SINGLE_CODE
    .balign 4
5:  .rept MOST_SINGLES - 1
    ldrh r5, [r0]
    adds r2, r2, r5
    adds r0, #2
    .endr
    muls r2, r7, r2
    lsrs r2, r2, #24
    adcs r2, r3
    ldrsb r2, [r6, r2]
    strb r2, [r1]
    adds r1, #1
    END
    .size mica_armv6m_picture_singles, . - mica_armv6m_picture_singles
#endif
