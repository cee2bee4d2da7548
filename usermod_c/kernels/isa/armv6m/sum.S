// Sum of two tensors, element by element: 19 cycles each.
#include "hot.inc"

// void mica_armv6m_add(const mica_sum_t *args)
    ENTER mica_armv6m_add
    movs r3, r0
    ldm r3!, {r0-r2, r4-r7}     // a, b, y, n, mult_a, mult_b, offset
    mov r8, r7
    mov r9, r6
    mov r10, r5
    adds r0, r0, r4             // the ends; the index runs from -n to 0
    adds r1, r1, r4
    adds r2, r2, r4
    negs r4, r4
    mov r12, r4
    ldm r3!, {r4-r7}            // shift, zero, range, low
    mov lr, r7
    mov r11, r6
    mov r7, r9
    mov r6, r10
    mov r9, r4
    mov r10, r5
    mov r3, r12
1:  ldrsb r4, [r0, r3]
    muls r4, r6, r4
    ldrsb r5, [r1, r3]
    muls r5, r7, r5
    adds r4, r4, r5
    add r4, r8
    mov r5, r9
    asrs r4, r4, r5
    add r4, r10
    cmp r4, r11
    bhi 3f
2:  add r4, lr
    strb r4, [r2, r3]
    adds r3, #1
    bne 1b
    POP_ALL
3:  asrs r5, r4, #31            // below: 0, above: range
    mov r4, r11
    bics r4, r4, r5
    b 2b
    .size mica_armv6m_add, . - mica_armv6m_add
