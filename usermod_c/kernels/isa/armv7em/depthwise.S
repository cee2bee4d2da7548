// Depthwise 3x3 convolution on a Cortex-M with the DSP instructions. Of four channels at a time, two rows of the image become
// planes of words V[x] = x[row][x] + x[row + 1][x] * 2^16, one plane a channel; two such pairs of rows, A above B, give two
// rows of the output with stride 1, or one with stride 2.
    .syntax unified
    .thumb

// void mica_dsp_rows(const mica_dsp_rows_t *args): builds four planes.
    .section .text.mica_dsp_rows, "ax", %progbits
    .global mica_dsp_rows
    .type mica_dsp_rows, %function

// \aE, \aO: what the upper row's bytes 0 and 2, and 1 and 3 are in; \bE, \bO: the lower row's.
.macro COLUMNS load_a, load_b, aE, aO, bE, bO
1:
.if \load_a
    ldr r4, [r0, r3]
    sxtb16 r6, r4
    sxtb16 r4, r4, ror #8
.endif
.if \load_b
    ldr r5, [r1, r3]
    sxtb16 r7, r5
    sxtb16 r5, r5, ror #8
.endif
    add r3, r9
    pkhbt r8, \aE, \bE, lsl #16
    pkhtb r6, \bE, \aE, asr #16
    pkhbt r7, \aO, \bO, lsl #16
    pkhtb r4, \bO, \aO, asr #16
    str r7, [r2, r10]
    str r6, [r2, r10, lsl #1]
    str r4, [r2, r11]
    str r8, [r2], #4
    cmp r3, r12
    bne 1b
    pop {r4-r11, pc}
.endm

    .balign 4
    .thumb_func
mica_dsp_rows:
    push {r4-r11, lr}
    mov r12, r0
    ldm r12, {r0-r2, r8-r11}    // a, b, to, length, step, plane, outside
    mov r12, r8
    movs r3, #0
    mov r4, r11
    add r11, r10, r10, lsl #1
    cbnz r0, 2f
    mov r0, r4
    cmp r1, #0
    beq.w 4f
    COLUMNS 0, 1, r0, r0, r7, r5
2:  cmp r1, #0
    beq.w 3f
    COLUMNS 1, 1, r6, r4, r7, r5
3:  mov r1, r4
    COLUMNS 1, 0, r6, r4, r1, r1
4:  mov r1, r4
    COLUMNS 0, 0, r0, r0, r1, r1
    .size mica_dsp_rows, . - mica_dsp_rows

    .equ F_REQUANT, 0           // mult, round, shift of the channel
    .equ F_Y, 12
    .equ F_PITCH, 16
    .equ F_STEP, 20
    .equ F_END, 24              // of A
    .equ F_ARGS, 28             // a, b, plane, y, pitch, step, length, constants; moved from channel to channel
    .equ F_COUNT, 60
    .equ FRAME, 64

// Begins a function for four channels, up to the loop over pixels:
//   r0 = A, r1 = B, r4-r6 = weights (w0, w1) of the three columns, r7-r9 = (w1, w2), r10 = bias
.macro CHANNELS name
    .section .text.\name, "ax", %progbits
    .global \name
    .type \name, %function
    .balign 4
    .thumb_func
\name:
    push {r4-r11, lr}
    sub sp, #FRAME
    ldm r0, {r1-r8}
    add r12, sp, #F_ARGS
    stm r12, {r1-r8}
    strd r5, r6, [sp, #F_PITCH]
    movs r0, #4
    str r0, [sp, #F_COUNT]
5:  add r12, sp, #F_ARGS
    ldm r12, {r0-r3}
    ldr r5, [sp, #F_ARGS + 24]
    ldr r12, [sp, #F_ARGS + 28]
    str r3, [sp, #F_Y]
    adds r3, #1
    str r3, [sp, #F_ARGS + 12]
    add r3, r0, r2
    add r4, r1, r2
    strd r3, r4, [sp, #F_ARGS]
    add r5, r0
    str r5, [sp, #F_END]
    ldm r12!, {r4-r10}
    ldm r12!, {r2, r3, r11}
    stm sp, {r2, r3, r11}
    str r12, [sp, #F_ARGS + 28]
.endm

.macro NEXT_CHANNEL name
    ldr r2, [sp, #F_COUNT]
    subs r2, #1
    str r2, [sp, #F_COUNT]
    bne 5b
    add sp, #FRAME
    pop {r4-r11, pc}
    .size \name, . - \name
.endm

// void mica_dsp_depthwise1(const mica_dsp_depthwise_t *args): stride 1, two rows of the output
    CHANNELS mica_dsp_depthwise1
1:  ldr r2, [r0], #4
    ldrd r3, r12, [r0]
    smlad r11, r2, r4, r10
    smlatb lr, r2, r4, r10
    smlad r11, r3, r5, r11
    smlatb lr, r3, r5, lr
    smlad r11, r12, r6, r11
    smlatb lr, r12, r6, lr
    ldr r2, [r1], #4
    ldrd r3, r12, [r1]
    smlabt r11, r2, r7, r11
    smlad lr, r2, r7, lr
    smlabt r11, r3, r8, r11
    smlad lr, r3, r8, lr
    smlabt r11, r12, r9, r11
    smlad lr, r12, r9, lr
    ldm sp, {r2, r3, r12}
    smmla r11, r11, r2, r3
    smmla lr, lr, r2, r3
    asr r11, r11, r12
    asr lr, lr, r12
    ldrd r2, r3, [sp, #F_Y]
    ssat r11, #8, r11
    ssat lr, #8, lr
    strb lr, [r2, r3]           // first, so that a second row that does not exist is overwritten: pitch 0
    strb r11, [r2]
    ldrd r3, r12, [sp, #F_STEP]
    add r2, r3
    str r2, [sp, #F_Y]
    cmp r0, r12
    bne 1b
    NEXT_CHANNEL mica_dsp_depthwise1

// void mica_dsp_depthwise2(const mica_dsp_depthwise_t *args): stride 2, one row of the output
    CHANNELS mica_dsp_depthwise2
1:  ldr r2, [r0], #8
    ldrd r3, r12, [r0, #-4]
    smlad r11, r2, r4, r10
    smlad r11, r3, r5, r11
    smlad r11, r12, r6, r11
    ldr r2, [r1], #8
    ldrd r3, r12, [r1, #-4]
    smlabt r11, r2, r7, r11
    smlabt r11, r3, r8, r11
    smlabt r11, r12, r9, r11
    ldm sp, {r2, r3, r12}
    smmla r11, r11, r2, r3
    asr r11, r11, r12
    ldr r2, [sp, #F_Y]
    ldrd r3, r12, [sp, #F_STEP]
    ssat r11, #8, r11
    strb r11, [r2]
    add r2, r3
    str r2, [sp, #F_Y]
    cmp r0, r12
    bne 1b
    NEXT_CHANNEL mica_dsp_depthwise2
