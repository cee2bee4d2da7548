// The vocabulary of a model: its pieces, text to tokens, and a token drawn by its score.

#include <string.h>

#include "mp_mica.h"

#ifndef MICA_WITHOUT_TOKENS
static void vocabulary(const mica_model_t *m, mica_tokens_t *t) {
    if (!mica_tokens(m, t)) {
        mp_raise_msg(&mp_type_ValueError,
            MP_ERROR_TEXT("this model has no tokens in its file: pack it with mica pack --tokens"));
    }
}

static mp_obj_t number_or_none(uint16_t token) {
    return token == MICA_NO_TOKEN ? mp_const_none : MP_OBJ_NEW_SMALL_INT(token);
}

mp_obj_t mp_mica_tokens(const mica_model_t *m) {
    mica_tokens_t t;
    vocabulary(m, &t);
    static const qstr fields[] = {
        MP_QSTR_count, MP_QSTR_begin, MP_QSTR_end, MP_QSTR_token, MP_QSTR_position, MP_QSTR_length, MP_QSTR_output,
        MP_QSTR_positions, MP_QSTR_window, MP_QSTR_padding,
    };
    mp_obj_t items[] = {
        MP_OBJ_NEW_SMALL_INT(t.count),
        number_or_none(t.begin),
        number_or_none(t.end),
        MP_OBJ_NEW_SMALL_INT(t.token),
        number_or_none(t.position),
        number_or_none(t.length),
        MP_OBJ_NEW_SMALL_INT(t.output),
        mp_obj_new_int_from_uint(t.positions),
        mp_obj_new_int_from_uint(t.window),
        t.flags & MICA_TOKEN_FLAG_CLASSES ? MP_OBJ_NEW_SMALL_INT(t.padding) : mp_const_none,
    };
    return mp_obj_new_attrtuple(fields, MP_ARRAY_SIZE(fields), items);
}

mp_obj_t mp_mica_piece(const mica_model_t *m, mp_obj_t token_in) {
    mica_tokens_t t;
    vocabulary(m, &t);
    const mp_int_t token = mp_mica_get_int(token_in);
    if (token < 0 || (mp_uint_t)token >= t.count) {
        mp_raise_msg_varg(&mp_type_IndexError, MP_ERROR_TEXT("token %d: there are %u"), (int)token, (unsigned)t.count);
    }
    uint32_t bytes;
    const uint8_t *piece = mica_token_piece(m, (uint32_t)token, &bytes);
    return mp_obj_new_bytes(piece, bytes);
}

mp_obj_t mp_mica_encode(const mica_model_t *m, mp_obj_t text_in) {
    mica_tokens_t t;
    vocabulary(m, &t);
    mp_buffer_info_t buf;
    mp_get_buffer_raise(text_in, &buf, MP_BUFFER_READ);
    const bool has_one = (t.flags & MICA_TOKEN_FLAG_BARE) && buf.len != 0 && *(const uint8_t *)buf.buf == ' ';
    const size_t space = buf.len != 0 && (t.flags & MICA_TOKEN_FLAG_SPACE) && !has_one ? 1 : 0, n = buf.len + space;
    if (n >= UINT16_MAX) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("a text of %u bytes; at most 65533 are allowed"),
            (unsigned)buf.len);
    }
    uint8_t *work = m_new(uint8_t, mica_encode_bytes(n) + n); // the tokens, and behind them the text
    uint8_t *text = work + mica_encode_bytes(n);
    mp_get_buffer_raise(text_in, &buf, MP_BUFFER_READ); // the allocation may have let another thread move it
    text[0] = ' ';
    memcpy(text + space, buf.buf, MIN(buf.len, n - space));
    uint32_t failed;
    const uint32_t count = mica_encode(m, text, (uint32_t)n, work, &failed);
    if (failed < n) {
        uint32_t end = failed + 1;
        while (end < n && (text[end] & 0xc0) == 0x80 && end - failed < 4) {
            ++end;
        }
        char shown[5] = { 0 };
        memcpy(shown, text + failed, end - failed);
        mp_raise_msg_varg(&mp_type_ValueError,
            MP_ERROR_TEXT("the vocabulary has no piece for '%s', byte %u of the text; leave it out"),
            (uint8_t)shown[0] < 0x80 || end - failed > 1 ? shown : "?",
            (unsigned)(failed < space ? 0 : failed - space));
    }
    mp_obj_t list = mp_obj_new_list(0, NULL);
    for (uint32_t i = 0; i < count; i++) {
        mp_obj_list_append(list, MP_OBJ_NEW_SMALL_INT(((uint16_t *)work)[i]));
    }
    m_del(uint8_t, work, mica_encode_bytes(n) + n);
    return list;
}

// sample(token's scores, their scale, temperature in thousandths, top_k, state): state is a buffer of four bytes.
static mp_obj_t module_sample(size_t n_args, const mp_obj_t *args) {
    (void)n_args;
    mp_buffer_info_t scores, state;
    mp_get_buffer_raise(args[0], &scores, MP_BUFFER_READ);
    mp_get_buffer_raise(args[4], &state, MP_BUFFER_RW);
    const mp_int_t temperature = mp_mica_get_int(args[2]), top_k = mp_mica_get_int(args[3]);
    if (scores.len == 0 || scores.len > MICA_MAX_TOKENS || temperature < 0 || temperature > 10000 || top_k < 1
        || (mp_uint_t)top_k > scores.len || state.len != 4) {
        mp_raise_ValueError(MP_ERROR_TEXT(
            "sample: int8 scores, 0 to 10000, 1 to their number, and a state of 4 bytes are expected"));
    }
    uint32_t s;
    memcpy(&s, state.buf, sizeof(s));
    s = s ? s : 1;
    const uint32_t token = mica_sample(scores.buf, (uint32_t)scores.len, (float)mp_obj_get_float(args[1]),
        (uint32_t)temperature, (uint32_t)top_k, &s);
    memcpy(state.buf, &s, sizeof(s));
    return MP_OBJ_NEW_SMALL_INT(token);
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_sample_obj, 5, 5, module_sample);
#endif
