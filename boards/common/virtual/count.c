// Adds up: what an instruction costs depends on the one that was executed in front of it.
#include "cycles.h"

void cycles_count(count_t *count, const instruction_t *i) {
    uint32_t cost = i->cycles;
    const instruction_t *last = count->last;
    if (last != NULL) {
        if (last->loads && (last->writes & i->waits_for)) {
            cost += i->stalls;
        } else if (last->loads) {
            cost = i->after_load;
        }
        if (i->address != last->address + last->bytes) {
            cost += last->taken + i->target_penalty;
        }
        count->late_addresses += (last->made & i->address_of) != 0;
    }
    count->instructions++;
    count->cycles += cost;
    count->last = i;
}
