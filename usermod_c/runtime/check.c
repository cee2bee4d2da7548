// mica: validates what comes from outside. Nothing of a file is used before its header, section table and checksum have
// been validated here.
#include "model.h"

// Size of a table's record as this version knows it; 0 for a section that is no table.
static uint32_t known_record_bytes(uint32_t kind) {
    switch (kind) {
        case MICA_KIND_TENSORS:
            return MICA_SIZEOF_TENSOR;
        case MICA_KIND_STEPS:
            return MICA_SIZEOF_STEP;
        case MICA_KIND_IO:
            return MICA_SIZEOF_IO;
        case MICA_KIND_METADATA:
            return MICA_SIZEOF_METADATA;
        case MICA_KIND_ORDER:
            return MICA_SIZEOF_ORDER;
        default:
            return 0;
    }
}

// Of bytes [begin, end) of a file, going on from crc. The checksum counts its own four bytes as zeros.
static uint32_t file_crc(uint32_t crc, const uint8_t *file, uint32_t begin, uint32_t end) {
    static const uint8_t zeros[4] = { 0 };
    static const uint32_t at = MICA_HEADER_CRC32, behind = MICA_HEADER_CRC32 + 4;
    if (begin < at) {
        crc = mica_crc32(crc, file + begin, (end < at ? end : at) - begin);
        begin = at;
    }
    if (begin < behind && begin < end) {
        uint32_t stop = end < behind ? end : behind;
        crc = mica_crc32(crc, zeros, stop - begin);
        begin = stop;
    }
    return begin < end ? mica_crc32(crc, file + begin, end - begin) : crc;
}

uint32_t mica_file_crc(const mica_model_t *m, uint32_t crc, uint32_t begin, uint32_t end) {
    end = end < m->file.file_bytes ? end : m->file.file_bytes;
    return begin < end ? file_crc(crc, m->file.base, begin, end) : crc;
}

// The header: all that can be said before the section table is read.
static mica_status_t check_header(const uint8_t *h, size_t len, bool crc, mica_error_t *err) {
    if (h == NULL) {
        return mica_fail(err, MICA_ERR_ARGUMENT, "no file", 0, 0, 0);
    }
    if (len >= 4 && mica_u32(h) != MICA_MAGIC) {
        return mica_fail(err, MICA_ERR_MAGIC, "not a .mica file", 0, mica_u32(h), MICA_MAGIC);
    }
    if (len < MICA_SIZEOF_HEADER) {
        return mica_fail(err, MICA_ERR_TRUNCATED, "the file ends inside its header", 0, (uint32_t)len,
            MICA_SIZEOF_HEADER);
    }
    if (((uintptr_t)h & (MICA_ALIGN - 1)) != 0) {
        return mica_fail(err, MICA_ERR_ALIGN, "the file does not begin on a multiple of 16", 0, 0, 0);
    }
    uint32_t major = mica_u16(h + MICA_HEADER_VERSION_MAJOR);
    if (major != MICA_VERSION_MAJOR) {
        return mica_fail(err, MICA_ERR_VERSION, "format version", MICA_HEADER_VERSION_MAJOR, major, MICA_VERSION_MAJOR);
    }
    uint32_t header_bytes = mica_u16(h + MICA_HEADER_HEADER_BYTES), file_bytes = mica_u32(h + MICA_HEADER_FILE_BYTES);
    if (header_bytes < MICA_SIZEOF_HEADER) {
        return mica_fail(err, MICA_ERR_BOUNDS, "header_bytes", MICA_HEADER_HEADER_BYTES, header_bytes,
            MICA_SIZEOF_HEADER);
    }
    if (mica_u16(h + MICA_HEADER_SECTION_BYTES) < MICA_SIZEOF_SECTION) {
        return mica_fail(err, MICA_ERR_BOUNDS, "section_bytes", MICA_HEADER_SECTION_BYTES,
            mica_u16(h + MICA_HEADER_SECTION_BYTES), MICA_SIZEOF_SECTION);
    }
    if (file_bytes > len) {
        return mica_fail(err, MICA_ERR_TRUNCATED, "the file is cut short", MICA_HEADER_FILE_BYTES, (uint32_t)len,
            file_bytes);
    }
    if (file_bytes < header_bytes) {
        return mica_fail(err, MICA_ERR_BOUNDS, "file_bytes", MICA_HEADER_FILE_BYTES, file_bytes, header_bytes);
    }
    if (crc) {
        uint32_t sum = file_crc(0, h, 0, file_bytes);
        if (sum != mica_u32(h + MICA_HEADER_CRC32)) {
            return mica_fail(err, MICA_ERR_CRC, "checksum", MICA_HEADER_CRC32, sum, mica_u32(h + MICA_HEADER_CRC32));
        }
    }
    uint32_t features = mica_u32(h + MICA_HEADER_FEATURES);
    if ((features & ~(uint32_t)MICA_FEATURES) != 0) {
        return mica_fail(err, MICA_ERR_FEATURE, "features", MICA_HEADER_FEATURES, features, MICA_FEATURES);
    }
    static const uint8_t sizes[] = {
        MICA_HEADER_FILE_BYTES, MICA_HEADER_ARENA_BYTES, MICA_HEADER_SCRATCH_MIN, MICA_HEADER_SCRATCH_WANT,
        MICA_HEADER_STATE_BYTES,
    };
    for (uint32_t i = 0; i < sizeof(sizes); ++i) {
        if (mica_u32(h + sizes[i]) > MICA_MAX_BYTES) {
            return mica_fail(err, MICA_ERR_BOUNDS, "a size passes 2^31", sizes[i], mica_u32(h + sizes[i]),
                MICA_MAX_BYTES);
        }
    }
    if (mica_u32(h + MICA_HEADER_ARENA_BYTES) % MICA_ALIGN) {
        return mica_fail(err, MICA_ERR_ALIGN, "arena_bytes is no multiple of 16", MICA_HEADER_ARENA_BYTES,
            mica_u32(h + MICA_HEADER_ARENA_BYTES), MICA_ALIGN);
    }
    return MICA_OK;
}

mica_status_t mica_scan(const void *base, size_t len, bool crc, mica_file_t *file, mica_info_t *info,
    mica_error_t *err) {
    const uint8_t *h = base;
    mica_status_t status = check_header(h, len, crc, err);
    if (status != MICA_OK) {
        return status;
    }
    *file = (mica_file_t) { .base = h, .file_bytes = mica_u32(h + MICA_HEADER_FILE_BYTES) };
    uint32_t at = mica_u16(h + MICA_HEADER_HEADER_BYTES), step = mica_u16(h + MICA_HEADER_SECTION_BYTES);
    uint32_t n = mica_u16(h + MICA_HEADER_N_SECTIONS);
    uint64_t end = at + (uint64_t)n * step;  // of what has been seen: sections stand in the table's order, behind it
    if (end > file->file_bytes) {
        return mica_fail(err, MICA_ERR_BOUNDS, "the section table passes the end of the file", at, (uint32_t)end,
            file->file_bytes);
    }
    for (uint32_t i = 0; i < n; ++i, at += step) {
        const uint8_t *r = h + at;
        uint32_t kind = mica_u16(r + MICA_SECTION_KIND), offset = mica_u32(r + MICA_SECTION_OFFSET);
        uint32_t bytes = mica_u32(r + MICA_SECTION_BYTES), record_bytes = mica_u16(r + MICA_SECTION_RECORD_BYTES);
        if (offset % MICA_ALIGN) {
            return mica_fail(err, MICA_ERR_ALIGN, "a section does not begin on a multiple of 16", at, offset,
                MICA_ALIGN);
        }
        if (offset < end) {
            return mica_fail(err, MICA_ERR_BOUNDS, "a section begins inside the one before", at, offset, (uint32_t)end);
        }
        end = (uint64_t)offset + bytes;
        if (end > file->file_bytes) {
            return mica_fail(err, MICA_ERR_BOUNDS, "a section passes the end of the file", at, bytes,
                file->file_bytes - offset);
        }
        if (kind == 0 || kind > MICA_MAX_KIND) {
            continue;  // of a later minor version
        }
        if (file->s[kind].offset) {
            return mica_fail(err, MICA_ERR_BOUNDS, "a section stands in the file twice", at, kind, 0);
        }
        uint32_t known = known_record_bytes(kind);
        if (record_bytes < known) {
            return mica_fail(err, MICA_ERR_BOUNDS, "a table's records are too small", at, record_bytes, known);
        }
        if (known && (uint64_t)record_bytes * mica_u32(r + MICA_SECTION_COUNT) != bytes) {
            return mica_fail(err, MICA_ERR_BOUNDS, "a table's records do not fill it", at,
                mica_u32(r + MICA_SECTION_COUNT), bytes / record_bytes);
        }
        file->s[kind] = (mica_section_t) { offset, bytes, (uint16_t)(known ? record_bytes : 1) };
    }
    for (uint32_t kind = 1; kind <= MICA_MAX_KIND; ++kind) {
        bool may_lack = kind == MICA_KIND_METADATA || kind >= MICA_KIND_GOLDEN;
        if (!may_lack && !file->s[kind].offset) {
            return mica_fail(err, MICA_ERR_BOUNDS, "a section is missing: kind", at, 0, kind);
        }
    }

    *info = (mica_info_t) {
        .file_bytes = file->file_bytes,
        .crc32 = mica_u32(h + MICA_HEADER_CRC32),
        .version_major = (uint16_t)mica_u16(h + MICA_HEADER_VERSION_MAJOR),
        .version_minor = (uint16_t)mica_u16(h + MICA_HEADER_VERSION_MINOR),
        .arena_bytes = mica_u32(h + MICA_HEADER_ARENA_BYTES),
        .scratch_min = mica_u32(h + MICA_HEADER_SCRATCH_MIN),
        .scratch_want = mica_u32(h + MICA_HEADER_SCRATCH_WANT),
        .state_bytes = mica_u32(h + MICA_HEADER_STATE_BYTES),
        .n_tensors = mica_count(file, MICA_KIND_TENSORS),
        .n_steps = mica_count(file, MICA_KIND_STEPS),
    };
    for (uint32_t i = 0; i < 4; ++i) {
        info->kernels[i] = mica_u32(h + MICA_HEADER_KERNELS + 4 * i);
    }
    static const struct {
        uint32_t kind, least, most;
    } counts[] = {
        { MICA_KIND_TENSORS, 1, MICA_MAX_TENSORS },
        { MICA_KIND_STEPS, 0, MICA_MAX_STEPS },
        { MICA_KIND_IO, 2, MICA_MAX_IO },
    };
    for (uint32_t i = 0; i < 3; ++i) {
        uint32_t count = mica_count(file, counts[i].kind), byte = file->s[counts[i].kind].offset;
        if (count < counts[i].least || count > counts[i].most) {
            return mica_fail(err, MICA_ERR_BOUNDS, "number of records of a table", byte, count, counts[i].most);
        }
    }
    for (uint32_t i = 0; i < mica_count(file, MICA_KIND_IO); ++i) {
        if (mica_u16(mica_record(file, MICA_KIND_IO, i) + MICA_IO_ROLE) == 0) {
            ++info->n_inputs;
        } else {
            ++info->n_outputs;  // load.c looks at the role again
        }
    }
    info->model_bytes = sizeof(mica_model_t) + info->n_steps * sizeof(mica_step_t) + mica_order_bytes(file, info);
    return MICA_OK;
}

mica_status_t mica_check(const void *base, size_t len, mica_info_t *info, mica_error_t *err) {
    mica_file_t file;
    mica_error_t ignored;
    err = err ? err : &ignored;
    *err = (mica_error_t) { .step = -1, .tensor = -1 };
    return mica_scan(base, len, true, &file, info, err);
}
