// What the binding asks of MicroPython's heap.
#include "py/gc.h"

#include "mp_mica.h"

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
