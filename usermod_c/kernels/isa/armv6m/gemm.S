// Matrix product with requantisation: each output channel meets four pixels at a time. No multiplier wider than 32 bits
// is needed, and none that is fast: every MULS does two multiply-accumulates.
//
// Two elements of a patch are one word, X = x0 + x1 * 2^16, and two weights another, crossed, W = w1 + w0 * 2^16
// (integer sums: the upper half takes the borrow of a negative lower one). Modulo 2^32, X * W = x0 * w1 + 2^16 * (x0 *
// w0 + x1 * w1). With |x| <= 128 and |w| <= 127 the stray product is below 2^15, so the upper half, rounded, is the
// expected sum, and it fits 16 bits. ASRS #16 leaves the rounding bit in the carry and ADCS adds both: three cycles for
// two multiply-accumulates.
//
// Four pixels' words are interleaved in one stream, read by LDM and destroyed by MULS; the channel's weights are
// unpacked once for all pixels onto the stack and read SP-relative, without a pointer. 20 cycles for 8
// multiply-accumulates, entered at a computed address, so that no length needs a counter.
#include "hot.inc"

    .equ PAIRS, 128             // as many as the loop is unrolled for: 256 elements

// The stack: the weights, then what a channel or a group of pixels needs.
    .equ F_ARGS, 4 * PAIRS
    .equ F_X, F_ARGS + 4        // the stream, while the registers requantise
    .equ F_END, F_ARGS + 8      // where in the stream something else is to be done
    FIELDS F_, F_ARGS + 12, ENTRY, BIAS, ML, MH, ADJUST
    .equ F_READ, F_ARGS + 32    // running sums
    .equ F_WRITE, F_ARGS + 36
    .equ F_AFTER, F_ARGS + 40   // where sums go: quick, exact or keep_sums
    .equ F_M, F_ARGS + 44       // of quick: bits of the multiplier and fraction; and what exact has in r9 and r11
    FIELDS F_, F_ARGS + 48, FRACTION, ADD, SHIFT
    .equ FRAME, F_ARGS + 64
    .equ HALF_FRAME, FRAME / 2

// mica_gemm_t in kernels.h.
    FIELDS A_, 0, X, END1, END, STEP, ADJUST, WEIGHTS, WORDS, ROW, BIAS, MULT, SHIFT, OUT, OUT_STEP, CHANNELS
    FIELDS A_, 56, ZERO, RANGE, LOW, SUMS, FLAGS, PAIRS, DROP

// \a requantised by one product of 32 bits where that decides, and stored (kernels.h, `drop`).
//   r6 = bits of the multiplier, r7 = bits of the fraction, r8 = act_min, r9 = what the product begins with,
//   r10 = act_max - act_min, r11 = from which fraction on it does not decide; r0 = where to, lr = step from there to
//   the next; uses r4, r5
.macro QUICK a
    asrs r4, \a, #2
    muls r4, r6, r4
    add r4, r9
    movs r5, r4
    rors r5, r7
    cmp r5, r11
    bcs slow_\a
    asrs r4, r4, r7
decided_\a:
    .ifc \a, r0
    mov r0, r12
    .endif
    cmp r4, r10
    bhi out_\a
in_\a:
    add r4, r8
    strb r4, [r0]
    add r0, lr
.endm

.macro SLOW a
slow_\a:
    ldr r6, [sp, #F_ML]
    ldr r7, [sp, #F_MH]
    MICA_SCALE \a
    ldr r4, [sp, #F_ADD]
    adds r5, r5, r4
    ldr r4, [sp, #F_SHIFT]
    asrs r5, r5, r4
    movs r4, r5
    ldr r6, [sp, #F_M]
    ldr r7, [sp, #F_FRACTION]
    b decided_\a
out_\a:
    asrs r5, r4, #31
    mov r4, r10
    bics r4, r4, r5
    b in_\a
.endm

// void mica_armv6m_gemm(mica_gemm_t *args)
    ENTER mica_armv6m_gemm
    sub sp, #HALF_FRAME
    sub sp, #HALF_FRAME
    str r0, [sp, #F_ARGS]
    ldr r1, [r0, #A_WORDS]
    movs r2, #60                // 30 bytes a pair, two pairs a word
    muls r1, r2, r1
    ldr r2, =pairs_end + 1
    subs r2, r2, r1
    str r2, [sp, #F_ENTRY]
    ldr r1, [r0, #A_SUMS]       // of all channels, one behind the other
    str r1, [sp, #F_READ]
    str r1, [sp, #F_WRITE]
    LOAD_HIGH r10, r1, [r0, #A_RANGE]
    LOAD_HIGH r8, r1, [r0, #A_LOW]
    LOAD_HIGH lr, r1, [r0, #A_OUT_STEP]
    ldr r1, [r0, #A_FLAGS]
    lsrs r1, r1, #2             // flag 2
    ldr r1, =keep_sums + 1
    bcs 1f
    ldr r1, =exact + 1
1:  str r1, [sp, #F_AFTER]

channel:
    // The weights: word j becomes the pairs 2j and 2j + 1; the last one lies highest.
    ldr r1, [r0, #A_WORDS]
    ldr r2, [r0, #A_WEIGHTS]
    mov r3, sp
    movs r4, #PAIRS / 2
    subs r4, r4, r1
    lsls r4, r4, #3
    adds r3, r3, r4
    ldr r5, [r0, #A_PAIRS]
    cmp r5, #0
    bne codes
    add r4, sp, #F_ARGS
    mov r12, r4
    ldr r5, =0x80808080
    ldr r6, =0x00ff00ff
    ldr r7, =-0x00800080
    mov r9, r7
    movs r7, #16
.macro UNPACK word
    rors \word, \word, r7
    eors \word, \word, r5
    lsrs r4, \word, #8
    ands \word, \word, r6
    add \word, r9
    ands r4, r4, r6
    add r4, r9
    stm r3!, {\word, r4}
.endm
    lsrs r1, r1, #1
    bcc 1f
    ldm r2!, {r0}
    UNPACK r0
    cmp r3, r12
    beq unpacked
1:  ldm r2!, {r0, r1}
    UNPACK r0
    UNPACK r1
    cmp r3, r12
    bne 1b

unpacked:
    ldr r0, [sp, #F_ARGS]
    LOAD_HIGH r12, r1, [r0, #A_OUT]
    ldr r1, [r0, #A_MULT]
    ldr r4, [r1]
    uxth r2, r4
    str r2, [sp, #F_ML]
    lsrs r2, r4, #16
    str r2, [sp, #F_MH]
    ldr r1, [r0, #A_SHIFT]
    ldrb r1, [r1]
    mov r11, r1
    ldr r2, [r0, #A_ZERO]
    lsls r2, r2, r1
    HALF_BIT r3, r1
    adds r2, r2, r3
    mov r9, r2
    ldr r5, [r0, #A_DROP]
    cmp r5, #0
    bne short
begin:
    ldr r1, [r0, #A_BIAS]
    ldr r1, [r1]
    str r1, [sp, #F_BIAS]
    ldr r1, [r0, #A_END1]
    str r1, [sp, #F_END]
    ldr r1, [r0, #A_ADJUST]
    str r1, [sp, #F_ADJUST]
    ldr r7, [r0, #A_X]
    ldr r3, [r0, #A_FLAGS]
    ldr r4, [sp, #F_ENTRY]
    ldr r0, [sp, #F_BIAS]
    movs r1, r0
    movs r2, r0
    lsrs r3, r3, #1             // flag 1: there are sums to go on from
    mov r3, r0
    bcc 1f
    ldr r6, [sp, #F_READ]
    ldm r6!, {r0-r3}
    str r6, [sp, #F_READ]
1:  bx r4

    // The weights as codes, each byte the number of a pair in the table: 33 cycles for eight.
codes:
    movs r6, #255
    lsls r6, r6, #2
1:  ldm r2!, {r0}
    lsls r4, r0, #2
    ands r4, r4, r6
    ldr r4, [r5, r4]
    lsrs r7, r0, #6
    ands r7, r7, r6
    ldr r7, [r5, r7]
    stm r3!, {r4, r7}
    subs r1, #1
    beq unpacked
    lsrs r4, r0, #14
    ands r4, r4, r6
    ldr r4, [r5, r4]
    lsrs r7, r0, #22
    ands r7, r7, r6
    ldr r7, [r5, r7]
    stm r3!, {r4, r7}
    subs r1, #1
    bne 1b
    b unpacked

    // Whether a short product may decide: with d = `drop`, |bias| at most 2^d, the multiplier 2^30 or more, the shift 3
    // to d - 8. It has the multiplier without its last d bits, rounded, and a sum without its last two. So it lacks at
    // most, in units of its own, what the multiplier's rounding makes of the largest sum inside the range, in one
    // direction or the other, and 3/4 of m.
short:
    ldr r3, =exact + 1
    str r3, [sp, #F_AFTER]
    ldr r3, [r0, #A_BIAS]
    ldr r3, [r3]
    asrs r3, r3, r5
    adds r3, #1
    cmp r3, #1
    bhi begin
    lsls r3, r4, #1
    bpl begin
    str r1, [sp, #F_SHIFT]
    str r2, [sp, #F_ADD]
    subs r1, #3
    movs r6, r5
    subs r6, #11
    cmp r1, r6
    bhi begin
    adds r1, #3
    movs r3, r4
    movs r6, #0
    lsrs r3, r3, r5
    adcs r3, r6                 // m
    str r3, [sp, #F_M]
    movs r6, r3
    lsls r6, r6, r5
    subs r6, r4, r6             // what the rounding took
    ldr r7, [r0, #A_ZERO]
    adds r7, #2                 // and the range of y below zero, where it was taken away
    asrs r4, r6, #31
    beq 1f
    eors r6, r6, r4
    eors r7, r7, r4
    adds r7, #255               // else that above: 257 - zero
    adds r7, #5
1:  movs r4, r5
    subs r4, #8
    lsrs r6, r6, r4
    adds r6, #1
    muls r7, r6, r7
    lsls r7, r7, r1
    lsrs r7, r7, #9
    adds r7, #2                 // by how much the product may be too large
    movs r4, #29
    subs r4, r4, r5
    lsls r2, r2, r4
    subs r2, r2, r7
    mov r9, r2
    adds r4, r4, r1
    str r4, [sp, #F_FRACTION]
    movs r7, #130
    muls r6, r7, r6
    lsls r6, r6, r1
    lsrs r6, r6, #8
    lsrs r7, r3, #2
    subs r3, r3, r7
    adds r6, r6, r3
    adds r6, #5                 // by how much, after that, too small
    movs r7, #32
    subs r7, r7, r4
    lsls r6, r6, r7
    mvns r6, r6
    mov r11, r6
    ldr r3, =quick + 1
    str r3, [sp, #F_AFTER]
    b begin
    .ltorg

    .balign 4
    .set i, 0
    .rept PAIRS
    ldr r6, [sp, #(4 * i)]
    ldm r7!, {r4, r5}
    TWO_PRODUCTS r0, r4, r6
    TWO_PRODUCTS r1, r5, r6
    ldm r7!, {r4, r5}
    TWO_PRODUCTS r2, r4, r6
    TWO_PRODUCTS r3, r5, r6
    .set i, i + 1
    .endr
pairs_end:
    ldr r6, [sp, #F_AFTER]
    bx r6
quick:
    str r7, [sp, #F_X]
    ldr r6, [sp, #F_M]
    ldr r7, [sp, #F_FRACTION]
    QUICK r0
    QUICK r1
    QUICK r2
    QUICK r3
    mov r12, r0
    ldr r7, [sp, #F_X]
    b next
    SLOW r0
    SLOW r1
    SLOW r2
    SLOW r3
exact:
    str r7, [sp, #F_X]
    ldr r6, [sp, #F_ML]
    ldr r7, [sp, #F_MH]
    MICA_REQUANT r0, a
    MICA_REQUANT r1, b
    MICA_REQUANT r2, c
    MICA_REQUANT r3, d
    ldr r7, [sp, #F_X]
next:
    ldr r4, [sp, #F_END]
    cmp r7, r4
    beq event
group:
    ldr r4, [sp, #F_ENTRY]
    ldr r0, [sp, #F_BIAS]
    movs r1, r0
    movs r2, r0
    movs r3, r0
    bx r4

keep_sums:
    ldr r6, [sp, #F_WRITE]
    stm r6!, {r0-r3}
    str r6, [sp, #F_WRITE]
    b next

    MICA_SATURATE a
    MICA_SATURATE b
    MICA_SATURATE c
    MICA_SATURATE d

    // The stream is at F_END: the end of the tile, or of the first group, which the next one may overlap.
event:
    ldr r0, [sp, #F_ARGS]
    ldr r4, [r0, #A_END]
    cmp r7, r4
    beq channel_done
    ldr r4, [r0, #A_STEP]
    adds r4, r4, r7
    str r4, [sp, #F_END]
    ldr r4, [sp, #F_ADJUST]
    add r12, r4
    movs r4, #0
    str r4, [sp, #F_ADJUST]
    ldr r4, [r0, #A_FLAGS]
    lsrs r4, r4, #1
    bcc group
    ldr r6, [sp, #F_READ]
    ldm r6!, {r0-r3}
    str r6, [sp, #F_READ]
    ldr r4, [sp, #F_ENTRY]
    bx r4

channel_done:
    ldr r1, [r0, #A_CHANNELS]
    subs r1, #1
    beq done
    str r1, [r0, #A_CHANNELS]
    ldr r1, [r0, #A_WEIGHTS]
    ldr r2, [r0, #A_ROW]
    adds r1, r1, r2
    str r1, [r0, #A_WEIGHTS]
    ADVANCE r1, #4, [r0, #A_BIAS]
    ADVANCE r1, #4, [r0, #A_MULT]
    ADVANCE r1, #1, [r0, #A_SHIFT]
    ADVANCE r1, #1, [r0, #A_OUT]
    ldr r1, =channel + 1
    bx r1
done:
    add sp, #HALF_FRAME
    add sp, #HALF_FRAME
    POP_ALL
    .ltorg
    .size mica_armv6m_gemm, . - mica_armv6m_gemm

// The pairs of a word to r1 + \at and 16 bytes on; r5, r6, r8 = masks. Uses r4.
.macro HALVES word, at
    eors \word, \word, r6
    movs r4, \word
    ands r4, r4, r5
    add r4, r8
    str r4, [r1, #\at]
    lsrs \word, \word, #8
    ands \word, \word, r5
    add \word, r8
    str \word, [r1, #\at + 16]
.endm

// r9 = x_step, r10 = lane, r11 = group, r12 = pixels that are left. Returns behind the last one.
.macro NEXT_PIXEL again
    add r0, r9
    adds r1, #4
    mov r7, r10
    adds r7, #1
    cmp r7, #4
    bne 4f
    add r1, r11
    movs r7, #0
4:  mov r10, r7
    mov r7, r12
    subs r7, #1
    mov r12, r7
    bne \again
    POP_ALL
.endm

// mica_armv6m_unpack(x, to, words, pixels, x_step, lane, group)
// Makes the stream: `words` words of x for each pixel, as pairs, 16 bytes apart. x on a word; x_step from pixel to
// pixel; lane: which of four pixels the first one is, to: its first pair; group: bytes from the fourth pixel to the
// next group's first.
    ENTER mica_armv6m_unpack
    LOAD_HIGH r9, r4, [sp, #36] // x_step
    LOAD_HIGH r10, r4, [sp, #40]  // lane
    LOAD_HIGH r11, r4, [sp, #44]  // group
    mov r12, r3                 // pixels
    mov lr, r2                  // words
    ldr r4, =-0x00800080
    mov r8, r4
    ldr r5, =0x00ff00ff
    ldr r6, =0x80808080
unpack_pixel:
    push {r0, r1}
    mov r7, lr
    lsrs r7, r7, #1
    bcc 2f
    ldm r0!, {r2}               // an odd number of words: one alone
    HALVES r2, 0
    adds r1, #32
    cmp r7, #0
    beq 3f
2:  ldm r0!, {r2, r3}
    HALVES r2, 0
    HALVES r3, 32
    adds r1, #64
    subs r7, #1
    bne 2b
3:  pop {r0, r1}
    NEXT_PIXEL unpack_pixel
    .ltorg
    .size mica_armv6m_unpack, . - mica_armv6m_unpack

// mica_armv6m_pick(x, to, table, words, pixels, x_step,
//     uint32_t lane, uint32_t group)
// Makes the stream as unpack does, of elements wherever they lie: kernels.h says how the table does that.
    ENTER mica_armv6m_pick
    LOAD_HIGH r12, r4, [sp, #36]  // pixels
    LOAD_HIGH r9, r4, [sp, #40] // x_step
    LOAD_HIGH r10, r4, [sp, #44]  // lane
    LOAD_HIGH r11, r4, [sp, #48]  // group
    mov lr, r2                  // table
    subs r3, #1
    lsls r3, r3, #4
    adds r3, r3, r2
    mov r8, r3                  // its last word
pick_pixel:
    push {r1}
    mov r7, lr
    cmp r7, r8
    beq 2f
1:  ldm r7!, {r3-r6}
    ldrsb r3, [r0, r3]
    ldrsb r4, [r0, r4]
    lsls r4, r4, #16
    adds r3, r3, r4
    str r3, [r1]
    ldrsb r5, [r0, r5]
    ldrsb r6, [r0, r6]
    lsls r6, r6, #16
    adds r5, r5, r6
    str r5, [r1, #16]
    adds r1, #32
    cmp r7, r8
    bne 1b
2:
    .rept 2                     // the last word: what fills it up counts 0 times
    ldm r7!, {r3-r6}
    ldrsb r3, [r0, r3]
    ldrsb r4, [r0, r4]
    muls r3, r5, r3
    muls r4, r6, r4
    adds r3, r3, r4
    str r3, [r1]
    adds r1, #16
    .endr
    pop {r1}
    NEXT_PIXEL pick_pixel
    .size mica_armv6m_pick, . - mica_armv6m_pick
