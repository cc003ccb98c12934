/* matmul_wire.c - what the ranks of a product tell each other; the messages are listed in matmul_rank.h.
 *
 * A rank that lacks a block asks for it, some rows at a time, a few messages ahead; they arrive where they belong. The rank that is asked
 * has a thread for it, which sleeps until somebody asks: reading takes time, and a handler has none. The same thread of rank 0 writes the
 * rows of C that ranks without a way to the output send it; such a rank has one message under way, so rank 0 needs a megabyte for each.
 *
 * Whatever goes wrong anywhere is rank 0's to decide: a rank says FAIL and waits, rank 0 says STOP to everybody, and all end with one
 * error. Who does not hear it in time, or hears that rank 0 is lost, ends by himself.
 * THREADS: handlers run wherever the engine runs them, and only touch what `lock` protects. pull is the loading thread's, the rest the
 * rank's own. */
#include "lab/matmul_rank.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { PULL, BLOCK, TILE, WROTE, REPORT, GO, VECTOR, FAIL, STOP };
enum { PROBE_MESSAGES = 8, PROBE_FLAG = 0x100, WIDE_FLAG = 0x200 };
#define LOOK 0.05       /* seconds between looks round */
#define STOP_LIMIT 30.0 /* for rank 0's last word, after a failure here */
#define PARTING 0.3     /* for it to leave, after a loss */

static int rank_of(const struct yk_matmul *m, int endpoint)
{
    return endpoint >= m->ranks ? endpoint - m->ranks : endpoint;
}

/* A block is counted where it arrives: whoever waits for it has not reported yet. */
static void count(struct yk_matmul *m, int other, const struct yk_note *note, size_t bytes)
{
    bool trial = (note->flags & PROBE_FLAG) != 0; /* what is only tried does not count */
    if (rank_of(m, other) != m->rank && !trial)
        atomic_fetch_add(&m->moved, bytes + sizeof *note);
}

static void post(struct yk_matmul *m, int from, int to, struct yk_note *note, const void *data,
                 size_t bytes, atomic_uint *pending)
{
    note->from = (uint16_t)from;
    note->to = (uint16_t)to;
    if (note->kind != BLOCK && note->kind != WROTE)
        count(m, to, note, bytes);
    yk_comm_send(m->comm, note, data, bytes, pending);
}

static void settle(struct yk_matmul *m, atomic_uint *pending)
{
    m->comm->ops->settle(m->comm, pending);
}

/* --- handlers --- */

static void *tile_buffer(struct yk_matmul *m, const struct yk_note *note)
{
    void **at = m->tile_in != NULL && note->bytes <= YK_TILE_BYTES
                    ? &m->tile_in[rank_of(m, note->from)]
                    : NULL;
    if (at != NULL && *at == NULL)
        *at = malloc(YK_TILE_BYTES);
    return at != NULL ? *at : NULL;
}

static void *place_at_owner(void *arg, const struct yk_note *note)
{
    struct yk_matmul *m = arg;
    int rank = rank_of(m, note->from);
    if (note->kind == TILE)
        return tile_buffer(m, note);
    if (note->kind == FAIL && m->failed != NULL && note->bytes == sizeof *m->failed)
        return &m->failed[rank];
    if (note->kind == REPORT && note->first < YK_PHASES &&
        note->bytes <= m->box_bytes[note->first] && m->box[note->first] != NULL)
        return (char *)m->box[note->first] + (size_t)rank * m->box_bytes[note->first];
    return NULL;
}

static void arrive_at_owner(void *arg, const struct yk_note *note, const void *data)
{
    struct yk_matmul *m = arg;
    void *to = note->bytes > 0 ? place_at_owner(m, note) : NULL;
    if (data != NULL && to != NULL && data != to)
        memcpy(to, data, note->bytes);
    pthread_mutex_lock(&m->lock);
    switch ((enum kind)note->kind) {
    case PULL:
    case TILE:
        if (m->queue != NULL && m->queue_count < m->queue_size) {
            m->queue[(m->queue_first + m->queue_count++) % m->queue_size] = *note;
            pthread_cond_signal(&m->asked);
        }
        break;
    case REPORT:
        if (to != NULL)
            m->boxed[note->first]++;
        break;
    case FAIL:
        if (to != NULL && m->first_failed < 0)
            m->first_failed = rank_of(m, note->from);
        break;
    default:
        break;
    }
    pthread_mutex_unlock(&m->lock);
}

static void *place_at_worker(void *arg, const struct yk_note *note)
{
    struct yk_matmul *m = arg;
    void *to = NULL;
    pthread_mutex_lock(&m->lock);
    if (note->kind == BLOCK && note->first < YK_PULLS && note->bytes == m->pull[note->first].bytes)
        to = m->pull[note->first].to;
    else if (note->kind == VECTOR && note->bytes == m->plan.k * sizeof *m->y)
        to = m->y;
    else if (note->kind == STOP && note->bytes == sizeof m->told_what)
        to = &m->told_what;
    pthread_mutex_unlock(&m->lock);
    return to;
}

static void arrive_at_worker(void *arg, const struct yk_note *note, const void *data)
{
    struct yk_matmul *m = arg;
    void *to = note->bytes > 0 ? place_at_worker(m, note) : NULL;
    if (data != NULL && to != NULL && data != to)
        memcpy(to, data, note->bytes);
    if (note->kind == BLOCK || note->kind == WROTE)
        count(m, note->from, note, note->bytes);
    pthread_mutex_lock(&m->lock);
    switch ((enum kind)note->kind) {
    case BLOCK:
        if (to != NULL)
            m->pull[note->first].done = true;
        break;
    case WROTE:
        m->wrote = true;
        break;
    case GO:
        m->go = true;
        break;
    case VECTOR:
        m->has_vector = to != NULL;
        break;
    case STOP:
        m->told = true;
        break;
    default:
        break;
    }
    pthread_mutex_unlock(&m->lock);
}

static void lost(void *arg, int endpoint, const char *why)
{
    struct yk_matmul *m = arg;
    pthread_mutex_lock(&m->lock);
    if (m->lost < 0) {
        m->lost = rank_of(m, endpoint);
        snprintf(m->why, sizeof m->why, "%s", why);
    }
    pthread_mutex_unlock(&m->lock);
}

static const struct yk_handler OWNER = {
    .place = place_at_owner, .arrive = arrive_at_owner, .lost = lost};
static const struct yk_handler WORKER = {
    .place = place_at_worker, .arrive = arrive_at_worker, .lost = lost};

/* --- waiting --- */

static yk_code refill(struct yk_error *e, const struct yk_failure *f)
{
    yk_fail(e, (yk_code)f->code, "%s", f->text);
    if (f->hint[0] != '\0')
        yk_hint(e, "%s", f->hint);
    return (yk_code)f->code;
}

yk_code yk_wire_state(struct yk_matmul *m, struct yk_error *e)
{
    yk_code rc = YK_OK;
    pthread_mutex_lock(&m->lock);
    if (m->lost >= 0)
        rc = yk_fail(e, YK_LOST, "rank %d on '%s' is lost: %s", m->lost, m->plan.card[m->lost].host,
                     m->why);
    else if (m->told && m->told_what.code != YK_OK)
        rc = refill(e, &m->told_what);
    else if (m->told)
        rc = yk_fail(e, YK_FAILED, "stopped"); /* in the middle of it: only the user does that */
    else if (m->first_failed >= 0)
        rc = refill(e, &m->failed[m->first_failed]);
    pthread_mutex_unlock(&m->lock);
    if (rc == YK_OK && m->rank == 0 && m->hooks.stopped != NULL && m->hooks.stopped(m->hooks.arg))
        rc = yk_fail(e, YK_FAILED, "stopped");
    return rc;
}

static bool is_set(struct yk_matmul *m, const bool *flag)
{
    pthread_mutex_lock(&m->lock);
    bool set = *flag;
    pthread_mutex_unlock(&m->lock);
    return set;
}

/* Until the flag is set, which a handler does. */
static yk_code await(struct yk_matmul *m, const bool *flag, struct yk_error *e)
{
    const struct yk_comm_ops *ops = m->comm->ops;
    for (;;) {
        unsigned before = ops->seen(m->comm, m->worker);
        if (is_set(m, flag))
            return YK_OK;
        yk_code rc = yk_wire_state(m, e);
        if (rc != YK_OK)
            return rc;
        ops->wait(m->comm, m->worker, before, LOOK);
    }
}

/* --- blocks from others --- */

static void ask_for(struct yk_matmul *m, int from, unsigned slot, uint16_t flags,
                    const struct yk_block *b, void *to, size_t bytes)
{
    struct yk_note note = {
        .kind = PULL, .flags = flags, .step = b->row, .id = b->col, .lo = b->cols, .first = slot};
    note.last = (uint32_t)b->rows;
    pthread_mutex_lock(&m->lock);
    m->pull[slot] = (struct yk_pull){.to = to, .bytes = bytes};
    pthread_mutex_unlock(&m->lock);
    post(m, m->worker, yk_owner_endpoint(from), &note, NULL, 0, NULL);
}

yk_code yk_wire_pull(struct yk_matmul *m, int from, int x, const struct yk_block *b,
                     enum yk_float type, void *out, struct yk_error *e)
{
    uint64_t row = b->cols * type, at_once = YK_PULL_BYTES / row > 0 ? YK_PULL_BYTES / row : 1;
    uint64_t parts = (b->rows + at_once - 1) / at_once;
    uint16_t flags = (uint16_t)((unsigned)x | (type == YK_F64 ? WIDE_FLAG : 0));
    for (uint64_t i = 0; i < parts + YK_PULLS; i++) {
        if (i >= YK_PULLS &&
            i - YK_PULLS <
                parts) { /* the one that was asked for so many ago; its slot is then free */
            yk_code rc = await(m, &m->pull[i % YK_PULLS].done, e);
            if (rc != YK_OK)
                return rc;
        }
        if (i >= parts)
            continue;
        uint64_t first = i * at_once, rows = b->rows - first < at_once ? b->rows - first : at_once;
        const struct yk_block some = {b->row + first, b->col, rows, b->cols};
        ask_for(m, from, i % YK_PULLS, flags, &some, (char *)out + first * row,
                (size_t)(rows * row));
    }
    return YK_OK;
}

yk_code yk_wire_probe(struct yk_matmul *m, int from, double *rate, struct yk_error *e)
{
    const struct yk_block b = {.rows = YK_PULL_BYTES / 4096, .cols = 1024};
    void *to = yk_matmul_memory(YK_PULL_BYTES);
    if (to == NULL)
        return yk_fail_memory(e, YK_PULL_BYTES);
    yk_code rc = YK_OK;
    double start = yk_now();
    for (int i = 0; i < PROBE_MESSAGES && rc == YK_OK; i++) {
        ask_for(m, from, 0, PROBE_FLAG, &b, to, YK_PULL_BYTES);
        rc = await(m, &m->pull[0].done, e);
        if (i == 0)
            start = yk_now(); /* the first one finds its way */
    }
    *rate = (PROBE_MESSAGES - 1) * (double)YK_PULL_BYTES / (yk_now() - start);
    if (rc == YK_OK) /* otherwise the engine may still write there */
        yk_matmul_memory_free(to, YK_PULL_BYTES);
    return rc;
}

/* --- the server --- */

static void fail_here(struct yk_matmul *m, yk_code rc, const struct yk_error *e)
{
    struct yk_note note = {.kind = FAIL};
    struct yk_failure *out = &m->fail_out;
    pthread_mutex_lock(&m->lock);
    bool again =
        m->failing; /* the rank's thread and its server may both have something to say: the first counts */
    m->failing = true;
    pthread_mutex_unlock(&m->lock);
    if (again)
        return;
    *out = (struct yk_failure){.code = (int32_t)rc};
    if (m->ranks > 1)
        snprintf(out->text, sizeof out->text, "rank %d on '%s': %.400s", m->rank,
                 m->plan.card[m->rank].host, e->text);
    else
        snprintf(out->text, sizeof out->text, "%s", e->text);
    snprintf(out->hint, sizeof out->hint, "%s", e->hint);
    post(m, m->worker, yk_owner_endpoint(0), &note, out, sizeof *out, &m->pending);
}

static yk_code serve_pull(struct yk_matmul *m, const struct yk_note *ask, void *staging,
                          atomic_uint *pending, struct yk_error *e)
{
    const struct yk_block b = {ask->step, ask->id, ask->last, ask->lo};
    enum yk_float type = ask->flags & WIDE_FLAG ? YK_F64 : YK_F32;
    const struct yk_matrix *x = &m->input[ask->flags & 1];
    bool probe = (ask->flags & PROBE_FLAG) != 0;
    bool inside = b.cols > 0 && b.rows > 0 && b.cols <= YK_PULL_BYTES / type &&
                  b.rows <= YK_PULL_BYTES / type / b.cols;
    inside = inside && (probe || (b.row < x->rows && b.rows <= x->rows - b.row && b.col < x->cols &&
                                  b.cols <= x->cols - b.col));
    if (!inside)
        return yk_fail(e, YK_FAILED, "rank %d asks for a block that is not there",
                       rank_of(m, ask->from));
    yk_code rc = probe ? YK_OK : yk_matrix_read(x, &b, type, staging, e);
    if (rc != YK_OK)
        return rc;
    struct yk_note note = {.kind = BLOCK, .flags = ask->flags, .first = ask->first};
    post(m, m->owner, ask->from, &note, staging, (size_t)(b.rows * b.cols * type), pending);
    return YK_OK;
}

static yk_code serve_tile(struct yk_matmul *m, const struct yk_note *tile, struct yk_error *e)
{
    const struct yk_block b = {tile->step, tile->id, tile->last, tile->lo};
    const float *rows = m->tile_in[rank_of(m, tile->from)];
    if (rows == NULL || m->out_fd < 0)
        return yk_fail_memory(e, YK_TILE_BYTES);
    yk_code rc = yk_npy_write(m->out_fd, m->ask.output, m->plan.n, &b, rows, b.cols, e);
    struct yk_note note = {.kind = WROTE};
    if (rc == YK_OK)
        post(m, m->owner, tile->from, &note, NULL, 0, NULL);
    return rc;
}

static void *serve(void *arg)
{
    struct yk_matmul *m = arg;
    struct yk_error e = {0};
    atomic_uint pending[2] = {0};
    yk_code rc = YK_OK;
    for (unsigned turn = 0; rc == YK_OK;) {
        pthread_mutex_lock(&m->lock);
        while (m->queue_count == 0 && !m->server_stop)
            pthread_cond_wait(&m->asked, &m->lock);
        bool stop = m->server_stop;
        struct yk_note ask = m->queue[m->queue_first];
        if (!stop) {
            m->queue_first = (m->queue_first + 1) % m->queue_size;
            m->queue_count--;
        }
        pthread_mutex_unlock(&m->lock);
        if (stop)
            break;
        if (ask.kind == TILE) {
            rc = serve_tile(m, &ask, &e);
            continue;
        }
        settle(m, &pending[turn % 2]);
        rc = serve_pull(m, &ask, m->staging[turn % 2], &pending[turn % 2], &e);
        turn++;
    }
    if (rc != YK_OK)
        fail_here(m, rc, &e);
    settle(m, &pending[0]);
    settle(m, &pending[1]);
    return NULL;
}

/* --- rows of C to rank 0 --- */

yk_code yk_wire_tile(struct yk_matmul *m, const struct yk_block *tile, struct yk_error *e)
{
    uint64_t row = tile->cols * sizeof(float),
             at_once = YK_TILE_BYTES / row > 0 ? YK_TILE_BYTES / row : 1;
    yk_code rc = YK_OK;
    /* A row may be longer than a message: then it goes in parts. */
    uint64_t wide = row > YK_TILE_BYTES ? YK_TILE_BYTES / sizeof(float) : tile->cols;
    for (uint64_t r = 0; r < tile->rows && rc == YK_OK; r += at_once)
        for (uint64_t c = 0; c < tile->cols && rc == YK_OK; c += wide) {
            uint64_t rows = tile->rows - r < at_once ? tile->rows - r : at_once;
            uint64_t cols = tile->cols - c < wide ? tile->cols - c : wide;
            struct yk_note note = {.kind = TILE,
                                   .step = tile->row + r,
                                   .id = tile->col + c,
                                   .lo = cols,
                                   .last = (uint32_t)rows};
            pthread_mutex_lock(&m->lock);
            m->wrote = false;
            pthread_mutex_unlock(&m->lock);
            post(m, m->worker, yk_owner_endpoint(0), &note, m->tile + r * tile->cols + c,
                 (size_t)(rows * cols) * sizeof(float), &m->pending);
            rc = await(m, &m->wrote, e);
        }
    return rc;
}

/* --- phases --- */

yk_code yk_wire_report(struct yk_matmul *m, enum yk_phase phase, const void *bytes, size_t n,
                       struct yk_error *e)
{
    struct yk_note note = {
        .kind = REPORT, .flags = phase == YK_PHASE_PROBE ? PROBE_FLAG : 0, .first = phase};
    atomic_uint pending = 0;
    yk_code rc = yk_wire_state(m, e);
    if (rc != YK_OK)
        return rc;
    post(m, m->worker, yk_owner_endpoint(0), &note, bytes, n, &pending);
    settle(m, &pending);
    return YK_OK;
}

yk_code yk_wire_gather(struct yk_matmul *m, enum yk_phase phase, struct yk_error *e)
{
    const struct yk_comm_ops *ops = m->comm->ops;
    for (;;) {
        unsigned before = ops->seen(m->comm, m->owner);
        pthread_mutex_lock(&m->lock);
        bool all = m->boxed[phase] == m->ranks;
        pthread_mutex_unlock(&m->lock);
        if (all)
            return YK_OK;
        yk_code rc = yk_wire_state(m, e);
        if (rc != YK_OK)
            return rc;
        if (m->hooks.say != NULL)
            m->hooks.say(m->hooks.arg, -1, 0, "waiting for the other ranks");
        ops->wait(m->comm, m->owner, before, LOOK);
    }
}

const void *yk_wire_box(const struct yk_matmul *m, enum yk_phase phase, int rank)
{
    return (const char *)m->box[phase] + (size_t)rank * m->box_bytes[phase];
}

static void tell_all(struct yk_matmul *m, enum kind kind, const void *data, size_t bytes)
{
    for (int r = 0; r < m->ranks; r++) {
        struct yk_note note = {.kind = (uint16_t)kind};
        if (r != m->rank && r != m->lost)
            post(m, m->owner, yk_worker_endpoint(m->comm, r), &note, data, bytes, &m->pending);
    }
}

yk_code yk_wire_go(struct yk_matmul *m, struct yk_error *e)
{
    if (m->rank > 0)
        return await(m, &m->go, e);
    tell_all(m, GO, NULL, 0);
    return yk_wire_state(m, e);
}

yk_code yk_wire_vector(struct yk_matmul *m, struct yk_error *e)
{
    if (m->rank > 0)
        return await(m, &m->has_vector, e);
    tell_all(m, VECTOR, m->y, m->plan.k * sizeof *m->y);
    return yk_wire_state(m, e);
}

/* Rank 0's last word. */
static void dismiss(struct yk_matmul *m, yk_code rc, bool stopped, const struct yk_error *e)
{
    m->stop_out = (struct yk_failure){.code = (int32_t)rc, .stopped = stopped};
    if (rc != YK_OK) {
        snprintf(m->stop_out.text, sizeof m->stop_out.text, "%s", e->text);
        snprintf(m->stop_out.hint, sizeof m->stop_out.hint, "%s", e->hint);
    }
    tell_all(m, STOP, &m->stop_out, sizeof m->stop_out);
    const struct yk_comm_ops *ops = m->comm->ops;
    double end = rc == YK_LOST ? yk_now() + PARTING : 0; /* otherwise closing the comm sees to it */
    while (yk_now() < end)
        ops->wait(m->comm, m->owner, ops->seen(m->comm, m->owner), end - yk_now());
}

static yk_code await_stop(struct yk_matmul *m, yk_code rc, bool *stopped, struct yk_error *e)
{
    const struct yk_comm_ops *ops = m->comm->ops;
    double end = rc == YK_OK ? 1e18 : yk_now() + STOP_LIMIT;
    for (;;) {
        unsigned before = ops->seen(m->comm, m->worker);
        pthread_mutex_lock(&m->lock);
        bool told = m->told, gone = m->lost >= 0;
        struct yk_failure f = m->told_what;
        pthread_mutex_unlock(&m->lock);
        if (told) {
            *stopped = f.stopped != 0;
            return f.code != YK_OK ? refill(e, &f) : YK_OK;
        }
        if (gone)
            return yk_wire_state(m, e);
        if (yk_now() > end)
            return rc;
        ops->wait(m->comm, m->worker, before, LOOK);
    }
}

yk_code yk_wire_finish(struct yk_matmul *m, yk_code rc, bool *stopped, struct yk_error *e)
{
    struct yk_error none = {0};
    *stopped = false;
    if (m->rank == 0) {
        *stopped = rc == YK_FAILED && m->hooks.stopped != NULL && m->hooks.stopped(m->hooks.arg);
        rc = *stopped ? YK_OK : rc;
        dismiss(m, rc, *stopped, e != NULL ? e : &none);
    } else {
        pthread_mutex_lock(&m->lock);
        bool told = m->told;
        pthread_mutex_unlock(&m->lock);
        if (rc != YK_OK && rc != YK_LOST && !told)
            fail_here(m, rc, e != NULL ? e : &none);
        rc = await_stop(m, rc, stopped, e);
    }
    if (m->serving &&
        rc !=
            YK_LOST) { /* after a loss the process ends as it is: a send to the lost would be waited for */
        pthread_mutex_lock(&m->lock);
        m->server_stop = true;
        pthread_cond_signal(&m->asked);
        pthread_mutex_unlock(&m->lock);
        pthread_join(m->server, NULL);
        m->serving = false;
    }
    return rc;
}

/* --- open and close --- */

static bool make_boxes(struct yk_matmul *m)
{
    const struct yk_matmul_plan *p = &m->plan;
    size_t vector = 0, check = 0;
    for (int r = 0; r < m->ranks; r++) {
        const struct yk_matmul_part *part = &p->part[r];
        size_t y = part->check[1][1] - part->check[1][0],
               z = part->check[0][1] - part->check[0][0] + part->c.rows;
        vector = y > vector ? y : vector;
        check = part->c.rows + 2 * z > check ? part->c.rows + 2 * z : check;
    }
    m->box_bytes[YK_PHASE_PROBE] = sizeof(struct yk_probe_report);
    m->box_bytes[YK_PHASE_WORK] = sizeof(struct yk_work_report);
    m->box_bytes[YK_PHASE_VECTOR] =
        sizeof(struct yk_vector_report) + (p->product ? vector * sizeof(double) : 0);
    m->box_bytes[YK_PHASE_CHECK] =
        sizeof(struct yk_check_report) + (p->product ? check * sizeof(double) : 0);
    for (int i = 0; i < YK_PHASES && m->rank == 0; i++)
        if ((m->box[i] = calloc((size_t)m->ranks, m->box_bytes[i])) == NULL)
            return false;
    return true;
}

yk_code yk_wire_open(struct yk_matmul *m, struct yk_error *e)
{
    m->queue_size = (size_t)m->ranks * (YK_PULLS + 1);
    m->queue = calloc(m->queue_size, sizeof *m->queue);
    bool bad = m->queue == NULL || !make_boxes(m);
    if (m->rank == 0) {
        m->failed = calloc((size_t)m->ranks, sizeof *m->failed);
        m->tile_in = calloc((size_t)m->ranks, sizeof *m->tile_in);
        bad = bad || m->failed == NULL || m->tile_in == NULL;
    }
    for (int i = 0; i < 2 && m->part->serves; i++) {
        m->staging[i] = yk_matmul_memory(YK_PULL_BYTES);
        bad = bad || m->staging[i] == NULL;
    }
    return bad ? yk_fail_memory(e, YK_PULL_BYTES) : YK_OK;
}

void yk_matmul_attach(struct yk_matmul *m, struct yk_comm *comm,
                      const struct yk_matmul_hooks *hooks)
{
    m->comm = comm;
    m->hooks = *hooks;
    m->owner = yk_owner_endpoint(m->rank);
    m->worker = yk_worker_endpoint(comm, m->rank);
    comm->ops->attach(comm, m->owner, &OWNER, m);
    comm->ops->attach(comm, m->worker, &WORKER, m);
}

yk_code yk_wire_start(struct yk_matmul *m, struct yk_error *e)
{
    if (!m->part->serves)
        return YK_OK;
    if (pthread_create(&m->server, NULL, serve, m) != 0)
        return yk_fail(e, YK_FAILED, "cannot start the thread that serves other ranks");
    pthread_setname_np(m->server, "yoke-serve");
    m->serving = true;
    return YK_OK;
}

void yk_wire_close(struct yk_matmul *m)
{
    for (int r = 0; m->tile_in != NULL && r < m->ranks; r++)
        free(m->tile_in[r]);
    free(m->tile_in);
    free(m->failed);
    free(m->queue);
    for (int i = 0; i < YK_PHASES; i++)
        free(m->box[i]);
    for (int i = 0; i < 2; i++)
        yk_matmul_memory_free(m->staging[i], YK_PULL_BYTES);
}
