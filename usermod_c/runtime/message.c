// mica: an error in one line for people. No printf, which firmware may not have: this needs strings and integers alone.
#include "model.h"

typedef struct {
    char *at, *end;  // end: the last byte, kept for the zero
} text_t;

static void put_byte(text_t *t, uint8_t c) {
    #ifdef MICA_PACKED_TEXTS
    if (c >= 0x80) {
        const uint8_t *pair = mica_text_pairs[c - 0x80];
        put_byte(t, pair[0]);
        put_byte(t, pair[1]);
        return;
    }
    #endif
    if (t->at < t->end) {
        *t->at++ = (char)c;
    }
}

// One of our own texts.
static void put(text_t *t, const char *s) {
    while (*s) {
        put_byte(t, (uint8_t)*s++);
    }
}

#ifdef MICA_PACKED_TEXTS
size_t mica_text(const char *s, char *buf, size_t bytes) {
    text_t text = { buf, buf + bytes - 1 };
    put(&text, s);
    *text.at = 0;
    return (size_t)(text.at - buf);
}
#endif

// One of a file's, in UTF-8.
static void put_name(text_t *t, const char *s) {
    while (*s && t->at < t->end) {
        *t->at++ = *s++;
    }
}

static void put_number(text_t *t, uint32_t n) {
    char digits[11];
    char *d = digits + 10;
    *d = 0;
    do {
        *--d = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    put(t, d);
}

// A parameter may be negative.
static void put_signed(text_t *t, uint32_t n) {
    if (n >> 31) {
        put(t, "-");
        n = 0 - n;
    }
    put_number(t, n);
}

// " 3 (conv1)": a record's number, and its name where the file can be read that far.
static void put_record(text_t *t, const char *kind, const mica_file_t *f, uint32_t section, int32_t i) {
    if (i < 0) {
        return;
    }
    put(t, kind);
    put_number(t, (uint32_t)i);
    // A step and a tensor both begin with the offset of their name.
    const char *name = NULL;
    if (f != NULL && (uint32_t)i < mica_count(f, section)) {
        name = mica_string(f, mica_u32(mica_record(f, section, (uint32_t)i)));
    }
    if (name != NULL && *name) {
        put(t, " (");
        put_name(t, name);
        put(t, ")");
    }
    put(t, ": ");
}

// What to do about it.
static const char *remedy(mica_status_t status) {
    switch (status) {
        case MICA_ERR_ARGUMENT:
            return "this is a mistake of the caller";
        case MICA_ERR_MAGIC:
            return "give a file that `mica pack` wrote";
        case MICA_ERR_VERSION:
        case MICA_ERR_FEATURE:
            return "update the firmware, or pack the model again";
        case MICA_ERR_TRUNCATED:
        case MICA_ERR_CRC:
            return "copy the file again";
        case MICA_ERR_KERNEL:
            return "build or flash firmware that has it";
        case MICA_ERR_ARENA:
            return "give more memory";
        default:
            return "pack the model again";
    }
}

char *mica_error_text(const mica_error_t *err, const void *base, size_t len, char *buf, size_t bytes) {
    if (bytes == 0) {
        return buf;
    }
    text_t text = { buf, buf + bytes - 1 }, *t = &text;
    mica_file_t file;
    mica_info_t info;
    mica_error_t ignored;
    bool readable = base != NULL && mica_scan(base, len, false, &file, &info, &ignored) == MICA_OK;
    const mica_file_t *f = readable && err->status != MICA_ERR_NAME ? &file : NULL;  // that name is not to be printed

    put_record(t, "step ", f, MICA_KIND_STEPS, err->step);
    put_record(t, "tensor ", f, MICA_KIND_TENSORS, err->tensor);
    put(t, err->status == MICA_OK ? "no error" : err->what ? err->what : "error");
    if (err->status == MICA_ERR_KERNEL) {
        const char *name = mica_kernel_name(err->found);
        put(t, " ");
        if (name != NULL) {
            put(t, name);
        } else {
            put_number(t, err->found);
        }
        put(t, name != NULL ? " is not in this build" : " is unknown to this build");
    } else if (err->status != MICA_ERR_MAGIC && (err->found != 0 || err->expected != 0)) {
        void (*number)(text_t *t, uint32_t n) = err->status == MICA_ERR_RANGE ? put_signed : put_number;
        put(t, ": found ");
        number(t, err->found);
        put(t, ", expected ");
        number(t, err->expected);
    }
    if (err->byte != 0) {
        put(t, " (byte ");
        put_number(t, err->byte);
        put(t, ")");
    }
    if (err->status != MICA_OK) {
        put(t, "; ");
        put(t, remedy(err->status));
    }
    *t->at = 0;
    return buf;
}
