// mica: the vocabulary of a language model, read in place. Its tables are checked once, when the file is loaded; since
// the file may change later, every place in them is looked at again before it is followed.
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
    const uint32_t method = r[MICA_TOKENS_METHOD];
    const uint32_t costs = method == MICA_TOKEN_METHOD_LONGEST || method == MICA_TOKEN_METHOD_WORDPIECE ? 0 : count;
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

uint32_t mica_find_piece(const mica_pieces_t *p, const uint8_t *a, uint32_t a_bytes, const uint8_t *b,
    uint32_t b_bytes) {
    uint32_t low = 0, high = p->listed;
    while (low < high) {
        uint32_t middle = (low + high) / 2, token = mica_u16(p->list + 2 * middle), bytes;
        const uint8_t *piece = mica_piece(p, token, &bytes);
        uint32_t n = bytes < a_bytes ? bytes : a_bytes;
        int order = memcmp(piece, a, n);
        if (order == 0 && n == a_bytes && b_bytes != 0) {
            uint32_t rest = bytes - n;
            order = memcmp(piece + n, b, rest < b_bytes ? rest : b_bytes);
        }
        if (order == 0) {
            if (bytes == a_bytes + b_bytes) {
                return token;
            }
            order = bytes < a_bytes + b_bytes ? -1 : 1;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return MICA_NO_TOKEN;
}

uint32_t mica_longest_piece(const mica_pieces_t *p) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->listed; ++i) {
        uint32_t bytes;
        (void)mica_piece(p, mica_u16(p->list + 2 * i), &bytes);
        most = bytes > most ? bytes : most;
    }
    return most;
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
    const bool classes = (r[MICA_TOKENS_FLAGS] & MICA_TOKEN_FLAG_CLASSES) != 0;
    const uint32_t positions = mica_u32(r + MICA_TOKENS_POSITIONS);
    *out = (mica_tokens_t) {
        .count = p.count,
        .begin = (uint16_t)mica_u16(r + MICA_TOKENS_BEGIN),
        .end = (uint16_t)mica_u16(r + MICA_TOKENS_END),
        .token = (uint16_t)mica_u16(r + MICA_TOKENS_TOKEN),
        .position = (uint16_t)mica_u16(r + MICA_TOKENS_POSITION),
        .length = (uint16_t)mica_u16(r + MICA_TOKENS_LENGTH),
        .output = (uint16_t)mica_u16(r + MICA_TOKENS_OUTPUT),
        .padding = (uint16_t)mica_u16(r + MICA_TOKENS_PADDING),
        .unknown = classes && positions < p.count ? (uint16_t)positions : MICA_NO_TOKEN,
        .positions = classes ? 0 : positions,
        .window = mica_u32(r + MICA_TOKENS_WINDOW),
        .method = r[MICA_TOKENS_METHOD],
        .flags = r[MICA_TOKENS_FLAGS],
    };
    return true;
}

// ---- loading

// Elements of an input or output of one of two types, 0 where it is none.
static uint32_t elements(const mica_model_t *m, uint16_t id, uint32_t dtype, uint32_t or_dtype) {
    mica_tensor_t t;
    const bool fits = id != MICA_NO_TENSOR && mica_tensor(m, id, &t) && (t.dtype == dtype || t.dtype == or_dtype);
    return fits ? t.bytes / mica_element_bytes(t.dtype) : 0;
}

static mica_status_t check_pieces(const mica_pieces_t *p, uint32_t at, mica_error_t *err) {
    uint32_t before = 0;
    for (uint32_t i = 0; i <= p->count; ++i) {
        uint32_t offset = mica_u16(p->offsets + 2 * i);
        if (offset < before || (i == 0 && offset != 0) || (i == p->count && offset != p->piece_bytes)) {
            return mica_fail(err, MICA_ERR_BOUNDS, "TOKENS: offsets of pieces do not rise from 0 to the end", at,
                offset, p->piece_bytes);
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

// The inputs and the output that the record at `t` names.
static mica_status_t check_places(const mica_model_t *m, const mica_tokens_t *t, uint32_t count, mica_error_t *err) {
    const bool classes = (t->flags & MICA_TOKEN_FLAG_CLASSES) != 0;
    const uint32_t at = m->file.s[MICA_KIND_TOKENS].offset;
    const uint16_t inputs[] = { t->token, t->position, t->length };
    uint32_t used = 0, size = classes ? elements(m, mica_input_id(m, t->token), MICA_DTYPE_INT32, MICA_DTYPE_INT32) : 1;
    for (uint32_t i = 0; i < 3; ++i) {
        if (i > 0 && inputs[i] == MICA_NO_TOKEN) {
            continue;
        }
        const bool twice = (i > 0 && inputs[i] == inputs[0]) || (i > 1 && inputs[i] == inputs[1]);
        const uint32_t or_dtype = i > 0 && classes ? MICA_DTYPE_INT8 : MICA_DTYPE_INT32;
        if (twice || size == 0 || elements(m, mica_input_id(m, inputs[i]), MICA_DTYPE_INT32, or_dtype) != size) {
            return mica_fail(err, MICA_ERR_TENSOR, "TOKENS: model input for a number", at + MICA_TOKENS_TOKEN,
                inputs[i], 0);
        }
        ++used;
    }
    if (used != m->info.n_inputs) {
        return mica_fail(err, MICA_ERR_TENSOR, "TOKENS: model inputs for numbers", at + MICA_TOKENS_TOKEN, used,
            m->info.n_inputs);
    }
    const uint32_t scores = elements(m, mica_output_id(m, t->output), MICA_DTYPE_INT8,
        classes ? MICA_DTYPE_FLOAT32 : MICA_DTYPE_INT8);
    if (classes ? scores == 0 : scores != count) {
        return mica_fail(err, MICA_ERR_TENSOR, "TOKENS: model output for the scores", at + MICA_TOKENS_OUTPUT,
            t->output, count);
    }
    if ((t->window == 0) != (classes || t->length == MICA_NO_TOKEN) || t->window > MICA_MAX_BYTES
        || t->positions > MICA_MAX_BYTES) {
        return mica_fail(err, MICA_ERR_BOUNDS, "TOKENS: positions or window", at + MICA_TOKENS_POSITIONS, t->positions,
            t->window);
    }
    return MICA_OK;
}

mica_status_t mica_load_tokens(const mica_model_t *m, mica_error_t *err) {
    const mica_section_t *s = &m->file.s[MICA_KIND_TOKENS];
    const bool has = s->offset != 0;
    if (has != ((mica_u32(m->file.base + MICA_HEADER_FEATURES) & MICA_FEATURE_TOKENS) != 0)) {
        return mica_fail(err, MICA_ERR_FEATURE, "a section TOKENS and the feature TOKENS go together",
            MICA_HEADER_FEATURES, has, !has);
    }
    mica_pieces_t p;
    mica_tokens_t t;
    if (!has) {
        return MICA_OK;
    }
    if (!mica_read_pieces(&m->file, &p) || !mica_tokens(m, &t)) {
        return mica_fail(err, MICA_ERR_BOUNDS, "TOKENS: its tables do not fill it", s->offset, s->bytes, 0);
    }
    const bool classes = (t.flags & MICA_TOKEN_FLAG_CLASSES) != 0;
    const uint32_t unknown = mica_u32(m->file.base + s->offset + MICA_TOKENS_POSITIONS);
    if (t.method > MICA_TOKEN_METHOD_WORDPIECE
        || (t.method == MICA_TOKEN_METHOD_WORDPIECE && (!classes || unknown == MICA_NO_TOKEN))) {
        return mica_fail(err, MICA_ERR_FEATURE, "TOKENS: method or flags", s->offset + MICA_TOKENS_METHOD, t.method, 0);
    }
    if ((t.begin >= p.count && t.begin != MICA_NO_TOKEN) || (t.end >= p.count && t.end != MICA_NO_TOKEN)) {
        return mica_fail(err, MICA_ERR_BOUNDS, "TOKENS: begin or end", s->offset + MICA_TOKENS_BEGIN, t.begin,
            p.count - 1);
    }
    if (check_pieces(&p, s->offset, err) != MICA_OK) {
        return err->status;
    }
    if (t.padding >= p.count || (classes && unknown >= p.count && unknown != MICA_NO_TOKEN)) {
        return mica_fail(err, MICA_ERR_BOUNDS, "TOKENS: padding or unknown", s->offset + MICA_TOKENS_PADDING, t.padding,
            p.count - 1);
    }
    return check_places(m, &t, p.count, err);
}
#endif
