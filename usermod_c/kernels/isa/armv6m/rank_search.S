// Where features stand among the thresholds of trees (ranks_s8), one row: 37 cycles a column, and 10 or 13 for each halving.
#include "hot.inc"

// r0 y, r1 first, r2 source, r4 thresholds left, r5 the lowest of them, r6 the feature; r8 x, r9 thresholds, r10 those of this column,
// r11 the end of y, r12 their number, lr features
    .global mica_armv6m_ranks
    .type mica_armv6m_ranks, %function
    .balign 4
    .thumb_func
mica_armv6m_ranks:
    push {r4-r7, lr}
    mov r4, r8
    mov r5, r9
    mov r6, r10
    mov r7, r11
    push {r4-r7}
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

column:
    ldrh r3, [r2]
    adds r2, #2
    ldm r1!, {r5}
    cmp r3, lr                  // for a file that changed since it was checked
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
    cmp r4, #0
    beq found
halve:
    lsrs r7, r4, #1
    lsls r3, r7, #2
    ldr r3, [r5, r3]
    cmp r3, r6
    bge lower
    subs r4, r4, r7
    lsls r7, r7, #2
    adds r5, #4
    adds r5, r5, r7
    subs r4, #1
    bne halve
    b found
lower:
    movs r4, r7
    bne halve
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
    pop {r4-r7}
    mov r8, r4
    mov r9, r5
    mov r10, r6
    mov r11, r7
    pop {r4-r7, pc}

special:                        // infinities are numbers
    lsls r7, r3, #8
    beq ordered
absent:
    ldr r3, [sp]
    ldrb r5, [r0, r3]
    b store
    .size mica_armv6m_ranks, . - mica_armv6m_ranks
