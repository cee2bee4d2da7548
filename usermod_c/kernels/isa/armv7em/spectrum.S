// The stages of a transform for log_mel_s8, pcen_s8 and axes_s8 (kernels/log_mel.h). Numbers have 20 bits at most, so
// of each the upper half has at most 4 bits and a sign: PKHTB puts those of both parts into a word, and XOR adds those
// of other numbers. A sign only inverts what lies above it, and neighbouring bits are compared: those at the borders of
// fields say nothing.
#if !defined(MICA_WITHOUT_LOG_MEL_S8) || !defined(MICA_WITHOUT_PCEN_S8) || !defined(MICA_WITHOUT_AXES_S8)
    .syntax unified
    .thumb
#include "../thumb.inc"
    .section .text.mica_dsp_spectrum, "ax", %progbits

// \v / 2^s, halves up; r3: half of 2^s, r2: s
.macro DOWN v
    add \v, r3
    asr \v, r2
.endm

// Of both parts in \r and \i the upper halves to \r.
.macro UPPER r, i
    pkhtb \r, \r, \i, asr #16
.endm

// uint32_t mica_dsp_first(int32_t *z, const int32_t *end, int32_t s, int32_t round): 52 instructions for four numbers
    ENTER mica_dsp_first
    mov r12, #0
1:  ldrd r4, r5, [r0]
    ldrd r6, r7, [r0, #8]
    ldrd r8, r9, [r0, #16]
    ldrd r10, r11, [r0, #24]
    .irp v, r4, r5, r6, r7, r8, r9, r10, r11
    DOWN \v
    .endr
    add lr, r4, r6
    subs r6, r4, r6
    adds r4, r5, r7
    subs r7, r5, r7
    add r5, r8, r10
    sub r10, r8, r10
    add r8, r9, r11
    sub r11, r9, r11
    add r9, lr, r5
    sub lr, r5
    add r5, r4, r8
    sub r4, r8
    strd r9, r5, [r0]
    strd lr, r4, [r0, #16]
    UPPER r9, r5
    UPPER lr, r4
    eor r9, r9, lr, lsl #4
    add r4, r6, r11
    sub r6, r11
    sub r5, r7, r10
    add r7, r10
    strd r4, r5, [r0, #8]
    strd r6, r7, [r0, #24]
    adds r0, #32
    UPPER r4, r5
    UPPER r6, r7
    eor r9, r9, r4, lsl #8
    eor r9, r9, r6, lsl #12
    eor r9, r9, r9, lsr #1
    orr r12, r9
    cmp r0, r1
    bne 1b
    and r0, r12, #0x77777777
    orr r0, r0, r0, lsr #4
    and r0, r0, #0x07070707
    LEAVE mica_dsp_first

// Butterflies; r4 = 2048, r5: bits, r6, r7: the factor. \s: the shift, or r2. \turn: with a factor a quarter turn
// further. \p, \q: where they are.
.macro LOAD p, q
    ldrd r8, r9, \q
    ldrd r12, lr, \p
.endm

.macro ROUNDED v, s
    .ifc \s, r2
    DOWN \v
    .else
    add \v, #1 << (\s - 1)
    asr \v, \v, #\s
    .endif
.endm

// Four times that for a fixed shift; else it is left to SUMS. \m: ~3 for a shift of 3.
.macro ROUNDED4 v, s, m
    .ifc \s, 2
    add \v, #2
    bic \v, #3
    .else
    .ifc \s, 3
    add \v, #4
    and \v, \m, \v, asr #1
    .else
    DOWN \v
    .endif
    .endif
.endm

// a + t, and a - t to \to
.macro SUMS to, a, t, s
    .ifnc \s, r2
    sub \to, \a, \t
    add \a, \a, \t
    .else
    rsb \to, \t, \a, lsl #2
    add \a, \t, \a, lsl #2
    .endif
.endm

// p: \r and \i, q: \v and \w; \more: what is added to r0 and r1.
.macro STORE p, q, r, i, v, w, more
    strd \v, \w, \q\more
    strd \r, \i, \p\more
    UPPER \v, \w
    UPPER \r, \i
    eor \v, \v, \r, lsl #8
    eor \v, \v, \v, lsr #1
    orr r5, \v
.endm

.macro BUTTERFLY s, turn, p="[r0]", q="[r1]", more="", m=r3
    LOAD "\p", "\q"
    ROUNDED r8, \s
    ROUNDED r9, \s
    .if \turn
    mla r10, r9, r6, r4
    mls r10, r8, r7, r10
    mls r11, r8, r6, r4
    mls r11, r9, r7, r11
    .else
    mla r10, r8, r6, r4
    mla r10, r9, r7, r10
    mla r11, r9, r6, r4
    mls r11, r8, r7, r11
    .endif
    ROUNDED4 r12, \s, \m
    ROUNDED4 lr, \s, \m
    .ifnc \s, r2
    sub r8, r12, r10, asr #12
    add r12, r12, r10, asr #12
    sub r9, lr, r11, asr #12
    add lr, lr, r11, asr #12
    .else
    asr r10, r10, #12
    asr r11, r11, #12
    SUMS r8, r12, r10, \s
    SUMS r9, lr, r11, \s
    .endif
    STORE "\p", "\q", r12, lr, r8, r9, "\more"
.endm

// The factor is 1.
.macro PLAIN s, turn, p="[r0]", q="[r1]", more="", m=r3
    LOAD "\p", "\q"
    ROUNDED4 r8, \s, \m
    ROUNDED4 r9, \s, \m
    ROUNDED4 r12, \s, \m
    ROUNDED4 lr, \s, \m
    .ifc \s, r2
    lsl r8, r8, #2
    lsl r9, r9, #2
    .endif
    .if \turn
    SUMS r10, r12, r9, \s
    SUMS r11, lr, r8, \s
    STORE "\p", "\q", r12, r11, r10, lr, "\more"
    .else
    SUMS r10, r12, r8, \s
    SUMS r11, lr, r9, \s
    STORE "\p", "\q", r12, lr, r10, r11, "\more"
    .endif
.endm

// mica_dsp_stage4(z, end, s, round, twiddle): blocks of four butterflies
    ENTER mica_dsp_stage4
    ldr r7, [sp, #36]
    ldrsh r6, [r7]
    ldrsh r7, [r7, #2]
    mov r4, #2048
    movs r5, #0
1:  PLAIN r2, 0, "[r0]", "[r0, #32]"
    BUTTERFLY r2, 0, "[r0, #8]", "[r0, #40]"
    PLAIN r2, 1, "[r0, #16]", "[r0, #48]"
    BUTTERFLY r2, 1, "[r0, #24]", "[r0, #56]"
    adds r0, #64
    cmp r0, r1
    bne 1b
    mov r0, r5
    LEAVE mica_dsp_stage4

// Of each block one butterfly, and the same half a block further with a factor a quarter turn further. r2: bytes of
// half a block's half, r3: behind z, or with a shift of 3 what ROUNDED4 needs.
.macro BLOCKS what, s
1:  add r1, r0, r2, lsl #1
    \what \s, 0
    add r0, r2
    add r1, r2
    \what \s, 1
    add r0, r1, r2
    .ifc \s, 3
    ldr r1, [sp, #F_BEHIND]
    cmp r0, r1
    .else
    cmp r0, r3
    .endif
    blo 1b
.endm

    .equ F_BACK, 0              // from behind the last block to the next factor's first butterfly
    .equ F_STEP, 4              // from factor to factor
    .equ F_FACTOR, 8
    .equ F_END, 12              // of the first butterflies' places
    .equ F_BEHIND, 16           // what is behind z

.macro STAGE s
    BLOCKS PLAIN, \s
    b 3f
2:  add r9, r8
    str r9, [sp, #F_FACTOR]
    ldrsh r6, [r9]
    ldrsh r7, [r9, #2]
    BLOCKS BUTTERFLY, \s
3:  ldrd r1, r8, [sp, #F_BACK]
    ldrd r9, r10, [sp, #F_FACTOR]
    add r0, r1
    cmp r0, r10
    blo 2b
.endm

// mica_dsp_stage(z, end, half_block, s, twiddles, step): s is 2 or 3
    ENTER mica_dsp_stage
    ldrd r9, r8, [sp, #36]
    subs r7, r0, r1
    adds r7, #8
    adds r6, r0, r2
    sub sp, #20
    str r1, [sp, #F_BEHIND]
    strd r7, r8, [sp, #F_BACK]
    strd r9, r6, [sp, #F_FACTOR]
    mov r4, #2048
    movs r5, #0
    cmp r3, #2
    mov r3, r1
    bne stage_3
    STAGE 2
    b 4f
stage_3:
    mvn r3, #3
    STAGE 3
4:  mov r0, r5
    add sp, #20
    LEAVE mica_dsp_stage

    .equ F_Q, 0
    .equ F_UNTIL, 4             // the end of p in this half
    .equ F_TWIDDLES, 44

// The first half of the only block, or with \turn the second.
.macro HALF s, turn
    ldr r3, [sp, #F_TWIDDLES]
    PLAIN \s, \turn, "[r0]", "[r1]", ", #8", r2
1:  ldrsh r6, [r3, #8]!
    ldrsh r7, [r3, #2]
    BUTTERFLY \s, \turn, "[r0]", "[r1]", ", #8", r2
    .ifc \s, 3
    ldr r8, [sp, #F_UNTIL]
    cmp r0, r8
    .else
    cmp r0, r2
    .endif
    bne 1b
.endm

.macro LAST s
    HALF \s, 0
    ldr r6, [sp, #F_Q]
    str r6, [sp, #F_UNTIL]
    .ifc \s, 2
    mov r2, r6
    .endif
    HALF \s, 1
.endm

// mica_dsp_last(z, q, half_end, s, twiddles): s: 2, 3
    ENTER mica_dsp_last
    push {r1, r2}
    mov r4, #2048
    movs r5, #0
    cmp r3, #2
    bne last_3
    LAST 2
    b 4f
last_3:
    mvn r2, #3
    LAST 3
4:  mov r0, r5
    add sp, #8
    LEAVE mica_dsp_last

// mica_dsp_split(p, q, s, round, twiddles): 18 instructions a bin
    FUNCTION mica_dsp_split
    ldr r12, [sp]
    push {r4-r11, lr}
    mov r4, #2048
    mov r5, r12
    movs r6, #0
1:  ldrd r8, r9, [r0]
    ldrd r10, r11, [r1]
    .irp v, r8, r9, r10, r11
    DOWN \v
    .endr
    sub r12, r10, r8
    add r8, r10
    add lr, r9, r11
    sub r9, r11
    ldrsh r7, [r5, #4]!
    ldrsh r10, [r5, #2]
    lsl r8, r8, #2
    lsl r9, r9, #2
    mla r11, lr, r7, r4
    mla r11, r12, r10, r11
    mla r12, r12, r7, r4
    mls r12, lr, r10, r12
    add lr, r8, r11, asr #12
    rsb r11, r11, r4, lsl #1    // what is negated is rounded the other way
    add r8, r8, r11, asr #12
    add r10, r9, r12, asr #12
    rsb r9, r9, r12, asr #12
    strd lr, r10, [r0], #8
    strd r8, r9, [r1], #-8
    UPPER lr, r10
    UPPER r8, r9
    eor lr, lr, r8, lsl #8
    eor lr, lr, lr, lsr #1
    orr r6, lr
    cmp r0, r1
    bls 1b
    mov r0, r6
    LEAVE mica_dsp_split

// The size of \v, times half of it, rounded down; the upper bits to \h.
.macro SQUARE v, h
    eor \h, \v, \v, asr #31
    sub \v, \h, \v, asr #31
    lsrs \h, \v, #2
    sub \v, \v, \h, lsl #1
    muls \v, \h, \v
.endm

// void mica_dsp_squares(uint32_t *to, const uint32_t *end, int32_t s, int32_t round, const int32_t *z)
    FUNCTION mica_dsp_squares
    ldr r12, [sp]
    push {r4-r6, lr}
1:  ldrd r4, r5, [r12], #8
    DOWN r4
    DOWN r5
    SQUARE r4, r6
    SQUARE r5, r6
    lsrs r4, r4, #1
    add r4, r4, r5, lsr #1
    str r4, [r0], #4
    cmp r0, r1
    bne 1b
    pop {r4-r6, pc}
    .size mica_dsp_squares, . - mica_dsp_squares

// void mica_dsp_roots(uint32_t *v, const uint32_t *end, const uint32_t *table): the entry of 32 stands at table[32]
    FUNCTION mica_dsp_roots
    push {r4-r8, lr}
    movs r3, #1
    mov r12, #0x2000
1:  ldr r4, [r0]
    cbz r4, 2f
    clz r5, r4
    bic r6, r5, #1
    lsls r4, r6
    lsrs r6, r4, #25
    add r6, r2, r6, lsl #2
    ldrd r6, r7, [r6]
    ubfx r4, r4, #11, #14
    subs r7, r7, r6
    mla r4, r4, r7, r12
    lsrs r5, r5, #1
    lsl r7, r3, r5
    add r6, r6, r7, lsr #1
    add r6, r6, r4, lsr #14
    lsrs r6, r5
    str r6, [r0]
2:  adds r0, #4
    cmp r0, r1
    bne 1b
    pop {r4-r8, pc}
    .size mica_dsp_roots, . - mica_dsp_roots
#endif
