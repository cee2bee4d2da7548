// Bare-metal benchmark. It loads every model of a block of jobs through the engine's own entry points and runs it step
// by step. It prints each step's cost, and a hash of the bytes written. The emulator puts the block at BENCH_JOBS.
//
// Lines on stdout, numbers in hexadecimal:
//   J <job> <arena bytes> <scratch bytes> <check> <load>     a job begins; counts of mica_check() and loading follow
//   S <job> <step> <count> <hash>             count: of the core's counter (scripts/bench knows the unit), of all times
//   E <job> <text>                            the engine refused the model
//   D                                         all jobs are done
#include <string.h>

#include "board.h"
#include "mica.h"

#define MAGIC 0x53424f4a  // "JOBS"
#define GUARD 1024u       // bytes behind the arena that have to stay as they are

// As scripts/bench/bare_metal.py writes them. Offsets from the start of the block; a multiple of 16 for files.
typedef struct {
    uint32_t file, file_bytes;
    uint32_t inputs;         // all model inputs, each padded to 4
    uint32_t scratch_bytes;  // in front of which the arena ends: what this job gives its kernels
    uint32_t parts;          // into which each step is cut, as for cores side by side; 2: first part first, else last
    uint32_t times;          // how often each step is run before the count is taken
} job_t;

typedef struct {
    uint32_t magic, count;
    job_t jobs[];
} block_t;

static uint8_t arena[BENCH_ARENA_BYTES] __attribute__((aligned(16)));
static uint8_t tables[BENCH_TABLES_BYTES] __attribute__((aligned(8)));
static uint8_t state[40960] __attribute__((aligned(16)));

static void print_number(uint32_t v) {
    char text[10], *p = text + sizeof(text);
    *--p = 0;
    do {
        *--p = "0123456789abcdef"[v & 15];
        v >>= 4;
    } while (v);
    board_print(" ");
    board_print(p);
}

// FNV-1a.
static uint32_t hash(const uint8_t *p, uint32_t n) {
    uint32_t h = 0x811c9dc5;
    for (uint32_t i = 0; i < n; ++i) {
        h = (h ^ p[i]) * 0x01000193;
    }
    return h;
}

static void run_step(const mica_model_t *m, uint32_t step, uint32_t parts) {
    if (parts < 2 || !mica_step_has_parts(m, step, parts)) {
        mica_run_step(m, step);
        return;
    }
    for (uint32_t part = 0; part < parts; ++part) {
        mica_run_part(m, step, parts == 2 ? part : parts - 1 - part, parts);
    }
}

// Rows of the fed input, out of all of them; a row's bytes lie in front.
typedef struct {
    uint32_t row;
    const uint8_t *rows;
} frame_t;

static void feed(void *context, uint32_t begin, uint32_t end, void *rows) {
    const frame_t *frame = context;
    memcpy(rows, frame->rows + begin * frame->row, (end - begin) * frame->row);
}

static void run(const block_t *block, uint32_t i) {
    const job_t *job = &block->jobs[i];
    const uint8_t *base = (const uint8_t *)block;
    mica_info_t info;
    mica_error_t err;
    mica_model_t *m = NULL;
    uint32_t begin = board_count(), check = 0, load = 0;
    if (mica_check(base + job->file, job->file_bytes, &info, &err) == MICA_OK) {
        check = board_elapsed(begin, board_count());
        uint32_t bytes = info.arena_bytes + job->scratch_bytes;
        if (bytes + GUARD > sizeof(arena)) {
            board_print("E");
            print_number(i);
            board_print(" the benchmark's arena is too small\n");
            return;
        }
        memset(arena, 0x5a, bytes + GUARD);
        begin = board_count();
        mica_load_with(MICA_LOAD_CHECKED, tables, sizeof(tables), base + job->file, job->file_bytes, arena, bytes,
            state, sizeof(state), &m, &err);
        load = board_elapsed(begin, board_count());
    }
    if (m == NULL) {
        char text[200];
        board_print("E");
        print_number(i);
        board_print(" ");
        board_print(mica_error_text(&err, base + job->file, job->file_bytes, text, sizeof(text)));
        board_print("\n");
        return;
    }
    board_print("J");
    print_number(i);
    print_number(info.arena_bytes);
    print_number(job->scratch_bytes);
    print_number(check);
    print_number(load);
    board_print("\n");
    const uint8_t *x = base + job->inputs;
    frame_t frame;
    for (uint32_t k = 0; k < info.n_inputs; ++k) {
        mica_tensor_t t;
        mica_tensor(m, mica_input_id(m, k), &t);
        if (k == mica_fed_input(m)) {
            frame = (frame_t) { t.dims[2] * t.dims[3], x };
            mica_set_feed(m, feed, &frame);
            t.bytes = t.dims[1] * frame.row;
        } else {
            memcpy(t.data, x, t.bytes);
        }
        x += (t.bytes + 3) & ~(uint32_t)3;
    }
    for (uint32_t step = 0; step < info.n_steps; ++step) {
        begin = board_count();
        for (uint32_t time = 0; time < job->times; ++time) {
            run_step(m, step, job->parts);
        }
        uint32_t count = board_elapsed(begin, board_count());
        mica_step_info_t about;
        mica_tensor_t y;
        mica_step_info(m, step, &about);
        mica_tensor(m, about.outputs[0], &y);
        board_print("S");
        print_number(i);
        print_number(step);
        print_number(count);
        print_number(hash(y.data, y.bytes));
        board_print("\n");
    }
    // Nothing may be written behind the arena's end.
    for (uint32_t at = 0; at < GUARD; ++at) {
        if (arena[info.arena_bytes + job->scratch_bytes + at] != 0x5a) {
            board_print("E");
            print_number(i);
            board_print(" a step wrote behind the arena\n");
            return;
        }
    }
}

int main(void) {
    const block_t *block = (const block_t *)BENCH_JOBS;
    if (block->magic != MAGIC) {
        board_print("E 0 there is no block of jobs\n");
    } else {
        for (uint32_t i = 0; i < block->count; ++i) {
            run(block, i);
        }
        board_print("D\n");
    }
    board_exit();
}
