// mica: the kernels, one at a time. What a kernel computes stands in format/SPEC.md; how it is called stands here.
//
// Every kernel NAME (conv2d_s8, ...) has
//   mica_NAME_t                  its parameters: addresses, shapes, constants
//   mica_NAME_check(p, what)     MICA_OK, or MICA_ERR_SHAPE, MICA_ERR_RANGE where shapes, numbers disagree. Looks at no
//                                buffer, so it comes before the addresses are known. *what then says what was wrong:
//                                read it after the call, not in the same argument list, which C evaluates in any order.
//   mica_NAME_weights_bytes(p), ...  length of a buffer, once check has passed, where somebody asks; all fit an int32
//   mica_NAME_check_constants(p, what)   looks at the values of the constants (only kernels that have some)
//   mica_NAME_rows(p)            into how many rows the output can be cut
//   mica_NAME_ref(p, row_begin, row_end, scratch, scratch_bytes)   the kernel: computes the rows [row_begin, row_end)
// Call them in this order. After both checks the kernel reads and writes inside its buffers and overflows nowhere,
// whatever x holds. MICA_NAME (in mica_select.h, chosen by the build's include path) is the fastest variant there is.
// Kernels allocate nothing, keep nothing, and may run at the same time on different rows. Rows of one call are disjoint
// from those of another unless p runs in place (`in_place` in a kernel's row of host_tools/mica/kernels says which may:
// y is exactly an input; elsewhere y overlaps none).
//
// int8 buffers may lie at any address, int32 and uint32 buffers on multiples of 4. -DMICA_WITHOUT_NAME (upper case, for
// example MICA_WITHOUT_CONV2D_S8) leaves a kernel out of the build; MICA_WITHOUT_CODES4: weights of 4 bits, of all.
#ifndef MICA_KERNELS_H
#define MICA_KERNELS_H

#include "families/elements.h"
#include "families/movement.h"
#include "families/rows.h"
#include "families/sequences.h"
#include "families/signals.h"
#include "families/tabular.h"
#include "families/weights.h"
#include "families/wide.h"

#ifdef MICA_WITHOUT_CODES4
#define MICA_CODED(layout) ((void)(layout), false)
#else
#define MICA_CODED(layout) ((layout) == MICA_LAYOUT_CODES4)
#endif

// The arguments that every kernel takes behind its parameters. Scratch is 4-byte aligned; null and 0: there is none.
#define MICA_KERNEL_ARGS uint32_t row_begin, uint32_t row_end, void *scratch, size_t scratch_bytes

// ---- what every kernel has
#define MICA_DECLARE(op, name, NAME) \
    mica_status_t mica_##name##_check(const mica_##name##_t *p, const char **what); \
    mica_status_t mica_##name##_check_constants(const mica_##name##_t *p, const char **what); /* where any */ \
    uint32_t mica_##name##_rows(const mica_##name##_t *p); \
    void mica_##name##_ref(const mica_##name##_t *p, MICA_KERNEL_ARGS);
MICA_OPERATORS(MICA_DECLARE)
#undef MICA_DECLARE

// Bytes of scratch a step of this kernel cannot run without, on any core; the same formulas as in
// host_tools/mica/kernels.
uint32_t mica_scratch_min(uint32_t kernel, uint32_t out_channels, uint32_t reduction);

#endif
