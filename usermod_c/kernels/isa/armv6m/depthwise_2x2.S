// Depthwise convolution with 3x3 taps and a pad of one all around over a map of 2x2: each output has four taps inside.
// A channel is too short for the words that depthwise.S makes, so each product is one: 16 of (x - x_zero) * w, and
// x_zero times all weights.
#include "hot.inc"

// mica_depthwise_t in kernels.h.
    FIELDS A_, 0, X, Y, WEIGHTS, BIAS, MULT, SHIFT, CHANNELS
    .equ A_STEP, 52
    FIELDS A_, 88, ZERO, RANGE, LOW, X_ZERO

// \acc += r4 * \x; the last tap of a weight takes r4.
.macro TAP x, acc
    movs r5, r4
    muls r5, \x, r5
    add \acc, r5
.endm

.macro LAST x, acc
    muls r4, \x, r4
    add \acc, r4
.endm

// r4 = weight n, summed up in r12.
.macro WEIGHT n
    movs r5, #\n
    ldrsb r4, [r6, r5]
    add r12, r4
.endm

.macro OUT acc, label
    mov r0, \acc
    MICA_SCALE r0
    adds r5, r5, r3
    asrs r5, r5, r2
    cmp r5, r12
    bhi out_\label
in_\label:
    add r5, lr
    strb r5, [r1]
    ldr r0, [sp, #4]
    adds r1, r1, r0
.endm

.macro SATURATE label
out_\label:
    asrs r4, r5, #31
    mov r5, r12
    bics r5, r5, r4
    b in_\label
.endm

// void mica_armv6m_depthwise_2x2(mica_depthwise_t *args)
    ENTER mica_armv6m_depthwise_2x2
    ldr r1, [r0, #A_STEP]
    push {r0, r1}
    LOAD_HIGH lr, r1, [r0, #A_LOW]
    mov r7, r0
channel_2x2:
    ldr r4, [r7, #A_X]
    adds r5, r4, #1
    str r5, [r7, #A_X]
    ldr r6, [r7, #A_STEP]
    movs r5, #0
    ldrsb r0, [r4, r5]          // (0,0)
    ldrsb r1, [r4, r6]          // (0,1)
    lsls r5, r6, #1
    ldrsb r2, [r4, r5]          // (1,0)
    adds r5, r5, r6
    ldrsb r3, [r4, r5]          // (1,1)
    ldr r5, [r7, #A_X_ZERO]
    subs r0, r0, r5
    subs r1, r1, r5
    subs r2, r2, r5
    subs r3, r3, r5
    movs r5, #0
    mov r8, r5                  // sums of (0,0), (0,1), (1,0), (1,1)
    mov r9, r5
    mov r10, r5
    mov r11, r5
    mov r12, r5
    ldr r6, [r7, #A_WEIGHTS]
    WEIGHT 0
    LAST r0, r11
    WEIGHT 1
    TAP r0, r10
    LAST r1, r11
    WEIGHT 2
    LAST r1, r10
    WEIGHT 3
    TAP r0, r9
    LAST r2, r11
    WEIGHT 4
    TAP r0, r8
    TAP r1, r9
    TAP r2, r10
    LAST r3, r11
    WEIGHT 5
    TAP r1, r8
    LAST r3, r10
    WEIGHT 6
    LAST r2, r9
    WEIGHT 7
    TAP r2, r8
    LAST r3, r9
    WEIGHT 8
    LAST r3, r8
    adds r6, #9
    str r6, [r7, #A_WEIGHTS]
    mov r4, r12
    ldr r5, [r7, #A_X_ZERO]
    muls r4, r5, r4
    ldr r6, [r7, #A_BIAS]
    ldm r6!, {r5}
    str r6, [r7, #A_BIAS]
    adds r4, r4, r5
    add r8, r4
    add r9, r4
    add r10, r4
    add r11, r4

    LOAD_HIGH r12, r4, [r7, #A_RANGE]
    ldr r4, [r7, #A_SHIFT]
    ldrb r2, [r4]
    adds r4, #1
    str r4, [r7, #A_SHIFT]
    ldr r3, [r7, #A_ZERO]
    lsls r3, r3, r2
    HALF_BIT r4, r2
    adds r3, r3, r4
    ldr r1, [r7, #A_Y]
    adds r4, r1, #1
    str r4, [r7, #A_Y]
    ldr r4, [r7, #A_MULT]
    ldm r4!, {r6}
    str r4, [r7, #A_MULT]
    lsrs r7, r6, #16
    uxth r6, r6
    OUT r8, 00
    OUT r9, 01
    OUT r10, 10
    OUT r11, 11
    ldr r7, [sp]
    ldr r4, [r7, #A_CHANNELS]
    subs r4, #1
    str r4, [r7, #A_CHANNELS]
    beq 1f
    ldr r4, =channel_2x2 + 1
    bx r4
1:  pop {r0, r1}
    POP_ALL
    SATURATE 00
    SATURATE 01
    SATURATE 10
    SATURATE 11
    .ltorg
    .size mica_armv6m_depthwise_2x2, . - mica_armv6m_depthwise_2x2
