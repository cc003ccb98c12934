/* notes.c - notes that no engine would send, from a rank that may send: shorter than they say,
 * longer, cut off, from or for somebody else. Rank 1 gives them to MPI behind the engine's back;
 * rank 0 must take the right ones between them and nothing else. See ends.h for how it is
 * called. */
#include <mpi.h>

#include "comm/mpi_engine.h"
#include "tests/mpi/ends.h"

enum { ROUNDS = 3 };

/* `length` bytes that begin with a note which says that `bytes` of data follow. */
static void forge(int from, int to, uint64_t bytes, size_t length)
{
    static _Alignas(64) unsigned char buffer[2 * sizeof(struct wire)];
    struct engine *m = (struct engine *)comm;
    struct yk_note note = {.from = (uint16_t)from,
                           .to = (uint16_t)to,
                           .kind = PUSH,
                           .word = {666},
                           .bytes = bytes,
                           .step = bytes};
    memset(buffer, 0xee, sizeof buffer);
    memcpy(buffer, &note, sizeof note);
    pthread_mutex_lock(&m->wire);
    int rc = MPI_Send(buffer, (int)length, MPI_BYTE, m->peer[0].at, TAG_NOTE, m->mpi);
    pthread_mutex_unlock(&m->wire);
    check(rc == MPI_SUCCESS, "a note of %zu bytes could not be sent", length);
}

static void unsound(void)
{
    enum { NOTE = sizeof(struct yk_note) };
    static const struct {
        int from, to;
        uint64_t bytes;
        size_t length;
    } BAD[] = {
        {1, 0, 100, NOTE},        /* its data are missing */
        {1, 0, 100, NOTE + 99},   /* one byte of them is */
        {1, 0, 100, NOTE + 101},  /* one too many */
        {1, 0, 0, NOTE + 1},      /**/
        {1, 0, 0, 0},             /* nothing at all */
        {1, 0, 0, NOTE - 1},      /* a part of a note */
        {1, 0, 5000, NOTE + 100}, /* large data come apart from their note */
        {1, 0, SMALL, NOTE + SMALL - 1},
        {1, 0, SMALL + 1, NOTE + 1},
        {1, 0, UINT64_MAX, NOTE - 1}, /* NOTE + UINT64_MAX, to who adds them up */
        {1, 0, UINT64_MAX - 63, 0},   /**/
        {1, 0, 4000, NOTE + 4000},    /* more than a note can carry */
        {2, 0, 0, NOTE},              /* from somebody else, */
        {0, 0, 0, NOTE},              /* from the receiver himself, */
        {9, 0, 0, NOTE},              /* from nobody */
        {1, 1, 0, NOTE},              /* for somebody else, */
        {1, 9, 0, NOTE},              /* for nobody */
    };
    open_comm();
    ends[0].answers = true;
    attach_all();
    unsigned char data[5000];
    atomic_uint pending = 0;
    if (job.rank == 1) {
        uint64_t id = 0;
        for (int round = 0; round < ROUNDS; round++) /* more than the ring of receives holds */
            for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++, id++) {
                forge(BAD[i].from, BAD[i].to, BAD[i].bytes, BAD[i].length);
                size_t n = i % 2 == 0 ? 100 : sizeof data;
                fill(data, n, 1, 0, id);
                post(1, 0, PUSH, id, data, n, &pending);
                check(until(1, &ends[1].next[0], id + 1, 10), "no answer after note %zu", i);
                comm->ops->settle(comm, &pending);
            }
        post(1, 0, STOP, id, NULL, 0, NULL);
    } else if (job.rank == 0) {
        for (double limit = yk_now() + 20; atomic_load(&ends[0].stops) == 0 && yk_now() < limit;)
            comm->ops->wait(comm, 0, comm->ops->seen(comm, 0), 0.1);
        uint64_t want = ROUNDS * (sizeof BAD / sizeof *BAD) + 1;
        check(atomic_load(&ends[0].next[1]) == want, "%llu messages came, not %llu",
              (unsigned long long)ends[0].next[1], (unsigned long long)want);
        check(atomic_load(&ends[0].next[2]) == 0 && atomic_load(&ends[0].lost_all) == 0,
              "somebody else was blamed");
    }
    end("unsound", true);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {{"unsound", unsound}, {NULL, NULL}};
    return run_case(cases, argc, argv);
}
