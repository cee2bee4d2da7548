// Where features stand among the thresholds of trees (ranks_s8), one row: 50 cycles a column and 5 for each halving.
#include "hot.inc"

// r3 = the threshold \n - 1 behind r5; changes r7.
.macro THRESHOLD n
    .if \n <= 32
    ldr r3, [r5, #4 * (\n - 1)]
    .else
    movs r7, #\n - 1
    lsls r7, r7, #2
    ldr r3, [r5, r7]
    .endif
.endm

// Of r4 thresholds, \n to 2 * \n - 1 of them, \n - 1 in which the end of those below the feature lies; of them go on.
.macro FROM n, half
from_\n:
    THRESHOLD \n
    cmp r3, r6
    bge by_\half
    subs r4, #\n - 1
    lsls r4, r4, #2
    adds r5, r5, r4
    b by_\half
.endm

// Of 2 * \n - 1 thresholds as many as lie below the feature are fewer than \n or not: r5 moves, and \n - 1 are left.
.macro BY n, then
by_\n:
    THRESHOLD \n
    cmp r3, r6
    .if \n == 1
    bge \then
    .else
    bge by_\then
    .endif
    .if \n < 64
    adds r5, #4 * \n
    .else
    adds r5, #4 * (\n - 1)
    adds r5, #4
    .endif
.endm

// r0 y, r1 first, r2 source, r4 thresholds left, r5 the lowest of them, r6 the feature; r8 x, r9 thresholds, r10 those
// of this column, r11 the end of y, r12 their number, lr features
    ENTER mica_armv6m_ranks
    movs r7, r0
    ldm r7!, {r0-r2, r4-r6}     // y, first, source, x, thresholds, y_end
    mov r8, r4
    mov r9, r5
    mov r11, r6
    ldm r7!, {r3-r5}            // number of thresholds, of features, missing
    mov r12, r3
    mov lr, r4
    subs r5, r5, r0
    push {r5}                   // from y to missing
    b column

more:
    cmp r4, #255
    bhi absent
    cmp r4, #64
    blo from_32
    cmp r4, #128
    blo from_64
    FROM 128, 64
    FROM 64, 32
    BY 64, 32
    BY 32, 16
    b by_16
    FROM 32, 16
special:                        // infinities are numbers
    lsls r7, r3, #8
    beq ordered
absent:
    ldr r3, [sp]
    ldrb r5, [r0, r3]
    b store

column:
    ldrh r3, [r2]
    adds r2, #2
    ldm r1!, {r5}
    cmp r3, lr                  // the file may have changed since
    bhs absent
    lsls r3, r3, #2
    add r3, r8
    ldr r6, [r3]
    ldr r4, [r1]
    cmp r4, r12
    bhi absent
    subs r4, r4, r5
    blo absent
    lsls r5, r5, #2
    add r5, r9
    mov r10, r5
    lsls r3, r6, #1
    lsrs r7, r3, #24
    cmp r7, #255
    beq special
ordered:
    cmp r6, #0
    bge positive
    lsrs r3, r3, #1
    rsbs r6, r3, #0
positive:
    cmp r4, #16
    bhs many
    cmp r4, #4
    bhs some
    cmp r4, #2
    bhs from_2
    cmp r4, #0
    beq found
    b by_1
some:
    cmp r4, #8
    bhs from_8
    FROM 4, 2
    FROM 8, 4
many:
    cmp r4, #32
    bhs more
    FROM 16, 8
    FROM 2, 1
    BY 16, 8
    BY 8, 4
    BY 4, 2
    BY 2, 1
    BY 1, found
found:
    mov r3, r10
    subs r5, r5, r3
    lsrs r5, r5, #2
    subs r5, #128
store:
    strb r5, [r0]
    adds r0, #1
    cmp r0, r11
    blo column
    pop {r5}
    LEAVE mica_armv6m_ranks
