// mica: the vocabulary of a language model, read in place. Its tables are checked once, when the file is loaded; since the file may
// change later, every place in them is looked at again before it is followed.
#include <string.h>
#include "model.h"

#ifndef MICA_WITHOUT_TOKENS
bool mica_read_pieces(const mica_file_t *f, mica_pieces_t *p) {
    const mica_section_t *s = &f->s[MICA_KIND_TOKENS];
    if (s->offset == 0 || s->bytes < MICA_SIZEOF_TOKENS) {
        return false;
    }
    const uint8_t *r = f->base + s->offset;
    const uint32_t count = mica_u16(r + MICA_TOKENS_COUNT), listed = mica_u16(r + MICA_TOKENS_LISTED);
    const uint32_t costs = r[MICA_TOKENS_METHOD] == MICA_TOKEN_METHOD_LONGEST ? 0 : count;
    const uint32_t words = count + 1 + listed + costs, piece_bytes = mica_u32(r + MICA_TOKENS_PIECE_BYTES);
    if (count == 0 || count > MICA_MAX_TOKENS || listed > count || piece_bytes > MICA_MAX_PIECE_BYTES
        || MICA_SIZEOF_TOKENS + 2 * words + piece_bytes != s->bytes) {
        return false;
    }
    const uint8_t *offsets = r + MICA_SIZEOF_TOKENS, *list = offsets + 2 * (count + 1);
    *p = (mica_pieces_t) {
        .offsets = offsets,
        .list = list,
        .costs = costs ? list + 2 * listed : NULL,
        .pieces = offsets + 2 * words,
        .count = count,
        .listed = listed,
        .piece_bytes = piece_bytes,
    };
    return true;
}

const uint8_t *mica_piece(const mica_pieces_t *p, uint32_t token, uint32_t *bytes) {
    *bytes = 0;
    if (token >= p->count) {
        return p->pieces;
    }
    const uint32_t begin = mica_u16(p->offsets + 2 * token), end = mica_u16(p->offsets + 2 * token + 2);
    if (begin > end || end > p->piece_bytes) {
        return p->pieces;  // no longer what was loaded
    }
    *bytes = end - begin;
    return p->pieces + begin;
}

const uint8_t *mica_token_piece(const mica_model_t *m, uint32_t token, uint32_t *bytes) {
    mica_pieces_t p;
    *bytes = 0;
    return mica_read_pieces(&m->file, &p) ? mica_piece(&p, token, bytes) : NULL;
}

bool mica_tokens(const mica_model_t *m, mica_tokens_t *out) {
    mica_pieces_t p;
    if (!mica_read_pieces(&m->file, &p)) {
        return false;
    }
    const uint8_t *r = m->file.base + m->file.s[MICA_KIND_TOKENS].offset;
    *out = (mica_tokens_t) {
        .count = p.count,
        .begin = (uint16_t)mica_u16(r + MICA_TOKENS_BEGIN),
        .end = (uint16_t)mica_u16(r + MICA_TOKENS_END),
        .token = (uint16_t)mica_u16(r + MICA_TOKENS_TOKEN),
        .position = (uint16_t)mica_u16(r + MICA_TOKENS_POSITION),
        .length = (uint16_t)mica_u16(r + MICA_TOKENS_LENGTH),
        .output = (uint16_t)mica_u16(r + MICA_TOKENS_OUTPUT),
        .positions = mica_u32(r + MICA_TOKENS_POSITIONS),
        .window = mica_u32(r + MICA_TOKENS_WINDOW),
        .method = r[MICA_TOKENS_METHOD],
        .flags = r[MICA_TOKENS_FLAGS],
    };
    return true;
}

// ---- loading

// Whether an input or output is one of so many elements of a type.
static bool is_number(const mica_model_t *m, uint16_t id, uint32_t dtype, uint32_t elements) {
    mica_tensor_t t;
    return id != MICA_NO_TENSOR && mica_tensor(m, id, &t) && t.dtype == dtype && t.bytes == elements * mica_element_bytes(dtype);
}

static mica_status_t check_pieces(const mica_pieces_t *p, uint32_t at, mica_error_t *err) {
    uint32_t before = 0;
    for (uint32_t i = 0; i <= p->count; ++i) {
        uint32_t offset = mica_u16(p->offsets + 2 * i);
        if (offset < before || (i == 0 && offset != 0) || (i == p->count && offset != p->piece_bytes)) {
            return mica_fail(err, MICA_ERR_BOUNDS, "TOKENS: offsets of pieces do not rise from 0 to the end", at, offset, p->piece_bytes);
        }
        before = offset;
    }
    const uint8_t *last = p->pieces;
    uint32_t last_bytes = 0;
    for (uint32_t i = 0; i < p->listed; ++i) {
        uint32_t token = mica_u16(p->list + 2 * i), bytes;
        const uint8_t *piece = mica_piece(p, token, &bytes);
        int order = memcmp(last, piece, last_bytes < bytes ? last_bytes : bytes);
        if (token >= p->count || order > 0 || (order == 0 && last_bytes >= bytes)) {
            return mica_fail(err, MICA_ERR_BOUNDS, "TOKENS: the list of pieces does not rise", at, token, p->count - 1);
        }
        last = piece;
        last_bytes = bytes;
    }
    return MICA_OK;
}

mica_status_t mica_load_tokens(const mica_model_t *m, mica_error_t *err) {
    const mica_section_t *s = &m->file.s[MICA_KIND_TOKENS];
    const bool has = s->offset != 0;
    if (has != ((mica_u32(m->file.base + MICA_HEADER_FEATURES) & MICA_FEATURE_TOKENS) != 0)) {
        return mica_fail(err, MICA_ERR_FEATURE, "a section TOKENS and the feature TOKENS go together", MICA_HEADER_FEATURES, has, !has);
    }
    mica_pieces_t p;
    mica_tokens_t t;
    if (!has) {
        return MICA_OK;
    }
    if (!mica_read_pieces(&m->file, &p) || !mica_tokens(m, &t)) {
        return mica_fail(err, MICA_ERR_BOUNDS, "TOKENS: its tables do not fill it", s->offset, s->bytes, 0);
    }
    if (t.method > MICA_TOKEN_METHOD_UNIGRAM
        || (t.flags & ~(MICA_TOKEN_FLAG_SPACE | MICA_TOKEN_FLAG_WORDS | MICA_TOKEN_FLAG_BYTES)) != 0) {
        return mica_fail(err, MICA_ERR_FEATURE, "TOKENS: method or flags", s->offset + MICA_TOKENS_METHOD, t.method, 0);
    }
    if ((t.begin >= p.count && t.begin != MICA_NO_TOKEN) || (t.end >= p.count && t.end != MICA_NO_TOKEN)) {
        return mica_fail(err, MICA_ERR_BOUNDS, "TOKENS: begin or end", s->offset + MICA_TOKENS_BEGIN, t.begin, p.count - 1);
    }
    if (check_pieces(&p, s->offset, err) != MICA_OK) {
        return err->status;
    }
    const uint16_t inputs[] = { t.token, t.position, t.length };
    uint32_t used = 0;
    for (uint32_t i = 0; i < 3; ++i) {
        if (i > 0 && inputs[i] == MICA_NO_TOKEN) {
            continue;
        }
        bool twice = (i > 0 && inputs[i] == inputs[0]) || (i > 1 && inputs[i] == inputs[1]);
        if (twice || !is_number(m, mica_input_id(m, inputs[i]), MICA_DTYPE_INT32, 1)) {
            return mica_fail(err, MICA_ERR_TENSOR, "TOKENS: model input for a number", s->offset + MICA_TOKENS_TOKEN, inputs[i], 0);
        }
        ++used;
    }
    if (used != m->info.n_inputs) {
        return mica_fail(err, MICA_ERR_TENSOR, "TOKENS: model inputs for numbers", s->offset + MICA_TOKENS_TOKEN, used, m->info.n_inputs);
    }
    if (!is_number(m, mica_output_id(m, t.output), MICA_DTYPE_INT8, p.count)) {
        return mica_fail(err, MICA_ERR_TENSOR, "TOKENS: model output for the scores", s->offset + MICA_TOKENS_OUTPUT, t.output, p.count);
    }
    if ((t.window == 0) != (t.length == MICA_NO_TOKEN) || t.window > MICA_MAX_BYTES || t.positions > MICA_MAX_BYTES) {
        return mica_fail(err, MICA_ERR_BOUNDS, "TOKENS: positions or window", s->offset + MICA_TOKENS_POSITIONS, t.positions, t.window);
    }
    return MICA_OK;
}
#endif
