// Included by extmod/modtime.c: the wall clock of a board that begins at the Epoch when switched on.

#include "py/mphal.h"
#include "py/obj.h"
#include "shared/timeutils/timeutils.h"

static mp_obj_t mp_time_time_get(void) {
    return mp_obj_new_int_from_ull(mp_hal_time_ns() / 1000000000);
}

static void now(timeutils_struct_time_t *tm) {
    timeutils_seconds_since_epoch_to_struct_time((mp_uint_t)(mp_hal_time_ns() / 1000000000), tm);
}

#if MICROPY_VERSION >= MICROPY_MAKE_VERSION(1, 27, 0)
static void mp_time_localtime_get(timeutils_struct_time_t *tm) {
    now(tm);
}
#else // it makes the tuple as well
static mp_obj_t mp_time_localtime_get(void) {
    timeutils_struct_time_t tm;
    now(&tm);
    mp_obj_t tuple[8] = {
        MP_OBJ_NEW_SMALL_INT(tm.tm_year),
        MP_OBJ_NEW_SMALL_INT(tm.tm_mon),
        MP_OBJ_NEW_SMALL_INT(tm.tm_mday),
        MP_OBJ_NEW_SMALL_INT(tm.tm_hour),
        MP_OBJ_NEW_SMALL_INT(tm.tm_min),
        MP_OBJ_NEW_SMALL_INT(tm.tm_sec),
        MP_OBJ_NEW_SMALL_INT(tm.tm_wday),
        MP_OBJ_NEW_SMALL_INT(tm.tm_yday),
    };
    return mp_obj_new_tuple(8, tuple);
}
#endif
