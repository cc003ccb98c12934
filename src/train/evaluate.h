/* evaluate.h - evaluations: of a whole set at once, and of snapshots while training goes on.
 *
 * THREADS: while a check is under way the evaluator's thread owns it; everything else belongs to
 * the thread that has owner 0's lock. */
#ifndef YK_TRAIN_EVALUATE_H
#define YK_TRAIN_EVALUATE_H

#include "data/data.h"
#include "model/model.h"
#include "train/snapshot.h"

struct yk_session;
struct yk_evaluator; /* evaluate.c */

/* One point of the learning curve. */
struct yk_point {
    struct yk_moment at;
    double train_loss, test_loss, test_accuracy;
};
enum { YK_CURVE = 32 };

/* The learning curve that is shown at the end, and the results of the last check. Values are NAN
 * before the first check. */
struct yk_curve {
    struct yk_point point[YK_CURVE];
    unsigned points;
    unsigned stride;        /* one of `stride` checks is kept; when full, every second point goes */
    unsigned seen;          /* checks so far */
    struct yk_point before; /* the last check, to interpolate from */
    double train_loss;      /* mean training loss of the last interval */
    double test_loss, test_accuracy;
    double test_auc, test_precision, test_recall; /* of a model with two classes; else NAN */
    uint64_t tested_step;                         /* step of the last check; UINT64_MAX before */
    double target_seconds;                        /* when the target was reached, interpolated */
    uint64_t discarded; /* steps done past the snapshot that reached the target */
};

/* Opens the evaluator and the records it writes. `found`: the run goes on from a checkpoint. */
yk_code yk_evaluator_open(struct yk_session *s, bool found, struct yk_error *e);
void yk_evaluator_close(struct yk_session *s);
/* Hands the present parameters over. Waits for the check before and takes its result first, which
 * may set s->stop. */
yk_code yk_evaluator_post(struct yk_session *s, double train_loss, double steps_per_second,
                          bool last, struct yk_error *e);
/* Takes the result of the check under way, if there is one; without `wait`, only if it is ready. */
yk_code yk_evaluator_collect(struct yk_session *s, bool wait, struct yk_error *e);
/* Does evaluation have a core to itself? */
bool yk_evaluator_overlaps(const struct yk_session *s);
/* Runs `job` on the evaluator's thread. Only where a sparse model is owned by several processes. */
void yk_evaluator_lend(struct yk_session *s, void (*job)(void *arg), void *arg);

/* Reads the values of a sparse model's keys, which are sorted and distinct. */
struct yk_reader {
    yk_code (*read)(void *arg, const uint32_t *key, float *out, size_t n, struct yk_error *e);
    void *arg;
};
/* Evaluates `params` on a whole set, `batch` rows at a time. The values of a sparse model come from
 * `reader`; class probabilities go to `prob` unless it is NULL. */
yk_code yk_evaluate(const struct yk_model_ops *ops, struct yk_work *work,
                    const struct yk_params *params, const struct yk_reader *reader,
                    const struct yk_dataset *set, const uint32_t *rows, uint32_t batch,
                    struct yk_score *score, float *prob, struct yk_error *e);
/* To be called once before, so that a lack of memory is an error instead of a loss of NAN. */
yk_code yk_evaluate_prepare(const struct yk_model_ops *ops, struct yk_work *work,
                            const struct yk_dataset *set, uint32_t batch, struct yk_error *e);

#endif
