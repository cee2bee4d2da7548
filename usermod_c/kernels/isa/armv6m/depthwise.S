// Depthwise convolution with 3x3 taps, stride 1 or 2. Two rows of the output at a time: a word of the strip holds a pixel of
// the upper row's window and, shifted by 16, the lower row's, V = a + b * 2^16 (an integer sum, as in gemm.S).
//
// One MULS by a weight then does both rows. Of the sum of two products the lower half is below 2^15 in magnitude, so the upper
// half, rounded, is the lower row's part exactly; it is summed up by itself. The words are also summed up whole, and at the
// end that sum less the lower row's, shifted, is the upper row's: no lower half is ever taken out by itself.
//
// The strip lies column by column, three words each, so that a window is nine words in sequence.
#include "hot.inc"

    .equ F_W, 0                 // weights that have no register: (2,1) (0,2) (1,2) (2,2), and (1,1)
    .equ F_BOTH, 20             // bias * (1 + 2^16)
    .equ F_BIAS, 24
    .equ F_ML, 28
    .equ F_MH, 32
    .equ F_ADD, 36              // 2^(shift-1) + (zero << shift)
    .equ F_SHIFT, 40
    .equ F_PITCH, 44            // from the upper row of y to the lower
    .equ F_END, 48              // r7 behind the last window
    .equ F_RANGE, 52
    .equ F_LOW, 56
    .equ F_ARGS, 60
    .equ F_STRIP, 64            // record of the strip
    .equ F_LEFT, 68             // strips
    .equ F_Y, 72
    .equ F_CODE, 76             // the loop over a strip's windows
    .equ F_SINGLE, 80           // the same, where there is no lower row
    .equ FRAME, 88

// mica_depthwise_t in kernels.h.
    .equ A_X, 0
    .equ A_Y, 4
    .equ A_WEIGHTS, 8
    .equ A_BIAS, 12
    .equ A_MULT, 16
    .equ A_SHIFT, 20
    .equ A_CHANNELS, 24
    .equ A_STRIPS, 28
    .equ A_COUNT, 32
    .equ A_TO, 36
    .equ A_TO_END, 40
    .equ A_STEP, 44
    .equ A_PITCH, 48
    .equ A_WINDOWS, 52
    .equ A_END, 56
    .equ A_ZERO, 60
    .equ A_RANGE, 64
    .equ A_LOW, 68
    .equ A_X_ZERO, 72
    .equ A_STRIDE, 76

// mica_strip_t
    .equ S_ROW, 0
    .equ S_FLAGS, 20
    .equ S_BYTES, 24

// One word of each column: rows at r1 and r2; r3 = column, r4 = where to. r12 = step of a column, lr = end of r4.
.macro WORDS label
\label:
    ldrsb r5, [r1, r3]
    ldrsb r6, [r2, r3]
    lsls r6, r6, #16
    adds r5, r5, r6
    str r5, [r4]
    adds r4, #12
    add r3, r12
    cmp r4, lr
    bcc \label
.endm

// A sum by the factor in r2 (low half) and r3, before the shift. Destroys r4 and r5.
.macro SCALE a
    sxth r4, \a
    subs \a, \a, r4
    asrs \a, \a, #16
    movs r5, r4
    muls r5, r2, r5
    asrs r5, r5, #16
    muls r4, r3, r4
    adds r5, r5, r4
    movs r4, \a
    muls r4, r2, r4
    adds r5, r5, r4
    muls \a, r3, \a
    adds \a, \a, \a
    asrs r5, r5, #15
    adds \a, \a, r5
.endm

// All windows of a strip. full: the clamp is to the whole int8. single: there is no lower row; only its sum is made, which is in the
// upper row's.
.macro WINDOWS label, back, full, single=0
\label:
    ldr r0, [sp, #F_BOTH]
    ldr r1, [sp, #F_BIAS]
    ldm r7!, {r2-r4}
    mov r5, r8
    muls r5, r2, r5
    mov r6, r9
    muls r6, r3, r6
    adds r5, r5, r6
    adds r0, r0, r5
    asrs r5, r5, #16
    adcs r1, r5
    mov r5, r10
    muls r5, r4, r5
    ldm r7!, {r2-r4}
    mov r6, r11
    muls r6, r2, r6
    adds r5, r5, r6
    adds r0, r0, r5
    asrs r5, r5, #16
    adcs r1, r5
    ldr r5, [sp, #F_W + 16]
    muls r5, r3, r5
    ldr r6, [sp, #F_W]
    muls r6, r4, r6
    adds r5, r5, r6
    adds r0, r0, r5
    asrs r5, r5, #16
    adcs r1, r5
    ldm r7!, {r2-r4}
    ldr r5, [sp, #F_W + 4]
    muls r5, r2, r5
    ldr r6, [sp, #F_W + 8]
    muls r6, r3, r6
    adds r5, r5, r6
    adds r0, r0, r5
    asrs r5, r5, #16
    adcs r1, r5
    ldr r5, [sp, #F_W + 12]
    muls r5, r4, r5
    adds r0, r0, r5
    asrs r5, r5, #16
    adcs r1, r5
    lsls r5, r1, #16
    subs r0, r0, r5
    // As MICA_REQUANT, with the constants from the stack, each read once for both.
    ldr r2, [sp, #F_ML]
    ldr r3, [sp, #F_MH]
    SCALE r0
    .ifeq \single
    SCALE r1
    .endif
    ldr r2, [sp, #F_ADD]
    ldr r3, [sp, #F_SHIFT]
    adds r0, r0, r2
    asrs r0, r0, r3
    .ifeq \single
    adds r1, r1, r2
    asrs r1, r1, r3
    .endif
    .if \full
    sxtb r2, r0
    cmp r2, r0
    bne upper_\label
upper_done_\label:
    .ifeq \single
    sxtb r2, r1
    cmp r2, r1
    bne lower_\label
lower_done_\label:
    .endif
    .else
    ldr r2, [sp, #F_RANGE]
    cmp r0, r2
    bhi upper_\label
upper_done_\label:
    cmp r1, r2
    bhi lower_\label
lower_done_\label:
    ldr r2, [sp, #F_LOW]
    adds r0, r0, r2
    adds r1, r1, r2
    .endif
    mov r4, lr
    .ifeq \single
    ldr r5, [sp, #F_PITCH]
    strb r1, [r4, r5]           // first: where there is no lower row the upper one's goes over it
    .endif
    strb r0, [r4]
    add lr, r12
    subs r7, #\back
    ldr r5, [sp, #F_END]
    cmp r7, r5
    bne \label
    b strip_done
    .if \full
upper_\label:
    asrs r2, r0, #31
    movs r0, #127
    eors r0, r0, r2
    b upper_done_\label
    .ifeq \single
lower_\label:
    asrs r2, r1, #31
    movs r1, #127
    eors r1, r1, r2
    b lower_done_\label
    .endif
    .else
upper_\label:
    asrs r3, r0, #31
    mov r0, r2
    bics r0, r0, r3
    b upper_done_\label
lower_\label:
    asrs r3, r1, #31
    mov r1, r2
    bics r1, r1, r3
    b lower_done_\label
    .endif
.endm

// void mica_armv6m_depthwise(mica_depthwise_t *args)
    FUNCTION mica_armv6m_depthwise
    PUSH_ALL
    sub sp, #FRAME
    str r0, [sp, #F_ARGS]
    ldr r2, [r0, #A_RANGE]
    ldr r3, [r0, #A_STRIDE]
    subs r3, #1
    lsls r3, r3, #2
    cmp r2, #255
    beq 1f
    adds r3, #8
1:  ldr r2, =loops
    adds r2, r2, r3
    ldr r3, [r2]
    str r3, [sp, #F_CODE]
    ldr r3, [r2, #16]
    str r3, [sp, #F_SINGLE]
channel:
    ldr r1, [r0, #A_WEIGHTS]
    movs r2, #0
    ldrsb r3, [r1, r2]
    mov r8, r3                  // (0,0)
    movs r2, #3
    ldrsb r3, [r1, r2]
    mov r9, r3                  // (1,0)
    movs r2, #6
    ldrsb r3, [r1, r2]
    mov r10, r3                 // (2,0)
    movs r2, #1
    ldrsb r3, [r1, r2]
    mov r11, r3                 // (0,1)
    movs r2, #4
    ldrsb r3, [r1, r2]
    str r3, [sp, #F_W + 16]     // (1,1)
    movs r2, #7
    ldrsb r3, [r1, r2]
    str r3, [sp, #F_W]          // (2,1)
    movs r2, #2
    ldrsb r3, [r1, r2]
    str r3, [sp, #F_W + 4]      // (0,2)
    movs r2, #5
    ldrsb r3, [r1, r2]
    str r3, [sp, #F_W + 8]      // (1,2)
    movs r2, #8
    ldrsb r3, [r1, r2]
    str r3, [sp, #F_W + 12]     // (2,2)
    adds r1, #9
    str r1, [r0, #A_WEIGHTS]

    ldr r1, [r0, #A_BIAS]
    ldm r1!, {r2}
    str r1, [r0, #A_BIAS]
    str r2, [sp, #F_BIAS]
    lsls r3, r2, #16
    adds r2, r2, r3
    str r2, [sp, #F_BOTH]
    ldr r1, [r0, #A_MULT]
    ldm r1!, {r2}
    str r1, [r0, #A_MULT]
    uxth r3, r2
    str r3, [sp, #F_ML]
    lsrs r2, r2, #16
    str r2, [sp, #F_MH]
    ldr r1, [r0, #A_SHIFT]
    ldrb r2, [r1]
    adds r1, #1
    str r1, [r0, #A_SHIFT]
    str r2, [sp, #F_SHIFT]
    ldr r3, [r0, #A_ZERO]
    lsls r3, r3, r2
    movs r1, #1
    lsls r1, r1, r2
    lsrs r1, r1, #1
    adds r3, r3, r1
    str r3, [sp, #F_ADD]
    ldr r1, [r0, #A_STRIPS]
    str r1, [sp, #F_STRIP]
    ldr r1, [r0, #A_COUNT]
    str r1, [sp, #F_LEFT]
    ldr r1, [r0, #A_Y]
    str r1, [sp, #F_Y]
    ldr r1, [r0, #A_STEP]
    mov r12, r1
    ldr r1, [r0, #A_PITCH]
    str r1, [sp, #F_PITCH]
    ldr r1, [r0, #A_END]
    str r1, [sp, #F_END]
    ldr r1, [r0, #A_RANGE]
    str r1, [sp, #F_RANGE]
    ldr r1, [r0, #A_LOW]
    str r1, [sp, #F_LOW]

strip:
    ldr r0, [sp, #F_ARGS]
    ldr r1, [r0, #A_TO_END]
    mov lr, r1
    ldr r7, [sp, #F_STRIP]
    ldr r6, [r7, #S_FLAGS]
    lsrs r6, r6, #1             // flag 1: the strip before has the first word
    bcc new_words

    // Rows 1 to 3; the third word becomes the first.
    ldr r5, [r0, #A_X]
    ldr r1, [r7, #S_ROW + 4]
    ldr r2, [r7, #S_ROW + 8]
    ldr r3, [r7, #S_ROW + 12]
    adds r1, r1, r5
    adds r2, r2, r5
    adds r3, r3, r5
    ldr r4, [r0, #A_TO]
    movs r0, #0
1:  ldr r7, [r4, #8]
    str r7, [r4]
    ldrsb r5, [r1, r0]
    ldrsb r6, [r2, r0]
    lsls r7, r6, #16
    adds r5, r5, r7
    str r5, [r4, #4]
    ldrsb r5, [r3, r0]
    lsls r5, r5, #16
    adds r5, r5, r6
    str r5, [r4, #8]
    adds r4, #12
    add r0, r12
    cmp r4, lr
    bcc 1b
    b built

new_words:
    // Word n is of row n and the one a stride further down; the rows with a stride of 2 are five.
    ldr r5, [r0, #A_X]
    ldr r6, [r0, #A_STRIDE]
    lsls r6, r6, #2
    ldr r4, [r0, #A_TO]
    ldr r1, [r7, #S_ROW]
    ldr r2, [r7, r6]
    adds r1, r1, r5
    adds r2, r2, r5
    cmp r6, #8
    beq stride_2
    movs r3, #0
    WORDS word_0
    ldr r7, [sp, #F_STRIP]
    ldr r0, [sp, #F_ARGS]
    ldr r5, [r0, #A_X]
    ldr r4, [r0, #A_TO]
    ldr r1, [r7, #S_ROW + 8]
    ldr r2, [r7, #S_ROW + 12]
    adds r1, r1, r5
    adds r2, r2, r5
    adds r4, #8
    mov r3, lr
    adds r3, #8
    mov lr, r3
    movs r3, #0
    WORDS word_2
    mov r3, lr
    subs r3, #8
    mov lr, r3
    b middle
stride_2:
    ldr r3, [r7, #S_ROW + 16]
    adds r3, r3, r5
    movs r0, #0
1:  ldrsb r5, [r1, r0]
    ldrsb r6, [r2, r0]
    lsls r7, r6, #16
    adds r5, r5, r7
    str r5, [r4]
    ldrsb r5, [r3, r0]
    lsls r5, r5, #16
    adds r5, r5, r6
    str r5, [r4, #8]
    adds r4, #12
    add r0, r12
    cmp r4, lr
    bcc 1b
middle:
    ldr r7, [sp, #F_STRIP]
    ldr r0, [sp, #F_ARGS]
    ldr r5, [r0, #A_X]
    ldr r6, [r0, #A_STRIDE]
    lsls r6, r6, #2
    adds r6, #4
    ldr r4, [r0, #A_TO]
    ldr r1, [r7, #S_ROW + 4]
    ldr r2, [r7, r6]
    adds r1, r1, r5
    adds r2, r2, r5
    adds r4, #4
    mov r3, lr
    adds r3, #4
    mov lr, r3
    movs r3, #0
    WORDS word_1

built:
    // Rows outside the image were read from rows inside; now they read x_zero. Flags, from bit 2: (upper, lower) of each word.
    ldr r7, [sp, #F_STRIP]
    ldr r6, [r7, #S_FLAGS]
    lsrs r6, r6, #2
    beq windows
    ldr r0, [sp, #F_ARGS]
    ldr r1, [r0, #A_X_ZERO]
    lsls r2, r1, #16
    ldr r4, [r0, #A_TO_END]
    mov lr, r4
    ldr r4, [r0, #A_TO]
    movs r3, #3                 // words
fix_word:
    lsls r0, r6, #30
    beq 3f
    push {r3, r4}
    mov r3, lr
    adds r3, #8                 // the words of the last column begin below this
    lsls r0, r6, #31
    beq 2f
    lsls r0, r6, #30
    bmi both
1:  ldr r5, [r4]                // the upper row's alone is outside
    sxth r7, r5
    subs r5, r5, r7
    adds r5, r5, r1
    str r5, [r4]
    adds r4, #12
    cmp r4, r3
    bcc 1b
    b 4f
both:
    adds r5, r1, r2
1:  str r5, [r4]
    adds r4, #12
    cmp r4, r3
    bcc 1b
    b 4f
2:  ldr r5, [r4]                // the lower row's alone
    sxth r5, r5
    adds r5, r5, r2
    str r5, [r4]
    adds r4, #12
    cmp r4, r3
    bcc 2b
4:  pop {r3, r4}
3:  adds r4, #4
    lsrs r6, r6, #2
    subs r3, #1
    bne fix_word

windows:
    ldr r7, [sp, #F_STRIP]
    ldr r6, [r7, #S_FLAGS]
    ldr r0, [sp, #F_ARGS]
    ldr r2, [sp, #F_CODE]
    lsls r6, r6, #30
    bpl 1f
    movs r1, #0                 // flag 2: there is no lower row
    str r1, [sp, #F_PITCH]
    ldr r2, [sp, #F_SINGLE]
1:  ldr r1, [sp, #F_Y]
    mov lr, r1
    ldr r7, [r0, #A_WINDOWS]
    bx r2

strip_done:
    ldr r1, [sp, #F_STRIP]
    adds r1, #S_BYTES
    str r1, [sp, #F_STRIP]
    ldr r1, [sp, #F_Y]
    ldr r2, [sp, #F_PITCH]
    lsls r2, r2, #1
    adds r1, r1, r2
    str r1, [sp, #F_Y]
    ldr r1, [sp, #F_LEFT]
    subs r1, #1
    str r1, [sp, #F_LEFT]
    beq 1f
    b strip
1:  ldr r0, [sp, #F_ARGS]
    ldr r1, [r0, #A_X]
    adds r1, #1
    str r1, [r0, #A_X]
    ldr r1, [r0, #A_Y]
    adds r1, #1
    str r1, [r0, #A_Y]
    ldr r1, [r0, #A_CHANNELS]
    subs r1, #1
    str r1, [r0, #A_CHANNELS]
    beq 1f
    ldr r1, =channel + 1
    bx r1
1:  add sp, #FRAME
    POP_ALL
    .ltorg
    .balign 4
loops:
    .word windows_1_full + 1, windows_2_full + 1, windows_1 + 1, windows_2 + 1
    .word windows_1_full_single + 1, windows_2_full + 1, windows_1 + 1, windows_2 + 1
    WINDOWS windows_1_full, 24, 1
    WINDOWS windows_1_full_single, 24, 1, 1
    WINDOWS windows_2_full, 12, 1
    WINDOWS windows_1, 24, 0
    WINDOWS windows_2, 12, 0
    .size mica_armv6m_depthwise, . - mica_armv6m_depthwise
