// Register windows of Xtensa (Instruction Set Architecture, section 4.7): start-up, vectors, interrupts, setjmp.
// Written for LLVM's assembler, which wants literals named.
//
// A frame has up to 16 registers, and its callee's begin 8 further (CALL8; GCC makes no CALL4 and no CALL12).
// 32 registers, of 64 in an ESP32, hold the last frames. Overflow and underflow move older ones to the stack and back.
// Registers a0 to a3 of a frame lie in the 16 bytes below its callee's stack pointer, a4 to a7 at the top of its own.

    .section .vectors, "ax"
    .p2align 12
    .global xtensa_vectors
xtensa_vectors:
    .org   xtensa_vectors + 0x80
    s32e   a0, a9, -16
    l32e   a0, a1, -12
    s32e   a1, a9, -12
    s32e   a2, a9, -8
    s32e   a3, a9, -4
    s32e   a4, a0, -32
    s32e   a5, a0, -28
    s32e   a6, a0, -24
    s32e   a7, a0, -20
    rfwo
    .org   xtensa_vectors + 0xc0
underflow8:
    l32e   a0, a9, -16
    l32e   a1, a9, -12
    l32e   a2, a9, -8
    l32e   a7, a1, -12
    l32e   a3, a9, -4
    l32e   a4, a7, -32
    l32e   a5, a7, -28
    l32e   a6, a7, -24
    l32e   a7, a7, -20
    rfwu

    // Exceptions and interrupts of level 1.
    .org   xtensa_vectors + 0x300
    wsr    a0, excsave1
    rsr    a0, exccause
    beqi   a0, 5, 1f
    j      trap
1:  j      moved
    .org   xtensa_vectors + 0x3c0       // an exception in an exception: the end, through semihosting
    movi   a2, 1
    movi   a3, 1
    .byte  0, 0x51, 0                   // SIMCALL

    .org   xtensa_vectors + 0x400
    // MOVSP, where alloca moves the stack pointer of a frame whose caller is on the stack: the caller comes back into
    // registers as if it were returned to, and the instruction runs again.
moved:
    rsr    a0, windowbase
    rotw   -1
    rsr    a2, ps
    extui  a3, a2, 8, 4     // PS.OWB, the window that RFWU goes back to
    xor    a3, a3, a4
    rsr    a4, excsave1
    slli   a3, a3, 8
    xor    a2, a2, a3
    wsr    a2, ps
    rsync
    rotw   -1
    j      underflow8

    // The registers that the interrupted function sees are saved, older frames stay in theirs. Its stack pointer moves,
    // and with it the caller's registers below. The frame is trap_t in xtensa_lx60.c.
trap:
    addi   a1, a1, -112
    .irp   n, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    s32i   a\n, a1, 4 * \n
    .endr
    .macro special name, at
    rsr    a2, \name
    s32i   a2, a1, \at
    .endm
    special excsave1, 0
    special sar, 64
    special lbeg, 68
    special lend, 72
    special lcount, 76
    special epc1, 80
    special ps, 84
    .irp   n, 0, 4, 8, 12
    l32i   a2, a1, 96 + \n
    s32e   a2, a1, \n - 16
    .endr
    l32r   a2, .Lmasked
    wsr    a2, ps
    rsync
    rsr    a10, exccause
    mov    a11, a1
    l32r   a8, .Ltrap
    callx8 a8
    l32r   a2, .Lexcm
    wsr    a2, ps
    rsync
    .irp   n, 0, 4, 8, 12
    l32e   a2, a1, \n - 16
    s32i   a2, a1, 96 + \n
    .endr
    .macro back name, at
    l32i   a2, a1, \at
    wsr    a2, \name
    .endm
    back   sar, 64
    back   lbeg, 68
    back   lend, 72
    back   lcount, 76
    back   epc1, 80
    back   ps, 84
    rsync
    .irp   n, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    l32i   a\n, a1, 4 * \n
    .endr
    addi   a1, a1, 112
    rfe

    .text
    .literal_position
    .literal .Lmasked, 0x40001      // PS: windows, interrupts of level 1 masked
    .literal .Lexcm, 0x40011        // as in an exception
    .literal .Lwindows, 0x40000
    .literal .Ltrap, xtensa_trap
    .literal .Lstack, _estack
    .literal .Lvectors, xtensa_vectors
    .literal .Lstart, xtensa_start
    .literal .Lspill, xtensa_spill

    // QEMU begins here.
    .global xtensa_entry
    .p2align 2
xtensa_entry:
    movi   a0, 0
    wsr    a0, windowbase
    wsr    a0, intenable
    rsync
    movi   a2, 1
    wsr    a2, windowstart
    wsr    a2, cpenable             // the float unit
    l32r   a2, .Lvectors
    wsr    a2, vecbase
    l32r   a2, .Lwindows
    wsr    a2, ps
    rsync
    movi   a0, 0
    l32r   a1, .Lstack
    l32r   a8, .Lstart
    callx8 a8

    // void xtensa_spill(int n): n deeper calls of 8 registers, after which the stack has all registers of older frames.
    .global xtensa_spill
    .p2align 2
xtensa_spill:
    entry  a1, 32
    beqz   a2, 1f
    addi   a10, a2, -1
    l32r   a8, .Lspill
    callx8 a8
1:  retw

    // int setjmp(jmp_buf env): a0 to a7 of the caller, which has come by CALL8, and where it goes on.
    .global setjmp
    .p2align 2
setjmp:
    entry  a1, 32
    movi   a10, 8
    l32r   a8, .Lspill
    callx8 a8
    .irp   n, 0, 4, 8, 12
    l32e   a3, a1, \n - 16
    s32i   a3, a2, \n
    .endr
    l32i   a4, a2, 4                // the caller's stack pointer
    l32e   a4, a4, -12              // its own caller's
    .irp   n, 0, 4, 8, 12
    l32e   a3, a4, \n - 32
    s32i   a3, a2, 16 + \n
    .endr
    s32i   a0, a2, 32
    movi   a2, 0
    retw

    // void longjmp(jmp_buf env, int value)
    .global longjmp
    .p2align 2
longjmp:
    entry  a1, 32
    movi   a10, 8
    l32r   a8, .Lspill
    callx8 a8
    .irp   n, 0, 4, 8, 12
    l32i   a4, a2, \n
    s32e   a4, a1, \n - 16
    .endr
    l32i   a5, a2, 4
    l32e   a5, a5, -12
    .irp   n, 0, 4, 8, 12
    l32i   a4, a2, 16 + \n
    s32e   a4, a5, \n - 32
    .endr
    l32i   a0, a2, 32
    movi   a4, 1
    movnez a4, a3, a3
    mov    a2, a4
    retw
