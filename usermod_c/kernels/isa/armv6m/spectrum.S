// The loops of log_mel_s8 (kernels/log_mel.h): a butterfly takes 52 cycles, of which 12 are loads and stores and 10 see
// how many bits it has. This code is not among what runs from RAM: a frame passes through a loop some thousand times
// before it needs the next.
    .syntax unified
    .thumb
#include "../thumb.inc"
    .cpu cortex-m0plus
    .section .text.mica_armv6m_spectrum, "ax", %progbits

// As ENTER, where r12 and lr are enough.
.macro ENTER_LOW name
    FUNCTION \name
    push {r4-r7, lr}
.endm

.macro LEAVE_LOW name
    pop {r4-r7, pc}
    .size \name, . - \name
.endm

// Numbers have to be in [-K, K), K = 2^bits, or K doubles: v + K, of several joined, has no higher bit then. The rest
// is out of line, at RAISE.
.macro DOWN a, s
    .if \s
    adds \a, #1 << (\s - 1)
    asrs \a, \a, #\s
    .endif
.endm

// The same, times 4. r7 = 3.
.macro DOWN4 a, s
    .if \s == 2
    adds \a, #2
    bics \a, r7
    .else
    DOWN \a, \s
    lsls \a, \a, #2
    .endif
.endm

// A butterfly: r0 = q, r8 = -D - 8, r9 = D - 8, D bytes being between p and q, r10 = K, r12 = 2048. Leaves r0 behind q;
// uses r1 to r5. With a factor: r5 = sin + cos, r6 = cos, r7 = sin - cos. Three products in place of four: what is in
// r3 goes into both parts.
.macro TURN s
    ldm r0!, {r1, r2}
    DOWN r1, \s
    DOWN r2, \s
    adds r3, r1, r2
    muls r3, r6, r3
    add r3, r12
    muls r2, r7, r2
    muls r1, r5, r1
    adds r4, r3, r2
    subs r2, r3, r1
    asrs r1, r4, #12            // re t
    asrs r2, r2, #12            // im t
.endm

// The factor a quarter further.
.macro TURN_MORE s
    ldm r0!, {r1, r2}
    DOWN r1, \s
    DOWN r2, \s
    adds r3, r1, r2
    muls r3, r6, r3
    muls r2, r7, r2
    muls r1, r5, r1
    adds r4, r3, r2
    subs r1, r3, r1
    add r1, r12
    asrs r1, r1, #12            // re t
    mov r2, r12
    subs r2, r2, r4
    asrs r2, r2, #12            // im t
.endm

.macro SUMS s, label
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
    WITHIN4 r2, \label
.endm

// Two numbers without a product: the factor is 1, or with \more a quarter turn. Destroys r6 as well.
.macro PLAINLY s, more, label
    ldm r0!, {r1, r2}
    DOWN4 r1, \s
    DOWN4 r2, \s
    add r0, r8
    ldm r0!, {r3, r4}
    DOWN4 r3, \s
    DOWN4 r4, \s
    .if \more
    subs r5, r4, r1
    adds r6, r4, r1
    adds r4, r3, r2
    subs r1, r3, r2
    .else
    adds r5, r4, r2
    subs r6, r4, r2
    adds r4, r3, r1
    subs r1, r3, r1
    .endif
    subs r0, #8
    stm r0!, {r4, r5}
    add r0, r9
    stm r0!, {r1, r6}
    WITHIN4 r6, \label
.endm

.macro WITHIN4 b, label
kept_\label:
    add r1, r10
    add \b, r10
    add r4, r10
    add r5, r10
    orrs r1, \b
    orrs r1, r4
    orrs r1, r5
    lsrs r1, r1, #1
    cmp r1, r10
    bhs raise_\label
.endm

.macro RAISE b, label
raise_\label:
    mov r1, r10
    adds r1, r1, r1
    mov r10, r1
    subs r0, #8
    ldm r0!, {r1, \b}
    add r0, r8
    ldm r0!, {r4, r5}
    add r0, r9
    adds r0, #8
    b kept_\label
.endm

// All blocks, D bytes being between p and q: from the first q to r11. lr = 2 D - 8.
.macro PLAIN_BLOCKS s, more
plain\more\()_\s:
    LOAD_HIGH r11, r1, [sp, #16]
    movs r7, #3
6:  PLAINLY \s, \more, plain\more\()_\s
    add r0, lr
    cmp r0, r11
    blo 6b
    b next_\s
    RAISE r6, plain\more\()_\s
.endm

// Stages of butterflies D / 8 apart, one twiddle factor over all blocks, then the next. \two: at least two blocks.
.macro STAGE s, two
stage_\s:
    ldr r3, [sp, #4]            // the twiddle factor
    ldr r6, [r3]
    .if \s < 4
    b plain0_\s
    .else
    b factor_\s
    .endif
next_\s:                       // r0 = end
    ldr r1, [sp, #0]
    adds r0, r0, r1
    ldr r2, [sp, #12]           // behind the last factor's first
    cmp r0, r2
    blo 5f
    b stage_end
5:  ADVANCE r1, #8, [sp, #16]
    ldr r3, [sp, #4]
    ldr r1, [sp, #8]
    adds r3, r3, r1
    str r3, [sp, #4]
    ldr r6, [r3]
    .if \s < 4
    lsls r1, r6, #16            // cos 0
    bne factor_\s
    b plain1_\s
    .endif
factor_\s:
    asrs r7, r6, #16
    sxth r6, r6
    adds r1, r7, r6
    mov r11, r1
    subs r7, r7, r6
4:  mov r5, r11
    TURN \s
    SUMS \s, first_\s
    .if \two
    add r0, lr
    mov r5, r11
    TURN \s
    SUMS \s, second_\s
    .endif
    add r0, lr
    ldr r1, [sp, #16]
    cmp r0, r1
    blo 4b
    b next_\s
    RAISE r2, first_\s
    .if \two
    RAISE r2, second_\s
    .endif
    .if \s < 4
    PLAIN_BLOCKS \s, 0
    PLAIN_BLOCKS \s, 1
    .endif
.endm

// One block: a factor for two butterflies, the second half a block on. lr = the factor's address, r11 = D / 2 - 8.
.macro BLOCK s
block_\s:
    movs r7, #3
    PLAINLY \s, 0, block0_\s
    add r0, r11
    PLAINLY \s, 1, block1_\s
    b 4f
    RAISE r6, block0_\s
    RAISE r6, block1_\s
3:  mov r3, lr
    ldr r6, [r3]
    asrs r7, r6, #16
    sxth r6, r6
    adds r5, r7, r6
    subs r7, r7, r6
    TURN \s
    SUMS \s, block2_\s
    add r0, r11
    adds r5, r7, r6
    adds r5, r5, r6
    TURN_MORE \s
    SUMS \s, block3_\s
4:  ldr r1, [sp, #0]            // bytes to the next factor
    add lr, r1
    ldr r1, [sp, #4]            // -D / 2
    adds r0, r0, r1
    ldr r1, [sp, #8]            // behind the first half
    cmp r0, r1
    blo 3b
    b block_end
    RAISE r2, block2_\s
    RAISE r2, block3_\s
.endm

// uint32_t mica_armv6m_block(const mica_block_t *args): s is 2 or 3
    ENTER mica_armv6m_block
    movs r7, r0
    sub sp, #12
    ldm r7!, {r0-r5}            // first q, first factor, K, bytes between factors, -D / 2, behind the first half
    mov lr, r1
    mov r10, r2
    str r3, [sp, #0]
    str r4, [sp, #4]
    str r5, [sp, #8]
    negs r4, r4
    lsls r1, r4, #1
    subs r4, #8
    mov r11, r4
    movs r2, r1
    subs r2, #8
    mov r9, r2
    adds r1, #8
    negs r1, r1
    mov r8, r1
    movs r1, #1
    lsls r1, r1, #11
    mov r12, r1
    ldr r3, [r7]
    cmp r3, #2
    beq block_2
    b block_3
    BLOCK 2
    BLOCK 3
block_end:
    mov r0, r10
    add sp, #12
    LEAVE mica_armv6m_block

// uint32_t mica_armv6m_stage(const mica_stage_t *args)
    ENTER mica_armv6m_stage
    movs r7, r0
    sub sp, #20
    ldm r7!, {r0-r5}            // the first q, the first factor, bytes between factors, K, end, s
    str r1, [sp, #4]
    str r2, [sp, #8]
    mov r10, r3
    subs r1, r0, r4
    adds r1, #8
    str r1, [sp, #0]            // from behind a factor's last to the next one's first
    str r4, [sp, #16]
    movs r3, r5
    ldr r4, [r7]                // D
    adds r1, r0, r4
    str r1, [sp, #12]
    subs r4, #8
    mov r9, r4
    adds r5, r4, r4
    adds r5, #8
    mov lr, r5
    adds r4, #16
    negs r4, r4
    mov r8, r4
    movs r1, #1
    lsls r1, r1, #11
    mov r12, r1
    cmp r3, #2
    beq 12f
    bhi 13f
    cmp r3, #1
    beq 11f
    b stage_0
11: b stage_1
12: b stage_2
13: cmp r3, #3
    bne 14f
    b stage_3
14: b stage_4
    STAGE 0, 0
    STAGE 1, 0
    STAGE 2, 1
    STAGE 3, 1
    STAGE 4, 0
stage_end:
    mov r0, r10
    add sp, #20
    LEAVE mica_armv6m_stage

// Rounded at bit \s; r8 = half of 2^s.
.macro DOWN_BY s, numbers:vararg
    .irp v, \numbers
    add \v, r8
    asrs \v, \s
    .endr
.endm

// Two more parts under the bound; what is to be seen is joined in r7.
.macro SUM_UP a, b
    add \a, lr
    add \b, lr
    orrs r7, \a
    orrs r7, \b
.endm

// uint32_t mica_armv6m_first(int32_t *z, const int32_t *end, uint32_t s, uint32_t K): the two first stages
    ENTER mica_armv6m_first
    mov lr, r3
    movs r7, r2
    sub sp, #8
    str r1, [sp, #0]
    str r2, [sp, #4]
    HALF_BIT r3, r7
    mov r8, r3                  // half of 2^s
1:  ldm r0!, {r1-r4}
    DOWN_BY r7, r1, r2, r3, r4
    adds r5, r1, r3
    mov r9, r5
    adds r6, r2, r4
    mov r10, r6
    subs r1, r1, r3
    mov r11, r1
    subs r2, r2, r4
    mov r12, r2
    ldm r0!, {r1-r4}
    DOWN_BY r7, r1, r2, r3, r4
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
    movs r7, r3
    add r7, lr
    add r4, lr
    orrs r7, r4
    mov r3, r11
    mov r4, r12
    adds r3, r3, r2
    subs r4, r4, r1
    stm r0!, {r3, r4}
    SUM_UP r3, r4
    mov r3, r9
    mov r4, r10
    subs r3, r3, r5
    subs r4, r4, r6
    stm r0!, {r3, r4}
    SUM_UP r3, r4
    mov r3, r11
    mov r4, r12
    subs r3, r3, r2
    adds r4, r4, r1
    stm r0!, {r3, r4}
2:  SUM_UP r3, r4
    lsrs r7, r7, #1
    cmp r7, lr
    bhs 4f
    ldr r3, [sp, #0]
    ldr r7, [sp, #4]
    cmp r0, r3
    blo 1b
    b 3f
4:  mov r3, lr
    adds r3, r3, r3
    mov lr, r3
    movs r7, #0
    subs r0, #32
    ldm r0!, {r1-r6}
    SUM_UP r1, r2
    SUM_UP r3, r4
    SUM_UP r5, r6
    ldm r0!, {r3, r4}
    b 2b
3:  mov r0, lr
    add sp, #8
    LEAVE mica_armv6m_first

// mica_armv6m_split(z, half, twiddles, s, K): bins 1 to half - 1.
// b's factor is that of a with -cos, so both have their products in common.
    ENTER mica_armv6m_split
    LOAD_HIGH r11, r4, [sp, #36]  // K
    mov r9, r3
    HALF_BIT r4, r3
    mov r8, r4
    lsls r1, r1, #3
    adds r1, r1, r0
    subs r1, #8                 // b
    adds r0, #8                 // a
    adds r2, #4
    mov r10, r2
1:  ldm r0!, {r2, r3}
    ldm r1!, {r4, r5}
    mov r6, r9
    DOWN_BY r6, r2, r3, r4, r5
    adds r6, r2, r4
    lsls r6, r6, #2
    mov r12, r6
    subs r4, r4, r2             // im p
    adds r7, r3, r5             // re p
    subs r3, r3, r5
    lsls r3, r3, #2
    mov lr, r3
    mov r6, r10
    ldm r6!, {r3}
    mov r10, r6
    asrs r5, r3, #16
    sxth r3, r3
    adds r2, r4, r7
    muls r2, r3, r2
    movs r6, #1
    lsls r6, r6, #11
    adds r2, r2, r6
    subs r6, r5, r3
    adds r5, r5, r3
    muls r6, r4, r6
    muls r5, r7, r5
    adds r6, r2, r6             // cos * re p + sin * im p + 2048
    subs r5, r2, r5             // cos * im p - sin * re p + 2048
    asrs r2, r6, #12
    add r2, r12                 // re a
    asrs r5, r5, #12
    mov r4, lr
    adds r3, r5, r4             // im a
    subs r5, r5, r4             // im b
    negs r4, r6
    asrs r4, r4, #12
    adds r4, #1
    add r4, r12                 // re b
    subs r0, #8
    stm r0!, {r2, r3}
    subs r1, #8
    stm r1!, {r4, r5}
2:  add r2, r11
    add r3, r11
    add r4, r11
    add r5, r11
    orrs r2, r3
    orrs r2, r4
    orrs r2, r5
    lsrs r2, r2, #1
    cmp r2, r11
    bhs 3f
    subs r1, #16
    cmp r0, r1
    bls 1b
    mov r0, r11
    b 4f
3:  mov r2, r11
    adds r2, r2, r2
    mov r11, r2
    subs r0, #8
    ldm r0!, {r2, r3}
    subs r1, #8
    ldm r1!, {r4, r5}
    b 2b
4:  LEAVE mica_armv6m_split

.macro SQUARE v, t
    add \v, r8
    asrs \v, r6
    bpl . + 4
    negs \v, \v
    lsrs \t, \v, #2
    subs \v, \v, \t
    subs \v, \v, \t             // 2 * high + low
    muls \v, \t, \v
    lsrs \v, \v, #1
.endm

// mica_armv6m_squares(z, bins, end, s): of pairs the sum of squares, until
// bins is end
    ENTER mica_armv6m_squares
    movs r6, r3
    HALF_BIT r4, r3
    mov r8, r4
    mov r9, r2
    subs r2, r2, r1
    lsls r2, r2, #29
    bpl 1f
    ldm r0!, {r2, r3}
    SQUARE r2, r7
    SQUARE r3, r7
    adds r2, r2, r3
    stm r1!, {r2}
    cmp r1, r9
    bhs 2f
1:  ldm r0!, {r2, r3, r4, r5}
    SQUARE r2, r7
    SQUARE r3, r7
    adds r2, r2, r3
    SQUARE r4, r7
    SQUARE r5, r7
    adds r4, r4, r5
    stm r1!, {r2, r4}
    cmp r1, r9
    blo 1b
2:  LEAVE mica_armv6m_squares

// The product / 2^16 of \a and the gain at r1 + \at, less than 2^31. Uses r3 and r7.
.macro GAINED a, at
    ldrh r3, [r1, #\at]
    lsrs r7, \a, #16
    uxth \a, \a
    muls r7, r3, r7
    muls \a, r3, \a
    lsrs \a, \a, #16
    adds \a, \a, r7
.endm

// Two products more into r6:r5.
.macro GAINED_PAIR at
    ldm r0!, {r2, r4}
    GAINED r2, \at
    GAINED r4, \at + 2
    adds r2, r2, r4
    movs r3, #0
    adds r5, r5, r2
    adcs r6, r3
.endm

// uint64_t mica_armv6m_band(const uint32_t *bins, const uint16_t *gains, uint32_t n): n > 0
    ENTER_LOW mica_armv6m_band
    lsls r4, r2, #2
    adds r4, r4, r0
    mov r12, r4
    movs r5, #0
    movs r6, #0
    lsrs r4, r2, #1
    bcc 1f
    ldm r0!, {r5}
    GAINED r5, 0
    adds r1, #2
1:  lsrs r4, r2, #2
    bcc 3f
    GAINED_PAIR 0
    adds r1, #4
    b 3f
2:  GAINED_PAIR 0
    GAINED_PAIR 4
    adds r1, #8
3:  cmp r0, r12
    blo 2b
    movs r0, r5
    movs r1, r6
    LEAVE_LOW mica_armv6m_band

// int32_t mica_armv6m_dct(const int32_t *log, const int16_t *dct, uint32_t n): n > 0, even; dct on a multiple of 4
    ENTER_LOW mica_armv6m_dct
    lsls r2, r2, #2
    adds r2, r2, r0
    mov r12, r2
    movs r4, #0                 // of log / 2^12
    mov lr, r4                  // of log, but for multiples of 2^32
1:  ldm r0!, {r5, r6}
    ldm r1!, {r7}
    sxth r2, r7
    asrs r7, r7, #16
    asrs r3, r5, #12
    muls r3, r2, r3
    adds r4, r4, r3
    muls r5, r2, r5
    add lr, r5
    asrs r3, r6, #12
    muls r3, r7, r3
    adds r4, r4, r3
    muls r6, r7, r6
    add lr, r6
    cmp r0, r12
    blo 1b
    lsls r1, r4, #12
    mov r0, lr
    subs r0, r0, r1             // of the 12 lower bits of log: less than 2^30
    asrs r0, r0, #11
    lsls r4, r4, #1
    adds r0, r0, r4
    LEAVE_LOW mica_armv6m_dct

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

// Two samples times the window, at r4. Uses r3, r5 and r6.
.macro PLAIN
    ldrsh r5, [r1, r0]
    ldrsh r6, [r2, r0]
    muls r5, r6, r5
    adds r0, #2
    ldrsh r6, [r1, r0]
    ldrsh r3, [r2, r0]
    muls r6, r3, r6
    adds r0, #2
    stm r4!, {r5, r6}
    BITS
.endm

// Those of r5 and r6 into r7.
.macro BITS
    asrs r3, r5, #31
    eors r5, r3
    orrs r7, r5
    asrs r3, r6, #31
    eors r6, r3
    orrs r7, r6
.endm

// A sample with pre-emphasis at r2 + \to. \x: the sample; \before: the one before it.
.macro STEEP to, before, x
    ldrsh \x, [r1, r0]
    lsls r5, \x, #15
    muls \before, r6, \before
    subs r5, r5, \before
    str r5, [r2, #\to]
    asrs \before, r5, #31
    eors r5, \before
    orrs r7, r5
    adds r0, #2
.endm

// Two numbers at r4, shifted to the right and times the window. Uses r3, r5 and r6.
.macro WINDOWED
    ldm r4!, {r5, r6}
    add r5, r11
    asrs r5, r1
    ldrsh r3, [r2, r0]
    muls r5, r3, r5
    adds r0, #2
    add r6, r11
    asrs r6, r1
    ldrsh r3, [r2, r0]
    muls r6, r3, r6
    adds r0, #2
    subs r4, #8
    stm r4!, {r5, r6}
    BITS
.endm

// r4 = z + place of the next group of four pairs, places count back; r10 = z, r12 = place, r9 = half bytes. Uses r5.
.macro NEXT_PLACE
    mov r4, r12
    mov r5, r9
2:  tst r4, r5
    beq 3f
    eors r4, r5
    lsrs r5, r5, #1
    b 2b
3:  orrs r4, r5
    mov r12, r4
    add r4, r10
.endm

// From the arguments r0 to r3 (x at its end, window at its end, z, -bytes) and half, r4: r1 = x, r2 = window, r0 =
// -bytes, r4 = z, and to the next pair but one lr = 4 * half - 8, then r8 = -2 * half - 8.
.macro PLACES
    mov r10, r2
    mov r9, r4
    lsls r5, r4, #2
    subs r5, #8
    mov lr, r5
    lsls r4, r4, #1
    adds r4, #8
    negs r4, r4
    mov r8, r4
    mov r4, r10
    mov r2, r1
    mov r1, r0
    mov r0, r3
    movs r7, #0
    mov r12, r7
.endm

// mica_armv6m_take(x_end, window_end, z, minus_bytes, half)
    ENTER mica_armv6m_take
    ldr r4, [sp, #36]
    PLACES
1:  PLAIN
    add r4, lr
    PLAIN
    add r4, r8
    PLAIN
    add r4, lr
    PLAIN
    NEXT_PLACE
    cmp r0, #0
    bne 1b
    movs r0, r7
    LEAVE mica_armv6m_take

// mica_armv6m_loudest(pairs, end): bits of the samples there, of each half of a word twice its own; four or more
    ENTER_LOW mica_armv6m_loudest
    movs r7, #0
1:  ldm r0!, {r2, r3}
    lsls r4, r2, #1
    eors r2, r4
    orrs r7, r2
    lsls r4, r3, #1
    eors r3, r4
    orrs r7, r3
    cmp r0, r1
    blo 1b
    movs r0, r7
    LEAVE_LOW mica_armv6m_loudest

// void mica_armv6m_raise(int32_t *z, const int32_t *end, uint32_t up): z * 2^up; a multiple of four
    ENTER_LOW mica_armv6m_raise
1:  ldm r0!, {r3-r6}
    lsls r3, r2
    lsls r4, r2
    lsls r5, r2
    lsls r6, r2
    subs r0, #16
    stm r0!, {r3-r6}
    cmp r0, r1
    blo 1b
    LEAVE_LOW mica_armv6m_raise

// mica_armv6m_steep(x_end, preemphasis, z, minus_bytes, half, before)
    ENTER mica_armv6m_steep
    ldr r4, [sp, #36]
    PLACES
    movs r6, r2                 // pre-emphasis
    movs r2, r4
    ldr r3, [sp, #40]
    movs r4, #8
    add lr, r4
    add r8, r4
1:  STEEP 0, r3, r4
    STEEP 4, r4, r3
    add r2, lr
    STEEP 0, r3, r4
    STEEP 4, r4, r3
    add r2, r8
    STEEP 0, r3, r4
    STEEP 4, r4, r3
    add r2, lr
    STEEP 0, r3, r4
    STEEP 4, r4, r3
    NEXT_PLACE
    movs r2, r4
    cmp r0, #0
    bne 1b
    movs r0, r7
    LEAVE mica_armv6m_steep

// mica_armv6m_window(s, window_end, z, minus_bytes, half): s > 0
    ENTER mica_armv6m_window
    ldr r4, [sp, #36]
    PLACES
    HALF_BIT r3, r1
    mov r11, r3
1:  WINDOWED
    add r4, lr
    WINDOWED
    add r4, r8
    WINDOWED
    add r4, lr
    WINDOWED
    NEXT_PLACE
    cmp r0, #0
    bne 1b
    movs r0, r7
    LEAVE mica_armv6m_window
