/* session.h - everything one training run holds, and the parts that work on it.
 *
 *     session.c   opens and closes it: options -> data -> model -> parameters -> run folder -> crew
 *     recipe.c    how the parameters move: the optimizer, its constants, groups of parameters
 *     plan.c      who trains: the rule, from the options and the number of processes
 *     meet.c      over MPI: what the ranks must agree upon before they train
 *     crew.c      the owners and workers of this process
 *     loop.c      the step loop of a worker
 *     watch.c     what is due between steps: checks, checkpoints, stop rules
 *     evaluate.c  looks at a snapshot of the parameters, on a core of its own if one is free
 *     save.c      checkpoints, and their return
 *     summary.c   the result as JSON
 *
 * THREADS: while workers run, whoever holds owner 0's lock owns the session: the watcher is called under it. Before and after, the thread that
 * opened it. The evaluator's lane owns `check`, the metrics and its own work while a check is under way; the writer's lane owns `saving`.
 * `stop_signal` may be set from anywhere, a signal handler included. */
#ifndef YK_TRAIN_SESSION_H
#define YK_TRAIN_SESSION_H

#include "base/buf.h"
#include "base/lane.h"
#include "base/log.h"
#include "data/data.h"
#include "model/model.h"
#include "model/net.h"
#include "param/param.h"
#include "param/safetensors.h"
#include "record/metrics.h"
#include "record/progress.h"
#include "record/run.h"
#include "train/crew.h"
#include "train/options.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <xxhash.h>

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
const char *yk_stop_name(enum yk_stop why); /* as in summary.json */

/* Where a run stands. */
struct yk_moment {
    uint64_t step;     /* updates applied */
    uint64_t examples; /* examples they were computed from */
    uint64_t position; /* first example of the next batch, over all epochs */
    double seconds;    /* of training, over all starts of this run */
    double loss;       /* training loss summed since the last check, */
    uint64_t
        loss_examples; /* over so many examples: a resumed run's curve is the uninterrupted one's */
    double total_loss; /* of all examples, each before it was learnt: the progressive loss */
};

/* The parameters and the optimizer's state at one moment. */
struct yk_snapshot {
    struct yk_moment at;
    struct yk_params params; /* a copy of its own, (owned); views as in the session */
    float *slot[YK_SLOTS];   /* (owned) or NULL */
    struct yk_owner
        *owner; /* (servers) as they were then, if values have to be made, or fetched; else NULL */
    uint64_t *
        pool; /* (pooled) parts before `position` that have not been trained on: asynchronous modes */
    unsigned pooled;
    uint64_t *next; /* (shares) where each host is in its data; NULL where there is one share */
};

/* One evaluation: what it looks at, and what it found. */
struct yk_check {
    struct yk_snapshot snap;
    double train_loss; /* mean over the steps since the check before */
    double lr;
    double steps_per_second; /* likewise */
    bool
        record; /* into metrics and events; a look on the way out after a signal is no part of the curve */
    bool last;             /* after the loop has ended: reports, but reaches no target any more */
    struct yk_score score; /* out */
    struct yk_ledger
        *since;  /* (workers) what each did since the check before; NULL for one worker */
    double took; /* out: seconds */
    yk_code rc;  /* out: recording failed */
    struct yk_error error;
};

struct yk_point { /* of the learning curve that is shown at the end */
    struct yk_moment at;
    double train_loss, test_loss, test_accuracy;
};
enum { YK_CURVE = 32 };

/* The learning curve that is shown at the end, and what is known of the last checks. */
struct yk_curve {
    struct yk_point point[YK_CURVE];
    unsigned points, stride, skipped; /* every stride-th check is kept; full: every second goes */
    struct yk_point before; /* the check before, to interpolate from; values NAN at first */
    double train_loss;      /* mean training loss of the last interval */
    double test_loss, test_accuracy; /* of the last check; NAN before */
    double test_auc, test_precision,
        test_recall;      /* likewise, of a model with two classes; else NAN */
    uint64_t tested_step; /* the step they belong to; UINT64_MAX before */
    double target_seconds;
};

/* Where the time of a run goes, beside training. */
struct yk_times {
    double opened;       /* yk_now() when the session began to open */
    double started;      /* yk_now() at the first step */
    double startup;      /* seconds from opening to the first step */
    double blocked;      /* seconds that training waited for evaluations */
    double eval_seconds; /* seconds evaluations took, overlapped or not */
    double before;       /* now.seconds when this start began */
};

/* Something that happened to the job: a rank that was lost, replaced, a restart. */
struct yk_event {
    double seconds; /* of training */
    uint64_t step;
    char text[160];
};
enum { YK_EVENTS = 64, YK_POOL_MOST = 4096 };

/* What is due, and when to look. */
struct yk_due { /* something that happens every so often */
    struct yk_every every;
    double next; /* in the unit of `every` */
};
struct yk_watch {
    struct yk_due check, save;
    uint64_t last_step; /* the step that --steps or --epochs allow */
    enum yk_stop last_why;
    uint64_t look_at;    /* look round at this step */
    uint64_t stride;     /* steps between looks that nothing forces */
    double looked;       /* when we last did */
    double mark_seconds; /* when the last check was */
    uint64_t mark_step;  /* its step, or the first of this start */
    bool whole;          /* the state of owners elsewhere has just been fetched */
    uint64_t power;      /* rows at which the progressive loss is said next; UINT64_MAX: never */
    double power_loss;   /* summed, and over how many rows, when it was said last */
    uint64_t power_rows;
    struct yk_progress progress;
    yk_code rc; /* what ended the training, if it failed */
    struct yk_error error;
};

struct yk_session {
    struct yk_opts opts;
    struct yk_options o;
    char model_name[YK_NAME];
    struct yk_log *log;
    struct yk_run run; /* owner 0's process only */
    bool resumed;
    bool already_done;   /* a resumed run that had nothing left to do */
    json_t *old_summary; /* of the run that is resumed, if it had ended */

    char data[YK_PATH_MAX]; /* what --data is on this host */
    struct yk_dataset train,
        test; /* train: what this host has of it; test.rows == 0: no evaluation */
    struct yk_share
        *share; /* (rule.shares) of an epoch: with --data-local one a host; where a run begins */
    uint32_t *share_of; /* (workers) */
    uint64_t data_xxh3; /* of the training data of all hosts */
    struct yk_source source;
    const struct yk_model_ops *ops;
    struct yk_net net; /* of a net; zero of other models */
    struct yk_model *model;
    struct yk_params params;
    float *slot[YK_SLOTS]; /* (owned) the optimizer's state */
    struct yk_span
        *span; /* (crew.recipe.spans) the parameters that are updated in a way of their own */
    /* Flat parameters from owned_from on that params.flat and slot hold: all of a dense model, of a sparse one what owners here own. */
    size_t owned_from, owned;
    unsigned threads;
    struct yk_job job; /* the processes of this run; one, unless a launcher made more */
    struct yk_crew crew;

    /* owner 0's process */
    bool overlap;              /* evaluation has a core to itself */
    struct yk_work *eval_work; /* the evaluator's */
    struct yk_metrics *metrics;
    struct yk_events **worker_events; /* (workers) or NULL for one worker */
    struct yk_lane *evaluator;        /* NULL unless overlap */
    struct yk_check check;
    uint32_t *eval_rows;       /* (test rows) in the order of the file */
    struct yk_bins *eval_bins; /* of a model with two classes */
    bool checking;             /* a check has been handed over and not collected */
    struct yk_lane *writer;
    struct yk_snapshot saving;
    struct yk_error save_error; /* of the last write; the writer's until its lane is idle */
    char saved_hash[17];        /* of a sparse model's parameters, when they were written last */
    bool save_pending;          /* a write has been handed over and not collected */
    atomic_llong saved_step;    /* of the newest checkpoint on the disk; -1: none */
    void (*saved)(void *arg, long long step); /* called by the writer; may be NULL */
    void *saved_arg;

    /* progress */
    struct yk_moment now;
    struct yk_tensors
        restored_state; /* of a sparse model that other processes own parts of; empty otherwise */
    uint64_t restored_pool
        [YK_POOL_MOST]; /* (restored) parts that the checkpoint says have to be dealt again */
    unsigned restored;
    enum yk_stop stop;
    atomic_int stop_signal; /* not 0: yoke_stop was called */
    struct yk_times times;
    uint64_t first_step; /* steps done before this start */
    uint64_t discarded;  /* steps done past the snapshot that reached the target */
    struct yk_curve curve;
    struct yk_watch watch;
    struct yk_event event[YK_EVENTS];
    unsigned events;
    unsigned lost; /* workers */
    unsigned
        replaced; /* new workers that were started, the last one for this worker, which had done so many steps */
    unsigned replaced_worker;
    uint64_t replaced_steps;
    unsigned restarts; /* earlier starts of this command that ended by a loss */
};

/* session.c */
yk_code yk_session_open(struct yk_session **out, const struct yk_opts *opts, const char *model,
                        struct yk_error *e);
/* False: a rank was lost, the engine cannot be closed any more, and the process has to end by _exit. */
bool yk_session_close(struct yk_session *s);
/* The plan in words, for --dry-run. */
void yk_session_plan(const struct yk_session *s, struct yk_buf *out);
json_t *yk_session_plan_json(const struct yk_session *s);

/* plan.c: the rule of the run from options, data and the number of processes; also fixes what depends on them in the options, so
 * that config.json holds it. */
yk_code yk_plan(struct yk_session *s, struct yk_error *e);
/* Who trains, for --dry-run. */
void yk_plan_text(const struct yk_session *s, struct yk_buf *out);
/* Combinations that do not depend on data or processes, as early as they can be told. */
yk_code yk_plan_check(const struct yk_opts *opts, struct yk_error *e);

/* recipe.c: how the parameters move; first what is the same for all, then, when they are laid out, what is the biases' own. */
yk_code yk_session_recipe(struct yk_session *s, struct yk_error *e);
yk_code yk_session_groups(struct yk_session *s, struct yk_error *e);

enum {
    YK_NET_LINES = 16,
    YK_NET_TEXT = YK_NET_LINES * 4000
}; /* of a checkpoint, for the text of a net */

/* session_net.c: a net is the model. `word`: from the command line; NULL if the options have it. */
yk_code yk_session_net_find(struct yk_session *s, const char *word, struct yk_error *e);
yk_code yk_session_net_open(struct yk_session *s, struct yk_error *e);
/* Once ranks have met: the engine that computes, by measurement unless it is said. */
yk_code yk_session_engine(struct yk_session *s, struct yk_error *e);
/* Works get ready, so that the first step takes no longer than the others. */
yk_code yk_session_prepare(struct yk_session *s, struct yk_error *e);

/* session.c: ranks.json, from the job. */
yk_code yk_session_ranks(struct yk_session *s, struct yk_error *e);

/* loop.c: what one worker does, on its own thread. */
void yk_session_work(struct yk_session *s, struct yk_hand *hand);
/* sweep.c: the same for a sparse model whose parameters are all in this process and nobody else's. */
bool yk_session_sweeps(const struct yk_session *s);
void yk_session_sweep(struct yk_session *s, struct yk_hand *hand);

/* watch.c: the watcher of owner 0, under its lock; then the training from outside. */
enum yk_verdict yk_watch_stepped(void *arg, const struct yk_stepped *st);
bool yk_watch_lost(void *arg, int worker, const char *why);
void yk_watch_signal(struct yk_session *s); /* stop_signal is set and no step has noticed */
yk_code yk_session_train(struct yk_session *s, struct yk_error *e);
/* Note what happened to the job: log.txt, screen and summary. */
void yk_session_event(struct yk_session *s, enum yk_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The step at which --steps or --epochs end the run, UINT64_MAX if neither does; `why` (may be NULL) says which. */
uint64_t yk_session_end(const struct yk_session *s, enum yk_stop *why);
uint32_t yk_session_batch(const struct yk_session *s); /* examples of a full step */
double
yk_session_seconds(const struct yk_session *s); /* of training so far, earlier starts included */

/* meet.c: over MPI, every rank calls these at the same places. `rc` and `e` are how this rank fared; the answer is how all did. */
yk_code yk_meet(struct yk_session *s, yk_code rc, struct yk_error *e);
/* A run is resumed: rank 0 has read its configuration, all get it. */
yk_code yk_meet_config(struct yk_session *s, yk_code rc, struct yk_error *e);

/* input.c: the data that this process needs. */
yk_code yk_input_open(struct yk_session *s, struct yk_error *e);
struct yk_portion { /* the training data that a worker has at hand */
    uint64_t rows, xxh3;
    uint32_t shape[3], classes;
    uint64_t names; /* XXH3 of the names of class folders; 0: it has none */
    char host[64];
};
/* Bytes of decoded photos that the training and the test set may keep, if `both` are opened each by itself; else either may keep all. Never
 * 0, which to yk_imaging is a half of what is free. */
void yk_input_keep(uint64_t free_bytes, unsigned ranks, bool both, uint64_t keep[2]);
uint64_t yk_input_names_xxh3(const struct yk_dataset *d);
const char *yk_input_class_names(
    const struct yk_session *s); /* what labels mean, as far as this process knows; else NULL */
/* Who trains on what, from what each worker has; NULL: all have the same. */
yk_code yk_input_share(struct yk_session *s, const struct yk_portion *portion, struct yk_error *e);
void yk_input_say(const struct yk_session *s); /* with --data-local, the rows of each host */
/* Where the examples of a task are in the data of this process. */
uint64_t yk_input_position(const struct yk_session *s, uint64_t id);

/* evaluate.c */
yk_code yk_evaluator_open(struct yk_session *s, struct yk_error *e);
void yk_evaluator_close(struct yk_session *s);
/* Hand the present parameters over (waits for the check before, whose result is taken first). May set s->stop. */
yk_code yk_evaluator_post(struct yk_session *s, double train_loss, double steps_per_second,
                          bool last, struct yk_error *e);
/* Take the result of the check under way, if there is one: waits for it, or with `wait` false only if it is ready. */
yk_code yk_evaluator_collect(struct yk_session *s, bool wait, struct yk_error *e);
/* Where the values of a sparse model's keys come from: sorted, without repetition. */
struct yk_reader {
    yk_code (*read)(void *arg, const uint32_t *key, float *out, size_t n, struct yk_error *e);
    void *arg;
};
/* Evaluate `params` on a whole set, in batches of `batch`; of a sparse model the values are read, batch by batch. */
yk_code yk_evaluate(const struct yk_model_ops *ops, struct yk_work *work,
                    const struct yk_params *params, const struct yk_reader *reader,
                    const struct yk_dataset *set, const uint32_t *rows, uint32_t batch,
                    struct yk_score *score, float *prob, struct yk_error *e);
/* Before it, so that a lack of memory is an error and not a loss that is no number. */
yk_code yk_evaluate_prepare(const struct yk_model_ops *ops, struct yk_work *work,
                            const struct yk_dataset *set, uint32_t batch, struct yk_error *e);

/* save.c */
yk_code yk_saver_open(struct yk_session *s, struct yk_error *e);
void yk_saver_close(struct yk_session *s);
/* Write the present state in the background; does nothing while the write before is still under way. */
yk_code yk_saver_post(struct yk_session *s, struct yk_error *e);
yk_code yk_saver_wait(struct yk_session *s,
                      struct yk_error *e); /* until it is on the disk; returns what went wrong */
/* Newest whole checkpoint of the run into the session; *found = false if there is none yet. */
yk_code yk_saver_restore(struct yk_session *s, bool *found, struct yk_error *e);

#define YK_RAW                                                                                     \
    "optimizer.raw." /* in a checkpoint: weights as the optimizer has them, where values are made from them */

/* far.c: the state of a sparse model, where nobody has it as it is to be written: other processes own parts of it, or values have to be made
 * from raw weights. */
struct yk_far {
    struct yk_session *s;
    struct yk_far_vector {
        struct yk_far *far;
        const struct yk_view *view;
        unsigned which; /* 0: values, 1: raw weights, 2..: state vectors */
    } vector[2 * (2 + YK_SLOTS)];
    unsigned vectors;
    float *piece[1 + YK_SLOTS]; /* what values are made from, where they are not the raw weights */
    XXH3_state_t *hash;         /* of the values, as they pass; made with the first vector */
};
void yk_far_open(struct yk_far *f, struct yk_session *s);
/* A tensor that is fetched when it is written. */
void yk_far_tensor(struct yk_far *f, struct yk_tensor *t, const struct yk_view *v,
                   const char *prefix, unsigned which);
/* The owners' copies go; `hash` is that of the parameters. */
void yk_far_close(struct yk_far *f, char hash[17]);
/* Before the first step: what a checkpoint has, to its owners. */
yk_code yk_far_restore(struct yk_session *s, struct yk_error *e);

yk_code yk_snapshot_init(struct yk_snapshot *n, const struct yk_session *s, bool with_slots,
                         struct yk_error *e);
void yk_snapshot_release(struct yk_snapshot *n);
void yk_snapshot_take(struct yk_snapshot *n, struct yk_session *s);
void yk_snapshot_restore(const struct yk_snapshot *n, struct yk_session *s);

/* summary.c */
json_t *yk_session_summary(const struct yk_session *s);

#endif
