/* wire.c - the messages between the ranks of a product; rank.h lists them.
 *
 * A rank that lacks a block asks for it, some rows at a time, a few messages ahead; they arrive in
 * their final place. The rank that is asked has a thread for it, because reading takes time, and a
 * handler must not block. The same thread of rank 0 writes the rows of C of ranks that cannot reach
 * the output; such a rank has one message under way, so rank 0 needs a megabyte for each.
 *
 * Rank 0 decides about every failure: a rank sends FAIL and waits, rank 0 sends STOP to all, and
 * all end with one error. A rank that does not get STOP in time, or learns that rank 0 is lost,
 * ends by itself.
 * THREADS: handlers run on the threads of the engine, and touch only fields that `lock` protects.
 * yk_wire_pull is called by the loading thread, all else by the rank's own. */
#include "matmul/rank.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { PULL, BLOCK, TILE, WROTE, REPORT, GO, VECTOR, FAIL, STOP };
enum { PROBE_MESSAGES = 8, PROBE_FLAG = 0x100, WIDE_FLAG = 0x200 };
#define LOOK 0.05       /* seconds between looks for losses and the user */
#define STOP_LIMIT 30.0 /* seconds to wait for STOP after a failure here */
#define PARTING 0.3     /* seconds for STOP to leave after a loss */

static int rank_of(const struct yk_matmul *m, int endpoint)
{
    return endpoint >= m->ranks ? endpoint - m->ranks : endpoint;
}

/* A block is counted by the rank that receives it, which has not reported yet. */
static void count(struct yk_matmul *m, int other, const struct yk_note *note, size_t bytes)
{
    bool trial = (note->flags & PROBE_FLAG) != 0; /* a probe is not part of the work */
    if (rank_of(m, other) != m->rank && !trial)
        atomic_fetch_add(&m->wire.moved, bytes + sizeof *note);
}

/* The block that a PULL asks for, or the rows of C in a TILE. */
static void put_rect(struct yk_note *note, const struct yk_rect *b)
{
    note->block.row = b->row;
    note->block.col = b->col;
    note->block.cols = b->cols;
    note->block.rows = (uint32_t)b->rows;
}

static struct yk_rect rect_of(const struct yk_note *note)
{
    return (struct yk_rect){note->block.row, note->block.col, note->block.rows, note->block.cols};
}

static void post(struct yk_matmul *m, int from, int to, struct yk_note *note, const void *data,
                 size_t bytes, atomic_uint *pending)
{
    note->from = (uint16_t)from;
    note->to = (uint16_t)to;
    if (note->kind != BLOCK && note->kind != WROTE)
        count(m, to, note, bytes);
    yk_comm_send(m->wire.comm, note, data, bytes, pending);
}

static void settle(struct yk_matmul *m, atomic_uint *pending)
{
    m->wire.comm->ops->settle(m->wire.comm, pending);
}

/* --- handlers --- */

static void *tile_buffer(struct yk_matmul *m, const struct yk_note *note)
{
    void **at = m->server.tile_in != NULL && note->bytes <= YK_TILE_BYTES
                    ? &m->server.tile_in[rank_of(m, note->from)]
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
    if (note->kind == FAIL && m->wire.failed != NULL && note->bytes == sizeof *m->wire.failed)
        return &m->wire.failed[rank];
    if (note->kind == REPORT && note->block.slot < YK_PHASES &&
        note->bytes <= m->wire.box_bytes[note->block.slot] && m->wire.box[note->block.slot] != NULL)
        return (char *)m->wire.box[note->block.slot] +
               (size_t)rank * m->wire.box_bytes[note->block.slot];
    return NULL;
}

static void arrive_at_owner(void *arg, const struct yk_note *note, const void *data)
{
    struct yk_matmul *m = arg;
    void *to = note->bytes > 0 ? place_at_owner(m, note) : NULL;
    if (data != NULL && to != NULL && data != to)
        memcpy(to, data, note->bytes);
    pthread_mutex_lock(&m->wire.lock);
    switch ((enum kind)note->kind) {
    case PULL:
    case TILE:
        if (m->server.queue != NULL && m->server.queue_count < m->server.queue_size) {
            size_t last = m->server.queue_first + m->server.queue_count++;
            m->server.queue[last % m->server.queue_size] = *note;
            pthread_cond_signal(&m->server.asked);
        }
        break;
    case REPORT:
        if (to != NULL)
            m->wire.boxed[note->block.slot]++;
        break;
    case FAIL:
        if (to != NULL && m->wire.first_failed < 0)
            m->wire.first_failed = rank_of(m, note->from);
        break;
    default:
        break;
    }
    pthread_mutex_unlock(&m->wire.lock);
}

static void *place_at_worker(void *arg, const struct yk_note *note)
{
    struct yk_matmul *m = arg;
    void *to = NULL;
    pthread_mutex_lock(&m->wire.lock);
    if (note->kind == BLOCK && note->block.slot < YK_PULLS &&
        note->bytes == m->wire.pull[note->block.slot].bytes)
        to = m->wire.pull[note->block.slot].to;
    else if (note->kind == VECTOR && note->bytes == yk_check_middle_bytes(&m->plan))
        to = m->check.middle;
    else if (note->kind == STOP && note->bytes == sizeof m->wire.stop_in)
        to = &m->wire.stop_in;
    pthread_mutex_unlock(&m->wire.lock);
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
    pthread_mutex_lock(&m->wire.lock);
    switch ((enum kind)note->kind) {
    case BLOCK:
        if (to != NULL)
            m->wire.pull[note->block.slot].done = true;
        break;
    case WROTE:
        m->wire.wrote = true;
        break;
    case GO:
        m->wire.may_start = true;
        break;
    case VECTOR:
        m->wire.has_vector = to != NULL;
        break;
    case STOP:
        m->wire.has_stop = true;
        break;
    default:
        break;
    }
    pthread_mutex_unlock(&m->wire.lock);
}

static void lost(void *arg, int endpoint, const char *why)
{
    struct yk_matmul *m = arg;
    pthread_mutex_lock(&m->wire.lock);
    if (m->wire.lost < 0) {
        m->wire.lost = rank_of(m, endpoint);
        snprintf(m->wire.why, sizeof m->wire.why, "%s", why);
    }
    pthread_mutex_unlock(&m->wire.lock);
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
    pthread_mutex_lock(&m->wire.lock);
    if (m->wire.lost >= 0)
        rc = yk_fail(e, YK_LOST, "rank %d on '%s' is lost: %s", m->wire.lost,
                     m->plan.card[m->wire.lost].host, m->wire.why);
    else if (m->wire.has_stop && m->wire.stop_in.code != YK_OK)
        rc = refill(e, &m->wire.stop_in);
    else if (m->wire.has_stop)
        /* STOP during the work, without an error, comes from the user */
        rc = yk_fail(e, YK_FAILED, "stopped");
    else if (m->wire.first_failed >= 0)
        rc = refill(e, &m->wire.failed[m->wire.first_failed]);
    pthread_mutex_unlock(&m->wire.lock);
    if (rc == YK_OK && m->rank == 0 && m->hooks.stopped != NULL && m->hooks.stopped(m->hooks.arg))
        rc = yk_fail(e, YK_FAILED, "stopped");
    return rc;
}

static bool is_set(struct yk_matmul *m, const bool *flag)
{
    pthread_mutex_lock(&m->wire.lock);
    bool set = *flag;
    pthread_mutex_unlock(&m->wire.lock);
    return set;
}

/* Waits until a handler sets the flag. */
static yk_code await(struct yk_matmul *m, const bool *flag, struct yk_error *e)
{
    const struct yk_comm_ops *ops = m->wire.comm->ops;
    for (;;) {
        unsigned before = ops->seen(m->wire.comm, m->wire.worker);
        if (is_set(m, flag))
            return YK_OK;
        yk_code rc = yk_wire_state(m, e);
        if (rc != YK_OK)
            return rc;
        ops->wait(m->wire.comm, m->wire.worker, before, LOOK);
    }
}

/* --- blocks from others --- */

static void ask_for(struct yk_matmul *m, int from, unsigned slot, uint16_t flags,
                    const struct yk_rect *b, void *to, size_t bytes)
{
    struct yk_note note = {.kind = PULL, .flags = flags, .block.slot = slot};
    put_rect(&note, b);
    pthread_mutex_lock(&m->wire.lock);
    m->wire.pull[slot] = (struct yk_pull){.to = to, .bytes = bytes};
    pthread_mutex_unlock(&m->wire.lock);
    post(m, m->wire.worker, yk_owner_endpoint(from), &note, NULL, 0, NULL);
}

yk_code yk_wire_pull(struct yk_matmul *m, int from, int x, const struct yk_rect *b,
                     enum yk_float type, void *out, struct yk_error *e)
{
    uint64_t row = b->cols * type, at_once = YK_PULL_BYTES / row > 0 ? YK_PULL_BYTES / row : 1;
    uint64_t parts = (b->rows + at_once - 1) / at_once;
    uint16_t flags = (uint16_t)((unsigned)x | (type == YK_F64 ? WIDE_FLAG : 0));
    for (uint64_t i = 0; i < parts + YK_PULLS; i++) {
        /* the slot is free again when its last message has come */
        if (i >= YK_PULLS && i - YK_PULLS < parts) {
            yk_code rc = await(m, &m->wire.pull[i % YK_PULLS].done, e);
            if (rc != YK_OK)
                return rc;
        }
        if (i >= parts)
            continue;
        uint64_t first = i * at_once, rows = b->rows - first < at_once ? b->rows - first : at_once;
        const struct yk_rect some = {b->row + first, b->col, rows, b->cols};
        ask_for(m, from, i % YK_PULLS, flags, &some, (char *)out + first * row,
                (size_t)(rows * row));
    }
    return YK_OK;
}

yk_code yk_wire_probe(struct yk_matmul *m, int from, double *rate, struct yk_error *e)
{
    const struct yk_rect b = {.rows = YK_PULL_BYTES / 4096, .cols = 1024};
    void *to = yk_matmul_memory(YK_PULL_BYTES);
    if (to == NULL)
        return yk_fail_memory(e, YK_PULL_BYTES);
    yk_code rc = YK_OK;
    double start = yk_now();
    for (int i = 0; i < PROBE_MESSAGES && rc == YK_OK; i++) {
        ask_for(m, from, 0, PROBE_FLAG, &b, to, YK_PULL_BYTES);
        rc = await(m, &m->wire.pull[0].done, e);
        if (i == 0)
            start = yk_now(); /* the first message only warms up */
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
    struct yk_failure *out = &m->wire.fail_out;
    pthread_mutex_lock(&m->wire.lock);
    bool again = m->wire.failing; /* the rank's thread and its server may both fail */
    m->wire.failing = true;
    pthread_mutex_unlock(&m->wire.lock);
    if (again)
        return;
    *out = (struct yk_failure){.code = (int32_t)rc};
    if (m->ranks > 1)
        snprintf(out->text, sizeof out->text, "rank %d on '%s': %.400s", m->rank,
                 m->plan.card[m->rank].host, e->text);
    else
        snprintf(out->text, sizeof out->text, "%s", e->text);
    snprintf(out->hint, sizeof out->hint, "%s", e->hint);
    post(m, m->wire.worker, yk_owner_endpoint(0), &note, out, sizeof *out, &m->wire.pending);
}

static yk_code serve_pull(struct yk_matmul *m, const struct yk_note *ask, void *staging,
                          atomic_uint *pending, struct yk_error *e)
{
    const struct yk_rect b = rect_of(ask);
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
    struct yk_note note = {.kind = BLOCK, .flags = ask->flags, .block.slot = ask->block.slot};
    post(m, m->wire.owner, ask->from, &note, staging, (size_t)(b.rows * b.cols * type), pending);
    return YK_OK;
}

static yk_code serve_tile(struct yk_matmul *m, const struct yk_note *tile, struct yk_error *e)
{
    const struct yk_rect b = rect_of(tile);
    const float *rows = m->server.tile_in[rank_of(m, tile->from)];
    if (rows == NULL || m->output.fd < 0)
        return yk_fail_memory(e, YK_TILE_BYTES);
    yk_code rc = yk_npy_write(m->output.fd, m->ask.output, m->plan.n, &b, rows, b.cols, e);
    struct yk_note note = {.kind = WROTE};
    if (rc == YK_OK)
        post(m, m->wire.owner, tile->from, &note, NULL, 0, NULL);
    return rc;
}

static void *serve(void *arg)
{
    struct yk_matmul *m = arg;
    struct yk_error e = {0};
    atomic_uint pending[2] = {0};
    yk_code rc = YK_OK;
    for (unsigned turn = 0; rc == YK_OK;) {
        pthread_mutex_lock(&m->wire.lock);
        while (m->server.queue_count == 0 && !m->server.stop)
            pthread_cond_wait(&m->server.asked, &m->wire.lock);
        bool stop = m->server.stop;
        struct yk_note ask = m->server.queue[m->server.queue_first];
        if (!stop) {
            m->server.queue_first = (m->server.queue_first + 1) % m->server.queue_size;
            m->server.queue_count--;
        }
        pthread_mutex_unlock(&m->wire.lock);
        if (stop)
            break;
        if (ask.kind == TILE) {
            rc = serve_tile(m, &ask, &e);
            continue;
        }
        settle(m, &pending[turn % 2]);
        rc = serve_pull(m, &ask, m->server.staging[turn % 2], &pending[turn % 2], &e);
        turn++;
    }
    if (rc != YK_OK)
        fail_here(m, rc, &e);
    settle(m, &pending[0]);
    settle(m, &pending[1]);
    return NULL;
}

/* --- rows of C to rank 0 --- */

yk_code yk_wire_tile(struct yk_matmul *m, const struct yk_rect *tile, struct yk_error *e)
{
    uint64_t row = tile->cols * sizeof(float),
             at_once = YK_TILE_BYTES / row > 0 ? YK_TILE_BYTES / row : 1;
    yk_code rc = YK_OK;
    /* A row that is longer than a message goes in parts. */
    uint64_t wide = row > YK_TILE_BYTES ? YK_TILE_BYTES / sizeof(float) : tile->cols;
    for (uint64_t r = 0; r < tile->rows && rc == YK_OK; r += at_once)
        for (uint64_t c = 0; c < tile->cols && rc == YK_OK; c += wide) {
            struct yk_rect part = {.row = tile->row + r, .col = tile->col + c};
            part.rows = tile->rows - r < at_once ? tile->rows - r : at_once;
            part.cols = tile->cols - c < wide ? tile->cols - c : wide;
            struct yk_note note = {.kind = TILE};
            put_rect(&note, &part);
            pthread_mutex_lock(&m->wire.lock);
            m->wire.wrote = false;
            pthread_mutex_unlock(&m->wire.lock);
            post(m, m->wire.worker, yk_owner_endpoint(0), &note,
                 m->buffers.tile + r * tile->cols + c,
                 (size_t)(part.rows * part.cols) * sizeof(float), &m->wire.pending);
            rc = await(m, &m->wire.wrote, e);
        }
    return rc;
}

/* --- phases --- */

yk_code yk_wire_report(struct yk_matmul *m, enum yk_phase phase, const void *bytes, size_t n,
                       struct yk_error *e)
{
    struct yk_note note = {
        .kind = REPORT, .flags = phase == YK_PHASE_PROBE ? PROBE_FLAG : 0, .block.slot = phase};
    atomic_uint pending = 0;
    yk_code rc = yk_wire_state(m, e);
    if (rc != YK_OK)
        return rc;
    post(m, m->wire.worker, yk_owner_endpoint(0), &note, bytes, n, &pending);
    settle(m, &pending);
    return YK_OK;
}

yk_code yk_wire_gather(struct yk_matmul *m, enum yk_phase phase, struct yk_error *e)
{
    const struct yk_comm_ops *ops = m->wire.comm->ops;
    for (;;) {
        unsigned before = ops->seen(m->wire.comm, m->wire.owner);
        pthread_mutex_lock(&m->wire.lock);
        bool all = m->wire.boxed[phase] == m->ranks;
        pthread_mutex_unlock(&m->wire.lock);
        if (all)
            return YK_OK;
        yk_code rc = yk_wire_state(m, e);
        if (rc != YK_OK)
            return rc;
        if (m->hooks.say != NULL)
            m->hooks.say(m->hooks.arg, -1, 0, "waiting for the other ranks");
        ops->wait(m->wire.comm, m->wire.owner, before, LOOK);
    }
}

const void *yk_wire_box(const struct yk_matmul *m, enum yk_phase phase, int rank)
{
    return (const char *)m->wire.box[phase] + (size_t)rank * m->wire.box_bytes[phase];
}

static void send_all(struct yk_matmul *m, enum kind kind, const void *data, size_t bytes)
{
    for (int r = 0; r < m->ranks; r++) {
        struct yk_note note = {.kind = (uint16_t)kind};
        if (r != m->rank && r != m->wire.lost)
            post(m, m->wire.owner, yk_worker_endpoint(m->wire.comm, r), &note, data, bytes,
                 &m->wire.pending);
    }
}

yk_code yk_wire_go(struct yk_matmul *m, struct yk_error *e)
{
    if (m->rank > 0)
        return await(m, &m->wire.may_start, e);
    send_all(m, GO, NULL, 0);
    return yk_wire_state(m, e);
}

yk_code yk_wire_vector(struct yk_matmul *m, struct yk_error *e)
{
    if (m->rank > 0)
        return await(m, &m->wire.has_vector, e);
    send_all(m, VECTOR, m->check.middle, yk_check_middle_bytes(&m->plan));
    return yk_wire_state(m, e);
}

/* Rank 0 sends STOP to all ranks. */
static void send_stop(struct yk_matmul *m, yk_code rc, bool stopped, const struct yk_error *e)
{
    m->wire.stop_out = (struct yk_failure){.code = (int32_t)rc, .stopped = stopped};
    if (rc != YK_OK) {
        snprintf(m->wire.stop_out.text, sizeof m->wire.stop_out.text, "%s", e->text);
        snprintf(m->wire.stop_out.hint, sizeof m->wire.stop_out.hint, "%s", e->hint);
    }
    send_all(m, STOP, &m->wire.stop_out, sizeof m->wire.stop_out);
    const struct yk_comm_ops *ops = m->wire.comm->ops;
    /* otherwise closing the comm delivers it */
    double end = rc == YK_LOST ? yk_now() + PARTING : 0;
    while (yk_now() < end)
        ops->wait(m->wire.comm, m->wire.owner, ops->seen(m->wire.comm, m->wire.owner),
                  end - yk_now());
}

static yk_code await_stop(struct yk_matmul *m, yk_code rc, bool *stopped, struct yk_error *e)
{
    const struct yk_comm_ops *ops = m->wire.comm->ops;
    double end = rc == YK_OK ? 1e18 : yk_now() + STOP_LIMIT;
    for (;;) {
        unsigned before = ops->seen(m->wire.comm, m->wire.worker);
        pthread_mutex_lock(&m->wire.lock);
        bool told = m->wire.has_stop, gone = m->wire.lost >= 0;
        struct yk_failure f = m->wire.stop_in;
        pthread_mutex_unlock(&m->wire.lock);
        if (told) {
            *stopped = f.stopped != 0;
            return f.code != YK_OK ? refill(e, &f) : YK_OK;
        }
        if (gone)
            return yk_wire_state(m, e);
        if (yk_now() > end)
            return rc;
        ops->wait(m->wire.comm, m->wire.worker, before, LOOK);
    }
}

yk_code yk_wire_finish(struct yk_matmul *m, yk_code rc, bool *stopped, struct yk_error *e)
{
    struct yk_error none = {0};
    *stopped = false;
    if (m->rank == 0) {
        *stopped = rc == YK_FAILED && m->hooks.stopped != NULL && m->hooks.stopped(m->hooks.arg);
        rc = *stopped ? YK_OK : rc;
        send_stop(m, rc, *stopped, e != NULL ? e : &none);
    } else {
        pthread_mutex_lock(&m->wire.lock);
        bool told = m->wire.has_stop;
        pthread_mutex_unlock(&m->wire.lock);
        if (rc != YK_OK && rc != YK_LOST && !told)
            fail_here(m, rc, e != NULL ? e : &none);
        rc = await_stop(m, rc, stopped, e);
    }
    /* After a loss the process ends as it is: a send to the lost rank would be waited for. */
    if (m->server.running && rc != YK_LOST) {
        pthread_mutex_lock(&m->wire.lock);
        m->server.stop = true;
        pthread_cond_signal(&m->server.asked);
        pthread_mutex_unlock(&m->wire.lock);
        pthread_join(m->server.thread, NULL);
        m->server.running = false;
    }
    return rc;
}

/* --- open and close --- */

static bool make_boxes(struct yk_matmul *m)
{
    const struct yk_matmul_plan *p = &m->plan;
    size_t vector = sizeof(struct yk_vector_report), check = sizeof(struct yk_check_report);
    if (p->product)
        for (int r = 0; r < m->ranks; r++) {
            size_t first = yk_check_vector_bytes(&p->part[r]);
            size_t last = yk_check_report_bytes(&p->part[r]);
            vector = first > vector ? first : vector;
            check = last > check ? last : check;
        }
    m->wire.box_bytes[YK_PHASE_PROBE] = sizeof(struct yk_probe_report);
    m->wire.box_bytes[YK_PHASE_WORK] = sizeof(struct yk_work_report);
    m->wire.box_bytes[YK_PHASE_VECTOR] = vector;
    m->wire.box_bytes[YK_PHASE_CHECK] = check;
    if (m->rank > 0)
        return true;
    for (int i = 0; i < YK_PHASES; i++)
        if ((m->wire.box[i] = calloc((size_t)m->ranks, m->wire.box_bytes[i])) == NULL)
            return false;
    return true;
}

yk_code yk_wire_open(struct yk_matmul *m, struct yk_error *e)
{
    m->server.queue_size = (size_t)m->ranks * (YK_PULLS + 1);
    m->server.queue = calloc(m->server.queue_size, sizeof *m->server.queue);
    bool bad = m->server.queue == NULL || !make_boxes(m);
    if (m->rank == 0) {
        m->wire.failed = calloc((size_t)m->ranks, sizeof *m->wire.failed);
        m->server.tile_in = calloc((size_t)m->ranks, sizeof *m->server.tile_in);
        bad = bad || m->wire.failed == NULL || m->server.tile_in == NULL;
    }
    if (m->part->serves)
        for (int i = 0; i < 2; i++) {
            m->server.staging[i] = yk_matmul_memory(YK_PULL_BYTES);
            bad = bad || m->server.staging[i] == NULL;
        }
    return bad ? yk_fail_memory(e, YK_PULL_BYTES) : YK_OK;
}

void yk_matmul_attach(struct yk_matmul *m, struct yk_comm *comm,
                      const struct yk_matmul_hooks *hooks)
{
    m->wire.comm = comm;
    m->hooks = *hooks;
    m->wire.owner = yk_owner_endpoint(m->rank);
    m->wire.worker = yk_worker_endpoint(comm, m->rank);
    comm->ops->attach(comm, m->wire.owner, &OWNER, m);
    comm->ops->attach(comm, m->wire.worker, &WORKER, m);
}

yk_code yk_wire_start(struct yk_matmul *m, struct yk_error *e)
{
    if (!m->part->serves)
        return YK_OK;
    if (pthread_create(&m->server.thread, NULL, serve, m) != 0)
        return yk_fail(e, YK_FAILED, "cannot start the thread that serves other ranks");
    pthread_setname_np(m->server.thread, "yoke-serve");
    m->server.running = true;
    return YK_OK;
}

void yk_wire_close(struct yk_matmul *m)
{
    if (m->server.tile_in != NULL)
        for (int r = 0; r < m->ranks; r++)
            free(m->server.tile_in[r]);
    free(m->server.tile_in);
    free(m->wire.failed);
    free(m->server.queue);
    for (int i = 0; i < YK_PHASES; i++)
        free(m->wire.box[i]);
    for (int i = 0; i < 2; i++)
        yk_matmul_memory_free(m->server.staging[i], YK_PULL_BYTES);
}
