/* comm.c - ranks that talk: order, sizes, both directions, owners and workers in one process,
 * speed, and what waiting costs. See ends.h for how it is called. */
#include "tests/mpi/ends.h"

#include <sys/resource.h>

static const size_t SIZES[] = {0,      1,      64,    3072, 3073,    31400, 0,      262144,
                               262145, 700000, 31400, 3000, 5 << 20, 17,    100000, 0};
enum { SIZE_COUNT = sizeof SIZES / sizeof *SIZES };

/* Every worker sends every owner every size, several times; owners answer from their handlers.
 * Owner 1 of two wants only even ones. */
static void exchange(void)
{
    enum { TIMES = 3 };
    open_comm();
    for (int i = 0; i < plan.owners; i++) {
        ends[i].answers = true;
        ends[i].picky = i == 1;
    }
    attach_all();
    int me = mine();
    const uint64_t total = (uint64_t)SIZE_COUNT * TIMES;
    if (me >= plan.owners) {
        static unsigned char *data[ENDS][SIZE_COUNT];
        static atomic_uint pending[ENDS][SIZE_COUNT];
        uint64_t bytes = 0;
        for (uint64_t id = 0; id < total; id++)
            for (int o = 0; o < plan.owners; o++) {
                size_t k = id % SIZE_COUNT, n = SIZES[k];
                unsigned char **d = &data[o][k];
                if (*d == NULL)
                    *d = malloc(MOST);
                comm->ops->settle(comm, &pending[o][k]); /* of its use in the round before */
                fill(*d, n, me, o, id);
                post(me, o, PUSH, id, *d, n, &pending[o][k]);
                bytes += o == 0 ? n + sizeof(struct yk_note) : 0;
            }
        for (int o = 0; o < plan.owners; o++)
            check(until(me, &ends[me].next[o], total, 20), "only %llu of %llu answers of owner %d",
                  (unsigned long long)ends[me].next[o], (unsigned long long)total, o);
        for (int o = 0; o < plan.owners; o++)
            for (size_t k = 0; k < SIZE_COUNT; k++) {
                comm->ops->settle(comm, &pending[o][k]);
                check(atomic_load(&pending[o][k]) == 0, "something is still pending");
            }
        struct yk_traffic t;
        comm->ops->traffic(comm, 0, &t);
        bool far = yk_comm_rank(comm, 0) !=
                   yk_comm_rank(comm, me); /* what stays in a process is no traffic */
        const unsigned long long messages = far ? total : 0;
        bytes = far ? bytes : 0;
        check(t.sent == bytes && t.received == bytes, "owner 0: %llu bytes out, %llu in, not %llu",
              (unsigned long long)t.sent, (unsigned long long)t.received,
              (unsigned long long)bytes);
        check(t.messages_sent == messages && t.messages == messages,
              "owner 0: messages miscounted");
        for (int o = 0; o < plan.owners; o++)
            post(me, o, STOP, total, NULL, 0, NULL);
    }
    if (yk_comm_rank(comm, job.rank) == job.rank && job.rank < plan.owners) {
        for (int w = 0; w < plan.workers; w++)
            check(until(job.rank, &ends[job.rank].next[yk_worker_endpoint(comm, w)], total + 1, 20),
                  "worker %d did not finish", w);
        comm->ops->settle(comm, &ends[job.rank].pending);
    }
    end("exchange", true);
}

/* Messages that come before the handler is attached wait; a lock held for long stops nobody
 * else. */
static void late(void)
{
    open_comm();
    if (job.rank == 0)
        nap(0.3);
    attach_all();
    unsigned char *data = malloc(MOST);
    atomic_uint pending = 0;
    if (job.rank > 0) {
        fill(data, 100000, job.rank, 0, 0);
        post(job.rank, 0, PUSH, 0, data, 100000, &pending);
        check(until(job.rank, &ends[job.rank].next[0], 1, 5), "nothing came");
        post(job.rank, 0, PUSH, 1, NULL, 0, NULL); /* rank 0 holds its lock now */
        check(until(job.rank, &ends[job.rank].next[0], 2, 5), "nothing more came");
    } else {
        for (int r = 1; r < job.size; r++)
            check(until(0, &ends[0].next[r], 1, 5), "what rank %d sent early is lost", r);
        comm->ops->lock(comm, 0);
        for (int r = 1; r < job.size; r++)
            post(0, r, REPLY, 0, NULL, 0, NULL);
        nap(0.2);
        check(atomic_load(&ends[0].next[1]) == 1, "a handler ran without the lock");
        fill(data, MOST, 0, 1, 1);
        for (int r = 1; r < job.size; r++)
            post(0, r, REPLY, 1, data, r == 1 ? MOST : 0, &pending);
        comm->ops->settle(comm, &pending); /* with the lock held: the engine must not need it */
        comm->ops->unlock(comm, 0);
        for (int r = 1; r < job.size; r++)
            check(until(0, &ends[0].next[r], 2, 5), "what rank %d sent meanwhile is lost", r);
    }
    end("late", true);
}

/* A round trip of 31 KB, over and over: an owner and its workers. */
static void rate(void)
{
    enum { BYTES = 31400 };
    open_comm();
    const double seconds = 1.0;
    for (int i = 0; i < plan.owners + plan.workers; i++)
        ends[i].verify = false;
    ends[0].answers = true;
    attach_all();
    unsigned char *data = calloc(1, MOST);
    double start = yk_now();
    if (job.rank > 0) {
        uint64_t id = 0;
        atomic_uint pending = 0;
        for (; yk_now() - start < seconds; id++) {
            post(job.rank, 0, PUSH, id, data, BYTES, &pending);
            if (!until(job.rank, &ends[job.rank].next[0], id + 1, 5)) {
                check(false, "no answer");
                break;
            }
            comm->ops->settle(comm, &pending);
        }
        post(job.rank, 0, STOP, id, NULL, 0, NULL);
    } else {
        double limit = yk_now() + 10;
        while (atomic_load(&ends[0].stops) < (unsigned)plan.workers && yk_now() < limit)
            comm->ops->wait(comm, 0, comm->ops->seen(comm, 0), 0.1);
        struct yk_traffic t = {0}, all = {0};
        for (int w = 1; w < job.size; w++) {
            comm->ops->traffic(comm, w, &t);
            all.messages += t.messages;
        }
        printf("rate %.0f round trips a second\n", (double)all.messages / (yk_now() - start));
    }
    end("rate", true);
}

/* 64 MB from every worker to the owner, which computes meanwhile (the helper has to move it
 * all). */
static void bulk(void)
{
    enum { BYTES = 64 << 20 };
    open_comm();
    for (int i = 0; i < job.size; i++)
        ends[i].verify = false;
    unsigned char *data = calloc(1, BYTES);
    for (int r = 1; r < job.size && job.rank == 0; r++)
        memset(ends[0].slot[r][1] = malloc(BYTES), 1, BYTES);
    attach_all();
    atomic_uint pending = 0;
    if (job.rank > 0) {
        fill(data, BYTES, job.rank, 0, 1);
        post(job.rank, 0, PUSH, 0, NULL, 0, NULL);
        check(until(job.rank, &ends[job.rank].next[0], 1, 5), "no signal");
        post(job.rank, 0, PUSH, 1, data, BYTES, &pending);
        comm->ops->settle(comm, &pending);
    } else {
        for (int r = 1; r < job.size; r++)
            check(until(0, &ends[0].next[r], 1, 5), "rank %d is not ready", r);
        double start = yk_now(), took = 0;
        for (int r = 1; r < job.size; r++)
            post(0, r, REPLY, 0, NULL, 0, NULL);
        for (int r = 1; r < job.size; r++)
            while (atomic_load(&ends[0].next[r]) < 2 && (took = yk_now() - start) < 10)
                nap(0.001);
        for (int r = 1; r < job.size; r++)
            check(atomic_load(&ends[0].next[r]) == 2 && matches(ends[0].slot[r][1], BYTES, r, 0, 1),
                  "the 64 MB of rank %d are wrong", r);
        printf("bulk %.2f GB/s\n", (job.size - 1) * (double)BYTES / took / 1e9);
    }
    free(data);
    end("bulk", true);
}

/* An all-reduce of 64 MB as the strategies do it: every rank owns a slice, gets it from all, and
 * sends it to all. */
static struct {
    atomic_int pushed, replied;
    unsigned char *in[ENDS], *data, *out;
    size_t slice;
    atomic_uint pending;
} sl;

static void *slice_place(void *arg, const struct yk_note *note)
{
    (void)arg;
    return note->kind == PUSH ? sl.in[note->from - plan.owners] : sl.out + note->from * sl.slice;
}

static void slice_arrive(void *arg, const struct yk_note *note, const void *data)
{
    const struct end *e = arg;
    (void)data;
    if (note->kind == REPLY) {
        atomic_fetch_add(&sl.replied, 1);
    } else if (atomic_fetch_add(&sl.pushed, 1) + 1 == job.size) {
        atomic_store(&sl.pushed, 0);
        for (int w = 0; w < plan.workers; w++)
            post(e->self, yk_worker_endpoint(comm, w), REPLY, note->word[0], sl.in[w], sl.slice,
                 &sl.pending); /* not the sum: each its own back */
    }
}

static void slices(void)
{
    enum { BYTES = 64 << 20, TIMES = 3 };
    static const struct yk_handler handler = {slice_place, slice_arrive, NULL};
    open_comm();
    sl.slice = BYTES / (size_t)job.size;
    sl.data = malloc(BYTES);
    sl.out = calloc(1, BYTES);
    for (int r = 0; r < job.size; r++)
        sl.in[r] = calloc(1, sl.slice);
    fill(sl.data, BYTES, job.rank, job.rank, 0);
    for (int i = 0; i < plan.owners + plan.workers; i++)
        if (yk_comm_rank(comm, i) == job.rank)
            comm->ops->attach(comm, i, &handler, &ends[i]);
    double best = 1e9;
    int me = yk_worker_endpoint(comm, job.rank);
    for (uint64_t t = 0; t < TIMES; t++) {
        double start = yk_now();
        for (int o = 0; o < plan.owners; o++)
            post(me, o, PUSH, t, sl.data + (size_t)o * sl.slice, sl.slice, &sl.pending);
        while (atomic_load(&sl.replied) < job.size && yk_now() - start < 20)
            comm->ops->wait(comm, me, comm->ops->seen(comm, me), 0.1);
        comm->ops->settle(comm, &sl.pending);
        check(atomic_load(&sl.replied) == job.size, "%d of %d slices came back",
              atomic_load(&sl.replied), job.size);
        atomic_store(&sl.replied, 0);
        best = yk_now() - start < best ? yk_now() - start : best;
        check(memcmp(sl.out, sl.data, sl.slice * (size_t)job.size) == 0,
              "the slices do not make the whole");
        memset(sl.out, 0, BYTES);
    }
    if (job.rank == 0)
        printf("slices %.3f s\n", best);
    end("slices", true);
}

/* Share of a core that the process has used since the last call. */
static double used(void)
{
    static double before, since;
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    double cpu = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                 (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6,
           now = yk_now();
    double share = (cpu - before) / (now - since);
    before = cpu;
    since = now;
    return share;
}

/* Rank 0 waits, the others sleep while the helper looks after them. */
static void idle(void)
{
    open_comm();
    attach_all();
    nap(0.3);
    used();
    if (job.rank == 0)
        for (double end = yk_now() + 2; yk_now() < end;)
            comm->ops->wait(comm, 0, comm->ops->seen(comm, 0), 0.05);
    else
        nap(2);
    double share = used();
    printf("idle %d %.1f %%\n", job.rank, share * 100);
    check(share < 0.1, "an idle rank takes %.1f %% of a core", share * 100);
    check(atomic_load(&ends[mine()].lost_all) == 0, "somebody was taken for lost");
    end("idle", true);
}

/* The blob of rank 1 differs, and everybody sees it. */
static void agree(void)
{
    char word[16] = "the same", all[ENDS][16];
    struct yk_error e;
    if (job.rank == 1)
        strcpy(word, "another");
    yk_code rc = yk_mpi_agree(word, sizeof word, all, &e);
    check(rc == YK_OK, "no agreement: %s", e.text);
    for (int r = 0; rc == YK_OK && r < job.size; r++)
        check(strcmp(all[r], r == 1 ? "another" : "the same") == 0, "rank %d handed in '%s'", r,
              all[r]);
    yk_mpi_leave();
    if (complaints == 0)
        printf("ok agree %d\n", job.rank);
    exit(complaints > 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"exchange", exchange}, {"late", late}, {"rate", rate},   {"bulk", bulk},
        {"slices", slices},     {"idle", idle}, {"agree", agree}, {NULL, NULL},
    };
    return run_case(cases, argc, argv);
}
