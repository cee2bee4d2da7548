// What loader.c and tables.c take in the place of the runtime's own: any number, any record, loops that are cut.
#include <stdlib.h>

#define mica_record whole_mica_record
#include "model.h"
#undef mica_record

size_t nondet_size(void);
uint32_t nondet_u32(void);
uint64_t nondet_u64(void);
_Bool nondet_bool(void);

// mica_record() by its contract, for i below the table's count: any place at which so many bytes lie in the file. The
// theorem `record` proves it; a product of 32 bits is nothing for CBMC.
static const uint8_t *mica_record(const mica_file_t *f, uint32_t kind, uint32_t i) {
    const uint32_t bytes = kind == MICA_KIND_TENSORS ? MICA_SIZEOF_TENSOR : kind == MICA_KIND_STEPS ? MICA_SIZEOF_STEP
        : kind == MICA_KIND_IO ? MICA_SIZEOF_IO : kind == MICA_KIND_METADATA ? MICA_SIZEOF_METADATA : MICA_SIZEOF_ORDER;
    const uint32_t offset = nondet_u32();
    (void)i;
    __CPROVER_assume(offset <= f->file_bytes && f->file_bytes - offset >= bytes);
    return f->base + offset;
}

// --- what cbmc.py puts into copies of the sources, for tables.c

#define CUT_BEGIN(holds) __CPROVER_assert(holds, "a loop's invariant, at first")
#define CUT_END(holds) (__CPROVER_assert(holds, "a loop's invariant"), __CPROVER_assume(0))
static bool scanned(const mica_file_t *f, uint64_t end);
static uint64_t some_sections(mica_file_t *f);
static uint32_t some_entry(const mica_file_t *f, uint32_t step);
static uint32_t some_count(const mica_file_t *f, uint32_t kind);
static uint64_t some_product(uint64_t a, uint64_t b);
static const uint8_t *some_blob(const mica_step_record_t *r, uint32_t i, size_t bytes, uint32_t align);
static mica_status_t some_tensor(const mica_model_t *m, uint32_t id, mica_tensor_t *t, mica_error_t *err);
static mica_status_t some_name(const mica_file_t *f, uint32_t offset, uint32_t byte, mica_error_t *err);
static mica_status_t some_status(mica_error_t *err);
static mica_status_t some_operands(mica_step_record_t *r, uint32_t least, uint32_t most, uint32_t places,
    mica_tensor_t *t, uint32_t *used);
static mica_status_t some_step(const mica_model_t *m, uint32_t i, mica_step_t *s, mica_error_t *err);
static mica_status_t some_load(const mica_model_t *m, mica_error_t *err);
static mica_status_t scan_of(const void *base, size_t len, mica_file_t *file, mica_info_t *info, mica_error_t *err);
static bool some_fetched(const mica_fully_connected_s8_t *p);
static mica_status_t some_io(const mica_model_t *m, uint32_t *golden, mica_error_t *err);

// Any i up to n: where a loop of which nothing has to hold is cut.
static uint32_t up_to(uint32_t n) {
    const uint32_t i = nondet_u32();
    __CPROVER_assume(i <= n);
    return i;
}
