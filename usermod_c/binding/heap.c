// What the binding asks of MicroPython's heap.
#include "py/gc.h"

#include "mp_mica.h"

#include "py/repl.h" // wants what mp_mica.h includes
#include "shared/readline/readline.h"

#if MICROPY_HELPER_REPL
// A board's build has the linker put these in place of MicroPython's own (--wrap); programs, the raw REPL are as fast.

// Before each line at the prompt, the garbage of the last one goes: what the next line keeps (a model, a new name, a
// history entry) then lies low in the heap, and the rest stays in one piece. The last Ctrl-C would keep the places
// where it came, wherever they lie.
int __real_readline(vstr_t *line, const char *prompt) __attribute__((weak));
int __wrap_readline(vstr_t *line, const char *prompt);
int __wrap_readline(vstr_t *line, const char *prompt) {
    if (*prompt != '\0') { // input() has none
        #if MICROPY_KBD_EXCEPTION
        MP_STATE_VM(mp_kbd_exception).traceback_data = NULL;
        #endif
        gc_collect();
    }
    return __real_readline(line, prompt);
}

// TAB looks at every name, properties too, and what that makes is garbage: it goes before more of the line is typed.
size_t __real_mp_repl_autocomplete(const char *str, size_t len, const mp_print_t *print, const char **found)
    __attribute__((weak));
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
