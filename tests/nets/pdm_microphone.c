// The virtual Pico's PDM microphone (boards/common/virtual/sound.c), as a function: the same bits.
#include <math.h>
#include <stdint.h>
#include <string.h>

// n * ratio bits of a recording, the first bit of a byte the lowest, behind `late` bits of 0. rate: samples a second.
void sent(const int16_t *samples, int64_t n, int64_t ratio, double rate, int64_t late, uint8_t *bits) {
    double sums[2] = { 0, 0 };
    memset(bits, 0, (size_t)(n * ratio / 8));
    const double period = 1e9 / (rate * (double)ratio);
    for (int64_t i = 0; i + late < n * ratio; i++) {
        const double at = (double)i * period * rate / 1e9;
        const int64_t k = (int64_t)floor(at);
        const double from = k < n ? samples[k] : 0, to = k + 1 < n ? samples[k + 1] : 0;
        const int bit = sums[1] >= 0, value = bit ? 1 : -1;
        sums[1] += (sums[0] - value) / 2;
        sums[0] += ((from + (to - from) * (at - (double)k)) / 32768 - value) / 2;
        bits[(i + late) / 8] |= (uint8_t)(bit << (i + late) % 8);
    }
}
