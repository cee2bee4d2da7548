// mica: an error as the loader and the checks leave it; message.c puts it into words.
#include "model.h"

mica_status_t mica_fail(mica_error_t *err, mica_status_t status, const char *what, uint32_t byte, uint32_t found,
    uint32_t expected) {
    err->status = status;
    err->what = what;
    err->byte = byte;
    err->found = found;
    err->expected = expected;
    return status;
}
