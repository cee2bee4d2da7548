"""Kernels of plain int8 networks in MicroPython, with the integers of the C kernels, for firmware without those.

A module has the kernels of one kind. KERNEL_s8(step) checks what the step's record says (mica.operators.Step)
and returns a function without arguments that computes it. What each computes stands in host_tools/mica/format/SPEC.md.

Nothing that is accepted here can raise later: shapes, indices, shifts and divisors are checked. What the C kernels want
only so that sums fit 32 bits is not: integers here have as many bits as it takes. Where that is more than 31 they need
memory of the heap, which the collector takes back.
"""
