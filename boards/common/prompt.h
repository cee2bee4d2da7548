// Behind each line at the prompt: what it left as garbage is taken away, so that what the next line keeps (a model, a new name, a history
// entry) lies low in the heap, and the rest stays in one piece. The last Ctrl-C would keep the places where it came, wherever they lie.
// Programs, and the raw REPL, are not slowed down.
#define MICROPY_BOARD_AFTER_PYTHON_EXEC(input_kind, exec_flags, ret_val, ret) \
    do { \
        if ((exec_flags) & EXEC_FLAG_IS_REPL) { \
            MP_STATE_VM(mp_kbd_exception).traceback_data = NULL; \
            gc_collect(); \
        } \
    } while (0)
