// Noise that goes on from run to run, a word for each band: four rows of bytes, the lowest first, each counted from a
// tensor's zero point on.
#ifndef MICA_KEPT_H
#define MICA_KEPT_H

#include <stdint.h>

// rows NULL: zeros.
void mica_kept_take(uint32_t *words, const int8_t *rows, uint32_t bands, int32_t zero);
void mica_kept_put(int8_t *rows, const uint32_t *words, uint32_t bands, int32_t zero);

#endif
