/* load.c - loads a rank's blocks one step ahead of the work.
 *
 * There are two slots. While the caller multiplies the blocks of one, a thread fills the other: it
 * makes the numbers, reads them from a file or asks another rank for them. So the disk and the wire
 * work while the cores do, and memory holds two panels, however many there are.
 * THREADS: begin, take, free and end belong to the rank's thread; the loading thread reads matrices
 * and calls yk_wire_pull. */
#include "matmul/rank.h"

#include "base/clock.h"

#include <sys/mman.h>
#include <time.h>

enum { HUGE = 2 << 20, LOOK_MS = 50 }; /* LOOK_MS: between looks for a stop */

static size_t whole_pages(size_t bytes)
{
    return (bytes + HUGE - 1) / HUGE * HUGE;
}

void *yk_matmul_memory(size_t bytes)
{
    void *p = mmap(NULL, whole_pages(bytes > 0 ? bytes : 1), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (bytes >= HUGE)
        madvise(p, whole_pages(bytes), MADV_HUGEPAGE); /* only for speed */
    return p;
}

void yk_matmul_memory_free(void *p, size_t bytes)
{
    if (p != NULL)
        munmap(p, whole_pages(bytes > 0 ? bytes : 1));
}

static void wait_changed(struct yk_loader *l)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_clockwait(&l->changed, &l->lock, CLOCK_MONOTONIC, &until);
}

static yk_code load_step(struct yk_matmul *m, uint64_t i,
                         const struct yk_rect block[YK_MATMUL_INPUTS], struct yk_error *e)
{
    struct yk_loader *l = &m->loader;
    yk_code rc = YK_OK;
    for (int x = 0; x < YK_MATMUL_INPUTS && rc == YK_OK; x++) {
        if (block[x].rows == 0)
            continue;
        int from = l->ask_others ? yk_matmul_supplier(&m->plan, m->rank, x, i) : m->rank;
        if (from == m->rank)
            rc = yk_matrix_read(&m->input[x], &block[x], l->type, m->buffers.slot[i % 2][x], e);
        else
            rc = yk_wire_pull(m, from, x, &block[x], l->type, m->buffers.slot[i % 2][x], e);
    }
    return rc;
}

static void *run(void *arg)
{
    struct yk_matmul *m = arg;
    struct yk_loader *l = &m->loader;
    for (uint64_t i = 0;; i++) {
        struct yk_rect block[YK_MATMUL_INPUTS] = {{0}};
        struct yk_error e = {0};
        bool more = l->step(l->arg, i, block);
        pthread_mutex_lock(&l->lock);
        while (!l->stop && i >= l->freed + 2)
            wait_changed(l);
        bool stop = l->stop;
        pthread_mutex_unlock(&l->lock);
        yk_code rc = more && !stop ? load_step(m, i, block, &e) : YK_OK;
        pthread_mutex_lock(&l->lock);
        l->rc = rc;
        l->error = e;
        l->ended = !more || stop || rc != YK_OK;
        for (int x = 0; x < YK_MATMUL_INPUTS; x++)
            l->block[i % 2][x] = block[x];
        l->loaded += more && !stop && rc == YK_OK;
        bool ended = l->ended;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        if (ended)
            return NULL;
    }
}

yk_code yk_load_begin(struct yk_matmul *m,
                      bool (*step)(void *arg, uint64_t i, struct yk_rect block[YK_MATMUL_INPUTS]),
                      void *arg, enum yk_float type, bool ask_others, struct yk_error *e)
{
    struct yk_loader *l = &m->loader;
    l->stop = l->ended = false;
    l->loaded = l->freed = 0;
    l->rc = YK_OK;
    l->step = step;
    l->arg = arg;
    l->type = type;
    l->ask_others = ask_others;
    if (pthread_create(&l->thread, NULL, run, m) != 0)
        return yk_fail(e, YK_FAILED, "cannot start the thread that loads");
    pthread_setname_np(l->thread, "yoke-load");
    l->running = true;
    return YK_OK;
}

yk_code yk_load_take(struct yk_matmul *m, uint64_t i, void *data[YK_MATMUL_INPUTS],
                     struct yk_rect block[YK_MATMUL_INPUTS], bool *more, struct yk_error *e)
{
    struct yk_loader *l = &m->loader;
    yk_code rc = YK_OK;
    pthread_mutex_lock(&l->lock);
    while (l->loaded <= i && !l->ended && rc == YK_OK) {
        wait_changed(l);
        pthread_mutex_unlock(&l->lock);
        rc = yk_wire_state(m, e);
        if (m->rank == 0 && m->hooks.say != NULL)
            m->hooks.say(m->hooks.arg, -1, 0, "waiting for blocks");
        pthread_mutex_lock(&l->lock);
    }
    *more = rc == YK_OK && l->loaded > i;
    if (rc == YK_OK && !*more && l->rc != YK_OK) {
        rc = l->rc;
        if (e != NULL)
            *e = l->error;
    }
    for (int x = 0; x < YK_MATMUL_INPUTS; x++) {
        block[x] = l->block[i % 2][x];
        data[x] = m->buffers.slot[i % 2][x];
    }
    pthread_mutex_unlock(&l->lock);
    return rc == YK_OK ? yk_wire_state(m, e) : rc;
}

void yk_load_free(struct yk_matmul *m, uint64_t i)
{
    struct yk_loader *l = &m->loader;
    pthread_mutex_lock(&l->lock);
    l->freed = i + 1;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

void yk_load_end(struct yk_matmul *m)
{
    struct yk_loader *l = &m->loader;
    if (!l->running)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    l->running = false;
}
