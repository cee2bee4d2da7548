// mica: text to tokens, by three methods of SPEC.md; words.c has the fourth. Works in the caller's memory alone.
#include <string.h>

#include "model.h"

#ifndef MICA_WITHOUT_TOKENS
#define NEVER (0xffffu)  // a cost: of a piece that no merge makes

static uint32_t cost_of(const mica_pieces_t *p, uint32_t token) {
    return token < p->count ? mica_u16(p->costs + 2 * token) : NEVER;
}

// Bytes of the character that begins a text of n bytes; 1 where none does.
static uint32_t character(const uint8_t *s, uint32_t n) {
    uint32_t bytes = s[0] >= 0xc0 && s[0] < 0xe0 ? 2
        : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf8 ? 4 : 1;
    return bytes < n ? bytes : n;
}

// ---- LONGEST

static uint32_t by_longest(const mica_pieces_t *p, uint32_t unknown, const uint8_t *s, uint32_t n, uint16_t *out,
    uint32_t *failed) {
    const uint32_t most = mica_longest_piece(p);
    uint32_t count = 0;
    for (uint32_t at = 0; at < n;) {
        uint32_t bytes = n - at < most ? n - at : most, token = MICA_NO_TOKEN;
        for (; bytes > 0 && (token = mica_find_piece(p, s + at, bytes, NULL, 0)) == MICA_NO_TOKEN; --bytes) {
        }
        if (bytes == 0 && unknown == MICA_NO_TOKEN) {
            *failed = at;
            return 0;
        }
        out[count++] = (uint16_t)(bytes == 0 ? unknown : token);
        at += bytes == 0 ? character(s + at, n - at) : bytes;
    }
    return count;
}

// ---- UNIGRAM

// best[i]: the least cost of the first i bytes; last[i]: the last token of that, for which back[i] bytes are gone back.
static uint32_t by_costs(const mica_pieces_t *p, uint32_t unknown, const uint8_t *s, uint32_t n, void *work,
    uint32_t *failed) {
    uint32_t *best = work;
    uint16_t *last = (uint16_t *)(best + n + 1), *back = last + n + 1;
    const uint32_t most = mica_longest_piece(p);
    uint32_t reached = 0;
    for (uint32_t i = 0; i <= n; ++i) {
        best[i] = i ? UINT32_MAX : 0;
        last[i] = back[i] = 0;
    }
    for (uint32_t at = 0; at < n; ++at) {
        if (best[at] == UINT32_MAX) {
            continue;
        }
        reached = at;
        // At last the unknown token, for a character that is no piece.
        const uint32_t one = character(s + at, n - at), end = most < n - at ? most : n - at;
        const bool without = unknown != MICA_NO_TOKEN && mica_find_piece(p, s + at, one, NULL, 0) == MICA_NO_TOKEN;
        for (uint32_t i = 1; i <= end + without; ++i) {
            uint32_t bytes = i <= end ? i : one;
            uint32_t token = i <= end ? mica_find_piece(p, s + at, bytes, NULL, 0) : unknown;
            if (token != MICA_NO_TOKEN && best[at] + cost_of(p, token) < best[at + bytes]) {
                best[at + bytes] = best[at] + cost_of(p, token);
                last[at + bytes] = (uint16_t)token;
                back[at + bytes] = (uint16_t)bytes;
            }
        }
    }
    if (best[n] == UINT32_MAX) {
        *failed = reached;
        return 0;
    }
    // Backwards into the places of `back` behind those that are still read, then to the front.
    uint32_t count = 0;
    for (uint32_t at = n; at > 0;) {
        uint32_t bytes = back[at], token = last[at];
        if (token != unknown || count == 0 || back[n + 1 - count] != token) {  // unknown neighbours are one
            back[n - count++] = (uint16_t)token;
        }
        at -= bytes;
    }
    memmove(work, back + n + 1 - count, count * sizeof(uint16_t));
    return count;
}

// ---- MERGES

// Bytes of the word that begins a text of n > 0 bytes.
static uint32_t word(const uint8_t *s, uint32_t n, uint32_t flags) {
    static const char tails[] = "s\0t\0re\0ve\0m\0ll\0d\0";
    for (const char *tail = tails; s[0] == '\'' && *tail != 0; tail += strlen(tail) + 1) {
        uint32_t bytes = (uint32_t)strlen(tail);
        if (n > bytes && memcmp(s + 1, tail, bytes) == 0) {
            return 1 + bytes;
        }
    }
    uint32_t bytes, last, end = s[0] == ' ' && n > 1 && mica_kind(s + 1, n - 1, flags, &bytes) != 0 ? 1 : 0;
    const uint32_t of = mica_kind(s + end, n - end, flags, &bytes);
    do {
        last = end;
        end += bytes;
    } while (end < n && mica_kind(s + end, n - end, flags, &bytes) == of);
    return of == 0 && end < n && last > 0 ? last : end;
}

static uint32_t joined(const mica_pieces_t *p, uint32_t a, uint32_t b) {
    uint32_t a_bytes, b_bytes;
    const uint8_t *x = mica_piece(p, a, &a_bytes), *y = mica_piece(p, b, &b_bytes);
    return mica_find_piece(p, x, a_bytes, y, b_bytes);
}

static uint16_t price(const mica_pieces_t *p, uint32_t a, uint32_t b) {
    uint32_t token = joined(p, a, b);
    return (uint16_t)(token == MICA_NO_TOKEN ? NEVER : cost_of(p, token));
}

// One word; costs[i]: of joining out[i] and out[i + 1].
static uint32_t merge(const mica_pieces_t *p, const mica_tokens_t *t, const uint8_t *s, uint32_t n, uint16_t *out,
    uint16_t *costs, uint32_t *failed) {
    const bool bytes_only = (t->flags & MICA_TOKEN_FLAG_BYTES) != 0;
    uint32_t count = 0;
    for (uint32_t at = 0; at < n;) {
        uint32_t end = at + (bytes_only ? 1 : character(s + at, n - at));
        uint32_t token = mica_find_piece(p, s + at, end - at, NULL, 0);
        if (token != MICA_NO_TOKEN) {
            out[count++] = (uint16_t)token;
            at = end;
        }
        for (const uint32_t first = count; at < end; ++at) {
            token = mica_find_piece(p, s + at, 1, NULL, 0);
            if (token == MICA_NO_TOKEN && t->unknown == MICA_NO_TOKEN) {
                *failed = at;
                return 0;
            }
            if (token == MICA_NO_TOKEN) {  // of the whole character
                count = first;
                token = t->unknown;
                at = end - 1;
            }
            out[count++] = (uint16_t)token;
        }
    }
    for (uint32_t i = 0; i + 1 < count; ++i) {
        costs[i] = price(p, out[i], out[i + 1]);
    }
    for (;;) {
        uint32_t least = NEVER, k = 0;
        for (uint32_t i = 0; i + 1 < count; ++i) {
            if (costs[i] < least) {
                least = costs[i];
                k = i;
            }
        }
        uint32_t token = least == NEVER ? MICA_NO_TOKEN : joined(p, out[k], out[k + 1]);
        if (token == MICA_NO_TOKEN) {
            return count;
        }
        out[k] = (uint16_t)token;
        --count;
        memmove(out + k + 1, out + k + 2, (count - k - 1) * sizeof(*out));
        memmove(costs + k, costs + k + 1, (count - k) * sizeof(*costs));
        if (k + 1 < count) {
            costs[k] = price(p, out[k], out[k + 1]);
        }
        if (k > 0) {
            costs[k - 1] = price(p, out[k - 1], out[k]);
        }
    }
}

// ----

// s: the text, with what is put in front of it.
static uint32_t encode(const mica_pieces_t *p, const mica_tokens_t *t, const uint8_t *s, uint32_t n, void *work,
    uint32_t *failed) {
    uint16_t *out = work, *costs = out + n + 1;
    if (t->method == MICA_TOKEN_METHOD_UNIGRAM && p->costs != NULL) {
        return by_costs(p, t->unknown, s, n, work, failed);
    }
    if (t->method == MICA_TOKEN_METHOD_WORDPIECE) {
        return mica_encode_words(p, t, s, n, out);
    }
    if (t->method != MICA_TOKEN_METHOD_MERGES || p->costs == NULL) {
        return by_longest(p, t->unknown, s, n, out, failed);
    }
    uint32_t count = 0;
    for (uint32_t at = 0, bytes; at < n; at += bytes) {
        bytes = t->flags & MICA_TOKEN_FLAG_WORDS ? word(s + at, n - at, t->flags) : n - at;
        uint32_t wrong = bytes;
        count += merge(p, t, s + at, bytes, out + count, costs, &wrong);
        if (wrong != bytes) {
            *failed = at + wrong;
            return 0;
        }
    }
    return count;
}

uint32_t mica_encode(const mica_model_t *m, uint8_t *text, uint32_t n, void *work, uint32_t *failed) {
    mica_pieces_t p;
    mica_tokens_t t;
    *failed = n;
    if (n == 0 || n >= UINT16_MAX || !mica_read_pieces(&m->file, &p) || !mica_tokens(m, &t)) {
        *failed = n ? 0 : n;
        return 0;
    }
    if (t.flags & MICA_TOKEN_FLAG_LOWER && t.method != MICA_TOKEN_METHOD_WORDPIECE) {
        n = mica_plain(&p, t.flags, text, n);
    }
    return encode(&p, &t, text, n, work, failed);
}
#endif
