"""The reading of a linker's map."""

from __future__ import annotations

from code_bytes import CodeBytes, read_map

MAP = """
Discarded input sections

 .text.mica_never
                0x00000000      0x200 obj/mica/kernels/ref/conv2d.o

Linker script and memory map

 .text.mica_conv2d_s8_ref
                0x10012340      0x1f4 obj/mica/kernels/ref/conv2d.o
                0x10012340                mica_conv2d_s8_ref
 .rodata.name   0x10020000       0x10 /a/usermod_c/kernels/shape.c.o
 .text.dots     0x10012534       0x44 /a/usermod_c/kernels/isa/c32/conv2d.c.o
 .time_critical.mica
                0x20000100      0x800 /a/usermod_c/kernels/isa/armv6m/gemm.S.o
 .comment       0x00000026       0x27 obj/mica/kernels/ref/conv2d.o
 .debug_info    0x00000026      0x999 obj/mica/kernels/ref/conv2d.o
 .text.mp_init  0x10030000      0x300 obj/py/runtime.o
"""


def test_only_what_is_linked_of_the_kernels() -> None:
    assert read_map(MAP) == CodeBytes(ref=0x1F4 + 0x10, fast=0x44 + 0x800, from_ram=0x800)
