/* faults.c - ranks that die, stop, wake and are replaced. See ends.h for how it is called. */
#include "tests/mpi/ends.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

static const char TOLD[] = "what rank 0 tells a new one";
enum { GRACE = 10 }; /* seconds that a machine may stop for, beyond what is promised */
enum { LATE = 20 };  /* seconds: on a busy machine a new process takes some of them */

/* Rank `victim` dies by kill -9 while all exchange; the others go on. */
static void die(int victim)
{
    const char *name = victim == 0 ? "die-owner" : "die-worker";
    open_comm();
    ends[0].answers = true;
    attach_all();
    int me = job.rank;
    static unsigned char data[2][100000];
    static atomic_uint pending[2];
    if (me > 0 && me != victim) {
        double start = yk_now();
        uint64_t id = 0, after = 0;
        ends[me].verify = false;
        for (; yk_now() - start < 1.5 && atomic_load(&ends[me].lost[0]) == 0; id++) {
            fill(data[id % 2], sizeof *data, me, 0, id);
            post(me, 0, PUSH, id, data[id % 2], sizeof *data, &pending[id % 2]);
            while (atomic_load(&ends[me].next[0]) <= id && atomic_load(&ends[me].lost[0]) == 0 &&
                   yk_now() - start < 5)
                comm->ops->wait(comm, me, comm->ops->seen(comm, me), 0.01);
            after += yk_now() - start > 1;
        }
        if (victim == 0) {
            check(until_lost(me, 0, 5 + GRACE), "the loss of rank 0 was not told once");
            check(ends[me].lost_at[0] - start < 1.3 + GRACE,
                  "rank 0's death was noticed after %.2f s", ends[me].lost_at[0] - start);
            comm->ops->fence(comm, 0);
            comm->ops->settle(comm, &pending[0]);
            comm->ops->settle(comm, &pending[1]);
        } else {
            check(after > 5, "rank %d did not go on after the death", me);
            check(atomic_load(&ends[me].lost_all) == 0,
                  "rank %d was told of a loss that is not its own", me);
            post(me, 0, STOP, id, NULL, 0, NULL);
            nap(0.3); /* our last words, and rank 0's */
        }
        end(name, false);
    }
    if (me == victim) {
        double start = yk_now();
        while (yk_now() - start < 0.5)
            comm->ops->wait(comm, me, comm->ops->seen(comm, me), 0.05);
        kill(getpid(), SIGKILL);
    }
    double start = yk_now();
    atomic_uint *owed = &pending[0];
    ends[0].verify = false;
    fill(data[0], sizeof *data, 0, victim, 0);
    post(0, victim, REPLY, 0, data[0], sizeof *data, owed); /* (it takes this one) */
    check(until_lost(0, victim, 5 + GRACE), "the death of rank %d was not told once", victim);
    double took = ends[0].lost_at[victim] - start - starved;
    check(took > 0.4 && took < 1.3 + GRACE, "the death after 0.5 s was noticed after %.2f s", took);
    check(strstr(ends[0].why, "has ended") != NULL, "why: '%s'", ends[0].why);
    post(0, victim, REPLY, 1, data[0], sizeof *data, owed);
    nap(0.05);
    check(atomic_load(owed) == 1, "a send to the dead got through");
    comm->ops->fence(comm, victim);
    comm->ops->settle(comm, owed);
    post(0, victim, REPLY, 2, data[0], sizeof *data, owed);
    check(atomic_load(owed) == 0, "a send to a fenced endpoint is pending");
    double limit = yk_now() + 5;
    while (atomic_load(&ends[0].stops) < (unsigned)plan.workers - 1 && yk_now() < limit)
        comm->ops->wait(comm, 0, comm->ops->seen(comm, 0), 0.1);
    check(atomic_load(&ends[0].stops) == (unsigned)plan.workers - 1, "a survivor did not finish");
    check(atomic_load(&ends[0].lost_all) == 1, "lost() was called %u times",
          atomic_load(&ends[0].lost_all));
    end(name, false);
}

static void die_worker(void)
{
    die(2);
}

static void die_owner(void)
{
    die(0);
}

/* Rank 0 and another are stopped for longer than the heartbeat, rank 0 wakes first: it must not
 * take the other for dead. */
static void sleepers(void)
{
    open_comm();
    attach_all();
    double start = yk_now();
    if (job.rank == 1) {
        nap(0.3);
        kill(yk_comm_pid(comm, 0), SIGSTOP);
        kill(yk_comm_pid(comm, 2), SIGSTOP);
        nap(plan.heartbeat * 2);
        kill(yk_comm_pid(comm, 0), SIGCONT);
        nap(plan.heartbeat * 0.4);
        kill(yk_comm_pid(comm, 2), SIGCONT);
    }
    while (yk_now() - start < 0.3 + plan.heartbeat * 3.5)
        comm->ops->wait(comm, job.rank, comm->ops->seen(comm, job.rank), 0.1);
    check(atomic_load(&ends[mine()].lost_all) == 0, "a pause was taken for a loss: %s",
          ends[mine()].why);
    end("sleepers", true);
}

/* A rank is stopped for longer; it is fenced, wakes, reads what it was told before, and can do
 * no harm. */
static void stop(void)
{
    open_comm();
    ends[2].obeys = true;
    attach_all();
    unsigned char *data = malloc(MOST);
    atomic_uint pending = 0;
    if (job.rank == 0) {
        check(until(0, &ends[0].next[2], 1, 5), "rank 2 said nothing");
        double start = yk_now();
        kill(yk_comm_pid(comm, 2), SIGSTOP);
        check(until_lost(0, 2, 5 + GRACE), "silence was not told once");
        double took = ends[0].lost_at[2] - start - starved;
        check(took > plan.heartbeat - 0.3 && took < plan.heartbeat + 1 + GRACE,
              "silence was told after %.2f s", took);
        check(strstr(ends[0].why, "nothing heard") != NULL, "why: '%s'", ends[0].why);
        post(0, 2, STOP, 0, NULL, 0, NULL);
        comm->ops->fence(comm, 2);
        kill(yk_comm_pid(comm, 2), SIGCONT);
        uint64_t before = atomic_load(&ends[0].next[2]);
        nap(0.5);
        check(atomic_load(&ends[0].next[2]) == before, "a fenced rank was heard");
        for (int r = 1; r < job.size; r++)
            if (r != 2)
                post(0, r, STOP, 0, NULL, 0, NULL);
        nap(0.2);
    } else {
        for (uint64_t id = 0; atomic_load(&ends[job.rank].stops) == 0 && id < 5000; id++) {
            fill(data, job.rank == 2 ? 5000 : 0, job.rank, 0, id);
            post(job.rank, 0, PUSH, id, data, job.rank == 2 ? 5000 : 0, &pending);
            comm->ops->settle(comm, &pending);
            comm->ops->wait(comm, job.rank, comm->ops->seen(comm, job.rank), 0.001);
        }
        check(atomic_load(&ends[job.rank].stops) == 1, "rank %d was not told to stop", job.rank);
    }
    end("stop", false);
}

/* Every survivor has just sent rank 0 a lot, and rank 0's handler answers; then they replace
 * rank 2. */
static void start_anew(void)
{
    unsigned char *early = malloc(MOST);
    atomic_uint *pending = calloc(1, sizeof *pending); /* both are the engine's until it says so */
    int me = job.rank;
    struct yk_error e;
    if (me == 0) {
        check(until_lost(0, 2, 5 + GRACE), "the loss was not told");
        for (int r = 1; r < job.size; r++)
            if (r != 2)
                post(0, r, PUSH, 0, NULL, 0, NULL); /* do as I do */
    } else {
        check(until(me, &ends[me].next[0], 1, 5), "rank %d was not told to replace", me);
        atomic_store(&ends[me].next[0], 0); /* from here on come answers */
        fill(early, MOST, me, 0, 0);
        post(me, 0, PUSH, 0, early, MOST, pending);
    }
    double start = yk_now();
    yk_code rc = yk_mpi_replace(comm, 2, arguments, TOLD, &e);
    check(rc == YK_OK, "cannot replace: %s", e.text);
    check(yk_now() - start < 4 + GRACE, "replacing took %.2f s", yk_now() - start);
    if (me > 0)
        check(atomic_load(&ends[me].next[0]) == 1 && atomic_load(pending) == 0,
              "an answer to before came after");
    for (int r = 1; r < job.size && me == 0; r++)
        check(r == 2 || atomic_load(&ends[0].next[r]) == 1,
              "what rank %d sent before did not come before", r);
}

/* Rank 2 dies, or only stops; the others start a new one and all talk to it. argv of the new one
 * is this program's. */
static void replace_after(const char *name, int signal)
{
    open_comm();
    ends[0].answers = true;
    attach_all();
    int me = job.rank, old = yk_comm_pid(comm, 2);
    if (me == 2 && !job.replacement) {
        nap(0.2);
        kill(getpid(), signal);
    }
    if (!job.replacement)
        start_anew();
    if (me == 0) {
        atomic_store(&ends[0].next[2], 0);
        check(yk_comm_pid(comm, 2) != old, "the new rank has the old one's pid");
        for (int r = 1; r < job.size; r++)
            check(until(0, &ends[0].next[r], r == 2 ? 2 : 3, 5), "rank %d does not speak", r);
        nap(0.2); /* it says "new" */
        atomic_store(&ends[0].lost[2], 0);
        kill(yk_comm_pid(comm, 2), SIGKILL);
        check(until_lost(0, 2, 2 + GRACE), "the new one is not watched");
        kill(old, SIGKILL);
        end(name, false);
    }
    unsigned char *data = malloc(MOST);
    atomic_uint pending = 0;
    for (uint64_t id = job.replacement ? 0 : 1, i = 0; i < 2; i++, id++) {
        fill(data, 200000, me, 0, id);
        post(me, 0, PUSH, id, data, 200000, &pending);
        check(until(me, &ends[me].next[0], id + 1, 5), "rank %d got no answer", me);
        comm->ops->settle(comm, &pending);
    }
    check(strcmp(job.told, job.replacement ? TOLD : "") == 0, "rank %d was told '%s'", me,
          job.told);
    if (job.replacement) {
        printf("new %d of %d\n", job.rank, job.size);
        fflush(stdout);
        for (double limit = yk_now() + 10; yk_now() < limit;)
            comm->ops->wait(comm, me, comm->ops->seen(comm, me), 1);
        check(false, "was to be killed");
    }
    nap(0.5);
    end(name, false);
}

static void replace(void)
{
    replace_after("replace", SIGKILL);
}

static void replace_stopped(void)
{
    replace_after("replace-stopped", SIGSTOP);
}

/* Two die at once, or STAGGER milliseconds apart. Only rank 0 knows of the second; both are
 * replaced, one after the other, and the first new one helps with the second. */
static void replace_two(void)
{
    open_comm();
    attach_all();
    int me = job.rank;
    uint64_t said[ENDS] = {0};
    struct yk_error e;
    unsigned char *data = malloc(MOST);
    atomic_uint pending = 0;
    if (!job.replacement && (me == 2 || me == 3)) {
        const char *stagger = getenv("STAGGER");
        nap(0.2 + (me == 3 && stagger != NULL ? atof(stagger) / 1000 : 0));
        kill(getpid(), SIGKILL);
    }
    if (me == 0) {
        check(until_lost(0, 2, LATE) && until_lost(0, 3, LATE), "the losses were not told");
        comm->ops->fence(comm, 3);
    }
    for (int victim = me == 2 ? 3 : 2; victim <= 3 && me != 3; victim++) {
        for (int r = 1; r < job.size && me == 0; r++)
            if (r != 3 && r != victim)
                post(0, r, PUSH, said[r]++, NULL, 0, NULL);
        said[0]++;
        check(me == 0 || until(me, &ends[me].next[0], said[0], LATE), "rank %d was not called", me);
        yk_code rc = yk_mpi_replace(comm, victim, arguments, TOLD, &e);
        check(rc == YK_OK, "cannot replace rank %d: %s", victim, e.text);
    }
    for (int r = 1; r < job.size && me == 0; r++) {
        check(until(0, &ends[0].next[r], 1, LATE), "rank %d does not speak", r);
        post(0, r, STOP, said[r]++, NULL, 0, NULL);
    }
    if (me > 0) {
        fill(data, 200000, me, 0, 0);
        post(me, 0, PUSH, 0, data, 200000, &pending);
        comm->ops->settle(comm, &pending);
        check(until(me, &ends[me].next[0], (me == 3 ? 0 : said[0]) + 1, LATE),
              "rank %d was not told to stop", me);
    }
    nap(0.3);
    end("replace-two", false);
}

/* A program that is not there: everybody hears of it, soon, and goes on. */
static void replace_nothing(void)
{
    open_comm();
    ends[0].answers = true;
    attach_all();
    struct yk_error e;
    static char program[] = "./no-such-program";
    char *argv[] = {program, NULL};
    int me = job.rank;
    if (me == 2) { /* to those who replace it as good as dead */
        nap(2);
        _exit(0);
    }
    double start = yk_now();
    yk_code rc = yk_mpi_replace(comm, 2, argv, TOLD, &e);
    check(rc == YK_FAILED, "replacing by nothing ended with %d", rc);
    check(yk_now() - start < 2 + GRACE, "that took %.2f s", yk_now() - start);
    unsigned char data[5000];
    atomic_uint pending = 0;
    if (me > 0) {
        fill(data, sizeof data, me, 0, 0);
        post(me, 0, PUSH, 0, data, sizeof data, &pending);
        check(until(me, &ends[me].next[0], 1, 5), "rank %d was not answered afterwards", me);
        comm->ops->settle(comm, &pending);
    } else {
        for (int r = 1; r < job.size; r++)
            check(r == 2 || until(0, &ends[0].next[r], 1, 5), "rank %d was not heard afterwards",
                  r);
    }
    nap(0.3);
    end("replace-nothing", false);
}

/* No thread can be had for who looks whether Open MPI answers: it is said, and the ranks talk. The
 * limit is that of a user whose only threads are this rank's, and does not hold for root. */
static char unlooked[200];
static void note_unlooked(void *arg, const char *text, double seconds, bool over)
{
    (void)arg;
    check(seconds == 0 && !over, "somebody looks");
    snprintf(unlooked, sizeof unlooked, "%s", text);
}

static int threads_here(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    while (d != NULL && readdir(d) != NULL)
        n++;
    if (d != NULL)
        closedir(d);
    return n - 2; /* "." and ".." */
}

static void few_threads(void)
{
    plan.stalled = note_unlooked;
    check(setuid((uid_t)(70000 + job.rank + getpid())) == 0, "cannot become another user");
    rlim_t most = (rlim_t)threads_here() + 1; /* the helper's */
    check(setrlimit(RLIMIT_NPROC, &(struct rlimit){most, most}) == 0, "cannot set a limit");
    open_comm();
    check(strstr(unlooked, "cannot start the thread that checks whether Open MPI answers") != NULL,
          "it said '%s'", unlooked);
    ends[0].answers = true;
    attach_all();
    int me = job.rank;
    if (me > 0) {
        post(me, 0, PUSH, 0, NULL, 0, NULL);
        check(until(me, &ends[me].next[0], 1, LATE), "rank %d got no answer", me);
    }
    for (int r = 1; r < job.size && me == 0; r++)
        check(until(0, &ends[0].next[r], 1, LATE), "rank %d does not speak", r);
    end("few-threads", true);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"few-threads", few_threads},
        {"die-worker", die_worker},
        {"die-owner", die_owner},
        {"sleepers", sleepers},
        {"stop", stop},
        {"replace", replace},
        {"replace-nothing", replace_nothing},
        {"replace-stopped", replace_stopped},
        {"replace-two", replace_two},
        {NULL, NULL},
    };
    return run_case(cases, argc, argv);
}
