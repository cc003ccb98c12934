/* mpi_join.c - the job: recognising the launcher, meeting the other ranks, agreeing, leaving.
 *
 * The launcher of another MPI would start N worlds of one rank each, which all train the same
 * thing, and MPI would report no error. So the size that the launcher put into the environment is
 * compared with the size that MPI found. Where the environment names no PMIx server, MPI is not
 * initialised at all, because it would start a daemon of its own for one rank. Every meeting has a
 * time limit, because a dead rank never comes. After a failed meeting no rank calls MPI_Finalize.
 * THREADS: one thread; before there is an engine.
 * LIMITS: MPI_Init has no time limit. If a rank dies before it gets there, the others hang in it
 * until the launcher ends the job. A program that a rank starts inherits its environment and looks
 * like that rank; ranks start none. */
#include <mpi.h>

#include "comm/mpi_engine.h"

#include "base/clock.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* A process can initialise MPI only once, so there is one job and no handle. */
static struct job the_job = {.endpoint = -1};
static bool initialised;
static bool broken; /* MPI_Finalize would hang or crash */
/* Bytes of shared memory for a rank: Open MPI takes a little more than 4 MB. */
enum { SHARED = 5 << 20 };

/* --- launchers --- */

static int number(const char *variable) /* 0 if it is not set, or not a number */
{
    const char *text = getenv(variable);
    char *end = NULL;
    long n = text != NULL && isdigit((unsigned char)*text) ? strtol(text, &end, 10) : 0;
    return end != NULL && *end == '\0' && n > 0 && n < 1 << 24 ? (int)n : 0;
}

enum launcher { NOBODY, MPIRUN, SRUN, PMIX, HYDRA };

/* The launcher that started this process; *size: the processes that it says it started, 0 if it
 * does not say. A shell inside a Slurm allocation has most of Slurm's variables, but only the tasks
 * of a step have a rank and a number of tasks. A step of one task counts as no launcher. */
static enum launcher launcher(int *size)
{
    if ((*size = number("OMPI_COMM_WORLD_SIZE")) > 0)
        return MPIRUN;
    if (getenv("SLURM_PROCID") != NULL && (*size = number("SLURM_STEP_NUM_TASKS")) > 0)
        return *size > 1 ? SRUN : NOBODY;
    if (getenv("PMI_RANK") != NULL && (*size = number("PMI_SIZE")) > 1)
        return HYDRA;
    *size = 0;
    return getenv("PMIX_RANK") != NULL && getenv("PMIX_NAMESPACE") != NULL &&
                   getenv("SLURM_JOB_ID") == NULL
               ? PMIX
               : NOBODY;
}

bool yk_mpi_launched(void)
{
    int size;
    return launcher(&size) != NOBODY;
}

bool yk_mpi_replaces(void)
{
    return getenv("OMPI_PARENT_PORT") != NULL;
}

static yk_code foreign(enum launcher who, int promised, int found, struct yk_error *e)
{
    static const char *const NAME[] = {"nothing", "mpirun", "srun", "a PMIx launcher",
                                       "the launcher of another MPI"};
    yk_code rc;
    if (found > 0)
        rc = yk_fail(e, YK_USAGE, "%s started %d processes, but MPI sees %d", NAME[who], promised,
                     found);
    else
        rc = yk_fail(e, YK_USAGE, "%s started %d processes that Open MPI cannot connect", NAME[who],
                     promised);
    if (who == SRUN)
        yk_hint(e, "'srun --mpi=pmix' starts processes that can meet; 'srun --mpi=list' shows "
                   "whether this Slurm has it");
    else
        yk_hint(e, "start it with Open MPI's own mpirun ('mpirun --version' says whose it is), or "
                   "use --hosts");
    return rc;
}

/* --- joining --- */

/* Is it certain that all ranks are on this host? A replacement does not know where the others are;
 * it inherits the settings of rank 0, which started it. */
static bool is_one_host(enum launcher who, int size)
{
    if (yk_mpi_replaces())
        return false;
    if (who == MPIRUN)
        return number("OMPI_COMM_WORLD_LOCAL_SIZE") == size;
    return who == SRUN && number("SLURM_STEP_NUM_NODES") == 1;
}

/* Does the shared memory have room for all ranks? If not, they use TCP. Ranks look at different
 * moments, when others have already taken their part, and may come to different answers. That does
 * no harm: if one rank finds room for all, there is room for all, and ranks that may also use TCP
 * still reach it by memory. */
static bool has_room(int size)
{
    const char *given = getenv("OMPI_MCA_btl_vader_backing_directory"),
               *dir = given != NULL ? given : "/dev/shm";
    struct statvfs fs;
    if (access(dir, W_OK) != 0 || statvfs(dir, &fs) != 0)
        return true; /* Open MPI takes another folder */
    return (double)fs.f_bavail * (double)fs.f_frsize >= (double)size * SHARED;
}

/* All ranks are on this host: do not listen to other hosts. A client that connects to a rank's port
 * can block the rank (mpi_stall.c), and Open MPI opens a port on every address if it may use TCP.
 * Shared memory is enough, except for replacements, which it does not reach: for those TCP is
 * limited to the loopback device. */
static void close_doors(int size, bool replaces)
{
    if (!replaces && has_room(size))
        setenv("OMPI_MCA_btl", "self,vader", 0);
    else if (getenv("OMPI_MCA_btl_tcp_if_exclude") == NULL) /* the two exclude each other */
        setenv("OMPI_MCA_btl_tcp_if_include", "lo", 0);
}

/* Settings that make Open MPI quiet and fast; the user's own stay. Measured: an eager limit that
 * sends a small model's gradient in one message instead of three gives 20 % more updates a second.
 * Without puts (flags "send") an all-reduce of 64 MB takes 0.44 s instead of 0.67, because a huge
 * put of one peer delays those of the others. Buffers of 4 MB use 95 % of a 1.8 Gbit/s wire instead
 * of 56 to 83 %. */
static void prepare(void)
{
    static const char *const SETTING[][2] = {
        {"OMPI_MCA_btl_base_warn_component_unused", "0"},
        {"OMPI_MCA_mca_base_component_show_load_errors", "0"},
        {"OMPI_MCA_btl_vader_eager_limit", "40960"},
        {"OMPI_MCA_btl_tcp_flags", "send"},
        {"OMPI_MCA_btl_tcp_sndbuf", "4194304"},
        {"OMPI_MCA_btl_tcp_rcvbuf", "4194304"},
    };
    for (size_t i = 0; i < sizeof SETTING / sizeof *SETTING; i++)
        setenv(SETTING[i][0], SETTING[i][1], 0);
    /* Open MPI wants to read the memory of other processes directly. Where a container forbids
     * that, it would try and print warnings. */
    char from = 1, to = 0;
    struct iovec local = {&to, 1}, remote = {&from, 1};
    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != 1)
        setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
}

void yk_mpi_error(int rc, char *text, size_t size)
{
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(rc, words, &length) != MPI_SUCCESS)
        snprintf(words, sizeof words, "error %d", rc);
    snprintf(text, size, "%s", words);
}

static yk_code fail_mpi(int rc, const char *what, struct yk_error *e)
{
    char text[200];
    yk_mpi_error(rc, text, sizeof text);
    broken = true; /* MPI_Finalize crashes if one rank cannot reach another */
    return yk_fail(e, YK_FAILED, "cannot %s: %s", what, text);
}

/* Wait until the request is complete, for at most `seconds`, without burning a core. After a
 * failure MPI is not called any more, so the buffers that it still knows may be freed. */
static yk_code await(MPI_Request r, double seconds, const char *what, struct yk_error *e)
{
    double end = yk_now() + seconds;
    for (unsigned i = 0;; i++) {
        int through = 0;
        int rc = MPI_Test(&r, &through, MPI_STATUS_IGNORE);
        if (rc != MPI_SUCCESS)
            return fail_mpi(rc, what, e);
        if (through)
            return YK_OK;
        if (yk_now() > end) {
            broken = true;
            return yk_fail(e, YK_LOST, "cannot %s: not all ranks answered within %.0f s", what,
                           seconds);
        }
        if (i < 300)
            sched_yield();
        else
            nanosleep(&(struct timespec){0, 50000}, NULL);
    }
}

yk_code yk_mpi_gather(MPI_Comm comm, const void *mine, size_t n, void *all, double seconds,
                      struct yk_error *e)
{
    MPI_Request r;
    int rc = MPI_Iallgather(mine, (int)n, MPI_BYTE, all, (int)n, MPI_BYTE, comm, &r);
    if (rc != MPI_SUCCESS)
        return fail_mpi(rc, "meet the other ranks", e);
    return await(r, seconds, "meet the other ranks", e);
}

yk_code yk_mpi_tell(MPI_Comm comm, int to, const char *text, size_t n, double seconds,
                    struct yk_error *e)
{
    MPI_Request r;
    int rc = MPI_Isend(text, (int)n, MPI_BYTE, to, TAG_TOLD, comm, &r);
    if (rc != MPI_SUCCESS)
        return fail_mpi(rc, "tell a new rank what to do", e);
    return await(r, seconds, "tell a new rank what to do", e);
}

/* A new process: receive the text of rank 0. */
static yk_code hear(struct job *j, size_t n, struct yk_error *e)
{
    MPI_Request r;
    j->told = calloc(1, n + 1);
    if (j->told == NULL)
        return yk_fail_memory(e, n + 1);
    int rc = MPI_Irecv(j->told, (int)n, MPI_BYTE, 0, TAG_TOLD, j->comm, &r);
    if (rc != MPI_SUCCESS)
        return fail_mpi(rc, "hear from rank 0 what to do", e);
    return await(r, YK_MPI_MEETING, "hear from rank 0 what to do", e);
}

/* Take the part between "tcp://" and ';' of
 * "1607270400.1;tcp://192.0.2.2,198.51.100.7:45309;tcp6://...". */
static void find_daemon(struct daemon *d)
{
    const char *uri = getenv("OMPI_MCA_orte_local_daemon_uri");
    const char *at = uri != NULL ? strstr(uri, ";tcp://") : NULL;
    if (at == NULL)
        return;
    at += strlen(";tcp://");
    size_t n = strcspn(at, ";\"");
    if (n < sizeof d->at)
        memcpy(d->at, at, n);
}

void yk_mpi_introduce(struct card *mine)
{
    *mine = (struct card){
        .ok = 1, .rank = the_job.rank, .size = the_job.size, .pid = getpid(), .endpoint = -1};
    if (gethostname(mine->host, sizeof mine->host - 1) != 0)
        snprintf(mine->host, sizeof mine->host, "?");
    struct stat s;
    if (stat("/proc/self/ns/pid", &s) == 0)
        mine->pids = s.st_ino;
    find_daemon(&mine->daemon);
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (f != NULL) {
        if (fgets(mine->boot, sizeof mine->boot, f) == NULL)
            mine->boot[0] = '\0';
        fclose(f);
    }
}

/* A process that yk_mpi_replace started: meet the ranks that started it, learn its place from their
 * cards, and get the text from rank 0. */
static yk_code join_as_replacement(MPI_Comm parents, struct yk_error *e)
{
    struct job *j = &the_job;
    broken = true; /* a rank has died: MPI_Finalize would wait for it */
    int rc = MPI_Intercomm_merge(parents, 1, &j->comm);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(j->comm, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_size(j->comm, &j->present);
    if (rc != MPI_SUCCESS)
        return fail_mpi(rc, "join the ranks that started this one", e);
    j->cards = malloc((size_t)j->present * sizeof *j->cards);
    if (j->cards == NULL)
        return yk_fail_memory(e, (size_t)j->present * sizeof *j->cards);
    struct card mine;
    yk_mpi_introduce(&mine);
    mine.rank = -1;
    yk_code code = yk_mpi_gather(j->comm, &mine, sizeof mine, j->cards, YK_MPI_MEETING, e);
    if (code != YK_OK)
        return code;
    const struct card *root = &j->cards[0];
    j->rank = j->endpoint = root->endpoint; /* where ranks are replaced, an endpoint is a rank */
    j->size = root->size;
    j->round = root->round;
    j->cards[j->present - 1].rank = j->rank;
    return hear(j, root->told, e);
}

static yk_code join_world(enum launcher who, int promised, struct yk_error *e)
{
    struct job *j = &the_job;
    MPI_Comm_rank(MPI_COMM_WORLD, &j->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &j->size);
    if (promised > 0 && promised != j->size) {
        broken = j->size > 1;
        return foreign(who, promised, j->size, e);
    }
    MPI_Request r;
    int rc = MPI_Comm_idup(MPI_COMM_WORLD, &j->comm, &r);
    if (rc != MPI_SUCCESS)
        return fail_mpi(rc, "meet the other ranks", e);
    yk_code code = await(r, YK_MPI_MEETING, "meet the other ranks", e);
    if (code == YK_OK)
        MPI_Comm_set_errhandler(j->comm, MPI_ERRORS_RETURN);
    return code;
}

static bool means_yes(const char *text)
{
    return text != NULL && strchr("1tTyYeE", *text) != NULL && *text != '\0';
}

yk_code yk_mpi_join(struct yk_mpi *out, bool replaces, struct yk_error *e)
{
    int promised = 0, provided = 0;
    enum launcher who = launcher(&promised);
    if (promised > 1 && (getenv("PMIX_RANK") == NULL || getenv("PMIX_NAMESPACE") == NULL))
        return foreign(who, promised, 0, e);
    prepare();
    if (is_one_host(who, promised))
        close_doors(promised, replaces);
    int rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    if (rc != MPI_SUCCESS)
        return fail_mpi(rc, "start MPI", e);
    initialised = true;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm parents = MPI_COMM_NULL;
    MPI_Comm_get_parent(&parents);
    yk_code code = YK_OK;
    if (provided < MPI_THREAD_SERIALIZED)
        code = yk_fail(e, YK_FAILED, "this Open MPI was built without support for threads");
    else if (parents != MPI_COMM_NULL)
        code = join_as_replacement(parents, e);
    else
        code = join_world(who, promised, e);
    if (code != YK_OK) {
        yk_mpi_leave();
        return code;
    }
    *out = (struct yk_mpi){.rank = the_job.rank,
                           .size = the_job.size,
                           .recovery =
                               who == SRUN || means_yes(getenv("OMPI_MCA_orte_enable_recovery")),
                           .replacement = the_job.endpoint >= 0,
                           .endpoint = the_job.endpoint,
                           .told = the_job.told != NULL ? the_job.told : ""};
    return YK_OK;
}

const struct job *yk_mpi_job(void)
{
    return &the_job;
}

yk_code yk_mpi_agree(const void *mine, size_t n, void *all, struct yk_error *e)
{
    if (the_job.endpoint >= 0)
        return yk_fail(e, YK_FAILED,
                       "a replacement cannot agree with the other ranks: they are at work");
    return yk_mpi_gather(the_job.comm, mine, n, all, YK_MPI_MEETING, e);
}

bool yk_mpi_finalize(void)
{
    if (!initialised)
        return true;
    if (broken)
        return false;
    initialised = false;
    return MPI_Finalize() == MPI_SUCCESS;
}

void yk_mpi_leave(void)
{
    yk_mpi_finalize();
}
