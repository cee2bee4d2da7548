// mica: characters of a text: the method WORDPIECE of SPEC.md, the kinds of GPT-2's words, and plain text. Works in the
// caller's memory and in the file alone.
#include <string.h>

#include "model.h"

#ifndef MICA_WITHOUT_TOKENS
static const uint32_t blanks[][2] = { MICA_CHARACTERS_BLANK }, removed[][2] = { MICA_CHARACTERS_REMOVED },
    marks[][2] = { MICA_CHARACTERS_MARKS }, between[][2] = { MICA_CHARACTERS_BETWEEN },
    numbers[][2] = { MICA_CHARACTERS_NUMBERS }, others[][2] = { MICA_CHARACTERS_OTHERS };
static const char bases[] = MICA_BASES;
static const uint8_t cyrillic[] = { MICA_CYRILLIC };  // from U+0400 on
enum { BLANK, LETTER, MARK, DROPPED, NUMBER };
#define IS_IN(c, ranges) is_in(c, ranges, sizeof(ranges) / sizeof(*(ranges)))

static bool is_in(uint32_t c, const uint32_t (*ranges)[2], size_t n) {
    while (n > 0 && !(ranges[n - 1][0] <= c && c <= ranges[n - 1][1])) {
        --n;
    }
    return n > 0;
}

static uint32_t kind(uint32_t c, uint32_t flags) {
    const uint32_t rule = flags & (MICA_TOKEN_FLAG_MARKS | MICA_TOKEN_FLAG_BARE);
    if (rule == MICA_TOKEN_FLAG_BARE) {
        return c == ' ' || (c >= 9 && c <= 13) ? BLANK : c < 128 && IS_IN(c, marks) ? DROPPED : LETTER;
    }
    if ((rule == MICA_TOKEN_FLAG_MARKS && IS_IN(c, removed))
        || ((flags & MICA_TOKEN_FLAG_ACCENTS) && c >= 0x300 && c <= 0x36f)) {
        return DROPPED;
    }
    if (IS_IN(c, blanks)) {
        return BLANK;
    }
    return rule != 0 && (rule == MICA_TOKEN_FLAG_MARKS ? IS_IN(c, marks) : IS_IN(c, between)) ? MARK : LETTER;
}

// The small letter of a Latin or Cyrillic one.
static uint32_t small(uint32_t c) {
    if (c >= 0x400) {
        return c < 0x430 ? c + (c < 0x410 ? 80 : 32) : c >= 0x48a && c < 0x4c0 ? c | 1 : c;
    }
    if ((c >= 'A' && c <= 'Z') || (c >= 0xc0 && c <= 0xde && c != 0xd7)) {
        return c + 32;
    }
    if (c == 0x130 || c == 0x178) {
        return c == 0x130 ? 'i' : 0xff;
    }
    if ((c >= 0x100 && c <= 0x137) || (c >= 0x14a && c <= 0x177)) {
        return c | 1;
    }
    return (c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e) ? (c + 1) & ~1u : c;
}

static uint32_t folded(uint32_t c, uint32_t flags) {
    const bool ascii = (flags & (MICA_TOKEN_FLAG_MARKS | MICA_TOKEN_FLAG_BARE)) == MICA_TOKEN_FLAG_BARE;
    if (!(flags & MICA_TOKEN_FLAG_LOWER) || (ascii && c >= 0x80)) {
        return c;
    }
    if ((flags & MICA_TOKEN_FLAG_ACCENTS) && c - 0x400u < sizeof(cyrillic)) {
        return 0x400u + cyrillic[c - 0x400u];
    }
    const bool latin = c >= MICA_BASES_FIRST && c < 0x180;
    const bool has_base = latin && (flags & MICA_TOKEN_FLAG_ACCENTS) && bases[c - MICA_BASES_FIRST] != ' ';
    return has_base ? (uint8_t)bases[c - MICA_BASES_FIRST] : small(c);
}

// The character that begins a text of n > 0 bytes of UTF-8, and its bytes; where the text breaks off, what there is.
static uint32_t character(const uint8_t *s, uint32_t n, uint32_t *bytes) {
    const uint32_t more = s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : s[0] >= 0xc0 ? 1 : 0;
    uint32_t c = s[0] & (0x7fu >> (more ? more + 1 : 0));
    for (*bytes = 1; *bytes <= more && *bytes < n; ++*bytes) {
        c = c << 6 | (s[*bytes] & 0x3f);
    }
    return c;
}

static uint32_t put(uint8_t *to, uint32_t c) {
    if (c < 0x80) {
        to[0] = (uint8_t)c;
        return 1;
    }
    const uint32_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    for (uint32_t i = more; i > 0; --i, c >>= 6) {
        to[i] = (uint8_t)(0x80 | (c & 0x3f));
    }
    to[0] = (uint8_t)(((0xff00u >> (more + 1)) & 0xffu) | c);
    return more + 1;
}

static uint32_t kind_in_gpt_2(uint32_t c) {
    return IS_IN(c, blanks) ? BLANK
           : IS_IN(c, numbers) ? NUMBER
           : IS_IN(c, between) || IS_IN(c, others) ? MARK : LETTER;
}

uint32_t mica_kind(const uint8_t *s, uint32_t n, uint32_t flags, uint32_t *bytes) {
    const uint32_t c = character(s, n, bytes);
    return c >= 0x80 && !(flags & MICA_TOKEN_FLAG_MARKS) ? LETTER : kind_in_gpt_2(c);
}

uint32_t mica_plain(const mica_pieces_t *p, uint32_t flags, uint8_t *s, uint32_t n) {
    static const uint8_t ways[] = { 0, MICA_TOKEN_FLAG_LOWER, MICA_TOKEN_FLAG_LOWER | MICA_TOKEN_FLAG_ACCENTS };
    const uint32_t lead = flags & MICA_TOKEN_FLAG_SPACE ? 1 : 0;
    uint32_t filled = 0, bytes;
    for (uint32_t at = 0; at < n; at += bytes) {
        uint32_t found = character(s + at, n - at, &bytes), size = 0, way = 0;
        const uint32_t c = found == 0x2019 ? '\'' : found;
        uint8_t piece[4];
        for (; way < sizeof(ways); ++way) {
            found = folded(c, ways[way]);
            size = put(piece, found);
            if ((found > ' ' || found == '\n') && mica_find_piece(p, piece, size, NULL, 0) != MICA_NO_TOKEN) {
                break;
            }
        }
        if (way < sizeof(ways)) {
            filled -= found == '\n' && filled > lead && s[filled - 1] == ' ';
            memcpy(s + filled, piece, size);  // a character becomes no longer
            filled += size;
        } else if ((c < 0x300 || c > 0x36f) && kind_in_gpt_2(c) != LETTER && (filled ? s[filled - 1] > ' ' : lead)) {
            s[filled++] = ' ';
        }
    }
    return filled - (filled > lead && s[filled - 1] == ' ');
}

// The longest pieces from the left; 0 where the word is unknown.
static uint32_t pieces_of(const mica_pieces_t *p, uint32_t most, const uint8_t *word, uint32_t n, uint16_t *out) {
    uint32_t count = 0;
    for (uint32_t at = 0, bytes; at < n; at += bytes) {
        uint32_t token = MICA_NO_TOKEN;
        bytes = n - at < most ? n - at : most;
        for (; bytes > 0; --bytes) {
            token = mica_find_piece(p, (const uint8_t *)"##", at ? 2 : 0, word + at, bytes);
            if (token != MICA_NO_TOKEN) {
                break;
            }
        }
        if (bytes == 0) {
            return 0;
        }
        out[count++] = (uint16_t)token;
    }
    return count;
}

uint32_t mica_encode_words(const mica_pieces_t *p, const mica_tokens_t *t, const uint8_t *s, uint32_t n,
    uint16_t *out) {
    uint8_t *word = (uint8_t *)(out + n);  // no longer than the text
    const uint32_t most = mica_longest_piece(p);
    uint32_t count = 0, filled = 0, characters = 0, before = BLANK, bytes = 1;
    for (uint32_t at = 0; at <= n; at += bytes) {
        const uint32_t c = at < n ? character(s + at, n - at, &bytes) : ' ', is = kind(c, t->flags);
        if (is == DROPPED) {
            continue;
        }
        if (filled != 0 && (is != before || (is == MARK && !(t->flags & MICA_TOKEN_FLAG_BARE)))) {
            const uint32_t made = characters > MICA_LONGEST_WORD ? 0 : pieces_of(p, most, word, filled, out + count);
            if (made == 0) {
                out[count] = t->unknown;
            }
            count += made + (made == 0);
            filled = characters = 0;
        }
        if (is != BLANK) {
            filled += put(word + filled, folded(c, t->flags));
            ++characters;
        }
        before = is;
    }
    return count;
}
#endif
