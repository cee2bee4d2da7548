// What the binding asks of MicroPython's heap.
#include "py/gc.h"

#include "mp_mica.h"

#include "py/repl.h" // wants what mp_mica.h includes

#if MICROPY_HELPER_REPL
// TAB looks at every name, properties too, and what that makes is garbage: it goes before more of the line is typed. A board's build has the
// linker put this in the place of MicroPython's own (--wrap).
size_t __real_mp_repl_autocomplete(const char *str, size_t len, const mp_print_t *print, const char **found) __attribute__((weak));
size_t __wrap_mp_repl_autocomplete(const char *str, size_t len, const mp_print_t *print, const char **found);
size_t __wrap_mp_repl_autocomplete(const char *str, size_t len, const mp_print_t *print, const char **found) {
    size_t n = __real_mp_repl_autocomplete(str, len, print, found);
    gc_collect();
    return n;
}
#endif

bool mp_mica_on_heap(const void *p) {
    const byte *b = p;
    mp_state_mem_area_t *area = &MP_STATE_MEM(area);
    #if MICROPY_GC_SPLIT_HEAP
    for (; area != NULL; area = area->next)
    #endif
    {
        if (b >= area->gc_pool_start && b < area->gc_pool_end) {
            return true;
        }
    }
    return false;
}

void *mp_mica_block_of(mp_obj_t obj, void *head) {
    (void)obj;
    // A memoryview of a file in a ROMFS that lies on the heap points into the middle of a block, which dies under it.
    return head != NULL && gc_nbytes(head) != 0 ? head : NULL;
}
