// Products of int16 pairs on a Cortex-M with the DSP instructions: SMLAD multiplies and adds two of them at once.
    .syntax unified
    .thumb
#include "../thumb.inc"
#include "step.inc"
    .section .text.mica_dsp_gemm, "ax", %progbits

// The first step: the sums of both pixels begin with the bias in r4-r7.
.macro FIRST
    ldrd r2, r3, [r0], #8
    ldrd r12, lr, [r1], #8
    smlad r8, r3, r12, r4
    smlad r4, r2, r12, r4
    smlad r9, r3, lr, r5
    smlad r5, r2, lr, r5
    ldrd r12, lr, [r1], #8
    smlad r10, r3, r12, r6
    smlad r6, r2, r12, r6
    smlad r11, r3, lr, r7
    smlad r7, r2, lr, r7
.endm

// Requantises and stores a channel of both pixels: \a for y at lr, \b for y at r4, which the first finds;
// r2 = multiplier, r3 = 2^(s-2) + (zero << (s-1)), r12 = s - 1. SMMLA is r3 + floor(sum * multiplier / 2^32), so that
// shifted by r12 is the sum rounded once.
.macro CHANNEL a, b, at
    ldm r1!, {r2, r3, r12}
    smmla \a, \a, r2, r3
    asr \a, \a, r12
    ssat \a, #8, \a
    smmla \b, \b, r2, r3
    asr \b, \b, r12
    ssat \b, #8, \b
.if \at == 0
    ldrd lr, r12, [sp, #F_Y]
    strb \a, [lr]
    add r4, lr, r12
.else
    strb \a, [lr, #\at]
.endif
    strb \b, [r4, #\at]
.endm

    FIELDS F_, 0, W, W_END, ENTRY, Y, STEP, X_END

    .equ WORDS, 16              // of four elements that are unrolled
    .equ WORD_CODE, 88          // bytes of code for each

// void mica_dsp_gemm(const mica_dsp_gemm_t *args)
    ENTER mica_dsp_gemm
    ldm r0, {r0-r6}             // x, x_end, w, w_end, words, y, step
    mov r7, r1
    subs r4, #1                 // behind the first
    and r4, r4, #WORDS - 1      // words of the first round: the rest, or none
    movs r1, #WORD_CODE
    muls r4, r1, r4
    ldr r1, =words_end + 1
    subs r4, r1, r4
    push {r2-r7}
pair:
    ldr r1, [sp, #F_W]
    ldm r1!, {r4-r7}            // the bias
    FIRST
    STEP 8
    ldr pc, [sp, #F_ENTRY]
    .ltorg
    .balign 4
words:
    .rept 2 * WORDS
    STEP 8
    .endr
words_end:
    ldr r2, [sp, #F_W_END]
    cmp r1, r2
    bne.w words
    CHANNEL r4, r8, 0
    CHANNEL r5, r9, 1
    CHANNEL r6, r10, 2
    CHANNEL r7, r11, 3
    ldr r6, [sp, #F_X_END]
    rsb lr, lr, r4, lsl #1
    str lr, [sp, #F_Y]
    cmp r0, r6
    bne.w pair
    add sp, #24
    pop {r4-r11, pc}
    .if words_end - words - WORDS * WORD_CODE
    .error "WORD_CODE is wrong"
    .endif
    .size mica_dsp_gemm, . - mica_dsp_gemm

// void mica_dsp_gemm1(const mica_dsp_gemm_t *args)
// One pixel alone, which the stream has twice: 8 multiply-accumulates in 7 instructions.
    .equ WORDS1, 4              // of four elements that are unrolled
    .equ WORD1_CODE, 56         // bytes of code for each

.macro CHANNEL1 sum, at
    ldm r1!, {r2, r3, r12}
    smmla \sum, \sum, r2, r3
    asr \sum, \sum, r12
    ssat \sum, #8, \sum
    strb \sum, [lr, #\at]
.endm

    ENTER_ALONE mica_dsp_gemm1
    ldm r0, {r0-r3, r8, lr}     // x, x_end, w, w_end, words, y
    mov r1, r2
    ldm r1!, {r4-r7}            // the bias
    sub r8, #1
    and r8, r8, #WORDS1 - 1
    add r8, #1                  // words of the first round: the rest, or all
    mov r9, #WORD1_CODE
    ldr r12, =words1_end + 1
    mls r12, r8, r9, r12
    bx r12
    .ltorg
    .balign 4
words1:
    .rept 2 * WORDS1
    ldr.w r2, [r0], #8
    ldrd r8, r9, [r1], #8
    ldrd r10, r11, [r1], #8
    smlad r4, r2, r8, r4
    smlad r5, r2, r9, r5
    smlad r6, r2, r10, r6
    smlad r7, r2, r11, r7
    .endr
words1_end:
    cmp r1, r3
    bne.w words1
    CHANNEL1 r4, 0
    CHANNEL1 r5, 1
    CHANNEL1 r6, 2
    CHANNEL1 r7, 3
    pop {r4-r11, pc}
    .if words1_end - words1 - WORDS1 * WORD1_CODE
    .error "WORD1_CODE is wrong"
    .endif
    .size mica_dsp_gemm1, . - mica_dsp_gemm1

.macro WORD_OF_FOUR
    ldr r5, [r0, r1]
    ldr r6, [r0, r1, lsl #1]
    ldr r7, [r0, r12]
    ldr r4, [r0], #4
    sxtb16 r8, r4, ror #8
    sxtb16 r9, r5, ror #8
    sxtb16 r10, r6, ror #8
    sxtb16 r11, r7, ror #8
    sxtb16 r4, r4
    sxtb16 r5, r5
    sxtb16 r6, r6
    sxtb16 r7, r7
    stm r3!, {r4-r11}
.endm

// void mica_dsp_weights(const int8_t *w, uint32_t row, uint32_t words, uint32_t *to)
// Four rows of weights, `row` bytes apart, as pairs: of each word (w0, w2) of the four, then (w1, w3).
    ENTER_ALONE mica_dsp_weights
    add r12, r1, r1, lsl #1
    lsrs r2, r2, #1
    bcc 1f
    WORD_OF_FOUR
    beq 2f
1:  WORD_OF_FOUR
    WORD_OF_FOUR
    subs r2, #1
    bne 1b
2:  pop {r4-r11, pc}
    .size mica_dsp_weights, . - mica_dsp_weights

// uint32_t mica_dsp_requants(const mica_dsp_requants_t *args)
// The constants of four channels: how their sums are requantised, and where they begin.
    ENTER_ALONE mica_dsp_requants
    ldm r0, {r1-r6}             // bias, mult, shift, rounding, start, to
    ldm r1, {r8-r11}
    stm r5, {r8-r11}
    mov r12, r3
    movs r0, #0
    .irp bit, 1, 2, 4, 8
    ldrsb r7, [r12], #1
    ldr r1, [r2], #4
    subs r7, #1
    bne 1f
    movs r7, #1
    adds r0, #\bit
1:  sub r8, r7, #1
    lsl r3, r4, r8
    stm r6!, {r1, r3, r7}
    .endr
    LEAVE mica_dsp_requants

// The word of both pixels in r4 and r5.
.macro EMIT
    sxtb16 r6, r4, ror #8
    sxtb16 r7, r5, ror #8
    sxtb16 r4, r4
    sxtb16 r5, r5
    stm r2!, {r4-r7}
.endm

.macro NEXT_WORDS
    ldr r4, [r0], #4
    ldr r5, [r1], #4
    EMIT
.endm

// void mica_dsp_unpack(const mica_dsp_unpack_t *args)
// Patches of pairs of pixels as a stream: of each word of four elements (x0, x2) of both pixels, then (x1, x3).
    ENTER_ALONE mica_dsp_unpack
    ldr r3, [r0, #36]           // next1
    ldr r2, [r0, #32]           // next0
    push {r2, r3}
    ldm r0, {r0-r2, r8-r12}     // x0, x1, to, adjust0, adjust1, words, rows, pairs
    mov lr, r12
1:  mov r12, r11
2:  lsrs r3, r10, #1
    bcc 3f
    NEXT_WORDS
    cbz r3, 5f
3:  NEXT_WORDS
    NEXT_WORDS
    subs r3, #1
    bne 3b
5:  add r0, r8
    add r1, r9
    subs r12, #1
    bne 2b
    ldrd r4, r5, [sp]
    add r0, r4
    add r1, r5
    subs lr, #1
    bne 1b
    add sp, #8
    LEAVE mica_dsp_unpack

// void mica_dsp_unpack27(const mica_dsp_unpack27_t *args)
// The same of patches of three rows of nine bytes, wherever they lie; the last byte of the seventh word is 0.
    .section .text.mica_dsp_unpack27, "ax", %progbits
    FUNCTION mica_dsp_unpack27
    push {r4-r9, lr}
    ldm r0, {r0-r3, r8, r9}     // x0, x1, to, pairs, pitch, next
1:  ldr r4, [r0]
    ldr r5, [r1]
    EMIT
    ldr r4, [r0, #4]
    ldr r5, [r1, #4]
    EMIT
    ldrb r4, [r0, #8]
    ldrb r5, [r1, #8]
    add r0, r8
    add r1, r8
    ldr r6, [r0]
    ldr r7, [r1]
    orr r4, r4, r6, lsl #8
    orr r5, r5, r7, lsl #8
    EMIT
    ldr r4, [r0, #3]
    ldr r5, [r1, #3]
    EMIT
    ldrh r4, [r0, #7]
    ldrh r5, [r1, #7]
    add r0, r8
    add r1, r8
    ldrh r6, [r0]
    ldrh r7, [r1]
    orr r4, r4, r6, lsl #16
    orr r5, r5, r7, lsl #16
    EMIT
    ldr r4, [r0, #2]
    ldr r5, [r1, #2]
    EMIT
    ldr r4, [r0, #5]
    ldr r5, [r1, #5]
    lsrs r4, r4, #8
    lsrs r5, r5, #8
    EMIT
    add r0, r9
    add r1, r9
    subs r3, #1
    bne 1b
    pop {r4-r9, pc}
    .size mica_dsp_unpack27, . - mica_dsp_unpack27

// void mica_dsp_thin(const mica_dsp_thin_t *args), void mica_dsp_thin_bytes(const mica_dsp_thin_t *args)
// Pairs of channels, whose weights are read as they are stored, against one pair of pixels: 16 multiply-accumulates in
// 15 instructions where the pixels are a stream, in 20 where they are bytes.
    FIELDS F_, 0, THIN_X, THIN_X_END, THIN_ROW, THIN_PAIRS, THIN_SUMS, THIN_ENTRY
    .equ THIN_WORDS, 4          // of four elements that are unrolled

// A channel at \w against the pairs (x0, x2) in r8 and r9 and (x1, x3) in r10 and r11 of both pixels.
.macro THIN_CHANNEL w, a, b
    ldr r12, [\w], #4
    sxtb16 r3, r12
    sxtb16 r12, r12, ror #8
    smlad \a, r8, r3, \a
    smlad \b, r9, r3, \b
    smlad \a, r10, r12, \a
    smlad \b, r11, r12, \b
.endm

.macro THIN name, bytes, code
    ENTER_ALONE \name
    ldm r0, {r0-r5}             // x, x_end, w, row, pairs, sums
    sub r6, r1, r0
.if \bytes
    lsrs r6, #2
.else
    lsrs r6, #4
.endif
    subs r6, #1
    and r6, r6, #THIN_WORDS - 1
    adds r6, #1                 // words of the first round: the rest, or all
    movs r7, #\code
    muls r6, r7, r6
    ldr r7, =9f + 1
    subs r6, r7, r6
    sub sp, #24
    strd r0, r1, [sp, #F_THIN_X]
    strd r3, r4, [sp, #F_THIN_ROW]
    strd r5, r6, [sp, #F_THIN_SUMS]
    mov r1, r2
    add r2, r3
1:  ldr r0, [sp, #F_THIN_X]
.if \bytes
    ldr lr, [sp, #F_THIN_X_END]
.endif
    movs r4, #0
    movs r5, #0
    movs r6, #0
    movs r7, #0
    ldr pc, [sp, #F_THIN_ENTRY]
    .ltorg
    .balign 4
8:
    .rept THIN_WORDS
.if \bytes
    ldr r10, [r0], #4
    ldr r11, [lr], #4
    sxtb16 r8, r10
    sxtb16 r9, r11
    sxtb16 r10, r10, ror #8
    sxtb16 r11, r11, ror #8
.else
    ldm r0!, {r8-r11}
.endif
    THIN_CHANNEL r1, r4, r6
    THIN_CHANNEL r2, r5, r7
    .endr
9:  ldr r12, [sp, #F_THIN_X_END]
    cmp r0, r12
    bne.w 8b
    ldrd r3, r12, [sp, #F_THIN_PAIRS]
    mov r1, r2
    stm r12!, {r4-r7}
    ldr r0, [sp, #F_THIN_ROW]
    subs r3, #1
    strd r3, r12, [sp, #F_THIN_PAIRS]
    add r2, r0
    bne.w 1b
    add sp, #24
    pop {r4-r11, pc}
    .if 9b - 8b - THIN_WORDS * \code
    .error "the length of the code is wrong"
    .endif
    .size \name, . - \name
.endm

    THIN mica_dsp_thin, 0, 60
    THIN mica_dsp_thin_bytes, 1, 80
