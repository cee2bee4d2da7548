// spectrum.S as C sees it.
#ifndef MICA_ARMV7EM_SPECTRUM_H
#define MICA_ARMV7EM_SPECTRUM_H

#include <stdint.h>

// All return what is seen of numbers above the 16th bit. `round`: half of 2^s.
uint32_t mica_dsp_first(int32_t *z, const int32_t *end, int32_t s, int32_t round);
// The stage of butterflies 4 apart. In fields of 8 bits, of which the last says nothing, as those of all below.
uint32_t mica_dsp_stage4(int32_t *z, const int32_t *end, int32_t s, int32_t round, const int16_t *twiddle);
// s is 2 or 3; half_block and step count bytes.
uint32_t mica_dsp_stage(int32_t *z, const int32_t *end, uint32_t half_block, int32_t s, const int16_t *twiddles,
    uint32_t step);
// That of the last stage, which has one block: the second numbers begin at q.
uint32_t mica_dsp_last(int32_t *z, int32_t *q, const int32_t *half_end, int32_t s, const int16_t *twiddles);
// Of bins from p up and from q down.
uint32_t mica_dsp_split(int32_t *p, int32_t *q, int32_t s, int32_t round, const int16_t *twiddles);
// Of one number at least, to ones that may lie where they were.
void mica_dsp_squares(uint32_t *to, const uint32_t *end, int32_t s, int32_t round, const int32_t *z);
// In their place, of one at least; table[32] is the first entry.
void mica_dsp_roots(uint32_t *v, const uint32_t *end, const uint32_t *table);

#endif
