// mica: which operators this build has. -DMICA_WITHOUT_<KERNEL> leaves one out, everywhere.
#include "op.h"

// `code`, and nothing where `without` is defined: LEFT_OUT_1's comma then moves `code` from second to third place.
#define LEFT_OUT_1 ,
#define SECOND_OF(a, b, ...) b
#define SECOND(...) SECOND_OF(__VA_ARGS__)
#define UNLESS_NAMED(without, code) SECOND(LEFT_OUT_##without, code, )
#define UNLESS(without, code) UNLESS_NAMED(without, code)

mica_step_loader_t mica_step_loader(uint32_t kernel) {
    switch (kernel) {
        #define CASE(op, name, NAME) UNLESS(MICA_WITHOUT_##NAME, case MICA_KERNEL_##NAME: return mica_load_##op;)
        MICA_OPERATORS(CASE)
        #undef CASE
        default:
            return NULL;
    }
}
