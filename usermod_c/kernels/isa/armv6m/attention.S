// Attention of one query on a Cortex-M0+: scores of keys, weights of scores, sums of values. Products of pairs: gemm.S.
#include "hot.inc"

    .equ WORDS, 8               // unrolled

// mica_armv6m_scores(s, k, k_end, x, words, most)
// s[t] = sum of x[i] * k[t][i], x as crossed pairs of numbers from -127 to 127, so that two products stay inside 16
// bits. `more` adds to what is in s. most: the largest, or what was there. k: on a word, `words` words each.
.macro SCORES name, more
    ENTER \name
    mov r12, r0
    mov r9, r2
    mov r11, r3
    ldr r4, [sp, #36]           // words
    lsls r5, r4, #3
    adds r5, r5, r3
    mov lr, r5                  // the end of x
    subs r4, #1
    movs r5, #WORDS - 1
    ands r4, r5
    adds r4, #1                 // words of the first round: the rest, or all
    lsls r4, r4, #5             // 32 bytes of code each
    ldr r5, =score_words_end_\name + 1
    subs r5, r5, r4
    mov r10, r5
    ldr r7, =-0x00800080
    mov r8, r7
    ldr r6, =0x00ff00ff
    ldr r7, =0x80808080
    mov r2, r3
    .if \more
    ldr r0, [r0]
    .else
    movs r0, #0
    .endif
    bx r10
    .ltorg
    .balign 4
score_words_\name:
    .rept WORDS
    ldm r1!, {r3}
    TWO_PAIRS
    .endr
score_words_end_\name:
    cmp r2, lr
    bne 3f
    mov r3, r12
    stm r3!, {r0}
    mov r12, r3
    ldr r4, [sp, #40]
    ldr r5, [r4]
    cmp r0, r5
    ble 1f
    str r0, [r4]
1:  mov r2, r11
    .if \more
    ldr r0, [r3]                // of the last row what lies behind: the query itself
    .else
    movs r0, #0
    .endif
    cmp r1, r9
    beq 2f
    bx r10
2:  POP_ALL
3:  ldr r3, =score_words_\name + 1
    bx r3
    .ltorg
    .size \name, . - \name
.endm

    SCORES mica_armv6m_scores, 0
    SCORES mica_armv6m_more_scores, 1

// uint32_t mica_armv6m_weights(const mica_attend_weights_t *args)
// Weights in the place of scores; returns their sum.
    ENTER mica_armv6m_weights
    ldm r0!, {r1-r7}            // s, end, most, limit, fall, fall_shift, table
    mov r9, r2
    mov r10, r6
    LOAD_HIGH r11, r6, [r0]     // the weight of what is as far as limit
    mov r0, r1
    mov r1, r3
    mov r2, r4
    mov r3, r5
    mov r6, r7
    movs r4, #0
    mov r8, r4
1:  ldr r4, [r0]
    subs r4, r1, r4
    cmp r4, r2
    bhs 3f
    muls r4, r3, r4
    mov r5, r10
    lsrs r4, r4, r5
    uxtb r5, r4
    lsrs r4, r4, #8
    lsls r4, r4, #1
    adds r4, r4, r6
    ldrh r7, [r4]
    ldrh r4, [r4, #2]
    subs r4, r7, r4
    muls r4, r5, r4
    lsrs r4, r4, #8
    subs r7, r7, r4
2:  stm r0!, {r7}
    add r8, r7
    cmp r0, r9
    bne 1b
    mov r0, r8
    POP_ALL
3:  mov r7, r11
    b 2b
    .size mica_armv6m_weights, . - mica_armv6m_weights

// void mica_armv6m_values_8(int32_t *sums, const int32_t *w, const int32_t *w_end, const int8_t *v, int32_t rest)
// sums[i] += sum of w[t] * v[t][i]; of 8 values or 4, on a word, `rest` bytes from their end to those of the next row.
.macro VALUE_WORD a, b, c, d
    ldm r7!, {r5}
    sxtb r6, r5
    muls r6, r4, r6
    add \a, r6
    lsls r6, r5, #16
    asrs r6, r6, #24
    muls r6, r4, r6
    add \b, r6
    lsls r6, r5, #8
    asrs r6, r6, #24
    muls r6, r4, r6
    add \c, r6
    asrs r5, r5, #24
    muls r5, r4, r5
    add \d, r5
.endm

.macro VALUES name, many
    FUNCTION \name
    push {r4-r7, lr}
    mov r4, r8
    mov r5, r9
    mov r6, r10
    mov r7, r11
    push {r0, r4-r7}
    mov r7, r3
    mov r3, r1
    mov lr, r2
    ldm r0!, {r1, r2, r4, r5}   // sums
    mov r8, r4
    mov r9, r5
    .if \many == 8
    ldm r0!, {r4, r5, r6}
    mov r10, r4
    mov r11, r5
    mov r12, r6
    .endif
    ldr r0, [r0]
    .if \many == 4
    mov r0, r1
    mov r1, r2
    .endif
1:  ldm r3!, {r4}
    .if \many == 8
    VALUE_WORD r1, r2, r8, r9
    VALUE_WORD r10, r11, r12, r0
    .else
    VALUE_WORD r0, r1, r8, r9
    .endif
    ldr r6, [sp, #40]           // rest
    adds r7, r7, r6
    cmp r3, lr
    bne 1b
    mov r5, r9
    mov r4, r8
    pop {r3}
    .if \many == 8
    stm r3!, {r1, r2, r4, r5}
    mov r4, r10
    mov r5, r11
    mov r6, r12
    stm r3!, {r4, r5, r6}
    str r0, [r3]
    .else
    stm r3!, {r0, r1, r4, r5}
    .endif
    LEAVE \name
.endm

    VALUES mica_armv6m_values_8, 8
    VALUES mica_armv6m_values_4, 4
