// Depthwise 3x3 convolution on a Cortex-M with the DSP instructions. Of four channels at a time, two rows of the image
// become a band of words V[x] = x[row][x] + x[row + 1][x] * 2^16; two such bands, A above B, give a strip: two rows of
// the output with stride 1, or one with stride 2. A band is blocks of 32 bytes, each two columns: of each of the four
// channels both words.
    .syntax unified
    .thumb
#include "../thumb.inc"

    .equ BLOCK, 32
    .equ SHIFT, 10              // MICA_DSP_SHIFT of kernels.h
    .equ DOUBLINGS, 8           // that leave a weight an int16

// void mica_dsp_constants(const mica_dsp_constants_t *args)
// Sums of a channel are doubled until their shift is SHIFT, where they stay below 2^31 with a bias below 2^22: what is
// rounded off is the same.
    ENTER_ALONE mica_dsp_constants
    ldm r0, {r0-r5}             // w, bias, mult, shift, to, rounding
    add r6, r3, #4
    push {r6, r7}
1:  ldrsb r6, [r3], #1
    ldr r7, [r1], #4
    rsb r8, r6, #SHIFT + 1
    cmp r8, #DOUBLINGS
    bhi 3f
    ssat r9, #23, r7
    cmp r9, r7
    bne 3f
2:  add r6, r8
    ldr r9, [r2], #4
    lsl r7, r7, r8
    sub r11, r6, #2
    subs r6, #1
    lsl r10, r5, r11
    strd r7, r9, [r4, #24]
    strd r10, r6, [r4, #32]
    mov r6, #0x10000
    lsl lr, r6, r8
    sub lr, r6                  // what the lower half's sign leaves in the upper half
    ldr r6, [r0]
    ldr r7, [r0, #3]
    ldr r9, [r0, #2]
    ldr r11, [r0, #5]
    ldr r12, [r0, #4]
    adds r0, #9
    pkhbt r7, r6, r7, lsl #16   // w0, w1, w3, w4
    pkhbt r10, r9, r11, lsl #16 // w2, w3, w5, w6
    pkhbt r12, r12, r11         // w4, w5, w7, w8
    sxtb16 r6, r7
    sxtb16 r7, r7, ror #8
    sxtb16 r9, r10
    sxtb16 r10, r10, ror #8
    sxtb16 r11, r12
    sxtb16 r12, r12, ror #8
    .irp pair, r6, r7, r9, r10, r11, r12
    lsl \pair, \pair, r8
    bic \pair, \pair, lr
    .endr
    stm r4, {r6, r7, r9-r12}
    adds r4, #40
    ldr r6, [sp]
    cmp r3, r6
    bne 1b
    pop {r6, r7}
    pop {r4-r11, pc}
3:  movs r8, #0
    cmp r6, #1
    bne 2b
    movs r8, #1                 // SMMLA drops 32 bits, and a shift of none is no rounding
    b 2b
    .size mica_dsp_constants, . - mica_dsp_constants

// One column: r0, r1 = upper and lower row, r2, r3 = their steps, r4 = the first channel's word.
.macro COLUMN
    ldr r6, [r0]
    ldr r7, [r1]
    add r0, r2
    add r1, r3
    pkhbt r8, r6, r7, lsl #16
    pkhtb r9, r7, r6, asr #16
    sxtb16 r6, r8
    sxtb16 r8, r8, ror #8
    sxtb16 r7, r9
    sxtb16 r9, r9, ror #8
    str r6, [r4]
    str r8, [r4, #8]
    str r7, [r4, #16]
    str r9, [r4, #24]
.endm

// void mica_dsp_rows(mica_dsp_rows_t *args): builds bands, one below the other.
    ENTER_ALONE mica_dsp_rows
    sub sp, #4
    str r0, [sp]
    mov r12, r0
1:  ldm r12!, {r4-r10}          // to, row, x, step, height, pitch, lead
    ldr r11, [r12]              // outside
    mov r2, r7
    mov r3, r7
    mla r0, r5, r9, r6
    add r1, r0, r9
    cmp r5, r8
    blo 2f
    mov r0, r11                 // a row outside the image: the same word again and again
    movs r2, #0
2:  adds r5, #1
    cmp r5, r8
    blo 2f
    mov r1, r11
    movs r3, #0
2:  ldr r5, [r12, #4]           // columns
    cmp r10, #0
    beq 2f
    COLUMN                      // which shares its block with a column outside the image
    adds r4, #BLOCK - 4
2:  lsrs r5, r5, #1
    beq 4f
3:  ldr r6, [r0]
    ldr r7, [r1]
    pkhbt r8, r6, r7, lsl #16
    pkhtb r12, r7, r6, asr #16
    ldr r6, [r0, r2]
    ldr r7, [r1, r3]
    add r0, r0, r2, lsl #1
    add r1, r1, r3, lsl #1
    pkhbt r9, r6, r7, lsl #16
    pkhtb lr, r7, r6, asr #16
    sxtb16 r6, r8
    sxtb16 r7, r9
    sxtb16 r8, r8, ror #8
    sxtb16 r9, r9, ror #8
    sxtb16 r10, r12
    sxtb16 r11, lr
    sxtb16 r12, r12, ror #8
    sxtb16 lr, lr, ror #8
    stm r4!, {r6-r12, lr}
    subs r5, #1
    bne 3b
4:  ldr r12, [sp]
    ldr r5, [r12, #32]
    lsls r5, r5, #31
    beq 5f
    COLUMN
5:  ldrd r4, r5, [r12]
    ldrd r6, r7, [r12, #36]     // band, bands
    add r4, r6
    adds r5, #2
    strd r4, r5, [r12]
    subs r7, #1
    str r7, [r12, #40]
    bne.w 1b
    add sp, #4
    LEAVE mica_dsp_rows

    .equ F_Y, 0
    .equ F_PITCH, 4             // to the second row of this strip
    .equ F_MULT, 8              // mult, round, bias, shift of the channel
    FIELDS F_, 16, BIAS, SHIFT, STEP
    .equ F_END, 28              // of A
    .equ F_PAIRS, 32            // bytes of a band that pairs of windows step over
    .equ F_STRIPS, 36           // that are left
    .equ F_ODD, 40              // whether a window is left behind the pairs
    .equ F_COUNT, 44            // channels that are left
    .equ F_ARGS, 48             // a, b, y, step, pitch, windows, strips, last, taps; moved from channel to channel
    FIELDS A_, 8, Y, STEP, PITCH, WINDOWS, STRIPS, LAST, TAPS
    .equ FRAME, 84

// Begins a function for four channels:
//   r0 = A, r1 = B, r4-r6 = weights (w0, w1) of the three columns, r7-r9 = (w1, w2), r10 = bias, r11 = shift
.macro CHANNELS name, pair
    ENTER_ALONE \name
    sub sp, #FRAME
    ldm r0, {r1-r9}
    add r12, sp, #F_ARGS
    stm r12, {r1-r9}
    lsrs r3, r6, #1
    lsls r3, r3, #\pair
    and r6, r6, #1
    str r4, [sp, #F_STEP]
    str r3, [sp, #F_PAIRS]
    str r6, [sp, #F_ODD]
    movs r0, #4
    str r0, [sp, #F_COUNT]
5:  add r12, sp, #F_ARGS
    ldm r12, {r0-r2}
    add r3, r0, #8
    add r4, r1, #8
    adds r5, r2, #1
    stm r12, {r3-r5}
    ldr r3, [r12, #A_PITCH]
    ldr r4, [r12, #A_STRIPS]
    strd r2, r3, [sp, #F_Y]
    str r4, [sp, #F_STRIPS]
    ldr r12, [r12, #A_TAPS]
    ldm r12!, {r4-r10}
    ldm r12!, {r2, r3, r11}
    add lr, sp, #F_MULT
    stm lr, {r2, r3, r10, r11}
    str r12, [sp, #F_ARGS + A_TAPS]
.endm

.macro NEXT_CHANNEL name
    ldr r2, [sp, #F_COUNT]
    subs r2, #1
    str r2, [sp, #F_COUNT]
    bne.w 5b
    add sp, #FRAME
    LEAVE \name
.endm

// Sums to outputs. Uses the registers \mult and \round. \fixed: shifts are SHIFT.
.macro REQUANTISE fixed, mult, round, sums:vararg
    ldrd \mult, \round, [sp, #F_MULT]
    .irp sum, \sums
    smmla \sum, \sum, \mult, \round
    .endr
.if \fixed
    .irp sum, \sums
    ssat \sum, #8, \sum, asr #SHIFT
    .endr
.else
    ldr \mult, [sp, #F_SHIFT]
    .irp sum, \sums
    asr \sum, \sum, \mult
    .endr
    .irp sum, \sums
    ssat \sum, #8, \sum
    .endr
.endif
.endm

// Strips of stride 1: two windows of both rows at a time, which read 4 columns.
.macro STRIPS1 fixed
1:  ldrd r2, r3, [sp, #F_PAIRS]
    subs r3, #1
    str r3, [sp, #F_STRIPS]
    bne 2f
    ldr r3, [sp, #F_ARGS + A_LAST]
    str r3, [sp, #F_PITCH]
2:  cmp r2, #0
    beq.w 4f
    add r2, r0
    str r2, [sp, #F_END]
3:  ldr r10, [sp, #F_BIAS]
    ldrd r2, r3, [r0], #BLOCK
    smlad r11, r2, r4, r10
    smlatb r2, r2, r4, r10
    smlad r12, r3, r4, r10
    smlatb r10, r3, r4, r10
    smlad r11, r3, r5, r11
    smlatb r2, r3, r5, r2
    ldrd r3, lr, [r0]
    smlad r11, r3, r6, r11
    smlatb r2, r3, r6, r2
    smlad r12, r3, r5, r12
    smlatb r10, r3, r5, r10
    smlad r12, lr, r6, r12
    smlatb r10, lr, r6, r10
    ldrd r3, lr, [r1], #BLOCK
    smlabt r11, r3, r7, r11
    smlad r2, r3, r7, r2
    smlabt r11, lr, r8, r11
    smlad r2, lr, r8, r2
    smlabt r12, lr, r7, r12
    smlad r10, lr, r7, r10
    ldrd r3, lr, [r1]
    smlabt r11, r3, r9, r11
    smlad r2, r3, r9, r2
    smlabt r12, r3, r8, r12
    smlad r10, r3, r8, r10
    smlabt r12, lr, r9, r12
    smlad r10, lr, r9, r10
    REQUANTISE \fixed, r3, lr, r11, r12, r2, r10
    ldrd r3, lr, [sp, #F_Y]
    strb r2, [r3, lr]           // first, so that a second row that does not exist is overwritten: pitch 0
    strb r11, [r3]
    ldrd r2, r11, [sp, #F_STEP]
    add r3, r2
    strb r10, [r3, lr]
    strb r12, [r3]
    add r3, r2
    str r3, [sp, #F_Y]
    cmp r0, r11
    bne 3b
4:  ldr r2, [sp, #F_ODD]
    cbz r2, 6f
    ldr r10, [sp, #F_BIAS]
    ldrd r2, r3, [r0], #BLOCK
    smlad r11, r2, r4, r10
    smlatb r12, r2, r4, r10
    smlad r11, r3, r5, r11
    smlatb r12, r3, r5, r12
    ldr r2, [r0]
    smlad r11, r2, r6, r11
    smlatb r12, r2, r6, r12
    ldrd r2, r3, [r1], #BLOCK
    smlabt r11, r2, r7, r11
    smlad r12, r2, r7, r12
    smlabt r11, r3, r8, r11
    smlad r12, r3, r8, r12
    ldr r2, [r1]
    smlabt r11, r2, r9, r11
    smlad r12, r2, r9, r12
    REQUANTISE \fixed, r3, lr, r11, r12
    ldrd r3, lr, [sp, #F_Y]
    strb r12, [r3, lr]
    strb r11, [r3]
    ldr r2, [sp, #F_STEP]
    add r3, r2
6:  ldr r2, [sp, #F_STRIPS]
    add r3, lr                  // behind a row lies the next
    str r3, [sp, #F_Y]
    adds r0, #BLOCK
    adds r1, #BLOCK
    cmp r2, #0
    bne.w 1b
.endm

// void mica_dsp_depthwise1(const mica_dsp_depthwise_t *args): stride 1, two rows of the output a strip
    CHANNELS mica_dsp_depthwise1, 5
    cmp r11, #SHIFT
    beq.w 7f
    STRIPS1 0
    b.w 8f
7:  STRIPS1 1
8:  NEXT_CHANNEL mica_dsp_depthwise1

// Strips of stride 2: two windows at a time, which read 5 columns. r7 = (w2, w2) of the first two columns, r8 = w2 of
// the third, r9 = bias, r12 = y, lr = step.
.macro STRIPS2 fixed
1:  ldrd r2, r3, [sp, #F_PAIRS]
    subs r3, #1
    str r3, [sp, #F_STRIPS]
    cmp r2, #0
    beq.w 4f
    add r2, r0
    str r2, [sp, #F_END]
3:  ldrd r2, r3, [r0], #BLOCK
    smlad r11, r2, r4, r9
    smlad r11, r3, r5, r11
    ldrd r2, r3, [r0], #BLOCK
    smlad r11, r2, r6, r11
    smlad r10, r2, r4, r9
    smlad r10, r3, r5, r10
    ldr r2, [r0]
    smlad r10, r2, r6, r10
    ldrd r2, r3, [r1], #BLOCK
    smlabb r11, r2, r7, r11
    smlabt r11, r3, r7, r11
    ldrd r2, r3, [r1], #BLOCK
    smlabb r11, r2, r8, r11
    smlabb r10, r2, r7, r10
    smlabt r10, r3, r7, r10
    ldr r2, [r1]
    smlabb r10, r2, r8, r10
    REQUANTISE \fixed, r2, r3, r11, r10
    strb r11, [r12]
    strb r10, [r12, lr]
    add r12, r12, lr, lsl #1
    ldr r2, [sp, #F_END]
    cmp r0, r2
    bne 3b
4:  ldr r2, [sp, #F_ODD]
    cbz r2, 6f
    ldrd r2, r3, [r0], #BLOCK
    smlad r11, r2, r4, r9
    smlad r11, r3, r5, r11
    ldr r2, [r0]
    smlad r11, r2, r6, r11
    ldrd r2, r3, [r1], #BLOCK
    smlabb r11, r2, r7, r11
    smlabt r11, r3, r7, r11
    ldr r2, [r1]
    smlabb r11, r2, r8, r11
    REQUANTISE \fixed, r2, r3, r11
    strb r11, [r12]
    add r12, lr
6:  ldr r2, [sp, #F_STRIPS]
    adds r0, #BLOCK
    adds r1, #BLOCK
    cmp r2, #0
    bne.w 1b
.endm

// void mica_dsp_depthwise2(const mica_dsp_depthwise_t *args): stride 2, one row of the output a strip
    CHANNELS mica_dsp_depthwise2, 6
    cmp r11, #SHIFT
    pkhtb r7, r8, r7, asr #16
    asr r8, r9, #16
    mov r9, r10
    ldr r12, [sp, #F_Y]
    ldr lr, [sp, #F_STEP]
    beq.w 7f
    STRIPS2 0
    b.w 8f
7:  STRIPS2 1
8:  NEXT_CHANNEL mica_dsp_depthwise2
