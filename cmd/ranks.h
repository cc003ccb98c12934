/* ranks.h - the frame around the work of a rank, for verbs whose ranks are all alike (matmul,
 * netcheck): a rank joins the job, agrees with the other ranks before it sends them structs, and
 * reports the end to its parent. */
#ifndef YK_CMD_RANKS_H
#define YK_CMD_RANKS_H

#include "cmd/cmd.h"
#include "comm/comm.h"

/* One rank's meetings with the others. */
struct meeting {
    const struct yk_mpi *mpi; /* NULL: this process is alone */
    char host[64];            /* this machine */
    int here;                 /* ranks on this machine, known after the first meeting */
};

/* All ranks call this, even those that have failed, and leave with the same code: one failure `rc`,
 * or a different binary, is the failure of all. After YK_OK, `all` has the `n` bytes of `mine` of
 * every rank; n may be 0. */
yk_code meet(struct meeting *m, yk_code rc, const void *mine, size_t n, void *all,
             struct yk_error *e);

/* The work of a rank, from the first meeting to the result. Rank 0 puts the text for standard
 * output into *text, unless it was stopped. `mpi` NULL: one process alone. */
typedef yk_code rank_work(struct call *call, const struct yk_mpi *mpi, char **text,
                          struct yk_error *e);

/* Joins a job that mpirun or srun started, works, and reports to the parent. */
yk_code run_rank(struct call *call, rank_work *work, struct yk_error *e);
/* The same for a process that is not one of several. */
yk_code run_alone(struct call *call, rank_work *work, struct yk_error *e);

/* Has a signal, from the user or from the parent, stopped the verb? `unused` makes it a hook. */
bool was_stopped(void *unused);

/* Reports to the parent that rank 0 is there and will report again within `within` seconds; at most
 * once a second. *last is the time of the last report. */
void keep_alive(double *last, double now, double within);

/* Fails if --workers was given and is not the number of processes. */
yk_code check_workers(const struct call *call, int64_t workers, int ranks, struct yk_error *e);

/* The communication between ranks that are all alike. */
yk_code open_comm(struct yk_comm **out, int ranks, struct yk_error *e);

/* A result as text for standard output; the caller frees it. Takes over `json`; if that is NULL,
 * the result is `text`, which it takes over too. */
struct yk_buf;
yk_code result_text(json_t *json, struct yk_buf *text, char **out, struct yk_error *e);

#endif
