/* ends.h - endpoints that check what they are sent, for the tests of the MPI engine (comm.c,
 * faults.c), which comm.sh starts with mpirun.
 *
 * PROGRAM CASE [OWNERS [WORKERS [HEARTBEAT]]]
 *
 * Every rank runs the same case and says what went wrong on stderr; a rank without complaints
 * prints "ok CASE RANK", which is what the script counts, because mpirun's status means nothing
 * once a rank was killed. Data are a pattern that depends on sender, receiver and number, so that a
 * piece in the wrong place is noticed.
 * THREADS: handlers run on whatever thread drives; what they share with the cases is atomic, or
 * read after it. */
#ifndef YK_TESTS_MPI_ENDS_H
#define YK_TESTS_MPI_ENDS_H

#include "base/clock.h"
#include "comm/comm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PUSH = 1, REPLY, STOP, ENDS = 16, MOST = 6 << 20, SLOTS = 64 };

static struct yk_comm *comm;
static struct yk_mpi job;
static struct yk_mpi_plan plan;
static char **arguments;
static atomic_int complaints;

__attribute__((format(printf, 2, 3))) static void check(bool ok, const char *fmt, ...)
{
    if (ok)
        return;
    va_list ap;
    va_start(ap, fmt);
    char text[300];
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "rank %d: %s\n", job.rank, text);
    complaints++;
}

/* --- messages with a pattern --- */

static inline unsigned char pattern(int from, int to, uint64_t id, size_t at)
{
    uint64_t x = (uint64_t)(from * 31 + to + 1) * 0x9e3779b97f4a7c15u + id * 0x2545f4914f6cdd1du +
                 (at >> 10) * 77;
    return (unsigned char)(x >> 32 ^ at);
}

static inline void fill(unsigned char *data, size_t n, int from, int to, uint64_t id)
{
    for (size_t i = 0; i < n; i++)
        data[i] = pattern(from, to, id, i);
}

static inline bool matches(const unsigned char *data, size_t n, int from, int to, uint64_t id)
{
    for (size_t i = 0; i < n; i++)
        if (data[i] != pattern(from, to, id, i))
            return false;
    return true;
}

/* An endpoint of the test: it counts and checks what comes. */
struct end {
    int self;
    atomic_bool picky;        /* wants only data with an even id */
    atomic_bool answers;      /* sends back what comes, from its handler */
    atomic_bool obeys;        /* a STOP is from somebody who does not hear us any more */
    atomic_bool verify;       /* looks at every byte */
    atomic_ullong next[ENDS]; /* the id that has to come next, by sender */
    atomic_uint stops;
    atomic_int lost[ENDS];
    atomic_uint lost_all;
    double lost_at[ENDS];
    char why[200];
    unsigned char *slot[ENDS][SLOTS];
    atomic_uint pending;
};
static struct end ends[ENDS];

static inline void *place(void *arg, const struct yk_note *note)
{
    struct end *e = arg;
    if (e->picky && note->word[0] % 2 == 1)
        return NULL;
    unsigned char **slot =
        &e->slot[note->from]
                [note->word[0] % SLOTS]; /* a case that comes round again uses one size */
    if (*slot == NULL)
        *slot = malloc(note->bytes);
    return *slot;
}

static inline void post(int from, int to, int kind, uint64_t id, const void *data, size_t n,
                        atomic_uint *pending)
{
    struct yk_note note = {.from = (uint16_t)from,
                           .to = (uint16_t)to,
                           .kind = (uint16_t)kind,
                           .word = {id},
                           .step = n};
    yk_comm_send(comm, &note, data, n, pending);
}

static inline void arrive(void *arg, const struct yk_note *note, const void *data)
{
    struct end *e = arg;
    uint64_t want = atomic_load(&e->next[note->from]);
    check(note->to == e->self, "endpoint %d got a message for %d", e->self, note->to);
    check(note->word[0] == want, "endpoint %d got message %llu of %d, not %llu", e->self,
          (unsigned long long)note->word[0], note->from, (unsigned long long)want);
    check(note->bytes == note->step, "message %llu lost its length",
          (unsigned long long)note->word[0]);
    if (note->bytes == 0 || (e->picky && note->word[0] % 2 == 1))
        check(data == NULL, "unwanted data were delivered");
    else if (e->verify) /* an answer is what was sent */
        check(data != NULL && (matches(data, note->bytes, note->from, note->to, note->word[0]) ||
                               (note->kind == REPLY &&
                                matches(data, note->bytes, note->to, note->from, note->word[0]))),
              "message %llu of %d to %d has wrong data", (unsigned long long)note->word[0],
              note->from, note->to);
    if (note->kind == STOP) {
        atomic_fetch_add(&e->stops, 1);
        if (e->obeys)
            comm->ops->fence(comm, note->from);
    } else if (e->answers)
        post(e->self, note->from, REPLY, note->word[0], data, data != NULL ? note->bytes : 0,
             &e->pending);
    atomic_store(&e->next[note->from], want + 1);
}

static inline void lost(void *arg, int endpoint, const char *why)
{
    struct end *e = arg;
    e->lost_at[endpoint] = yk_now();
    snprintf(e->why, sizeof e->why, "%s", why);
    atomic_fetch_add(&e->lost[endpoint], 1);
    atomic_fetch_add(&e->lost_all, 1);
}

static const struct yk_handler HANDLER = {place, arrive, lost};

static inline void nap(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&t, &t) != 0)
        ;
}

/* Wait at an endpoint until *count is at least `want`; false after `seconds`. */
static inline bool until(int endpoint, atomic_ullong *count, uint64_t want, double seconds)
{
    double end = yk_now() + seconds;
    for (;;) {
        unsigned seen = comm->ops->seen(comm, endpoint);
        if (atomic_load(count) >= want)
            return true;
        if (yk_now() > end)
            return false;
        comm->ops->wait(comm, endpoint, seen, 0.2);
    }
}

/* Wait for lost(whom); `starved` counts the time during which this process got no processor,
 * which the engine does not count either. */
static double starved;
static inline bool until_lost(int endpoint, int whom, double seconds)
{
    double begin = yk_now(), last = begin;
    starved = 0;
    while (atomic_load(&ends[endpoint].lost[whom]) == 0 && last - begin - starved < seconds) {
        comm->ops->wait(comm, endpoint, comm->ops->seen(comm, endpoint), 0.01);
        double now = yk_now();
        starved += now - last > 0.1 ? now - last - 0.1 : 0;
        last = now;
    }
    return atomic_load(&ends[endpoint].lost[whom]) == 1;
}

static inline int mine(void) /* the endpoint of this rank: its worker if it has one */
{
    return plan.together ? yk_worker_endpoint(comm, job.rank) : job.rank;
}

static inline void open_comm(void)
{
    struct yk_error e;
    if (yk_comm_mpi(&comm, &plan, &e) != YK_OK) {
        fprintf(stderr, "rank %d: %s\n", job.rank, e.text);
        _exit(1);
    }
    for (int i = 0; i < plan.owners + plan.workers; i++) {
        ends[i].self = i;
        ends[i].verify = true;
    }
}

static inline void attach_all(void)
{
    for (int i = 0; i < plan.owners + plan.workers; i++)
        if (yk_comm_rank(comm, i) == job.rank)
            comm->ops->attach(comm, i, &HANDLER, &ends[i]);
}

_Noreturn static inline void end(const char *name, bool clean)
{
    if (complaints == 0)
        printf("ok %s %d\n", name, job.rank);
    fflush(stdout);
    bool closed = comm->ops->close(comm, clean);
    if (clean && !closed)
        fprintf(stderr, "rank %d: a clean close was refused\n", job.rank);
    if (!closed)
        _exit(complaints > 0 || clean);
    exit(complaints > 0);
}

struct test_case {
    const char *name;
    void (*run)(void);
};

/* Runs the case that argv names and does not come back from it. */
static inline int run_case(const struct test_case *cases, int argc, char **argv)
{
    struct yk_error e;
    arguments = argv;
    if (argc < 2) {
        printf("launched: %s\n", yk_mpi_launched() ? "yes" : "no");
        return 0;
    }
    yk_code rc = yk_mpi_join(&job, strncmp(argv[1], "replace", 7) == 0, &e);
    if (rc != YK_OK) {
        fprintf(stderr, "%s: %s\nhint: %s\n", argv[0], e.text, e.hint);
        return (int)rc;
    }
    plan.owners = argc > 2 ? atoi(argv[2]) : 1;
    plan.workers = argc > 3 ? atoi(argv[3]) : job.size - plan.owners;
    plan.heartbeat = argc > 4 ? atof(argv[4]) : 0;
    plan.together = plan.owners == plan.workers && plan.owners == job.size;
    for (; cases->name != NULL; cases++)
        if (strcmp(cases->name, argv[1]) == 0)
            cases->run();
    fprintf(stderr, "%s: no case '%s'\n", argv[0], argv[1]);
    return 2;
}

#endif
