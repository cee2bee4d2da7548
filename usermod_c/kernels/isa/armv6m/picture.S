// The area method of kernels/picture.c: sums of columns and means of boxes of these, or, of colours in small boxes,
// these pixel after pixel. It stays where code is: a camera's frame is in RAM, and the loops fit a flash cache.
#ifndef MICA_WITHOUT_PICTURE_LOOPS
    .syntax unified
    .thumb
#include "../thumb.inc"
    .cpu cortex-m0plus
    .section .text.mica_armv6m_picture, "ax", %progbits

    .equ MOST_ROWS, 8
    .equ MOST_COLUMNS, 32

// A word of two pixels has two parts with room between the fields: red and blue of the first with green of the second;
// and five bits further down green of the first with blue and red of the second.
.macro WORD swapped
    ldr r4, [r0]
    add r0, r9
    .if \swapped
    rev16 r4, r4
    .endif
.endm

// r9 = stride, r10 = to_end, r8 = from behind the last row to the next word.
.macro ROWS
    mov r9, r1
    LOAD_HIGH r10, r4, [sp, #36]
    movs r4, r1
    muls r4, r2, r4
    movs r5, #4
    subs r5, r5, r4
    mov r8, r5
.endm

// r11 = the code at 2 behind that of the rows that are not there. Destroys r2 and r4.
.macro SKIP_ROWS code
    movs r4, #MOST_ROWS
    subs r4, r4, r2
    movs r2, #\code
    muls r4, r2, r4
    adr r2, 2f
    adds r4, r4, r2
    adds r4, #1
    mov r11, r4
.endm

.macro SUM_WORDS name, swapped, code
    ENTER \name
    ROWS
    movs r1, r3                 // to
    SKIP_ROWS \code
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
    POP_ALL
    .balign 4
3:  .word 0x07e0f81f
4:  .word 0x07c0f83f
    .size \name, . - \name
.endm

// mica_armv6m_picture_words(row, stride, rows, to, to_end): the low byte first;
// _swapped: the high one. 1 to MOST_ROWS rows.
    SUM_WORDS mica_armv6m_picture_words, 0, 14
    SUM_WORDS mica_armv6m_picture_swapped, 1, 16

// Sums of the bytes of four columns, uint16 each; a word has them in two parts.
// void mica_armv6m_picture_bytes(const uint8_t *row, uint32_t stride, uint32_t rows, uint32_t *to, uint32_t *to_end)
    .equ BYTES_CODE, 14
    ENTER mica_armv6m_picture_bytes
    movs r7, r3                 // to
    ROWS
    SKIP_ROWS BYTES_CODE
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
    POP_ALL
    .balign 4
3:  .word 0x00ff00ff
    .size mica_armv6m_picture_bytes, . - mica_armv6m_picture_bytes

// The same of a byte of two: of the lower one, _high: of the upper one.
.macro SUM_PAIRS name, high, code
    FUNCTION \name
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

    FIELDS F_, 0, OF, WIDE, TABLES
    .equ F_TO, 20
    .equ F_PIXEL, 32
    .equ FRAME, 36

// Times the reciprocal of a box's pixels.
.macro MEAN v
    muls \v, r7, \v
    lsrs \v, \v, #19
.endm

// r3, r4, r5 = the means of red, green and blue
.macro MEANS_565
    lsls r3, r2, #11
    lsrs r3, r3, #22
    lsrs r4, r2, #21
    lsls r5, r2, #21
    lsrs r5, r5, #21
    MEAN r3
    MEAN r4
    MEAN r5
.endm

// And these as bytes. The carry of a shift is the rounding bit.
.macro SCALE_565 red_blue, green
    ldr r7, \red_blue
    muls r3, r7, r3
    muls r5, r7, r5
    ldr r7, \green
    muls r4, r7, r4
    movs r7, #0
    lsrs r3, r3, #16
    adcs r3, r7
    lsrs r4, r4, #16
    adcs r4, r7
    lsrs r5, r5, #16
    adcs r5, r7
.endm

// r3 = their grey; r7 = the weight of red.
.macro GREY_565 green, blue
    muls r3, r7, r3
    ldr r7, \green
    muls r4, r7, r4
    adds r3, r3, r4
    ldr r7, \blue
    muls r5, r7, r5
    adds r3, r3, r5
    movs r7, #0
    lsrs r3, r3, #16
    adcs r3, r7
.endm

.macro STORE v, k
    ldr r2, [sp, #F_TABLES + 4 * \k]
    ldrsb \v, [r2, \v]
    ldr r2, [sp, #F_TO + 4 * \k]
    strb \v, [r1, r2]
.endm

// Up to where boxes begin: r0 = columns, r1 = out, r6 = the only table or 0. r8 = over less `of`, r9 = rest; r10 = the
// code of a narrow box, of `most` columns of `code` bytes each, r11 = its reciprocal, r12 = the end of out.
.macro BEGIN name, most, code, table
    ENTER \name
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
    POP_ALL
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
    LOAD_HIGH lr, r7, 7f
    .endif
1:  NEXT FIRST_WORD, 4
    .balign 4
5:  .rept MOST_COLUMNS - 1
    ldm r0!, {r4}
    adds r2, r2, r4
    .endr
    MEANS_565
    .if \colour
    SCALE_565 7f, 8f
    STORE r3, 0
    STORE r4, 1
    STORE r5, 2
    ldr r2, [sp, #F_PIXEL]
    adds r1, r1, r2
    .else
    mov r7, lr
    GREY_565 8f, 9f
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

// The fraction of a colour's mean is dropped: its rounding bit is the carry.
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

// Boxes of 2 to 4 columns and 1 to 4 rows, without sums of columns: a box's pixels one after the other, its rows
// without a loop. What a box becomes, the code at r11 says; whether it is wide, the carry of r6, a fraction that grows
// by r9. In loops: r0 = pixels, r1 = out, r2 to r4 = sums or constants, r5 = any, r7 = the reciprocal. r8 = from the
// last row to the first, r10 = the code of a narrow box, r12 = the end of out, lr = bytes of a row.
    FIELDS D_, 0, THIN, WIDE, TABLES
    FIELDS D_, 20, FIRST, LAST, CODE, FRAME
    .equ DIRECT_ROWS, 4

// To \to: where boxes of \width columns and r4 rows begin, of which `ends` says where each width's rows end behind
// \blocks. Uses r5, \width.
.macro ENTRY to, width, column, skip, blocks, ends
    adr r5, \ends
    lsls \to, \width, #1
    adds r5, r5, \to
    subs r5, #4
    ldrh \to, [r5]
    movs r5, #\column
    muls \width, r5, \width
    adds \width, #2
    muls \width, r4, \width
    subs \to, \to, \width
    adr r5, \blocks
    adds \to, \to, r5
    adds \to, #\skip + 3        // behind the last row nothing goes down
.endm

.macro DIRECT name
    ENTER \name
    sub sp, #D_FRAME
    ldm r0!, {r1-r6}            // out, its end, step, stride, back, what becomes of sums
    mov r12, r2
    mov r9, r3
    mov lr, r4
    mov r8, r5
.endm

// From r0, behind narrow, wide and rows, to the frame on the stack; r0 = pixels.
.macro REST
    mov r10, r6
    str r7, [sp, #D_CODE]
    mov r5, sp
    ldm r0!, {r2, r3, r4}
    stm r5!, {r2, r3, r4}
    ldm r0!, {r2, r3, r4, r6}
    stm r5!, {r2, r3, r4, r6}
    ldr r0, [r0]
    movs r6, #0
.endm

.macro RETURN
    add sp, #D_FRAME
    POP_ALL
.endm

.macro AGAIN by
    adds r1, #\by
    cmp r1, r12
    bne 1f
    b 8f
.endm

// r11 = the code that r6 chooses: 0, 1 or 2.
.macro CHOOSE zero, one, two
    adr r5, \zero
    cmp r6, #1
    blo 2f
    adr r5, \one
    beq 2f
    adr r5, \two
2:  adds r5, #1
    mov r11, r5
.endm

.macro NEXT_BOX first
1:  mov r5, r9
    adds r6, r6, r5
    bcs 6f
    ldr r7, [sp, #D_THIN]
    \first
    bx r10
6:  ldr r7, [sp, #D_WIDE]
    ldr r5, [sp, #D_CODE]
    \first
    bx r5
.endm

.macro COLUMNS column, width
    \column 0
    \column 1
    .if \width > 2
    \column 2
    .endif
    .if \width > 3
    \column 3
    .endif
.endm

.macro BLOCK column, width
    .rept DIRECT_ROWS - 1
    COLUMNS \column, \width
    add r0, lr
    .endr
    COLUMNS \column, \width
.endm

.macro BLOCK_END bytes
    adds r0, #\bytes
    add r0, r8
    bx r11
.endm

// --- three bytes a pixel
.macro TRIPLE k
    ldrb r5, [r0, #3 * \k]
    adds r2, r2, r5
    ldrb r5, [r0, #3 * \k + 1]
    adds r3, r3, r5
    ldrb r5, [r0, #3 * \k + 2]
    adds r4, r4, r5
.endm

.macro TRIPLE_AT_FIRST
    ldrb r2, [r0]
    ldrb r3, [r0, #1]
    ldrb r4, [r0, #2]
.endm

.macro TRIPLE_COLOURS first, last
    muls r2, r7, r2
    muls r3, r7, r3
    muls r4, r7, r4
    movs r5, #0
    lsrs r2, r2, #24            // the carry is the rounding bit
    adcs r2, r5
    lsrs r3, r3, #24
    adcs r3, r5
    lsrs r4, r4, #24
    adcs r4, r5
    ldr r5, [sp, #D_TABLES]
    ldrsb r2, [r5, r2]
    strb r2, [r1, #\first]
    ldr r5, [sp, #D_TABLES + 4]
    ldrsb r3, [r5, r3]
    strb r3, [r1, #1]
    ldr r5, [sp, #D_TABLES + 8]
    ldrsb r4, [r5, r4]
    strb r4, [r1, #\last]
    AGAIN 3
.endm

// void mica_armv6m_picture_boxes_triples(const mica_picture_boxes_t *args)
    DIRECT mica_armv6m_picture_boxes_triples
    CHOOSE 3f, 4f, 5f
    ldm r0!, {r2, r3, r4}       // columns of a narrow box, of a wide one, rows
    ENTRY r6, r2, 12, 12, 7f, 9f
    ENTRY r7, r3, 12, 12, 7f, 9f
    REST
    b 1f
    .balign 4
3:  MEAN r2
    MEAN r3
    MEAN r4
    ldr r5, [sp, #D_FIRST]
    muls r2, r5, r2
    movs r5, #150
    muls r3, r5, r3
    adds r2, r2, r3
    ldr r5, [sp, #D_LAST]
    muls r4, r5, r4
    adds r2, r2, r4
    movs r5, #0
    lsrs r2, r2, #13
    adcs r2, r5
    ldr r5, [sp, #D_TABLES]
    ldrsb r2, [r5, r2]
    strb r2, [r1]
    AGAIN 1
    .balign 4
4:  TRIPLE_COLOURS 0, 2
    .balign 4
5:  TRIPLE_COLOURS 2, 0
    NEXT_BOX TRIPLE_AT_FIRST
8:  RETURN
    .balign 4
9:  .hword 11f - 7f, 12f - 7f, 13f - 7f
    .balign 4
7:  BLOCK TRIPLE, 2
11: BLOCK_END 6
    BLOCK TRIPLE, 3
12: BLOCK_END 9
    BLOCK TRIPLE, 4
13: BLOCK_END 12
    .size mica_armv6m_picture_boxes_triples, . - mica_armv6m_picture_boxes_triples

// --- 565
.macro WORD_565 k
    ldrh r5, [r0, #2 * \k]
    muls r5, r4, r5
    ands r5, r5, r3
    adds r2, r2, r5
.endm

.macro SWAPPED_565 k
    ldrh r5, [r0, #2 * \k]
    rev16 r5, r5
    muls r5, r4, r5
    ands r5, r5, r3
    adds r2, r2, r5
.endm

.macro AT_FIRST_565
    movs r2, #0
    ldr r3, 14f                 // fields
    ldr r4, 15f                 // a pixel twice
.endm

.macro COLOURS_565 first, last
    MEANS_565
    SCALE_565 16f, 17f
    ldr r2, [sp, #D_TABLES]
    ldrsb r3, [r2, r3]
    strb r3, [r1, #\first]
    ldr r2, [sp, #D_TABLES + 4]
    ldrsb r4, [r2, r4]
    strb r4, [r1, #1]
    ldr r2, [sp, #D_TABLES + 8]
    ldrsb r5, [r2, r5]
    strb r5, [r1, #\last]
    AGAIN 3
.endm

.macro BOXES_565 name, column, bytes
    DIRECT \name
    CHOOSE 3f, 4f, 5f
    ldm r0!, {r2, r3, r4}
    ENTRY r6, r2, \bytes, 0, 7f, 9f
    ENTRY r7, r3, \bytes, 0, 7f, 9f
    REST
    b 1f
    .balign 4
3:  MEANS_565
    ldr r7, 18f
    GREY_565 19f, 20f
    ldr r5, [sp, #D_TABLES]
    ldrsb r3, [r5, r3]
    strb r3, [r1]
    AGAIN 1
    .balign 4
4:  COLOURS_565 0, 2
    .balign 4
5:  COLOURS_565 2, 0
    NEXT_BOX AT_FIRST_565
8:  RETURN
    .balign 4
14: .word 0x07e0f81f
15: .word 0x00010001
16: .word 16847
17: .word 8290
18: .word 5067
19: .word 4857
20: .word 1908
9:  .hword 11f - 7f, 12f - 7f, 13f - 7f
    .balign 4
7:  BLOCK \column, 2
11: BLOCK_END 4
    BLOCK \column, 3
12: BLOCK_END 6
    BLOCK \column, 4
13: BLOCK_END 8
    .size \name, . - \name
.endm

// void mica_armv6m_picture_boxes_words(const mica_picture_boxes_t *args): the low byte first; _swapped: the high one
    BOXES_565 mica_armv6m_picture_boxes_words, WORD_565, 8
    BOXES_565 mica_armv6m_picture_boxes_swapped, SWAPPED_565, 10

// --- YUV 4:2:2 to colours: words of two pixels, whole or half of them. r2 = sums of Y, of even and odd ones; r3 = of U
// and V; r4 = the mask; r10 = where reciprocals and code are of boxes that begin with an even pixel, or with an odd
// one; r11 = the reciprocal.
    // behind four pairs of reciprocal and code: narrow, wide from an even pixel, then an odd
    .equ C_TABLES, 32
    .equ C_FRAME, 48

.macro WHOLE at, y_first
    ldr r5, [r0, #\at]
    lsrs r7, r5, #8
    ands r7, r7, r4
    ands r5, r5, r4
    .if \y_first
    adds r2, r2, r5
    adds r3, r3, r7
    adds r3, r3, r7
    .else
    adds r2, r2, r7
    adds r3, r3, r5
    adds r3, r3, r5
    .endif
.endm

// The pixel that ends a word.
.macro SECOND at, y_first
    ldr r5, [r0, #\at]
    .if \y_first
    lsrs r7, r5, #8
    ands r7, r7, r4
    adds r3, r3, r7
    lsls r5, r5, #8
    lsrs r5, r5, #24
    adds r2, r2, r5
    .else
    lsrs r7, r5, #24
    adds r2, r2, r7
    ands r5, r5, r4
    adds r3, r3, r5
    .endif
.endm

// And the one that begins it.
.macro FIRST at, y_first
    ldr r5, [r0, #\at]
    .if \y_first
    lsrs r7, r5, #8
    ands r7, r7, r4
    adds r3, r3, r7
    uxtb r5, r5
    adds r2, r2, r5
    .else
    lsls r7, r5, #16
    lsrs r7, r7, #24
    adds r2, r2, r7
    ands r5, r5, r4
    adds r3, r3, r5
    .endif
.endm

.macro ROW_OF width, odd, y_first
    .if \odd
    SECOND 0, \y_first
    .if \width == 2
    FIRST 4, \y_first
    .else
    WHOLE 4, \y_first
    .if \width == 4
    FIRST 8, \y_first
    .endif
    .endif
    .else
    WHOLE 0, \y_first
    .if \width == 3
    FIRST 4, \y_first
    .endif
    .if \width == 4
    WHOLE 4, \y_first
    .endif
    .endif
.endm

// And what follows: the next box's word, and whether it begins with the other pixel of one.
.macro CHROMA_BLOCK width, odd, y_first
    .rept DIRECT_ROWS - 1
    ROW_OF \width, \odd, \y_first
    add r0, lr
    .endr
    ROW_OF \width, \odd, \y_first
.endm

.macro CHROMA_END width, odd
    add r0, r8                  // and two words on
    .if \width + \odd < 4
    subs r0, #4
    .endif
    .if \width == 3
    .if \odd
    mov r10, sp
    .else
    add r5, sp, #16
    mov r10, r5
    .endif
    .endif
.endm

// Pair `at` of the frame on the stack, of a box of \width columns; r4 = rows. Uses r1, r7.
.macro PAIR at, width, reciprocal, odd
    str \reciprocal, [sp, #\at]
    adr r7, 9f
    lsls r1, \width, #3
    adds r7, r7, r1
    subs r7, #16
    ldrh r1, [r7, #4 * \odd]
    ldrh r7, [r7, #4 * \odd + 2]
    muls r7, r4, r7
    subs r1, r1, r7
    adr r7, 7f
    adds r1, r1, r7
    adds r1, #3                 // behind the last row nothing goes down
    str r1, [sp, #\at + 4]
.endm

// \v, a colour * 2^13, to byte \k of out. Uses r4. What is not from 0 to 255 makes a detour to \limit.
.macro STORE_LIMITED v, k, limit, back
    asrs \v, \v, #13
    cmp \v, #255
    bhi \limit
\back:
    ldr r4, [sp, #C_TABLES + 4 * \k]
    ldrsb \v, [r4, \v]
    strb \v, [r1, #\k]
.endm

.macro LIMITED v, label, back
\label:
    asrs \v, \v, #31
    mvns \v, \v
    uxtb \v, \v
    b \back
.endm

.macro BOXES_CHROMA name, y_first
    ENTER \name
    sub sp, #C_FRAME
    ldm r0!, {r1-r6}            // out, its end, step, stride, back, whether the first pixel is odd
    mov r12, r2
    mov r9, r3
    mov lr, r4
    adds r5, #8
    mov r8, r5
    mov r11, r1
    lsls r6, r6, #4
    add r6, sp
    mov r10, r6
    ldm r0!, {r2-r6}            // columns of a narrow box, of a wide one, rows, the reciprocals
    PAIR 0, r2, r5, 0
    PAIR 8, r3, r6, 0
    PAIR 16, r2, r5, 1
    PAIR 24, r3, r6, 1
    ldm r0!, {r2-r4}
    add r5, sp, #C_TABLES
    stm r5!, {r2-r4}
    ldr r0, [r0, #8]            // behind the weights
    mov r1, r11
    movs r6, #0
    b 10f
    .balign 4
7:  CHROMA_BLOCK 3, 1, \y_first // the way that boxes of three go most, to where it goes on
24: CHROMA_END 3, 1
20: mov r7, r11
    lsrs r5, r2, #16
    adds r2, r2, r5
    uxth r2, r2
    muls r2, r7, r2
    lsrs r2, r2, #19
    lsls r2, r2, #8
    movs r4, #1
    lsls r4, r4, #12
    adds r2, r2, r4             // y
    lsrs r5, r3, #16
    muls r5, r7, r5
    lsrs r5, r5, #19
    subs r5, r5, r4             // v
    uxth r3, r3
    muls r3, r7, r3
    lsrs r3, r3, #19
    subs r3, r3, r4             // u
    ldr r7, 18f
    muls r7, r5, r7
    adds r7, r7, r2
    STORE_LIMITED r7, 0, 41f, 51
    movs r7, #88
    muls r7, r3, r7
    movs r4, #183
    muls r4, r5, r4
    adds r7, r7, r4
    subs r7, r2, r7
    STORE_LIMITED r7, 1, 42f, 52
    ldr r7, 19f
    muls r7, r3, r7
    adds r7, r7, r2
    STORE_LIMITED r7, 2, 43f, 53
    adds r1, #3
    cmp r1, r12
    beq 8f
10: mov r5, r9
    mov r7, r10
    adds r6, r6, r5
    bcs 6f
    ldm r7, {r5, r7}
    mov r11, r5
    ldr r4, 17f
    movs r2, #0
    movs r3, #0
    bx r7
6:  adds r7, #8
    ldm r7, {r5, r7}
    mov r11, r5
    ldr r4, 17f
    movs r2, #0
    movs r3, #0
    bx r7
8:  add sp, #C_FRAME
    POP_ALL
    LIMITED r7, 41, 51b
    LIMITED r7, 42, 52b
    LIMITED r7, 43, 53b
    .balign 4
17: .word 0x00ff00ff
18: .word 359
19: .word 454
// Where the rows end, and bytes of one.
9:  .hword 21f - 7b, (21f - 30f + 2) / 4, 22f - 7b, (22f - 31f + 2) / 4
    .hword 23f - 7b, (23f - 32f + 2) / 4, 24b - 7b, (24b - 7b + 2) / 4
    .hword 25f - 7b, (25f - 34f + 2) / 4, 26f - 7b, (26f - 35f + 2) / 4
30: CHROMA_BLOCK 2, 0, \y_first
21: CHROMA_END 2, 0
    b 20b
31: CHROMA_BLOCK 2, 1, \y_first
22: CHROMA_END 2, 1
    b 20b
32: CHROMA_BLOCK 3, 0, \y_first
23: CHROMA_END 3, 0
    b 20b
34: CHROMA_BLOCK 4, 0, \y_first
25: CHROMA_END 4, 0
    b 20b
35: CHROMA_BLOCK 4, 1, \y_first
26: CHROMA_END 4, 1
    b 20b
    .size \name, . - \name
.endm

// void mica_armv6m_picture_boxes_yuyv(const mica_picture_boxes_t *args); _uyvy. Rows begin at words.
    BOXES_CHROMA mica_armv6m_picture_boxes_yuyv, 1
    BOXES_CHROMA mica_armv6m_picture_boxes_uyvy, 0

// Of 565, four pixels to one: two rows of words. A colour's mean is a sum shifted, so weights are an eighth of others.
.macro QUARTERS name, swapped
    FUNCTION \name
    push {r4-r7, lr}
    mov r4, r8
    mov r5, r9
    mov r6, r10
    mov r7, r11
    push {r3-r7}
    LOAD_HIGH r9, r4, 14f
    LOAD_HIGH r10, r4, 15f
    LOAD_HIGH r11, r4, 18f
    LOAD_HIGH r12, r4, 19f
    LOAD_HIGH lr, r4, 20f
    movs r7, r1                 // bytes of a row
    movs r1, r2                 // out
1:  ldr r2, [r0]
    ldr r3, [r0, r7]
    adds r0, #4
    .if \swapped
    rev16 r2, r2
    rev16 r3, r3
    .endif
    mov r5, r9
    mov r6, r10
    lsrs r4, r2, #5
    ands r4, r4, r6
    mov r8, r4
    ands r2, r2, r5
    lsrs r4, r3, #5
    ands r4, r4, r6
    add r4, r8                  // red of the second pixels, blue of them, green of the first
    ands r3, r3, r5
    adds r2, r2, r3             // green of the second, red of the first, blue of them
    lsls r3, r2, #11
    lsrs r3, r3, #22
    lsrs r5, r4, #22
    adds r3, r3, r5             // red
    lsrs r5, r2, #21
    lsls r6, r4, #21
    lsrs r6, r6, #21
    adds r5, r5, r6             // green
    lsls r2, r2, #21
    lsrs r2, r2, #21
    lsls r4, r4, #10
    lsrs r4, r4, #21
    adds r2, r2, r4             // blue
    mov r6, r11
    muls r3, r6, r3
    mov r6, r12
    muls r5, r6, r5
    adds r3, r3, r5
    mov r6, lr
    muls r2, r6, r2
    adds r3, r3, r2
    movs r6, #0
    lsrs r3, r3, #13
    adcs r3, r6
    ldr r6, [sp, #40]           // the table
    ldrsb r3, [r6, r3]
    strb r3, [r1]
    adds r1, #1
    ldr r6, [sp]                // the end of out
    cmp r1, r6
    bne 1b
    pop {r3-r7}
    mov r8, r4
    mov r9, r5
    mov r10, r6
    mov r11, r7
    pop {r4-r7, pc}
    .balign 4
14: .word 0x07e0f81f
15: .word 0x07c0f83f
18: .word 5067
19: .word 4857
20: .word 1908
    .size \name, . - \name
.endm

// mica_armv6m_picture_quarters(row, stride, out, out_end, table): the low
// byte first; _swapped: the high one. Rows begin at words.
    QUARTERS mica_armv6m_picture_quarters, 0
    QUARTERS mica_armv6m_picture_quarters_swapped, 1
#endif
