/* rank.c - the life of a rank of a product: its inputs, speed, memory and output; see matmul.h.
 *
 * A file that a rank cannot open is no error as long as another rank has it. A file that it can
 * open must be a matrix. All ranks measure their speed at the same time, right after they have met,
 * because they will also work at the same time: they share cores and memory.
 * THREADS: one thread per rank. */
#include "matmul/rank.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/rng.h"
#include "kernel/onednn_gemm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Part of the free memory that the ranks of a host take, unless --memory is given. */
#define SHARE 0.6
#define LARGE_WORK 5e9   /* operations that are worth a longer measurement */
#define PROBE_LARGE 0.15 /* seconds */
#define PROBE_SMALL 0.02
enum { SIDE_LARGE = 1536, SIDE_SMALL = 384, PROBE_ROWS = 64 };

yk_code yk_matmul_open(struct yk_matmul **out, const struct yk_matmul_ask *ask, int rank, int ranks,
                       struct yk_error *e)
{
    if (ask->output != NULL && ask->trace && !ask->full) {
        yk_fail(e, YK_USAGE, "a trace alone needs no product, so there is none to write into '%s'",
                ask->output);
        yk_hint(e, "--trace --full makes a product");
        return YK_USAGE;
    }
    if (ask->full && !ask->trace)
        return yk_fail(e, YK_USAGE,
                       "--full says how to compute the trace, so it goes with --trace");
    struct yk_matmul *m = calloc(1, sizeof *m);
    if (m == NULL)
        return yk_fail_memory(e, sizeof *m);
    m->ask = *ask;
    m->rank = rank;
    m->ranks = ranks;
    m->output.fd = m->output.file.fd = m->wire.lost = m->wire.first_failed = -1;
    m->input[0].file.fd = m->input[1].file.fd = -1;
    m->opened = yk_now();
    pthread_mutex_init(&m->wire.lock, NULL);
    pthread_cond_init(&m->server.asked, NULL);
    pthread_mutex_init(&m->loader.lock, NULL);
    pthread_cond_init(&m->loader.changed, NULL);
    *out = m;
    return YK_OK;
}

/* --- looking --- */

static yk_code look_at_input(struct yk_matmul *m, int x, struct yk_matmul_card *mine,
                             struct yk_error *e)
{
    struct yk_matrix *input = &m->input[x];
    if (m->ask.n > 0) {
        yk_matrix_make(input, m->ask.n, m->ask.seed, x);
    } else {
        errno = 0;
        yk_code rc = yk_matrix_open(input, m->ask.path[x], e);
        if (rc != YK_OK && errno == ENOENT && m->ranks > 1)
            return YK_OK;
        if (rc != YK_OK)
            return rc;
        mine->input[x].far = yk_matrix_far(input);
        mine->input[x].wide = input->file.type == YK_F64;
    }
    mine->input[x].seen = true;
    mine->input[x].rows = input->rows;
    mine->input[x].cols = input->cols;
    return yk_matrix_mark(input, &mine->input[x].mark, e);
}

/* The operations of a rank, if all have the same share; 0 for sizes that this rank does not
 * know. */
static double share_of_work(const struct yk_matmul *m, const struct yk_matmul_card *mine)
{
    double rows = (double)mine->input[0].rows, k = (double)mine->input[0].cols,
           cols = (double)mine->input[1].cols;
    return m->ask.trace && !m->ask.full ? 0 : 2 * rows * k * cols / m->ranks;
}

static yk_code measure(struct yk_matmul *m, struct yk_matmul_card *mine, struct yk_error *e)
{
    bool large = share_of_work(m, mine) > LARGE_WORK;
    uint64_t side = large ? SIDE_LARGE : SIDE_SMALL;
    double limit = large ? PROBE_LARGE : PROBE_SMALL;
    float *a = yk_matmul_memory(side * side * sizeof(float) * 3);
    if (a == NULL)
        return yk_fail_memory(e, side * side * sizeof(float) * 3);
    const struct yk_gemm_job job = {side, side, side, a, a + side * side, a + 2 * side * side,
                                    side, side, side, 0};
    struct yk_matrix numbers;
    struct yk_rect all = {0, 0, side, side};
    yk_matrix_make(&numbers, side, 1, 0);
    yk_code rc = yk_matrix_read(&numbers, &all, YK_F32, a, e);
    if (rc == YK_OK)
        rc = yk_matrix_read(&numbers, &all, YK_F32, a + side * side, e);
    if (rc == YK_OK)
        rc = yk_gemm(&job, e); /* the first call makes the kernels */
    double start = yk_now(), now = start, best = 1e9;
    while (rc == YK_OK && (now == start || now - start < limit)) {
        rc = yk_gemm(&job, e);
        double end = yk_now();
        best = fmin(best, end - now); /* the shortest call was not disturbed by others */
        now = end;
    }
    mine->gflops = 2e-9 * (double)(side * side * side) / (best > 1e-9 ? best : 1e-9);
    yk_matmul_memory_free(a, side * side * sizeof(float) * 3);
    return rc;
}

/* Elements per second, from the beginning of the first input that is here. */
static yk_code measure_loads(struct yk_matmul *m, struct yk_matmul_card *mine, struct yk_error *e)
{
    mine->loads = 1e9;
    for (int x = 0; x < YK_MATMUL_INPUTS; x++) {
        const struct yk_matrix *input = &m->input[x];
        if (!mine->input[x].seen)
            continue;
        struct yk_rect b = {0, 0, input->rows < PROBE_ROWS ? input->rows : PROBE_ROWS,
                            input->cols < YK_CHECK_COLS ? input->cols : YK_CHECK_COLS};
        size_t bytes = b.rows * b.cols * sizeof(float);
        float *to = yk_matmul_memory(bytes);
        if (to == NULL)
            return yk_fail_memory(e, bytes);
        /* the first read finds the pages, and brings the file from the disk */
        yk_code rc = yk_matrix_read(input, &b, YK_F32, to, e);
        double start = yk_now();
        if (rc == YK_OK)
            rc = yk_matrix_read(input, &b, YK_F32, to, e);
        double seconds = yk_now() - start;
        yk_matmul_memory_free(to, bytes);
        mine->loads = (double)(b.rows * b.cols) / (seconds > 1e-9 ? seconds : 1e-9);
        return rc;
    }
    return YK_OK;
}

/* A different number every time. */
static uint64_t any_number(uint64_t use)
{
    struct yk_rng rng;
    yk_rng_init(&rng, (uint64_t)getpid(), (uint64_t)(yk_wall() * 1e6), use, 0);
    return yk_rng_next(&rng);
}

/* Makes rank 0's file under its temporary name. Until it is whole it begins with a token by which
 * other ranks recognise it. */
static yk_code make_output(struct yk_matmul *m, struct yk_matmul_card *mine, struct yk_error *e)
{
    struct stat s;
    /* opening a pipe would wait for a reader */
    if (stat(m->ask.output, &s) == 0 && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode))
        return yk_fail(e, YK_USAGE, "cannot write blocks into '%s': it is not a regular file",
                       m->ask.output);
    yk_code rc = yk_outfile_open(&m->output.file, m->ask.output, e);
    if (rc != YK_OK)
        return rc;
    m->output.exists = true;
    mine->token = any_number(0);
    rc = yk_outfile_write(&m->output.file, &mine->token, sizeof mine->token, e);
    if (rc == YK_OK)
        rc = yk_path(mine->temporary, e, "%s", m->output.file.temp);
    return rc;
}

yk_code yk_matmul_look(struct yk_matmul *m, int here, struct yk_matmul_card *mine,
                       struct yk_error *e)
{
    here = here > 0 ? here : 1;
    memset(mine, 0, sizeof *mine);
    gethostname(mine->host, sizeof mine->host - 1);
    unsigned cores = yk_cpus() / (unsigned)here;
    m->threads = mine->threads = m->ask.threads > 0 ? m->ask.threads : cores > 0 ? cores : 1;
    mine->memory = m->ask.memory > 0
                       ? m->ask.memory
                       : (uint64_t)((double)yk_memory_free() * SHARE) / (uint64_t)here;
    mine->key = any_number(1);
    yk_gemm_threads(m->threads);
    yk_code rc = yk_team_open(&m->team, m->threads, e);
    for (int x = 0; x < YK_MATMUL_INPUTS && rc == YK_OK; x++)
        rc = look_at_input(m, x, mine, e);
    if (rc == YK_OK)
        rc = measure(m, mine, e);
    if (rc == YK_OK)
        rc = measure_loads(m, mine, e);
    if (rc == YK_OK && m->rank == 0 && m->ask.output != NULL)
        rc = make_output(m, mine, e);
    return rc;
}

void yk_matmul_reach(struct yk_matmul *m, const struct yk_matmul_card *first,
                     struct yk_matmul_card *mine)
{
    uint64_t token = 0;
    if (first->temporary[0] == '\0')
        return;
    int fd = m->rank == 0 ? m->output.file.fd : open(first->temporary, O_RDWR | O_CLOEXEC);
    mine->writes = m->rank == 0 || (fd >= 0 && pread(fd, &token, sizeof token, 0) == sizeof token &&
                                    token == first->token);
    if (mine->writes)
        m->output.fd = fd;
    else if (fd >= 0)
        close(fd);
}

yk_code yk_matmul_settle(struct yk_matmul *m, const struct yk_matmul_card *cards,
                         struct yk_error *e)
{
    yk_code rc = yk_matmul_plan(&m->plan, &m->ask, cards, m->ranks, e);
    if (rc != YK_OK)
        return rc;
    m->part = &m->plan.part[m->rank];
    uint64_t size = m->plan.product ? sizeof(float) : sizeof(double);
    const uint64_t elements[] = {m->plan.tile_rows * m->plan.panel,
                                 m->plan.panel * m->plan.tile_cols};
    bool bad = false;
    for (int x = 0; x < YK_MATMUL_INPUTS; x++) {
        m->buffers.slot_bytes[x] =
            (elements[x] > YK_CHECK_FLOATS || !m->plan.product ? elements[x] : YK_CHECK_FLOATS) *
            size;
        for (int s = 0; s < 2; s++) {
            m->buffers.slot[s][x] = yk_matmul_memory(m->buffers.slot_bytes[x]);
            bad = bad || m->buffers.slot[s][x] == NULL;
        }
    }
    if (m->plan.product) {
        m->buffers.tile_bytes = m->plan.tile_rows * m->plan.tile_cols * sizeof(float);
        m->buffers.tile = yk_matmul_memory(m->buffers.tile_bytes);
        bad = bad || m->buffers.tile == NULL || !yk_check_open(m);
    }
    if (bad)
        return yk_fail_memory(e, m->part->memory);
    return yk_wire_open(m, e);
}

const struct yk_matmul_plan *yk_matmul_planned(const struct yk_matmul *m)
{
    return &m->plan;
}

void yk_matmul_abandon(struct yk_matmul *m)
{
    if (m->output.exists)
        yk_outfile_abort(&m->output.file); /* does nothing if it is whole */
}

void yk_matmul_close(struct yk_matmul *m)
{
    if (m == NULL)
        return;
    yk_matmul_abandon(m);
    if (m->output.fd >= 0 && m->rank > 0)
        close(m->output.fd);
    for (int x = 0; x < YK_MATMUL_INPUTS; x++) {
        yk_matrix_close(&m->input[x]);
        for (int s = 0; s < 2; s++)
            yk_matmul_memory_free(m->buffers.slot[s][x], m->buffers.slot_bytes[x]);
    }
    yk_matmul_memory_free(m->buffers.tile, m->buffers.tile_bytes);
    yk_check_close(m);
    yk_wire_close(m);
    yk_team_close(m->team);
    yk_matmul_plan_release(&m->plan);
    pthread_cond_destroy(&m->loader.changed);
    pthread_mutex_destroy(&m->loader.lock);
    pthread_cond_destroy(&m->server.asked);
    pthread_mutex_destroy(&m->wire.lock);
    free(m);
}
