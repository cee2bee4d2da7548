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
 .text.stdout   0x10030300      0x300 obj/shared/runtime/stdout_helpers.o
 .text.load     0x10030600       0x30 obj/mica/runtime/load.o
 .text.load     0x10030630        0x8 /a/usermod_c/runtime/op_elementwise.c.o
 .rodata.table  0x10030640        0x4 obj/mica/binding/model.o
 .rodata.fun_data_mica_model_run
                0x10030644        0x2 obj/frozen_content.o
 .rodata.str1.1 0x10030646        0x1 obj/frozen_content.o
 .rodata.fun_data_asyncio_core_run
                0x10030647      0x900 obj/frozen_content.o
"""


def test_only_what_is_linked_of_mica() -> None:
    kernels = {"ref": 0x1F4 + 0x10, "fast": 0x44 + 0x800, "from_ram": 0x800}
    found = read_map(MAP)
    assert found == CodeBytes(**kernels, loaders=8, runtime=0x30, binding=4, python=3)
    assert found.engine == 0x1F4 + 0x10 + 0x44 + 0x800 + 8 + 0x30 + 4
