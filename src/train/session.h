/* session.h - one training run, and the parts it consists of. Each part has a header and one file
 * that works on it; session.c opens them in this order and closes them in reverse:
 *
 *     resume.c    what earlier starts of the run left: configuration, checkpoint
 *     plan.c      who trains: the rule, from the options and the number of processes
 *     recipe.c    how the parameters move: the optimizer and its constants
 *     input.c     the data of this process
 *     agree.c     over MPI: the ranks compare all of the above
 *     crew.c      the owners and workers of this process; loop.c, sweep.c: their step loops
 *     watch.c     what is due between steps: checks, checkpoints, stop rules
 *     evaluate.c  scores snapshots of the parameters, on a core of its own if one is free
 *     save.c      writes and reads checkpoints; snapshot.c, sparse_state.c: what goes into them
 *
 * run.c trains: it begins, runs the crew and ends. summary.c and report.c show the result.
 *
 * THREADS: while workers run, the thread that has owner 0's lock owns the session: the watcher is
 * called under it. Before and after, the thread that opened it. `stop_signal` may be set from
 * anywhere, a signal handler included. */
#ifndef YK_TRAIN_SESSION_H
#define YK_TRAIN_SESSION_H

#include "base/log.h"
#include "model/net/net.h"
#include "record/run.h"
#include "train/crew.h"
#include "train/evaluate.h"
#include "train/input.h"
#include "train/options.h"
#include "train/resume.h"
#include "train/snapshot.h"
#include "train/watch.h"

#include <stdatomic.h>

enum yk_stop {
    YK_RUNNING,
    YK_STOP_STEPS,
    YK_STOP_EPOCHS,
    YK_STOP_TARGET_LOSS,
    YK_STOP_TARGET_ACCURACY,
    YK_STOP_MAX_SECONDS,
    YK_STOP_SIGNAL,
    YK_STOP_LOST,
};

/* Where the time of a run goes, apart from training. Times are yk_now(). */
struct yk_times {
    double opened;       /* time when the session began to open */
    double started;      /* time of the first step; 0 before */
    double startup;      /* seconds from opening to the first step */
    double blocked;      /* seconds that training waited for evaluations */
    double eval_seconds; /* seconds that evaluations took, overlapped or not */
    double before;       /* seconds of training in earlier starts */
};

struct yk_session {
    /* the task */
    struct yk_opts opts;
    struct yk_options o; /* the values of `opts` */
    char model_name[YK_NAME];
    const struct yk_model_ops *ops;
    struct yk_net net; /* zero unless the model is a net */
    struct yk_model *model;
    unsigned threads; /* threads of each worker */

    /* the parts */
    struct yk_log *log;
    struct yk_job job;
    struct yk_run run; /* the run's folder; owner 0's process only */
    struct yk_resume resume;
    struct yk_input input;
    struct yk_state state;
    struct yk_crew crew;
    struct yk_watch *watch;
    struct yk_evaluator *evaluator; /* owner 0's process only */
    struct yk_saver *saver;         /* owner 0's process only */

    /* progress */
    struct yk_moment now;
    struct yk_times times;
    struct yk_curve curve;
    struct yk_incidents incidents;
    enum yk_stop stop;
    atomic_int stop_signal; /* not 0: yoke_stop was called */
};

/* session.c */
yk_code yk_session_open(struct yk_session **out, const struct yk_opts *opts, const char *model,
                        struct yk_error *e);
/* False: a rank was lost, the engine cannot be closed, and the process has to end by _exit. */
bool yk_session_close(struct yk_session *s);
/* Writes config.json, which is on the disk when this returns. */
yk_code yk_session_config(const struct yk_session *s, struct yk_error *e);
/* Writes ranks.json, from the job. */
yk_code yk_session_ranks(struct yk_session *s, struct yk_error *e);

/* run.c */
yk_code yk_session_train(struct yk_session *s, struct yk_error *e);
/* The error of a run whose numbers have left the range of floats. `what` is for example "the loss
 * of". If rows of the data changed while they were read, the error says that instead. */
yk_code yk_session_diverged(const struct yk_session *s, uint64_t step, const char *what,
                            struct yk_error *e);
/* The step at which --steps or --epochs end the run, and which of them (`why` may be NULL).
 * UINT64_MAX if neither does. */
uint64_t yk_session_end(const struct yk_session *s, enum yk_stop *why);
/* Examples of a full step. */
uint32_t yk_session_batch(const struct yk_session *s);
/* Seconds of training so far, earlier starts included. */
double yk_session_seconds(const struct yk_session *s);
static inline bool yk_session_reached_target(const struct yk_session *s)
{
    return s->stop == YK_STOP_TARGET_LOSS || s->stop == YK_STOP_TARGET_ACCURACY;
}

/* summary.c */
json_t *yk_session_summary(const struct yk_session *s);
const char *yk_stop_name(enum yk_stop why); /* as in summary.json */

#endif
