// A coverage-guided fuzzer of the loader and the engine: changes files at random, keeps those that reach new edges of
// the engine's code, and changes these again. `fuzz FOLDER SEED INPUTS SECONDS CORPUS`: FOLDER has the files to begin
// with and gets what is found as crash.mica or slow.mica; SEED begins the random numbers; it ends after INPUTS or
// SECONDS, 0 for no bound. CORPUS is a folder for the files that are kept, or "". stdout: one line of JSON.
//
// The engine is built with -fsanitize=address,undefined, so that a wrong access ends the program, and with
// -fsanitize-coverage=trace-pc, which calls the function below at every edge. This file is not.
#define main driver_main
#include "driver.c"
#undef main

#include <dirent.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MAP_BITS 16
#define MOST_FILES 4096
#define MOST_CHANGES 6
#define SLOW_SECONDS 30  // of the processor: a file may describe long loops, but not endless ones

typedef struct {
    uint8_t *data;
    size_t len;
} file_t;

static uint8_t hits[1u << MAP_BITS];   // of this run
static uint8_t seen[1u << MAP_BITS];   // which counts, in steps of powers of two, any run had
static uintptr_t before;
static file_t corpus[MOST_FILES];
static size_t n_corpus;
static uint64_t n_inputs, n_loaded, random_state;
static file_t current;
static const char *folder;

extern const char __executable_start[];  // by the linker

void __sanitizer_cov_trace_pc(void);
void __sanitizer_set_death_callback(void (*callback)(void));

void __sanitizer_cov_trace_pc(void) {
    // From the program's begin, which lies elsewhere each time.
    uintptr_t here = (uintptr_t)__builtin_return_address(0) - (uintptr_t)__executable_start;
    here = (here >> 4) ^ (here << 8);
    uint8_t *hit = &hits[(here ^ before) & ((1u << MAP_BITS) - 1)];
    *hit += *hit != 255;
    before = here >> 1;
}

static void save(const char *name) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (f != NULL) {
        fwrite(current.data, 1, current.len, f);
        fclose(f);
    }
}

static void died(void) {
    save("crash.mica");
}

// UndefinedBehaviorSanitizer has a runtime of its own, which calls no death callback of AddressSanitizer's: it aborts.
static void aborted(int signal_number) {
    (void)signal_number;
    died();
    _exit(5);
}

static void slow(int signal_number) {
    (void)signal_number;
    save("slow.mica");
    _exit(4);
}

// xorshift64*
static uint32_t random_below(uint32_t n) {
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)((random_state * 2685821657736338717u) >> 32) % n;
}

static uint32_t get(const uint8_t *p, size_t n) {
    uint32_t v = 0;
    memcpy(&v, p, n);
    return v;
}

// CRC-32 as in zlib; mended after each change, or no file would get past it.
static uint32_t crc32(const uint8_t *p, size_t n) {
    static uint32_t table[256];
    if (table[1] == 0) {
        for (uint32_t i = 0; i < 256; ++i) {
            uint32_t c = i;
            for (int k = 0; k < 8; ++k) {
                c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
            }
            table[i] = c;
        }
    }
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; ++i) {
        crc = table[(crc ^ p[i]) & 255] ^ crc >> 8;
    }
    return ~crc;
}

static void mend(file_t *f) {
    if (f->len >= MICA_SIZEOF_HEADER) {
        uint32_t n = get(f->data + MICA_HEADER_FILE_BYTES, 4), zero = 0;
        memcpy(f->data + MICA_HEADER_CRC32, &zero, 4);
        uint32_t crc = crc32(f->data, n < f->len ? n : f->len);
        memcpy(f->data + MICA_HEADER_CRC32, &crc, 4);
    }
}

// A parameter of a step becomes small, or the same of another: what the loader takes, and the compiler never writes.
static bool change_step(file_t *f) {
    const uint32_t sections = get(f->data + MICA_HEADER_HEADER_BYTES, 2),
        size = get(f->data + MICA_HEADER_SECTION_BYTES, 2);
    for (uint32_t i = 0; i < get(f->data + MICA_HEADER_N_SECTIONS, 2); ++i) {
        const size_t at = sections + (size_t)i * size;
        if (at + MICA_SIZEOF_SECTION > f->len || get(f->data + at + MICA_SECTION_KIND, 2) != MICA_KIND_STEPS) {
            continue;
        }
        const size_t steps = get(f->data + at + MICA_SECTION_OFFSET, 4), n = get(f->data + at + MICA_SECTION_COUNT, 4);
        if (n == 0 || n > MICA_MAX_STEPS || steps > f->len || n * MICA_SIZEOF_STEP > f->len - steps) {
            return false;
        }
        uint8_t *params = f->data + steps + random_below((uint32_t)n) * MICA_SIZEOF_STEP + MICA_STEP_PARAMS;
        const uint32_t v = random_below(4) ? random_below(8) : get(params + 4 * random_below(MICA_MAX_PARAMS), 4);
        memcpy(params + 4 * random_below(MICA_MAX_PARAMS), &v, 4);
        return true;
    }
    return false;
}

// One change: a parameter of a step, a bit, a number at an end of its range or a little further, a copy from elsewhere,
// a part of another file.
static void change(file_t *f) {
    static const uint32_t edges[] =
        { 0, 1, 2, 4, 16, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 1u << 24, 0x7fffffff, 1u << 31, 0xffffffff };
    const size_t sizes[] = { 1, 2, 4, 4 };
    const size_t n = sizes[random_below(4)];
    if (f->len < 2 * MICA_SIZEOF_HEADER) {
        return;
    }
    if (random_below(4) == 0 && change_step(f)) {
        return;
    }
    // Records are small and at the front; most of a file is weights.
    uint32_t span = random_below(3) ? (uint32_t)f->len / 2 : (uint32_t)f->len;
    size_t at = random_below(span - 4) & ~(size_t)(n - 1), from = random_below((uint32_t)f->len - 4) & ~(size_t)(n - 1);
    uint32_t v = get(f->data + at, n);
    switch (random_below(6)) {
        case 0:
            v ^= 1u << random_below((uint32_t)n * 8);
            break;
        case 1:
            v = edges[random_below(sizeof(edges) / sizeof(*edges))];
            break;
        case 2:
            v += random_below(33) - 16;
            break;
        case 3:
            v = get(f->data + from, n);
            break;
        case 4:
            v = 0 - v;
            break;
        default: {
            const file_t *other = &corpus[random_below((uint32_t)n_corpus)];
            size_t part = 1 + random_below(64);
            if (at + part <= f->len && at + part <= other->len) {
                memcpy(f->data + at, other->data + at, part);
            }
            return;
        }
    }
    memcpy(f->data + at, &v, n);
}

static void keep(const file_t *f, const char *to) {
    if (n_corpus == MOST_FILES) {
        return;
    }
    corpus[n_corpus] = (file_t) { malloc(f->len), f->len };
    memcpy(corpus[n_corpus].data, f->data, f->len);
    if (*to) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%zu.mica", to, n_corpus);
        FILE *out = fopen(path, "wb");
        if (out != NULL) {
            fwrite(f->data, 1, f->len, out);
            fclose(out);
        }
    }
    ++n_corpus;
}

// Runs one file; true where it reached something new.
static bool reaches_new(const file_t *f) {
    char text[400];
    uint8_t *copy = block(f->len);  // the driver changes it, and it is exactly as long as it says
    if (f->len != 0) { // a file of nothing has no address
        memcpy(copy, f->data, f->len);
    }
    current = *f;
    memset(hits, 0, sizeof(hits));
    before = 0;
    const struct itimerval limit = {.it_value = {.tv_sec = SLOW_SECONDS}};
    setitimer(ITIMER_VIRTUAL, &limit, NULL);
    n_loaded += try_file(copy, f->len, text, sizeof(text)) == MICA_OK;
    ++n_inputs;
    free(copy);
    bool new = false;
    for (size_t i = 0; i < sizeof(hits); ++i) {
        if (hits[i]) {
            uint8_t kind = hits[i] < 4 ? (uint8_t)(1u << (hits[i] - 1)) : hits[i] < 16 ? 8 : hits[i] < 64 ? 16
                : hits[i] < 255 ? 32 : 64;
            new |= (seen[i] & kind) == 0;
            seen[i] |= kind;
        }
    }
    return new;
}

static size_t edges_seen(void) {
    size_t n = 0;
    for (size_t i = 0; i < sizeof(seen); ++i) {
        n += seen[i] != 0;
    }
    return n;
}

static void read_seeds(void) {
    struct dirent **names = NULL;
    const int n = scandir(folder, &names, NULL, alphasort);  // the order of a folder is its file system's
    for (int i = 0; i < n; ++i) {
        char path[4096];
        static uint8_t bytes[1u << 20];
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
        FILE *f = names[i]->d_name[0] == '.' ? NULL : fopen(path, "rb");
        if (f != NULL) {
            file_t seed = { bytes, fread(bytes, 1, sizeof(bytes), f) };
            fclose(f);
            reaches_new(&seed);
            keep(&seed, "");
        }
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv) {
    if (argc != 6) {
        return 2;
    }
    folder = argv[1];
    random_state = strtoull(argv[2], NULL, 10) * 2 + 1;
    const uint64_t most = strtoull(argv[3], NULL, 10);
    const time_t end = atoi(argv[4]) ? time(NULL) + atoi(argv[4]) : 0;
    __sanitizer_set_death_callback(died);
    before_exit = died;
    signal(SIGVTALRM, slow);
    signal(SIGABRT, aborted);
    read_seeds();
    if (n_corpus == 0) {
        return 2;
    }
    const size_t seeds = n_corpus, edges_of_seeds = edges_seen();
    while ((most == 0 || n_inputs < most) && (end == 0 || time(NULL) < end)) {
        // The seeds are the largest part of what there is to find; what was found lately leads further.
        const file_t *parent = &corpus[random_below(2) ? random_below((uint32_t)n_corpus)
            : (uint32_t)n_corpus - 1 - random_below((uint32_t)(n_corpus < 32 ? n_corpus : 32))];
        file_t f = { malloc(parent->len), parent->len };
        memcpy(f.data, parent->data, f.len);
        for (uint32_t k = random_below(4) ? 1 : 1 + random_below(MOST_CHANGES); k > 0; --k) {
            change(&f);
        }
        if (random_below(64) == 0) {
            f.len = random_below((uint32_t)f.len + 1);  // cut short
        }
        if (random_below(256)) {
            mend(&f);
        }
        if (reaches_new(&f)) {
            keep(&f, argv[5]);
        }
        free(f.data);
    }
    printf("{\"inputs\": %llu, \"loaded\": %llu, \"seeds\": %zu, \"kept\": %zu, \"edges_of_seeds\": %zu, \"edges\": "
        "%zu}\n",
        (unsigned long long)n_inputs, (unsigned long long)n_loaded, seeds, n_corpus - seeds, edges_of_seeds,
        edges_seen());
    return 0;
}
