// A core's published table of cycles, as the plugin asks for it.
#ifndef BENCH_CYCLES_H
#define BENCH_CYCLES_H

#include <stddef.h>
#include <stdint.h>

// What one instruction costs, decoded once when the emulator translates it.
typedef struct {
    uint64_t address;
    uint8_t bytes;          // 2 or 4
    uint8_t cycles;         // where nothing before it changes that
    uint8_t after_load;     // the same, where a load stands in front that it may follow at once
    uint8_t taken;          // more, where the next instruction is elsewhere
    uint8_t target_penalty; // more for whoever jumps here
    uint8_t stalls;         // more, where it waits for the load in front of it
    uint8_t loads;          // 1: a single load, which the next may follow at once
    uint32_t writes;        // bit r: the load's destination
    uint32_t waits_for;     // registers that, loaded by the instruction in front, keep this one from beginning with it
    uint32_t made;          // registers that it computes: no load, no store's write back
    uint32_t address_of;    // registers of which a load or store makes its address
} instruction_t;

// Totals of the instructions so far.
typedef struct {
    uint64_t instructions, cycles;
    uint64_t late_addresses; // loads and stores whose address the instruction in front computes (see cortex_m4.c)
    const instruction_t *last;
} count_t;

void cycles_count(count_t *count, const instruction_t *i);

typedef void decode_t(const uint8_t *code, instruction_t *i);

// Arm DDI 0439, table of processor instructions and "Load/store timings".
void decode_cortex_m4(const uint8_t *code, instruction_t *i);
void decode_cortex_m0plus(const uint8_t *code, instruction_t *i);
// Hazard3, "Instruction Cycle Counts" of its documentation.
void decode_hazard3(const uint8_t *code, instruction_t *i);

#endif
