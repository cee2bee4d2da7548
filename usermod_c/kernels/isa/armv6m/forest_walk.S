// Walks through decision trees of one-word nodes (forest_s8), and sums of what their leaves add. A visit takes 8 cycles
// to the first child, 16 to the second; an entry of a leaf 17. A node is compared as it is: its lower bits are below
// one step of x << 24. In a file that changed since it was checked a walk goes forward too, and ends.
#include "hot.inc"

// As many nodes as lie behind any that trees reach, while the walk goes to their first children.
.macro FOUR
    .rept 4
    ldm r0!, {r4}
    uxtb r5, r4
    ldrb r5, [r2, r5]
    lsls r5, r5, #24
    cmp r5, r4
    bgt second
    .endr
.endm

// r0 node, r1 entry, r2 x, r7 sums. r8 nodes, r9 bytes of sums, r10 where in the roots. r11 the end of the roots,
// r12 the end of the nodes that trees reach, lr the end of the leaves; on the stack the leaves and the number of nodes
// that trees reach
    ENTER mica_armv6m_forest
    ldm r0!, {r2-r4, r7}        // x, whole, leaves, sum
    push {r3, r4}
    ldm r0!, {r1, r3-r6}        // nodes, sum_bytes, roots, roots_end, nodes_end
    mov r8, r1
    mov r9, r3
    mov r10, r4
    mov r11, r5
    mov r12, r6
    LOAD_HIGH lr, r1, [r0]
    b next_tree

    .balign 4
second:
    lsls r4, r4, #8
    bmi leaf
    lsrs r4, r4, #16
    lsls r4, r4, #2
    adds r0, r0, r4
visit:
    cmp r0, r12
    bhs next_tree
    FOUR
    b visit

leaf:
    ldr r1, [sp, #4]
    lsls r4, r4, #1
    lsrs r4, r4, #17
    lsls r4, r4, #2
    adds r1, r1, r4
entry:
    cmp r1, lr
    bhs next_tree
    ldm r1!, {r4}
    lsls r3, r4, #19
    lsrs r3, r3, #17            // bytes to the sum
    cmp r3, r9
    bhs next_tree
    asrs r5, r4, #16
    ldr r6, [r7, r3]
    adds r6, r6, r5
    str r6, [r7, r3]
    lsls r4, r4, #17            // carry: another entry follows
    bcs entry
next_tree:
    mov r1, r10
    cmp r1, r11
    beq done
    ldm r1!, {r0}
    mov r10, r1
    ldr r4, [sp]
    cmp r0, r4
    bhs next_tree
    lsls r0, r0, #2
    add r0, r8
    FOUR
    b visit
done:
    add sp, #8
    LEAVE mica_armv6m_forest
