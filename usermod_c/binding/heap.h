// What the binding asks MicroPython's heap: heap.c, and in a native module natmod/native.c.
#ifndef MICA_BINDING_HEAP_H
#define MICA_BINDING_HEAP_H

#include "py/obj.h"

bool mp_mica_on_heap(const void *p);
void *mp_mica_block_of(mp_obj_t obj, void *head); // `head`, where that begins a heap block that obj owns, or null

#endif
