/* session.h - everything one training run holds, and the parts that work on it.
 *
 *     session.c   opens and closes it: options -> data -> model -> parameters -> strategy -> run folder
 *     loop.c      the step loop, and what is due between steps
 *     evaluate.c  looks at a snapshot of the parameters, on a core of its own if one is free
 *     save.c      checkpoints, and their return
 *     summary.c   the result as JSON
 *
 * THREADS: the training thread owns the session. The evaluator's lane owns `check`, the metrics and its own work while a check is
 * under way; the writer's lane owns `saving`. `stop_signal` may be set from anywhere, a signal handler included. */
#ifndef YK_TRAIN_SESSION_H
#define YK_TRAIN_SESSION_H

#include "base/buf.h"
#include "base/lane.h"
#include "base/log.h"
#include "data/data.h"
#include "model/model.h"
#include "param/param.h"
#include "param/safetensors.h"
#include "record/metrics.h"
#include "record/run.h"
#include "strategy/strategy.h"
#include "train/options.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum yk_stop {
    YK_RUNNING,
    YK_STOP_STEPS,
    YK_STOP_EPOCHS,
    YK_STOP_TARGET_LOSS,
    YK_STOP_TARGET_ACCURACY,
    YK_STOP_MAX_SECONDS,
    YK_STOP_SIGNAL,
};
const char *yk_stop_name(enum yk_stop why); /* as in summary.json */

/* Where a run stands. */
struct yk_moment {
    uint64_t step;           /* updates applied */
    uint64_t examples;       /* examples they were computed from */
    struct yk_cursor cursor; /* the next batch */
    double seconds;          /* of training, over all starts of this run */
    double loss;             /* training loss summed since the last check, */
    uint64_t loss_examples;  /* over so many examples: a resumed run's curve is the uninterrupted one's */
};

/* The parameters and the optimizer's state at one moment. */
struct yk_snapshot {
    struct yk_moment at;
    struct yk_params params; /* a copy of its own; views as in the session */
    float *slot[YK_SLOTS];   /* (params.count) or NULL */
};

/* One evaluation: what it looks at, and what it found. */
struct yk_check {
    struct yk_snapshot snap;
    double train_loss; /* mean over the steps since the check before */
    double lr;
    double steps_per_second; /* likewise */
    bool record;             /* into metrics and events; a look on the way out after a signal is no part of the curve */
    bool last;               /* after the loop has ended: reports, but reaches no target any more */
    struct yk_score score;   /* out */
    double took;             /* out: seconds */
    yk_code rc;              /* out: recording failed */
    struct yk_error error;
};

/* Where a worker's time goes, from a sample of the steps. */
struct yk_phases {
    uint64_t samples;
    double input, pull, compute; /* seconds over the sampled steps; compute holds the push, which the strategy knows */
    double shuffle;              /* seconds over all steps that begin an epoch: too few, and too long, to be sampled */
};

struct yk_point { /* of the learning curve that is shown at the end */
    struct yk_moment at;
    double train_loss, test_loss, test_accuracy;
};
enum { YK_CURVE = 32 };

struct yk_session {
    struct yk_opts opts;
    struct yk_options o;
    char model_name[YK_NAME];
    struct yk_log *log;
    struct yk_run run;
    bool resumed;
    bool already_done;   /* a resumed run that had nothing left to do */
    json_t *old_summary; /* of the run that is resumed, if it had ended */

    struct yk_dataset train, test; /* test.rows == 0: no evaluation */
    struct yk_source source;
    const struct yk_model_ops *ops;
    struct yk_model *model;
    struct yk_work *work;      /* the training thread's */
    struct yk_work *eval_work; /* the evaluator's */
    struct yk_params params;
    struct yk_strategy strategy;
    unsigned threads;
    bool overlap; /* evaluation has a core to itself */

    struct yk_metrics *metrics;
    struct yk_lane *evaluator; /* NULL unless overlap */
    struct yk_check check;
    uint32_t *eval_rows; /* (test rows) 0, 1, 2, ... */
    bool checking;       /* a check has been handed over and not collected */
    struct yk_lane *writer;
    struct yk_snapshot saving;
    struct yk_error save_error; /* of the last write; the writer's until its lane is idle */
    bool save_pending;          /* a write has been handed over and not collected */

    /* progress of the loop */
    struct yk_moment now;
    enum yk_stop stop;
    atomic_int stop_signal;          /* not 0: yoke_stop was called */
    double started;                  /* yk_now() at the first step */
    double opened;                   /* yk_now() when the session began to open */
    double startup;                  /* seconds from opening to the first step */
    double blocked;                  /* seconds the loop waited for evaluations */
    double eval_seconds;             /* seconds evaluations took, overlapped or not */
    double before;                   /* now.seconds when this start began */
    uint64_t first_step;             /* steps done before this start */
    uint64_t discarded;              /* steps done past the snapshot that reached the target */
    double last_loss;                /* mean training loss of the last interval */
    double test_loss, test_accuracy; /* of the last check; NAN before */
    uint64_t tested_step;            /* the step they belong to; UINT64_MAX before */
    double target_seconds;
    double previous_loss, previous_seconds; /* the check before, to interpolate from; NAN at first */
    double previous_accuracy;
    struct yk_point curve[YK_CURVE];
    struct yk_phases phases;
    unsigned points, stride, skipped; /* every stride-th check is kept; full: every second goes */
};

/* session.c */
yk_code yk_session_open(struct yk_session **out, const struct yk_opts *opts, const char *model, struct yk_error *e);
void yk_session_close(struct yk_session *s);
/* The plan in words, for --dry-run. */
void yk_session_plan(const struct yk_session *s, struct yk_buf *out);
json_t *yk_session_plan_json(const struct yk_session *s);

/* loop.c */
yk_code yk_session_train(struct yk_session *s, struct yk_error *e);
/* The step at which --steps or --epochs end the run, UINT64_MAX if neither does; `why` (may be NULL) says which. */
uint64_t yk_session_end(const struct yk_session *s, enum yk_stop *why);
double yk_session_seconds(const struct yk_session *s); /* of training so far, earlier starts included */

/* evaluate.c */
yk_code yk_evaluator_open(struct yk_session *s, struct yk_error *e);
void yk_evaluator_close(struct yk_session *s);
/* Hand the present parameters over (waits for the check before, whose result is taken first). May set s->stop. */
yk_code yk_evaluator_post(struct yk_session *s, double train_loss, double steps_per_second, bool last, struct yk_error *e);
/* Take the result of the check under way, if there is one: waits for it, or with `wait` false only if it is ready. */
yk_code yk_evaluator_collect(struct yk_session *s, bool wait, struct yk_error *e);
/* Evaluate `params` on a whole set, in batches. */
void yk_evaluate(const struct yk_model_ops *ops, struct yk_work *work, const struct yk_params *params,
                 const struct yk_dataset *set, const uint32_t *rows, struct yk_score *score, float *prob);

/* save.c */
yk_code yk_saver_open(struct yk_session *s, struct yk_error *e);
void yk_saver_close(struct yk_session *s);
/* Write the present state in the background; does nothing while the write before is still under way. */
yk_code yk_saver_post(struct yk_session *s, struct yk_error *e);
yk_code yk_saver_wait(struct yk_session *s, struct yk_error *e); /* until it is on the disk; returns what went wrong */
/* Newest whole checkpoint of the run into the session; *found = false if there is none yet. */
yk_code yk_saver_restore(struct yk_session *s, bool *found, struct yk_error *e);

yk_code yk_snapshot_init(struct yk_snapshot *n, const struct yk_session *s, bool with_slots, struct yk_error *e);
void yk_snapshot_release(struct yk_snapshot *n);
void yk_snapshot_take(struct yk_snapshot *n, const struct yk_session *s);
void yk_snapshot_restore(const struct yk_snapshot *n, struct yk_session *s);

/* summary.c */
json_t *yk_session_summary(const struct yk_session *s);

#endif
