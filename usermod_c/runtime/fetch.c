// Who brings weights from flash while a layer is computed, if somebody does: one for all models, as there is one flash.
#include "op.h"

const mica_fetch_t *mica_fetch;

void mica_set_fetch(const mica_fetch_t *fetch) {
    mica_fetch = fetch;
}
