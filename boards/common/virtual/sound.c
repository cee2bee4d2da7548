// What sounds at pins of the virtual Picos.
#include "io.h"

enum { ENDED = 1, OTHER_RATE = 2 }; // what a source has to say

static uint32_t next_sample(const io_t *io, source_t *s) {
    double took = (double)(io->now - s->begun) * s->rate / io->second; // in samples
    uint32_t news = 0;
    if (s->begun != 0 && (took < 0.99 || took > 1.01)) {
        news = OTHER_RATE;
        s->got = (uint32_t)(s->rate / took + 0.5);
    } else if (s->at >= s->count) {
        news = ENDED;
    }
    s->begun = io->now;
    s->news |= news & ~s->told;
    s->told |= news;
    return news ? 0 : (uint32_t)(uint16_t)s->samples[s->at++] << 16;
}

// An INMP441: the next sample is the left word of an I2S frame, 24 bits of 32; the right word is another's.
static int i2s_edge(const io_t *io, source_t *s, int rises) {
    if (rises) {
        if ((double)(io->now - s->rose) > s->pause / 1e9 * io->second) {
            s->at = s->word = s->right = s->told = 0;
            s->begun = 0;
        }
        s->rose = io->now;
        s->next = (io->pads & s->select) != 0;
    } else if (s->next == s->right) {
        s->word <<= 1;
    } else {
        s->right = s->next;
        s->word = s->right ? 0 : next_sample(io, s);
    }
    return (int)(s->word >> 31);
}

// A PDM microphone with L/R at ground: each time its clock falls it sends the next bit of a recording, which a
// modulator of order 2 makes of straight lines between the samples.
static int pdm_edge(const io_t *io, source_t *s, int rises) {
    if (rises) {
        return (int)s->word;
    }
    if ((double)(io->now - s->rose) > s->pause / 1e9 * io->second) {
        s->begun = io->now;
        s->told = 0;
        s->sums[0] = s->sums[1] = 0;
    }
    s->rose = io->now;
    double at = (double)(io->now - s->begun) / (io->second / 1e9) * s->rate / 1e9;
    uint32_t k = (uint32_t)at;
    double from = k < s->count ? s->samples[k] : 0, to = k + 1 < s->count ? s->samples[k + 1] : 0;
    if (k >= s->count) {
        s->news |= ENDED & ~s->told;
        s->told |= ENDED;
    }
    s->word = s->sums[1] >= 0;
    double sent = s->word ? 1 : -1;
    s->sums[1] += (s->sums[0] - sent) / 2;
    s->sums[0] += ((from + (to - from) * (at - k)) / 32768 - sent) / 2;
    return (int)s->word;
}

int (*const EDGES[])(const io_t *io, source_t *s, int rises) = { NULL, i2s_edge, pdm_edge };
