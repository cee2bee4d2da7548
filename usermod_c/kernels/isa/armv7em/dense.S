// Two rows of weights, each byte 128 too large, against pairs of x: 16 multiply-accumulates in 19 instructions.
    .syntax unified
    .thumb
    .section .text.mica_dsp_dense, "ax", %progbits

    .equ WORDS, 8               // of four elements that are unrolled, two at a time
    .equ TWO_WORDS_CODE, 76     // bytes of code for two

// \a += four weights in \w times (x0, x2) in \x and (x1, x3) in \x1
.macro FOUR a, w, x, x1
    uxtb16 r11, \w
    smlad \a, \x, r11, \a
    uxtb16 \w, \w, ror #8
    smlad \a, \x1, \w, \a
.endm

// void mica_dsp_dense(const uint32_t *x, const int8_t *w0, const int8_t *w1, uint32_t words, int32_t *sums)
    .global mica_dsp_dense
    .type mica_dsp_dense, %function
    .balign 4
    .thumb_func
mica_dsp_dense:
    push {r4-r11, lr}
    add r12, r0, r3, lsl #3
    movs r4, #0
    mov lr, #0
    lsrs r3, r3, #1
    bcc 1f
    ldrd r5, r6, [r0], #8
    ldr r9, [r1], #4
    ldr r10, [r2], #4
    FOUR r4, r9, r5, r6
    FOUR lr, r10, r5, r6
1:  cbz r3, 2f
    subs r3, #1
    and r3, r3, #WORDS / 2 - 1
    adds r3, #1                 // pairs of words of the first round: the rest, or all
    movs r5, #TWO_WORDS_CODE
    muls r3, r5, r3
    ldr r5, =words_end + 1
    subs r5, r5, r3
    bx r5
2:  ldr r5, [sp, #36]
    strd r4, lr, [r5]
    pop {r4-r11, pc}
    .ltorg
    .balign 4
words:
    .rept WORDS / 2
    ldm r0!, {r5-r8}
    ldrd r9, r10, [r1], #8
    FOUR r4, r9, r5, r6
    FOUR r4, r10, r7, r8
    ldrd r9, r10, [r2], #8
    FOUR lr, r9, r5, r6
    FOUR lr, r10, r7, r8
    .endr
words_end:
    cmp r0, r12
    bne.w words
    b 2b
    .if words_end - words - WORDS / 2 * TWO_WORDS_CODE
    .error "TWO_WORDS_CODE is wrong"
    .endif
    .size mica_dsp_dense, . - mica_dsp_dense
