/* mpi_spawn.c - a new process in the place of a lost one.
 *
 * First the survivors meet over the old communicator, with a time limit. Rank 0 names the ranks
 * that are GONE. Every rank sends every other one a MARK, which overtakes nothing: a rank that has
 * all MARKs has everything that was sent before them. Then each tells rank 0 that it is READY,
 * which ranks it takes for lost, and whether its handlers sent anything meanwhile. Rank 0 answers
 * with its VERDICT: go on, give up, or, as long as handlers still send, exchange marks AGAIN.
 *
 * Then come the MPI calls that may hang: a communicator of the survivors, MPI_Comm_spawn over it, a
 * merge with the new process, an exchange of cards from which that learns its place, and rank 0's
 * text for it. They run on a thread of their own. If they hang, because another rank died just
 * then, the caller gets YK_LOST and the process can only end. From then on all messages go over the
 * merged communicator. The receives on the old one are withdrawn, so that no old message is taken
 * for a new one.
 * THREADS: called by one thread, which holds no endpoint's lock; handlers are called until the
 * verdict.
 * LIMITS:  not with owners and workers in one process, where a lost worker is a lost owner. */
#include <mpi.h>

#include "comm/mpi_engine.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MEET 1.5        /* seconds within which all survivors must come */
#define ANSWER 2.0      /* seconds for rank 0 to give its verdict */
enum { CONNECT = 300 }; /* milliseconds to reach a daemon */
#define HANG 10.0       /* seconds after which MPI is not expected to return any more */

/* A hash of the ranks that are gone, for survivors to compare. */
static uint64_t gone(const struct engine *m)
{
    uint64_t h = 1469598103934665603u;
    for (int r = 0; r < m->size; r++)
        h = (h ^ (atomic_load(&m->peer[r].fenced) ? 1u : 0u)) * 1099511628211u;
    return h;
}

static bool other(const struct engine *m, int r)
{
    return r != m->rank && !atomic_load(&m->peer[r].fenced);
}

static void say(struct engine *m, int rank, enum engine_kind kind, unsigned what, uint64_t word)
{
    struct yk_note note = {.from = ENGINE,
                           .to = ENGINE,
                           .kind = (uint16_t)kind,
                           .flags = (uint16_t)what,
                           .incarnation = m->round,
                           .word = {word}};
    yk_mpi_post(m, rank, &note, NULL, 0, NULL);
}

static bool check(struct engine *m, bool (*holds)(const struct engine *m))
{
    pthread_mutex_lock(&m->driving);
    bool yes = holds(m);
    pthread_mutex_unlock(&m->driving);
    return yes;
}

static bool marks_are_here(const struct engine *m)
{
    for (int r = 0; r < m->size; r++)
        if (other(m, r) && m->peer[r].marked != m->round)
            return false;
    return true;
}

static bool all_are_ready(const struct engine *m)
{
    for (int r = 0; r < m->size; r++)
        if (other(m, r) && m->peer[r].ready != m->round)
            return false;
    return true;
}

static bool verdict_is_here(const struct engine *m)
{
    return m->verdict_round == m->round;
}

static bool marked(struct engine *m)
{
    return check(m, marks_are_here);
}

static bool ready(struct engine *m)
{
    return check(m, all_are_ready);
}

static bool judged(struct engine *m)
{
    return check(m, verdict_is_here);
}

/* One round of marks. *quiet: no endpoint here sent anything until the marks of all others had
 * come. */
static bool exchange_marks(struct engine *m, double seconds, bool *quiet)
{
    m->round++;
    unsigned long long before = atomic_load(&m->sends);
    for (int r = 0; r < m->size; r++) {
        if (!other(m, r))
            continue;
        for (int q = 0; q < m->size && m->rank == 0; q++)
            if (q != r && atomic_load(&m->peer[q].fenced)) /* others may not know of this loss */
                say(m, r, GONE, 0, (uint64_t)q);
        say(m, r, MARK, 0, 0);
    }
    bool here = yk_mpi_drive_until(m, marked, seconds);
    *quiet = atomic_load(&m->sends) == before;
    return here;
}

/* Rank 0: are all ranks ready for the same thing, and were all quiet? */
static enum verdict judge(struct engine *m, bool quiet, double seconds)
{
    if (!yk_mpi_drive_until(m, ready, seconds))
        return REFUSED;
    for (int r = 0; r < m->size; r++) {
        if (!other(m, r))
            continue;
        if (m->peer[r].ready_as != gone(m))
            return REFUSED;
        quiet = quiet && m->peer[r].ready_quiet;
    }
    return quiet ? GRANTED : AGAIN;
}

/* --- can MPI start a process? Where it cannot, it hangs or ends the job instead of failing --- */

/* Does a process listen at one of the addresses in "a,b,c:port"? */
static bool answers(const char *where)
{
    const char *port = strrchr(where, ':');
    for (const char *a = where; port != NULL && a < port; a += strcspn(a, ",:") + 1) {
        char text[INET_ADDRSTRLEN];
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10))};
        snprintf(text, sizeof text, "%.*s", (int)strcspn(a, ",:"), a);
        int fd = inet_pton(AF_INET, text, &to.sin_addr) == 1
                     ? socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
                     : -1;
        if (fd < 0)
            continue;
        int failed = connect(fd, (struct sockaddr *)&to, sizeof to) != 0 ? errno : 0;
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        socklen_t length = sizeof failed;
        if (failed == EINPROGRESS && poll(&p, 1, CONNECT) == 1)
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &length);
        close(fd);
        if (failed == 0)
            return true;
    }
    return false;
}

/* Every host must still have its daemon: if one is missing, mpirun gives up the whole job. */
static yk_code can_spawn(const struct engine *m, const char *program, struct yk_error *e)
{
    if (access(program, X_OK) != 0)
        return yk_fail_errno(e, YK_FAILED, "cannot run '%s'", program);
    for (int r = 0; r < m->size; r++) {
        bool again = false; /* another rank of the same host has been looked at */
        for (int q = 0; q < r && !again; q++)
            again = strcmp(m->daemon[q].at, m->daemon[r].at) == 0;
        if (m->daemon[r].at[0] == '\0')
            return yk_fail(
                e, YK_FAILED,
                "this launcher cannot start processes later on: only Open MPI's mpirun can");
        if (!again && !answers(m->daemon[r].at))
            return yk_fail(e, YK_FAILED,
                           "the host of rank %d is lost: no daemon of mpirun answers at %s", r,
                           m->daemon[r].at);
    }
    return YK_OK;
}

/* Are all survivors here, with nothing under way between them, and do they agree on who is lost?
 * All of them get the same answer, YK_OK or YK_FAILED. `willing`: rank 0 can start a process. */
static yk_code meet(struct engine *m, bool willing, struct yk_error *e)
{
    double end = yk_now() + MEET;
    enum verdict verdict = AGAIN;
    while (verdict == AGAIN) {
        bool quiet = false, here = exchange_marks(m, end - yk_now(), &quiet);
        if (m->rank == 0) {
            verdict = here && willing ? judge(m, quiet, end - yk_now()) : REFUSED;
            for (int r = 0; r < m->size; r++)
                if (other(m, r))
                    say(m, r, VERDICT, verdict, 0);
        } else {
            if (here)
                say(m, 0, READY, quiet, gone(m));
            if (!yk_mpi_drive_until(m, judged, MEET + ANSWER))
                return yk_fail(e, YK_LOST, "rank 0 did not say whether to replace a rank");
            verdict = m->verdict;
        }
    }
    if (verdict == GRANTED)
        return YK_OK;
    return yk_fail(e, YK_FAILED,
                   "rank 0 cannot start a process, or not all ranks came within %.1f s", MEET);
}

void yk_mpi_take_places(struct engine *m, const struct card *cards, int present)
{
    for (int r = 0; r < m->size; r++)
        m->peer[r].at = -1;
    for (int i = 0; i < present; i++) {
        m->who[i] = cards[i].rank;
        m->peer[cards[i].rank].at = i;
        m->card[cards[i].rank] = cards[i];
    }
    for (int r = 0; r < m->size; r++)
        if (m->peer[r].at < 0)
            atomic_store(&m->peer[r].fenced, true);
}

/* --- calls that may hang, on a thread of their own --- */

struct attempt {
    struct engine *m;
    int rank;          /* the rank to replace */
    char *const *argv; /* rank 0: the command */
    const char *text;  /* rank 0: for the new process */
    pthread_mutex_t lock;
    pthread_cond_t ended; /* signalled when `done` is set */
    bool done;
    yk_code code;
    struct yk_error error;
};

static int survivors(const struct engine *m, MPI_Comm *out)
{
    int *left = malloc((size_t)m->size * sizeof *left), n = 0;
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    if (left == NULL)
        return MPI_ERR_NO_MEM;
    for (int r = 0; r < m->size; r++)
        if (r == m->rank || other(m, r))
            left[n++] = m->peer[r].at;
    int rc = MPI_Comm_group(m->mpi, &all);
    if (rc == MPI_SUCCESS)
        rc = MPI_Group_incl(all, n, left, &some);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_create_group(m->mpi, some, TAG_GROUP, out); /* a tag beside ours */
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN);
    free(left);
    return rc;
}

static yk_code spawn(struct attempt *a)
{
    struct engine *m = a->m;
    MPI_Comm few = MPI_COMM_NULL, inter = MPI_COMM_NULL, merged = MPI_COMM_NULL;
    int spawned = MPI_SUCCESS, present = 0;
    struct card *cards = malloc((size_t)m->size * sizeof *cards), mine;
    if (cards == NULL)
        return yk_fail_memory(&a->error, (size_t)m->size * sizeof *cards);
    MPI_Info info = MPI_INFO_NULL;
    int rc = survivors(m, &few);
    if (rc == MPI_SUCCESS)
        rc = MPI_Info_create(&info);
    if (rc == MPI_SUCCESS) /* without a free slot MPI would hang */
        rc = MPI_Info_set(info, "map_by", "slot:OVERSUBSCRIBE");
    if (rc == MPI_SUCCESS)
        rc = MPI_Info_set(info, "bind_to", "none");
    bool root = m->rank == 0; /* the only one whose command counts */
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_spawn(root ? a->argv[0] : "", root ? (char **)a->argv + 1 : MPI_ARGV_NULL, 1,
                            info, 0, few, &inter, &spawned);
    if (rc == MPI_SUCCESS)
        rc = MPI_Intercomm_merge(inter, 0, &merged);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(merged, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_size(merged, &present);
    if (rc != MPI_SUCCESS) {
        char text[200];
        yk_mpi_error(rc, text, sizeof text);
        free(cards);
        return yk_fail(&a->error, YK_FAILED,
                       "MPI cannot start a process in the place of rank %d: %s", a->rank, text);
    }
    yk_mpi_introduce(&mine);
    mine.endpoint = a->rank;
    mine.round = m->round;
    mine.told = root ? (uint32_t)strlen(a->text) : 0;
    yk_code code = yk_mpi_gather(merged, &mine, sizeof mine, cards, HANG, &a->error);
    if (code == YK_OK && root)
        code = yk_mpi_tell(merged, present - 1, a->text, mine.told, HANG, &a->error);
    if (code == YK_OK) {
        cards[present - 1].rank = a->rank;
        yk_mpi_unring(m);
        m->mpi = merged;
        struct peer *p = &m->peer[a->rank];
        atomic_store(&p->lost, false);
        p->told_of = 0;
        p->beat = MPI_REQUEST_NULL;
        p->marked = p->ready = m->round;
        p->reaped = false;
        atomic_store(&p->fenced, false);
        yk_mpi_take_places(m, cards, present);
        for (int r = 0; r < m->size; r++)
            yk_mpi_watch_rank(m, r);
        code = yk_mpi_ring(m, &a->error);
    }
    free(cards);
    return code;
}

static void *attempt(void *arg)
{
    struct attempt *a = arg;
    pthread_mutex_lock(&a->m->driving);
    pthread_mutex_lock(&a->m->wire);
    atomic_store(&a->m->replacing, true);
    yk_code code = spawn(a);
    atomic_store(&a->m->replacing, false);
    pthread_mutex_unlock(&a->m->wire);
    pthread_mutex_unlock(&a->m->driving);
    pthread_mutex_lock(&a->lock);
    a->code = code;
    a->done = true;
    pthread_cond_signal(&a->ended);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

yk_code yk_mpi_replace(struct yk_comm *c, int endpoint, char *const *argv, const char *text,
                       struct yk_error *e)
{
    struct engine *m = (struct engine *)c;
    if (m->together)
        return yk_fail(e, YK_USAGE, "a rank that is owner and worker cannot be replaced");
    c->ops->fence(c, endpoint);
    pthread_mutex_lock(&m->driving);
    yk_mpi_pass(m); /* reaps it */
    pthread_mutex_unlock(&m->driving);
    yk_code willing = m->rank == 0 ? can_spawn(m, argv[0], e) : YK_OK;
    yk_code code = meet(m, willing == YK_OK, willing == YK_OK ? e : NULL);
    if (code != YK_OK)
        return code;
    struct attempt *a = calloc(1, sizeof *a); /* on the heap: a thread that hangs keeps it */
    if (a == NULL)
        return yk_fail_memory(e, sizeof *a);
    *a = (struct attempt){
        .m = m, .rank = m->end[endpoint].rank, .argv = argv, .text = text, .code = YK_FAILED};
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&a->ended, &attr);
    pthread_mutex_init(&a->lock, NULL);
    pthread_t thread;
    if (pthread_create(&thread, NULL, attempt, a) != 0) {
        free(a);
        return yk_fail(e, YK_LOST, "cannot start a thread to replace rank %d",
                       m->end[endpoint].rank);
    }
    struct timespec limit;
    clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_sec += (time_t)HANG;
    pthread_mutex_lock(&a->lock);
    int rc = 0;
    while (!a->done && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&a->ended, &a->lock, &limit);
    bool done = a->done;
    pthread_mutex_unlock(&a->lock);
    if (!done) {
        atomic_store(&m->stuck, true);
        pthread_detach(thread);
        return yk_fail(e, YK_LOST, "MPI hangs while it replaces rank %d", m->end[endpoint].rank);
    }
    pthread_join(thread, NULL);
    code = a->code;
    if (code != YK_OK && e != NULL)
        *e = a->error;
    free(a);
    return code;
}
