// cores(): how many cores a step runs on, and the step that does.
#include "py/mphal.h"

#include "mp_mica.h"
#include "worker.h"

// Of the module, not of an arena: there is one second core, whoever uses it. (Not static, and zero at first, because a
// native module's variables must be.)
bool mp_mica_cores_two;
volatile bool mp_mica_cores_taken; // by a step of another thread, or one that an interrupt has broken into

typedef struct {
    const mica_model_t *model;
    uint32_t step, begin, end;
} half_t;

static void second_half(void *arg) {
    const half_t *half = arg;
    mica_run_rows_part(half->model, half->step, half->begin, half->end, 1, 2);
}

static bool take(void) {
    mp_uint_t state = MICROPY_BEGIN_ATOMIC_SECTION(); // Cortex-M0+ has no test-and-set
    const bool free = !mp_mica_cores_taken;
    mp_mica_cores_taken = true;
    MICROPY_END_ATOMIC_SECTION(state);
    return free;
}

static bool run_on_two(const mica_model_t *m, uint32_t i, uint32_t begin, uint32_t end) {
    half_t half = { m, i, begin, end };
    if (!mica_rows_have_parts(m, i, begin, end, 2) || !take()) {
        return false;
    }
    const bool given = mica_worker_give(second_half, &half);
    if (given) {
        mica_run_rows_part(m, i, begin, end, 0, 2);
        mica_worker_wait(); // `half` is on this stack
    }
    mp_mica_cores_taken = false;
    return given;
}

void mp_mica_run_step(const mica_model_t *m, uint32_t i) {
    if (!mp_mica_cores_two || !run_on_two(m, i, 0, mica_step_rows(m, i))) {
        mica_run_step(m, i);
    }
}

void mp_mica_run_rows(const mica_model_t *m, uint32_t i, uint32_t begin, uint32_t end) {
    if (!mp_mica_cores_two || !run_on_two(m, i, begin, end)) {
        mica_run_rows(m, i, begin, end);
    }
}

void mp_mica_cores_init(void) {
    mp_mica_cores_two = false;
    mp_mica_cores_taken = false;
}

// cores([n]): sets on how many cores steps run, 1 or 2; returns on how many they do: 1 where there is no second one.
static mp_obj_t module_cores(size_t n_args, const mp_obj_t *args) {
    if (n_args > 0) {
        mp_int_t n = mp_mica_get_int(args[0]);
        if (n != 1 && n != 2) {
            mp_raise_ValueError(MP_ERROR_TEXT("cores: expected 1 or 2"));
        }
        if (n == 2) {
            mp_mica_cores_two = mica_worker_ready();
        } else if (mp_mica_cores_two) {
            mp_mica_cores_two = false;
            mica_worker_stop();
        }
    }
    return MP_OBJ_NEW_SMALL_INT(mp_mica_cores_two ? 2 : 1);
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_cores_obj, 0, 1, module_cores);
