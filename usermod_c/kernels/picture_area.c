// mica: the area method: each pixel of a picture is the mean of those of the frame that it covers. See picture.h.
#include "picture_pixels.h"

#include "mica_select.h" // of an instruction set: MICA_PICTURE_WORDS and the like, where it has loops of its own

// Of rows that begin at words, and sums that have room; null where there is none.
static mica_picture_loop_t *columns_of(const mica_picture_job_t *j, const boxes_t *b, uint32_t inside) {
    if (b->nx == 0 || ((uintptr_t)(j->frame - inside) | b->stride) % 4 != 0
        || (packed(j->kind) && j->p->h / j->p->out_h > FIELDS_ROOM)) {
        return NULL;
    }
    switch (j->kind) {
        case BYTES:
        case PAIRS:
            return mica_picture_columns_single;
        case WORDS:
        case SWAPPED:
            return mica_picture_columns_packed;
        case TRIPLES:
            return mica_picture_columns_triples;
        case CHROMA:
            return mica_picture_columns_chroma;
        default:
            return NULL;
    }
}

#ifdef MICA_PICTURE_WORDS
// rest / of in units of 2^-32, rounded up: so that sums of `of` of them are exact when rounded down.
static uint32_t fraction(uint32_t rest, uint32_t of) {
    uint32_t found = 0;
    for (uint32_t k = 0; k < 32; k++) {
        rest <<= 1;
        found <<= 1;
        if (rest >= of) {
            rest -= of;
            found++;
        }
    }
    return found + (rest != 0);
}

typedef void boxes_loop_t(const mica_picture_boxes_t *args);

// Loops of an instruction set that take small boxes as they are, pixel after pixel; or null.
static __attribute__((noinline)) boxes_loop_t *boxes_of(const mica_picture_job_t *j, const boxes_t *b) {
    const bool forward = j->form.to[0] == 0 && j->form.pixel == 3;
    if (b->nx < 2 || b->nx + (b->rest != 0) > 4 || j->p->h / j->p->out_h > 4 || (j->colour && j->form.pixel != 3)) {
        return NULL;
    }
    switch (j->kind) {
        case TRIPLES:
            return MICA_PICTURE_BOXES_TRIPLES;
        case WORDS:
            return MICA_PICTURE_BOXES_WORDS;
        case SWAPPED:
            return MICA_PICTURE_BOXES_SWAPPED;
        case CHROMA:
            return !forward || ((uintptr_t)j->frame & 3) ? NULL : j->form.first == 0 ? MICA_PICTURE_BOXES_YUYV
                : MICA_PICTURE_BOXES_UYVY;
        default:
            return NULL;
    }
}

// The arguments of the box loops, the same in every row.
static mica_picture_boxes_t boxes_args(const mica_picture_job_t *j, const boxes_t *b) {
    const form_t *f = &j->form;
    const bool blue_first = j->kind == TRIPLES && f->first != 0;
    const uint32_t first = blue_first ? 2 : 0, odd = j->kind == CHROMA ? b->x & 1 : 0;
    return (mica_picture_boxes_t) {
        .step = fraction(b->rest, b->of),
        .stride = b->stride,
        .what = j->kind == CHROMA ? odd : !j->colour ? 0 : f->to[first] == 0 ? 1 : 2,
        .narrow = b->nx,
        .wide = b->nx + (b->rest != 0),
        .tables = { f->tables[j->colour ? first : 0], f->tables[1], f->tables[2 - first] },
        .first = blue_first ? 29 : 77,
        .last = blue_first ? 77 : 29,
    };
}
#endif

// Boxes of a picture, without their rows.
static boxes_t boxes_across(const mica_picture_job_t *j) {
    const mica_picture_t *p = j->p;
    const uint32_t nx = p->w / p->out_w, rest = p->w % p->out_w, widest = nx + (rest != 0);
    const bool bytes = j->kind == TRIPLES || j->kind == CHROMA;
    const uint32_t most = bytes ? (2 * COLUMNS - 8) / (j->size * widest) : (COLUMNS - 4) / widest;
    return (boxes_t) {
        .nx = nx, .rest = rest, .of = p->out_w, .x = p->x, .stride = j->stride, .end = (uint32_t)p->x + p->w,
        .most = most, .wider = most * rest / p->out_w, .over = most * rest % p->out_w,
    };
}

static void reciprocals_of(uint32_t nx, uint32_t ny, uint32_t reciprocals[2][2]) {
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t across = nx + (k & 1), down = ny + (k >> 1);
        reciprocals[k >> 1][k & 1] = (1u << 24) / ((across == 0 ? 1 : across) * (down == 0 ? 1 : down));
    }
}

void mica_picture_area_rows(const mica_picture_job_t *j, uint32_t begin, uint32_t end, int8_t *out) {
    const mica_picture_t *p = j->p;
    const uint32_t h = p->h, pixel = j->colour ? j->form.pixel : 1, ny = h / p->out_h, rest_y = h % p->out_h;
    boxes_t b = boxes_across(j);
    uint32_t reciprocals[2][2]; // of a box's rows and columns, each as few as there are and one more
    reciprocals_of(b.nx, ny, reciprocals);
    const uint32_t inside = j->kind == PAIRS ? j->form.first : 0; // of a word
    mica_picture_loop_t *fast = columns_of(j, &b, inside);
    #ifdef MICA_PICTURE_WORDS
    boxes_loop_t *loop = boxes_of(j, &b);
    const bool quarters = b.nx == 2 && b.rest == 0 && (j->kind == WORDS || j->kind == SWAPPED) && !j->colour
        && ((uintptr_t)j->frame | b.stride | b.x * 2) % 4 == 0;
    mica_picture_boxes_t args;
    if (loop != NULL) {
        args = boxes_args(j, &b);
    }
    #endif
    uint32_t first = begin * h / p->out_h, over = begin * h % p->out_h;
    for (uint32_t y = begin; y < end; y++, out += p->out_w * pixel) {
        over += rest_y;
        const uint32_t more = over >= p->out_h;
        over -= more ? p->out_h : 0;
        b.ny = ny + more;
        b.reciprocals = reciprocals[more];
        const uint8_t *row = j->frame + (p->y + first) * j->stride;
        first += b.ny;
        b.ny = b.ny == 0 ? 1 : b.ny;
        #ifdef MICA_PICTURE_WORDS
        if (quarters && b.ny == 2) {
            (j->kind == WORDS ? MICA_PICTURE_QUARTERS : MICA_PICTURE_QUARTERS_SWAPPED)(row + b.x * 2, b.stride, out,
                out + p->out_w, j->form.tables[0]);
            continue;
        }
        if (loop != NULL && b.ny <= 4) {
            args.out = out;
            args.out_end = out + p->out_w * pixel;
            args.back = 0 - (b.ny - 1) * b.stride;
            args.rows = b.ny;
            args.thin = b.reciprocals[0];
            args.thick = b.reciprocals[1];
            args.pixels = row + (j->kind == CHROMA ? b.x & ~1u : b.x) * j->size;
            loop(&args);
            continue;
        }
        #endif
        if (fast != NULL) {
            fast(j->kind, j->colour, row - inside, &b, &j->form, out);
        } else {
            mica_picture_means(j->kind, j->colour, row, &b, &j->form, out);
        }
    }
}
