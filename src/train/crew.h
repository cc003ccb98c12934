/* crew.h - the owners and workers of this process, and the channel they talk through.
 *
 * In threads a process has all of them; over MPI a rank is an owner, a worker, or (all-reduce)
 * both. */
#ifndef YK_TRAIN_CREW_H
#define YK_TRAIN_CREW_H

#include "comm/comm.h"
#include "model/model.h"
#include "strategy/server.h"
#include "strategy/worker.h"

#include <pthread.h>

/* The processes of a run. */
struct yk_job {
    bool joined;       /* this process is a rank of an MPI job */
    struct yk_mpi mpi; /* size 1 without MPI */
    bool clean;        /* no rank was lost: the ranks may close MPI together */
    char (*host)[64];  /* (mpi.size) host of each rank */
    int *pid;          /* (mpi.size) */
    uint64_t binary;   /* in a replacement: hash of rank 0's program, which must be its own */
    uint64_t config;   /* in a replacement: hash of rank 0's options, likewise */
};

/* Is the run spread over several processes? */
static inline bool yk_job_has_peers(const struct yk_job *j)
{
    return j->joined && j->mpi.size > 1;
}

struct yk_session;
struct yk_feed; /* data/images/prefetch.h */

/* The keys of one task of a sparse model. They may have been sent with the push before it. */
struct yk_ready {
    unsigned which; /* index of the model's plan that made them, 0 or 1 */
    uint64_t id;
    uint32_t first, last;
    struct yk_keys keys;
};

/* A worker of this process. */
struct yk_local_worker {
    struct yk_session *session;
    struct yk_worker worker;
    struct yk_work *work;
    struct yk_feed *feed; /* makes images when they are needed; NULL if the data are in memory */
    pthread_t thread;
    bool running; /* `thread` was started */
    struct yk_ready ready;
    struct yk_batch *shard; /* (shard_room) shards of the task whose keys are being listed */
    uint32_t shard_room;
};

struct yk_crew {
    struct yk_comm *comm;
    struct yk_rule rule;
    struct yk_recipe recipe;
    struct yk_clock clock;    /* in owner 0's process */
    bool has_clock;           /* this is owner 0's process */
    struct yk_server *server; /* (servers) owners first_server, first_server + 1, ... */
    unsigned servers, first_server;
    struct yk_local_worker *local; /* (locals) workers first_local, first_local + 1, ... */
    unsigned locals, first_local;
    struct yk_phases *account; /* (workers) the time of each, by phases; owner 0's process */
};

/* Decides which owners and workers live here, from the session's job and rule. */
void yk_crew_place(struct yk_session *s);
yk_code yk_crew_open(struct yk_session *s, struct yk_error *e);
/* False: the engine may still use this process's buffers, so the process has to end by _exit. */
bool yk_crew_close(struct yk_session *s);
/* Sends the parameters to the other owners. */
yk_code yk_crew_start(struct yk_session *s, struct yk_error *e);
/* Runs the workers of this process until they are told to stop; its owners serve until the end. */
yk_code yk_crew_run(struct yk_session *s, struct yk_error *e);
/* Owner 0's process is done: tells all other processes to leave. */
void yk_crew_dismiss(struct yk_session *s);

/* Do other processes own a part of the parameters? */
bool yk_crew_elsewhere(const struct yk_crew *c);
/* Number of threads that steps keep busy on this machine. */
unsigned yk_crew_busy(const struct yk_session *s);
/* Under owner 0's lock: locks and unlocks the other owners of this process. */
void yk_crew_lock_owners(struct yk_crew *c);
void yk_crew_unlock_owners(struct yk_crew *c);

#endif
