/* crew.h - the owners and workers of this process, and what they talk through.
 *
 * In threads a process has them all; over MPI a rank is an owner, a worker, or (all-reduce) both. */
#ifndef YK_TRAIN_CREW_H
#define YK_TRAIN_CREW_H

#include "comm/comm.h"
#include "model/model.h"
#include "strategy/server.h"
#include "strategy/worker.h"

#include <pthread.h>

/* The processes of a run. */
struct yk_job {
    bool joined; /* over MPI */
    struct yk_mpi mpi;
    bool clean; /* nobody was lost: the ranks may meet for a last time */
    unsigned hosts;
    unsigned workers_here; /* workers on this host */
    char (*host)[64];      /* (mpi.size) of each rank */
    int *pid;              /* (mpi.size) */
};

struct yk_session;
struct yk_feed; /* data/prefetch.h */

struct yk_ready {   /* a sparse model's keys of a task, sent ahead of it or not */
    unsigned which; /* of the model's two plans */
    uint64_t id;
    uint32_t first, last;
    struct yk_keys keys;
};

struct yk_hand { /* a worker of this process */
    struct yk_session *session;
    struct yk_worker worker;
    struct yk_work *work;
    struct yk_feed
        *feed; /* images that are made when they are needed; NULL where the data are in memory */
    pthread_t thread;
    bool running;
    struct yk_ready ready;
    struct yk_batch *shard; /* (shard_room) of the task whose keys are being listed */
    uint32_t shard_room;
};

struct yk_crew {
    struct yk_comm *comm;
    struct yk_rule rule;
    struct yk_recipe recipe;
    struct yk_clock clock; /* in owner 0's process */
    bool has_clock;
    struct yk_server *server; /* (servers) owners first_server, first_server + 1, ... */
    unsigned servers, first_server;
    struct yk_hand *hand; /* (hands) workers first_hand, ... */
    unsigned hands, first_hand;
    struct yk_phases *account; /* (workers) where each one's time went; owner 0's process */
};

/* crew.c. Which of them live here, from the session's job and rule; then make them. */
void yk_crew_place(struct yk_session *s);
yk_code yk_crew_open(struct yk_session *s, struct yk_error *e);
bool yk_crew_close(
    struct yk_session
        *s); /* false: the engine may still use this process's buffers; it has to end by _exit */
/* The beginning: parameters reach the other owners, workers ask for theirs. */
yk_code yk_crew_start(struct yk_session *s, struct yk_error *e);
/* Run the workers of this process until they are told to stop, then wait for the others as owners. */
yk_code yk_crew_run(struct yk_session *s, struct yk_error *e);
/* Do other processes own a part of the parameters? */
bool yk_crew_elsewhere(const struct yk_session *s);
/* Threads that steps keep busy on this machine. */
unsigned yk_crew_busy(const struct yk_session *s);
/* A new worker in the place of a lost one: every survivor calls this when owner 0 says so. */
yk_code yk_crew_replace(struct yk_session *s);
/* Owner 0's process is done: let everybody go. */
void yk_crew_dismiss(struct yk_session *s);
/* Under owner 0's lock: keep the other owners of this process still, and let them go on. */
void yk_crew_hold(struct yk_session *s);
void yk_crew_free(struct yk_session *s);

#endif
