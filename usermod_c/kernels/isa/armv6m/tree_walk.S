// Walks through decision trees (trees_s8), and sums of what their leaves add. A visit takes 15 cycles to the first child, 18 to the
// second; an entry of a leaf 22. What a file that changed since it was checked could do, leaf_of() of ref/trees.c says.
#include "hot.inc"

// r0 node, r2 x, r3 words, r6 = 2, r7 where in the roots; r8 end of the roots, r9 nodes, r10 sums, r11 bytes of them,
// r12 the first word in which no node with children fits, lr columns of x
    FUNCTION mica_armv6m_trees
    PUSH_ALL
    ldm r0!, {r2-r7}            // x, words, roots_end, nodes, sum, sum_bytes
    mov r8, r4
    mov r9, r5
    mov r10, r6
    mov r11, r7
    ldm r0!, {r4, r5, r7}       // leaves, columns, roots
    mov r12, r4
    mov lr, r5
    movs r6, #2
    b next_tree

    .balign 4
second:
    ldrh r5, [r0, #4]
    lsls r5, r5, #17            // without the mark; in bytes
    lsrs r5, r5, #16
    adds r0, #6
    adds r0, r0, r5
visit:
    .rept 3                     // most ways lead to the next record
    cmp r0, r12
    bhs leaf
    ldrh r4, [r0]
    cmp r4, lr
    bhs leaf
    ldrsb r4, [r2, r4]
    ldrsb r5, [r0, r6]
    cmp r4, r5
    bgt second
    adds r0, #6
    .endr
    b visit

leaf:
    subs r1, r0, #4             // the last entry begins 2 words behind
    cmp r1, r12
    bhi next_tree
    ldrh r4, [r0]
    lsls r1, r4, #19
    lsrs r1, r1, #17            // bytes to the sum
    cmp r1, r11
    bhs next_tree
    ldrh r5, [r0, #2]
    lsls r5, r5, #17
    asrs r5, r5, #17
    add r1, r10
    ldr r6, [r1]
    adds r6, r6, r5
    str r6, [r1]
    adds r0, #4
    lsls r4, r4, #19            // carry: another entry follows
    bcs leaf
next_tree:
    movs r6, #2
    cmp r7, r8
    beq done
    ldm r7!, {r0}
    cmp r0, r3
    bhs next_tree
    lsls r0, r0, #1
    add r0, r9
    b visit
done:
    POP_ALL
    .size mica_armv6m_trees, . - mica_armv6m_trees
