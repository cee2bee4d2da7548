// The beginning of a Linux program for Xtensa with register windows, and its three system calls: number in a2, arguments
// in a6, a3, a4; answer in a2. Written for llvm-mc, which wants literals named.

    .text
    .literal .Lmain, main

    .global _start
    .p2align 2
_start:
    movi   a0, 0            // nobody called
    l32r   a8, .Lmain
    callx8 a8
    mov    a6, a10
    movi   a2, 118          // exit
    syscall
1:  j      1b

    // int sys_read(void *buf, unsigned int len), from standard input
    .global sys_read
    .type sys_read, @function
    .p2align 2
sys_read:
    entry  a1, 32
    mov    a4, a3
    mov    a3, a2
    movi   a6, 0
    movi   a2, 12
    syscall
    retw

    // int sys_write(const void *buf, unsigned int len), to standard output
    .global sys_write
    .type sys_write, @function
    .p2align 2
sys_write:
    entry  a1, 32
    mov    a4, a3
    mov    a3, a2
    movi   a6, 1
    movi   a2, 13
    syscall
    retw
