// Depthwise convolution with 3x3 taps, stride 1 or 2. Two rows of the output at a time, half a band apart: a word of
// the band holds a pixel of the upper row's window and, shifted by 16, the lower row's, V = a + b * 2^16 (an integer
// sum, as in gemm.S).
//
// One MULS by a weight then does both rows. Of the sum of two products the lower half is below 2^15 in magnitude, so
// the upper half, rounded, is the lower row's part exactly; it is summed up by itself. The words are also summed up
// whole, and at the end that sum less the lower row's, shifted, is the upper row's: no lower half is taken out.
//
// The band lies column by column, a word for each row, so that a window is three times three words in sequence.
//
// Requantising an accumulator takes one product of 32 bits where that decides: t = (acc >> 1) * m + R with 13 bits of
// the multiplier. What it lacks of the exact sum lies in [0, bound's complement], so a fraction of t below the bound
// has the exact integer above it. In 5 of 100 cases it has not, and all bits are computed. kernels.h says from which
// accumulators on.
#include "hot.inc"

    .equ F_QUICK, 0             // m, R, bits of the fraction
    .equ F_W, 12                // weights that have no register
    .equ F_BOTH, 44             // bias * (1 + 2^16)
    FIELDS F_, 48, BIAS, ML, MH
    .equ F_ADD, 60              // 2^(shift-1) + (zero << shift)
    .equ F_SHIFT, 64
    .equ F_LOWER, 68            // from the upper row of y to the lower
    .equ F_END, 72              // of the upper row of y
    .equ F_STOP, 76             // of the band's last one
    .equ F_ROW, 80              // the row's first window
    FIELDS F_, 84, RANGE, LOW, ARGS
    .equ F_TABLE, 96            // of the band
    .equ F_TO, 100              // the word of the first column, in the row that is made
    .equ F_CODE, 104            // the loop over a row's windows
    .equ F_BAND, 108            // where the band begins in y
    .equ FRAME, 112

// mica_depthwise_t in kernels.h.
    FIELDS A_, 0, X, Y, WEIGHTS, BIAS, MULT, SHIFT, CHANNELS, TABLE, TABLE_END, BAND, TO, INSIDE, COLUMN, STEP
    FIELDS A_, 56, WINDOWS, ROW_STEP, NEXT, PITCH, LOWER, HALF, HIGH, LAST, ZERO, RANGE, LOW, X_ZERO

// Two products into both sums.
.macro SUM
    adds r5, r5, r6
    adds r0, r0, r5
    asrs r5, r5, #16
    adcs r1, r5
.endm

// r5 or r6 = weight n by a word.
.macro TAP r, v, n
    ldr \r, [sp, #F_W + 4 * \n]
    muls \r, \v, \r
.endm

// r6 = \a requantised, before the clamp; r2 to r4 as in F_QUICK, r9 = bound.
.macro QUICK a, label
    asrs r6, \a, #1
    muls r6, r2, r6
    adds r6, r6, r3
    movs r5, r6
    rors r5, r4
    cmp r5, r9
    bcs slow_\a\()_\label
    asrs r6, r6, r4
exact_\a\()_\label:
.endm

// The same with all bits, as MICA_REQUANT.
.macro SLOW a, label
slow_\a\()_\label:
    ldr r2, [sp, #F_ML]
    ldr r3, [sp, #F_MH]
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
    adds r6, \a, r5
    ldr r2, [sp, #F_ADD]
    ldr r3, [sp, #F_SHIFT]
    adds r6, r6, r2
    asrs r6, r6, r3
    mov r5, sp
    ldm r5!, {r2-r4}
    b exact_\a\()_\label
.endm

// All windows of a row, r7 the first; lr = where in y, r12 = step of it, r10, r11 = from column to column, to the next
// window. full: the clamp is to the whole int8.
.macro WINDOWS label, full
\label:
    ldr r0, [sp, #F_BOTH]
    ldr r1, [sp, #F_BIAS]
    ldm r7!, {r2-r4}
    add r7, r10
    mov r5, r8
    muls r5, r2, r5
    TAP r6, r3, 0
    SUM
    TAP r5, r4, 1
    ldm r7!, {r2-r4}
    add r7, r10
    TAP r6, r2, 2
    SUM
    TAP r5, r3, 3
    TAP r6, r4, 4
    SUM
    ldm r7!, {r2-r4}
    add r7, r11
    TAP r5, r2, 5
    TAP r6, r3, 6
    SUM
    TAP r5, r4, 7
    adds r0, r0, r5
    asrs r5, r5, #16
    adcs r1, r5
    lsls r5, r1, #16
    subs r0, r0, r5
    mov r6, sp
    ldm r6!, {r2-r4}
    QUICK r0, \label
    .if \full
    sxtb r0, r6
    cmp r0, r6
    bne upper_\label
upper_done_\label:
    QUICK r1, \label
    sxtb r1, r6
    cmp r1, r6
    bne lower_\label
lower_done_\label:
    .else
    movs r0, r6
    QUICK r1, \label
    ldr r2, [sp, #F_RANGE]
    cmp r0, r2
    bhi upper_\label
upper_done_\label:
    cmp r6, r2
    bhi lower_\label
lower_done_\label:
    ldr r2, [sp, #F_LOW]
    adds r0, r0, r2
    adds r1, r6, r2
    .endif
    mov r4, lr
    ldr r5, [sp, #F_LOWER]
    strb r0, [r4]
    strb r1, [r4, r5]
    add lr, r12
    ldr r5, [sp, #F_END]
    cmp lr, r5
    bne \label
    b row_done
    .if \full
upper_\label:
    asrs r5, r6, #31
    movs r0, #127
    eors r0, r0, r5
    b upper_done_\label
lower_\label:
    asrs r5, r6, #31
    movs r1, #127
    eors r1, r1, r5
    b lower_done_\label
    .else
upper_\label:
    asrs r3, r0, #31
    mov r0, r2
    bics r0, r0, r3
    b upper_done_\label
lower_\label:
    asrs r3, r6, #31
    mov r6, r2
    bics r6, r6, r3
    b lower_done_\label
    .endif
    SLOW r0, \label
    SLOW r1, \label
.endm

// void mica_armv6m_depthwise(mica_depthwise_t *args)
    ENTER mica_armv6m_depthwise
    sub sp, #FRAME
    str r0, [sp, #F_ARGS]
    ldr r1, [r0, #A_COLUMN]
    subs r1, #12
    mov r10, r1
    LOAD_HIGH r11, r1, [r0, #A_NEXT]
    LOAD_HIGH r12, r1, [r0, #A_STEP]
    ldr r1, [r0, #A_LOWER]
    str r1, [sp, #F_LOWER]
    ldr r1, [r0, #A_LOW]
    str r1, [sp, #F_LOW]
    ldr r1, [r0, #A_RANGE]
    str r1, [sp, #F_RANGE]
    ldr r2, =windows_full + 1
    cmp r1, #255
    beq 1f
    ldr r2, =windows_part + 1
1:  str r2, [sp, #F_CODE]
channel:
    ldr r1, [r0, #A_WEIGHTS]
    movs r2, #0
    ldrsb r3, [r1, r2]
    mov r8, r3                  // (0,0)
    .macro WEIGHT at, n
    movs r2, #\at
    ldrsb r3, [r1, r2]
    str r3, [sp, #F_W + 4 * \n]
    .endm
    WEIGHT 3, 0                 // (1,0)
    WEIGHT 6, 1
    WEIGHT 1, 2
    WEIGHT 4, 3
    WEIGHT 7, 4
    WEIGHT 2, 5
    WEIGHT 5, 6
    WEIGHT 8, 7
    adds r1, #9
    str r1, [r0, #A_WEIGHTS]

    ldr r1, [r0, #A_BIAS]
    ldm r1!, {r5}
    str r1, [r0, #A_BIAS]
    str r5, [sp, #F_BIAS]
    lsls r3, r5, #16
    adds r3, r3, r5
    str r3, [sp, #F_BOTH]
    ldr r1, [r0, #A_SHIFT]
    ldrb r2, [r1]
    adds r1, #1
    str r1, [r0, #A_SHIFT]
    str r2, [sp, #F_SHIFT]
    ldr r3, [r0, #A_ZERO]
    lsls r3, r3, r2
    HALF_BIT r1, r2
    adds r3, r3, r1
    str r3, [sp, #F_ADD]
    ldr r1, [r0, #A_MULT]
    ldm r1!, {r4}
    str r1, [r0, #A_MULT]
    uxth r1, r4
    str r1, [sp, #F_ML]
    lsrs r1, r4, #16
    str r1, [sp, #F_MH]

    // Whether a short product may decide: |bias| below 115,840, the multiplier 2^30 or more, the shift 2 to 10.
    movs r7, #0
    ldr r1, =115839
    adds r5, r5, r1
    lsls r1, r1, #1
    cmp r5, r1
    bhi 1f
    lsls r1, r4, #1
    bpl 1f
    subs r1, r2, #2
    cmp r1, #8
    bhi 1f
    lsrs r1, r4, #18            // m = round(mult / 2^18)
    adcs r1, r7
    lsls r5, r1, #18
    subs r5, r4, r5             // what it lacks
    asrs r6, r5, #31
    eors r5, r5, r6
    lsrs r5, r5, #10
    adds r5, #2
    lsls r5, r5, r2             // what that makes of an accumulator at most
    lsls r3, r3, #12
    subs r3, r3, r5             // R
    str r3, [sp, #F_QUICK + 4]
    str r1, [sp, #F_QUICK]
    lsls r5, r5, #1
    lsrs r1, r1, #1             // and what a bit of an accumulator that was dropped makes
    adds r1, #1
    adds r5, r5, r1
    movs r3, #20
    subs r3, r3, r2             // 32 less the fraction's bits
    lsls r5, r5, r3
    mvns r7, r5
    adds r2, #12
    str r2, [sp, #F_QUICK + 8]
1:  mov r9, r7                  // 0: all are slow

    ldr r7, [r0, #A_TABLE]
    movs r2, #0
band:
    str r2, [sp, #F_BAND]
    ldr r1, [r0, #A_Y]
    adds r1, r1, r2
    str r1, [sp, #F_END]
    LOAD_HIGH lr, r2, [r0, #A_INSIDE]
    ldr r2, [r0, #A_BAND]
    adds r2, r2, r7
    str r2, [sp, #F_TABLE]
    ldr r4, [r0, #A_TO]
new_row:
    // A row of the band: rows of x at r1 and r2; r3 = column, r4 = where to, r0 = step of it; lr = end of r3.
    str r4, [sp, #F_TO]
    ldr r0, [sp, #F_ARGS]
    ldr r5, [r0, #A_X]
    ldr r0, [r0, #A_COLUMN]
    movs r3, #0
    ldm r7!, {r1, r2}
    adds r1, r1, #1
    beq upper_outside
    adds r2, r2, #1
    beq lower_outside
    adds r1, r1, r5
    adds r2, r2, r5
    subs r1, #1
    subs r2, #1
1:  ldrsb r5, [r1, r3]
    ldrsb r6, [r2, r3]
    lsls r6, r6, #16
    adds r5, r5, r6
    str r5, [r4]
    adds r4, r4, r0
    add r3, r12
    cmp r3, lr
    bcc 1b
row_made:
    ldr r4, [sp, #F_TO]
    adds r4, #4
    ldr r5, [sp, #F_TABLE]
    cmp r7, r5
    bne new_row

    ldr r0, [sp, #F_ARGS]
    ldr r2, [r0, #A_PITCH]
    LOAD_HIGH lr, r1, [sp, #F_END]
    ldr r3, [r0, #A_HALF]
    adds r3, r3, r1
    str r3, [sp, #F_STOP]
    ldr r7, [r0, #A_WINDOWS]
    ldr r3, [sp, #F_CODE]
row:
    adds r1, r1, r2
    str r1, [sp, #F_END]
    str r7, [sp, #F_ROW]
    bx r3

    // x_zero stands for what lies outside: the upper row, the lower row, or both.
upper_outside:
    ldr r6, [sp, #F_ARGS]
    ldr r1, [r6, #A_X_ZERO]
    adds r6, r2, #1
    beq both_outside
    adds r2, r2, r5
1:  ldrsb r5, [r2, r3]
    lsls r5, r5, #16
    adds r5, r5, r1
    str r5, [r4]
    adds r4, r4, r0
    add r3, r12
    cmp r3, lr
    bcc 1b
    b row_made
both_outside:
    lsls r2, r1, #16
    adds r1, r1, r2
1:  str r1, [r4]
    adds r4, r4, r0
    add r3, r12
    cmp r3, lr
    bcc 1b
    b row_made
lower_outside:
    ldr r6, [sp, #F_ARGS]
    ldr r2, [r6, #A_X_ZERO]
    lsls r2, r2, #16
    adds r1, r1, r5
    subs r1, #1
1:  ldrsb r5, [r1, r3]
    adds r5, r5, r2
    str r5, [r4]
    adds r4, r4, r0
    add r3, r12
    cmp r3, lr
    bcc 1b
    b row_made

row_done:
    ldr r1, [sp, #F_END]
    ldr r0, [sp, #F_ARGS]
    ldr r3, [sp, #F_STOP]
    cmp r1, r3
    beq band_done
    ldr r7, [sp, #F_ROW]
    ldr r2, [r0, #A_ROW_STEP]
    adds r7, r7, r2
    ldr r2, [r0, #A_PITCH]
    ldr r3, [sp, #F_CODE]
    b row
band_done:
    ldr r7, [sp, #F_TABLE]
    ldr r1, [r0, #A_TABLE_END]
    cmp r7, r1
    beq channel_done
    ldr r2, [sp, #F_BAND]
    ldr r1, [r0, #A_HIGH]
    adds r2, r2, r1
    ldr r1, [r0, #A_LAST]
    cmp r2, r1
    bls band
    movs r2, r1
    b band
channel_done:
    ADVANCE r1, #1, [r0, #A_X]
    ADVANCE r1, #1, [r0, #A_Y]
    ldr r1, [r0, #A_CHANNELS]
    subs r1, #1
    str r1, [r0, #A_CHANNELS]
    beq 1f
    ldr r1, =channel + 1
    bx r1
1:  add sp, #FRAME
    POP_ALL
    .ltorg
    WINDOWS windows_full, 1
    WINDOWS windows_part, 0
    .size mica_armv6m_depthwise, . - mica_armv6m_depthwise
