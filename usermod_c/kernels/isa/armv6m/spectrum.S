// The loops of log_mel_s8 (kernels/log_mel.h): a butterfly takes 55 cycles, of which 20 are loads and stores.
// This code is not among what runs from RAM: a frame passes through a loop some thousand times before it needs the next.
    .syntax unified
    .thumb
    .cpu cortex-m0plus
    .section .text.mica_armv6m_spectrum, "ax", %progbits

.macro ENTER name
    .global \name
    .type \name, %function
    .balign 4
    .thumb_func
\name:
    push {r4-r7, lr}
    mov r4, r8
    mov r5, r9
    mov r6, r10
    mov r7, r11
    push {r4-r7}
.endm

.macro LEAVE name
    pop {r4-r7}
    mov r8, r4
    mov r9, r5
    mov r10, r6
    mov r11, r7
    pop {r4-r7, pc}
    .size \name, . - \name
.endm

// Numbers have to be in [-K, K), K = 2^bits, or K doubles. \k: a high register that holds it; destroys \a and \b, which
// have just been stored before \at.
// The rest is out of line, at MORE.
.macro WITHIN a, b, at, k, label
within_\label:
    add \a, \k
    add \b, \k
    orrs \a, \b
    lsrs \a, \a, #1
    cmp \a, \k
    bhs more_\label
.endm

.macro MORE a, b, at, k, label
more_\label:
    mov \a, \k
    adds \a, \a, \a
    mov \k, \a
    subs \at, #8
    ldm \at!, {\a, \b}
    b within_\label
.endm

// A butterfly: r0 = q, r6 = cos, r7 = sin, r8 = -D - 8, r9 = D - 8, D bytes being between p and q, r10 = K, r12 = 2048.
// Leaves r0 behind q; uses r1 to r5.
.macro DOWN a, s
    .if \s
    adds \a, #1 << (\s - 1)
    asrs \a, \a, #\s
    .endif
.endm

.macro BUTTERFLY s
    ldm r0!, {r1, r2}
    DOWN r1, \s
    DOWN r2, \s
    mov r3, r1
    muls r3, r7, r3
    muls r1, r6, r1
    mov r4, r2
    muls r4, r7, r4
    muls r2, r6, r2
    adds r1, r1, r4
    add r1, r12
    asrs r1, r1, #12            // re t
    subs r2, r2, r3
    add r2, r12
    asrs r2, r2, #12            // im t
    add r0, r8
    ldm r0!, {r3, r4}
    DOWN r3, \s
    lsls r3, r3, #2
    DOWN r4, \s
    lsls r4, r4, #2
    adds r5, r4, r2
    subs r2, r4, r2
    adds r4, r3, r1
    subs r1, r3, r1
    subs r0, #8
    stm r0!, {r4, r5}
    add r0, r9
    stm r0!, {r1, r2}
1:  add r1, r10
    add r2, r10
    add r4, r10
    add r5, r10
    orrs r1, r2
    orrs r1, r4
    orrs r1, r5
    lsrs r1, r1, #1
    cmp r1, r10
    bhs 2f
.endm

.macro RAISE
2:  mov r1, r10
    adds r1, r1, r1
    mov r10, r1
    subs r0, #8
    ldm r0!, {r1, r2}
    add r0, r8
    ldm r0!, {r4, r5}
    add r0, r9
    adds r0, #8
    b 1b
.endm

// Stages of butterflies D / 8 apart, the same twiddle factor over all blocks, then the next.
.macro STAGE s
stage_\s:
3:  ldr r3, [sp, #4]            // the twiddle factor
    ldr r6, [r3]
    ldr r1, [sp, #8]
    adds r3, r3, r1
    str r3, [sp, #4]
    asrs r7, r6, #16
    sxth r6, r6
    ldr r0, [sp, #0]            // the first q
    movs r1, r0
    adds r1, #8
    str r1, [sp, #0]
4:  BUTTERFLY \s
    add r0, lr
    cmp r0, r11
    blo 4b
    ldr r0, [sp, #12]           // how many factors are left
    subs r0, #1
    str r0, [sp, #12]
    bne 5f
    b stage_end
5:  movs r0, #8
    add r11, r0
    b 3b
    RAISE
.endm

// One block: a factor for each butterfly, lr = their address, \step bytes apart.
.macro BLOCK s, step
block_\step\()_\s:
3:  mov r3, lr
    ldr r6, [r3]
    adds r3, #\step
    mov lr, r3
    asrs r7, r6, #16
    sxth r6, r6
    BUTTERFLY \s
    cmp r0, r11
    blo 3b
    b stage_end
    RAISE
.endm

// To one of five by r3, 0 to 4.
.macro GO name
    cmp r3, #2
    beq 12f
    bhi 13f
    cmp r3, #1
    beq 11f
    b \name\()_0
11: b \name\()_1
12: b \name\()_2
13: cmp r3, #3
    bne 14f
    b \name\()_3
14: b \name\()_4
.endm

// uint32_t mica_armv6m_stage(const mica_stage_t *args)
    ENTER mica_armv6m_stage
    movs r7, r0
    sub sp, #16
    ldm r7!, {r0-r3}            // the first q, the first factor, bytes between factors, how many
    str r0, [sp, #0]
    str r1, [sp, #4]
    str r2, [sp, #8]
    str r3, [sp, #12]
    mov lr, r1
    ldm r7!, {r3-r6}            // -D - 8, D - 8, K, end
    mov r8, r3
    mov r9, r4
    mov r10, r5
    mov r11, r6
    movs r1, #1
    lsls r1, r1, #11
    mov r12, r1
    ldm r7!, {r3, r4}           // s, whether it is one block
    cmp r4, #0
    bne 5f
    mov r5, r9                  // lr = 2 D - 8
    adds r5, r5, r5
    adds r5, #8
    mov lr, r5
    GO stage
5:  cmp r2, #8
    bne 6f
    GO block_8
6:  GO block_16
    STAGE 0
    STAGE 1
    STAGE 2
    STAGE 3
    STAGE 4
    BLOCK 0, 8
    BLOCK 1, 8
    BLOCK 2, 8
    BLOCK 3, 8
    BLOCK 4, 8
    BLOCK 0, 16
    BLOCK 1, 16
    BLOCK 2, 16
    BLOCK 3, 16
    BLOCK 4, 16
stage_end:
    mov r0, r10
    add sp, #16
    LEAVE mica_armv6m_stage

// uint32_t mica_armv6m_first(int32_t *z, const int32_t *end, uint32_t s, uint32_t K): the two first stages; s > 0
    ENTER mica_armv6m_first
    mov lr, r3
    movs r7, r2
    sub sp, #4
    str r1, [sp, #0]
    movs r3, #1
    lsls r3, r7
    lsrs r3, r3, #1
    mov r8, r3                  // half of 2^s
1:  ldm r0!, {r1-r4}
    add r1, r8
    asrs r1, r7
    add r2, r8
    asrs r2, r7
    add r3, r8
    asrs r3, r7
    add r4, r8
    asrs r4, r7
    adds r5, r1, r3
    mov r9, r5
    adds r6, r2, r4
    mov r10, r6
    subs r1, r1, r3
    mov r11, r1
    subs r2, r2, r4
    mov r12, r2
    ldm r0!, {r1-r4}
    add r1, r8
    asrs r1, r7
    add r2, r8
    asrs r2, r7
    add r3, r8
    asrs r3, r7
    add r4, r8
    asrs r4, r7
    adds r5, r1, r3             // re u
    subs r1, r1, r3             // re v
    adds r6, r2, r4             // im u
    subs r2, r2, r4             // im v
    subs r0, #32
    mov r3, r9
    mov r4, r10
    adds r3, r3, r5
    adds r4, r4, r6
    stm r0!, {r3, r4}
    WITHIN r3, r4, r0, lr, 0
    mov r3, r11
    mov r4, r12
    adds r3, r3, r2
    subs r4, r4, r1
    stm r0!, {r3, r4}
    WITHIN r3, r4, r0, lr, 1
    mov r3, r9
    mov r4, r10
    subs r3, r3, r5
    subs r4, r4, r6
    stm r0!, {r3, r4}
    WITHIN r3, r4, r0, lr, 2
    mov r3, r11
    mov r4, r12
    subs r3, r3, r2
    adds r4, r4, r1
    stm r0!, {r3, r4}
    WITHIN r3, r4, r0, lr, 3
    ldr r3, [sp, #0]
    cmp r0, r3
    bhs 2f
    b 1b
2:  mov r0, lr
    add sp, #4
    b 3f
    MORE r3, r4, r0, lr, 0
    MORE r3, r4, r0, lr, 1
    MORE r3, r4, r0, lr, 2
    MORE r3, r4, r0, lr, 3
3:  LEAVE mica_armv6m_first

.macro ROUND12 a
    asrs \a, \a, #11
    adds \a, #1
    asrs \a, \a, #1
.endm

// uint32_t mica_armv6m_split(int32_t *z, uint32_t half, const int16_t *twiddles, uint32_t s, uint32_t K): bins 1 to half - 1; s > 0
    ENTER mica_armv6m_split
    sub sp, #8
    ldr r4, [sp, #44]           // K
    mov r11, r4
    mov r9, r3
    movs r4, #1
    lsls r4, r3
    lsrs r4, r4, #1
    mov r8, r4
    lsls r5, r1, #3
    lsls r4, r0, #1
    adds r4, r4, r5
    str r4, [sp, #0]            // less a is b
    lsls r4, r2, #1
    lsls r5, r1, #2
    adds r4, r4, r5
    adds r4, #4
    str r4, [sp, #4]            // less the address behind a's factor is that of b's
    adds r2, #4
    mov r10, r2
    adds r0, #8
1:  ldr r3, [sp, #0]
    subs r3, r3, r0
    ldm r0!, {r1, r2}
    ldm r3, {r3, r4}
    mov r5, r9
    add r1, r8
    asrs r1, r5
    add r2, r8
    asrs r2, r5
    add r3, r8
    asrs r3, r5
    add r4, r8
    asrs r4, r5
    adds r5, r1, r3
    lsls r5, r5, #2
    mov r12, r5
    subs r6, r2, r4
    lsls r6, r6, #2
    mov lr, r6
    adds r2, r2, r4             // re p
    subs r1, r3, r1             // im p
    mov r3, r10
    ldr r4, [r3]
    adds r3, #4
    mov r10, r3
    asrs r5, r4, #16
    sxth r4, r4
    mov r3, r2
    muls r3, r4, r3
    mov r6, r1
    muls r6, r5, r6
    adds r3, r3, r6
    ROUND12 r3
    add r3, r12
    muls r4, r1, r4
    muls r5, r2, r5
    subs r4, r4, r5
    ROUND12 r4
    add r4, lr
    subs r0, #8
    stm r0!, {r3, r4}
    WITHIN r3, r4, r0, r11, 4
    ldr r3, [sp, #4]
    mov r4, r10
    subs r3, r3, r4
    ldr r4, [r3]
    asrs r5, r4, #16
    sxth r4, r4
    mov r3, r2
    muls r3, r4, r3
    mov r6, r1
    muls r6, r5, r6
    subs r3, r3, r6
    ROUND12 r3
    add r3, r12
    muls r4, r1, r4
    muls r5, r2, r5
    adds r4, r4, r5
    negs r4, r4
    ROUND12 r4
    mov r5, lr
    subs r4, r4, r5
    ldr r5, [sp, #0]
    subs r5, r5, r0
    adds r5, #8
    stm r5!, {r3, r4}
    WITHIN r3, r4, r5, r11, 5
    subs r5, #16
    cmp r0, r5
    bhi 2f
    b 1b
2:  mov r0, r11
    add sp, #8
    b 3f
    MORE r3, r4, r0, r11, 4
    MORE r3, r4, r5, r11, 5
3:  LEAVE mica_armv6m_split

.macro SQUARE v, t
    add \v, r8
    asrs \v, r6
    asrs \t, \v, #31
    eors \v, \t
    subs \v, \v, \t
    lsrs \t, \v, #2
    subs \v, \v, \t
    subs \v, \v, \t             // 2 * high + low
    muls \v, \t, \v
    lsrs \v, \v, #1
.endm

// void mica_armv6m_squares(const int32_t *z, uint32_t *bins, const uint32_t *end, uint32_t s): of pairs the sum of squares, until bins is end
    ENTER mica_armv6m_squares
    movs r6, r3
    movs r4, #1
    lsls r4, r3
    lsrs r4, r4, #1
    mov r8, r4
    mov r9, r2
1:  ldm r0!, {r2, r3}
    SQUARE r2, r4
    SQUARE r3, r4
    adds r2, r2, r3
    stm r1!, {r2}
    cmp r1, r9
    blo 1b
    LEAVE mica_armv6m_squares

// void mica_armv6m_band(const uint32_t *bins, const uint16_t *gains, uint32_t n, uint64_t *sum): n > 0, even
    ENTER mica_armv6m_band
    lsls r2, r2, #2
    adds r2, r2, r0
    mov r8, r2
    mov r9, r3
    movs r5, #0
    movs r6, #0
1:  ldm r0!, {r2, r4}
    ldrh r3, [r1]
    lsrs r7, r2, #16
    uxth r2, r2
    muls r7, r3, r7
    muls r2, r3, r2
    lsrs r2, r2, #16
    adds r2, r2, r7
    ldrh r3, [r1, #2]
    lsrs r7, r4, #16
    uxth r4, r4
    muls r7, r3, r7
    muls r4, r3, r4
    lsrs r4, r4, #16
    adds r4, r4, r7
    adds r2, r2, r4             // each is less than 2^31
    movs r3, #0
    adds r5, r5, r2
    adcs r6, r3
    adds r1, #4
    cmp r0, r8
    blo 1b
    mov r3, r9
    stm r3!, {r5, r6}
    LEAVE mica_armv6m_band

// void mica_armv6m_roots(uint32_t *v, const uint32_t *end, const uint32_t *table): v = 2^8 * sqrt(v)
    ENTER mica_armv6m_roots
    mov r8, r1
    subs r2, #128               // places of the table count from 32
1:  ldr r1, [r0]
    movs r3, #0
    lsrs r4, r1, #16
    bne 2f
    cmp r1, #0
    beq 7f
    lsls r1, r1, #16
    movs r3, #8
2:  lsrs r4, r1, #24
    bne 3f
    lsls r1, r1, #8
    adds r3, #4
3:  lsrs r4, r1, #28
    bne 4f
    lsls r1, r1, #4
    adds r3, #2
4:  lsrs r4, r1, #30
    bne 5f
    lsls r1, r1, #2
    adds r3, #1
5:  lsrs r4, r1, #25
    lsls r4, r4, #2
    adds r4, r4, r2
    ldm r4, {r4, r5}
    lsls r1, r1, #7
    lsrs r1, r1, #18
    subs r5, r5, r4
    muls r1, r5, r1
    lsrs r1, r1, #13
    adds r1, #1
    lsrs r1, r1, #1
    adds r1, r1, r4
    subs r3, #1
    bmi 7f
    lsrs r1, r3
    adds r1, #1
    lsrs r1, r1, #1
7:  stm r0!, {r1}
    cmp r0, r8
    blo 1b
    LEAVE mica_armv6m_roots

// uint32_t mica_armv6m_sample_bits(const int16_t *end, int32_t minus_bytes, int32_t preemphasis, int32_t before): the bits of the
// samples before end after pre-emphasis, an even number; before: the sample before them
    ENTER mica_armv6m_sample_bits
    movs r6, r2
    movs r7, #0
1:  ldrsh r4, [r0, r1]
    lsls r5, r4, #15
    muls r3, r6, r3
    subs r5, r5, r3
    asrs r3, r5, #31
    eors r5, r3
    orrs r7, r5
    adds r1, #2
    ldrsh r3, [r0, r1]
    lsls r5, r3, #15
    muls r4, r6, r4
    subs r5, r5, r4
    asrs r4, r5, #31
    eors r5, r4
    orrs r7, r5
    adds r1, #2
    bne 1b
    movs r0, r7
    LEAVE mica_armv6m_sample_bits

// A sample with pre-emphasis, times the window, stored at r6 + \to. \x: the sample; \before: the one before it.
.macro EMPHASISED to, before, x
    ldrsh \x, [r1, r0]
    lsls r5, \x, #15
    mov r6, r8
    muls \before, r6, \before
    subs r5, r5, \before
    mov r6, r9
    asrs r5, r6
    adds r5, #1
    asrs r5, r5, #1
    ldrsh r6, [r2, r0]
    muls r5, r6, r5
    mov r6, r10
    str r5, [r6, #\to]
    asrs r6, r5, #31
    eors r5, r6
    orrs r7, r5
    adds r0, #2
.endm

.macro PLAIN to
    ldrsh r5, [r1, r0]
    lsls r5, r3
    ldrsh r6, [r2, r0]
    muls r5, r6, r5
    str r5, [r4, #\to]
    asrs r6, r5, #31
    eors r5, r6
    orrs r7, r5
    adds r0, #2
.endm

// r11 = byte offset of the next group of two pairs in z, bits reversed; r12 = z, lr = half of half's bytes / 2. Uses r4 and r5.
.macro NEXT_PLACE
    mov r4, r11
    mov r5, lr
2:  tst r4, r5
    beq 3f
    eors r4, r5
    lsrs r5, r5, #1
    b 2b
3:  orrs r4, r5
    mov r11, r4
    add r4, r12
.endm

// uint32_t mica_armv6m_take(const mica_take_t *args)
    ENTER mica_armv6m_take
    ldm r0!, {r1-r7}            // x and window, both at their ends, z, -bytes, 2 * half, s - 1 or -s, pre-emphasis
    mov r12, r3
    mov r10, r3
    ldr r3, [r0]                // the sample before the first
    movs r0, r4
    mov lr, r5
    mov r9, r6
    mov r8, r7
    movs r4, #0
    mov r11, r4
    movs r4, r7
    beq 5f
    movs r7, #0
1:  EMPHASISED 0, r3, r4
    EMPHASISED 4, r4, r3
    mov r4, r10
    add r4, lr
    add r4, lr
    mov r10, r4
    EMPHASISED 0, r3, r4
    EMPHASISED 4, r4, r3
    NEXT_PLACE
    mov r10, r4
    cmp r0, #0
    beq 4f
    b 1b
5:  mov r3, r9                  // r7 = 0
    mov r4, r12
6:  PLAIN 0
    PLAIN 4
    add r4, lr
    add r4, lr
    PLAIN 0
    PLAIN 4
    NEXT_PLACE
    cmp r0, #0
    bne 6b
4:  movs r0, r7
    LEAVE mica_armv6m_take
