/* summary.c - the result of a run as JSON: what --json prints and summary.json keeps. The keys are a contract with other tools.
 * A run of one process has one worker and no servers; it says so in the same keys that a cluster fills. */
#include "train/session.h"

#include "base/clock.h"
#include "base/json.h"

#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SCHEMA = 1 };

const char *yk_stop_name(enum yk_stop why)
{
    static const char *const NAME[] = {
        [YK_RUNNING] = "running",
        [YK_STOP_STEPS] = "steps",
        [YK_STOP_EPOCHS] = "epochs",
        [YK_STOP_TARGET_LOSS] = "target_loss",
        [YK_STOP_TARGET_ACCURACY] = "target_accuracy",
        [YK_STOP_MAX_SECONDS] = "max_seconds",
        [YK_STOP_SIGNAL] = "signal",
    };
    return NAME[why];
}

/* Why another run of the same command may end with other parameters; NULL if it cannot. */
static const char *irreproducible(const struct yk_session *s)
{
    bool target = s->stop == YK_STOP_TARGET_LOSS || s->stop == YK_STOP_TARGET_ACCURACY;
    if (s->stop == YK_STOP_SIGNAL)
        return "a signal ended the run";
    if (s->stop == YK_STOP_MAX_SECONDS)
        return "the clock ended the run";
    if (target && s->o.eval_every.unit == YK_SECONDS)
        return "the clock decided when to check the target";
    return NULL;
}

static json_t *worker_detail(const struct yk_session *s, const char *host)
{
    const struct yk_phases *p = &s->phases;
    double seconds = s->now.seconds;
    double push = s->strategy.push_seconds, all = p->input + p->pull + p->compute,
           scale = all > 0 ? (seconds - p->shuffle) / all : 0;
    return json_pack("{s:i, s:s, s:I, s:I, s:o, s:i, s:i, s:{s:o, s:o, s:o, s:o, s:o}}", "rank", 0, "host", host, "steps",
                     (json_int_t)s->now.step, "examples", (json_int_t)s->now.examples, "seconds", yk_json_real(s->now.seconds),
                     "bytes_sent", 0, "bytes_received", 0, "phases", "input", yk_json_real(p->input * scale + p->shuffle), "pull",
                     yk_json_real(p->pull * scale), "compute", yk_json_real((p->compute - push) * scale), "push",
                     yk_json_real(push * scale), "wait", yk_json_real(s->blocked));
}

json_t *yk_session_summary(const struct yk_session *s)
{
    if (s->already_done)
        return json_incref(s->old_summary);
    char hash[17], host[256] = "localhost";
    struct rusage usage;
    double seconds = s->now.seconds;
    const char *why_not = irreproducible(s);
    gethostname(host, sizeof host - 1);
    getrusage(RUSAGE_SELF, &usage);
    yk_params_hash(&s->params, hash);

    json_t *j = json_object();
    json_object_set_new(j, "schema", json_integer(SCHEMA));
    json_object_set_new(j, "version", json_string(YK_VERSION));
    json_object_set_new(j, "run", json_string(s->run.dir));
    json_object_set_new(j, "model", json_string(s->model_name));
    json_object_set_new(j, "data", json_string(s->o.data));
    json_object_set_new(j, "mode", json_string("local"));
    json_object_set_new(j, "workers", json_integer(1));
    json_object_set_new(j, "ps", json_integer(0));
    json_object_set_new(j, "hosts", json_pack("[s]", host));
    json_object_set_new(j, "batch", json_integer(s->o.batch));
    json_object_set_new(j, "global_batch", json_integer(s->o.batch));
    json_object_set_new(j, "shards", json_integer(1));
    json_object_set_new(j, "threads", json_integer(s->threads));
    json_object_set_new(j, "isa", json_string(s->o.isa));
    json_object_set_new(j, "seed", json_integer(s->o.seed));
    json_object_set_new(j, "optimizer", json_string(s->o.optimizer));
    json_object_set_new(j, "lr", yk_json_real(s->o.lr));
    json_object_set_new(j, "parameters", json_integer((json_int_t)s->params.weights));
    json_object_set_new(j, "global_steps", json_integer((json_int_t)s->now.step));
    json_object_set_new(j, "discarded_steps", json_integer((json_int_t)s->discarded));
    json_object_set_new(j, "examples", json_integer((json_int_t)s->now.examples));
    json_object_set_new(j, "epochs", yk_json_real((double)s->now.examples / s->train.rows));
    json_object_set_new(j, "seconds", yk_json_real(seconds));
    json_object_set_new(j, "startup_seconds", yk_json_real(s->startup));
    json_object_set_new(j, "eval_seconds", yk_json_real(s->eval_seconds));
    json_object_set_new(j, "eval_overlapped", json_boolean(s->overlap));
    json_object_set_new(j, "wall_seconds", yk_json_real(yk_now() - s->opened));
    json_object_set_new(j, "steps_per_second", yk_json_real((double)s->now.step / seconds));
    json_object_set_new(j, "examples_per_second", yk_json_real((double)s->now.examples / seconds));
    json_object_set_new(j, "train_loss", yk_json_real(s->last_loss));
    json_object_set_new(j, "test_loss", yk_json_real(s->test_loss));
    json_object_set_new(j, "test_accuracy", yk_json_real(s->test_accuracy));
    json_object_set_new(j, "stop_reason", json_string(yk_stop_name(s->stop)));
    json_object_set_new(j, "target_seconds", yk_json_real(s->target_seconds));
    json_object_set_new(j, "stale_dropped", json_integer(0));
    json_object_set_new(j, "staleness", json_pack("{s:i, s:i, s:i, s:[]}", "mean", 0, "p99", 0, "max", 0, "histogram"));
    json_object_set_new(j, "restarts", json_integer(0));
    json_object_set_new(j, "reproducible", json_boolean(why_not == NULL));
    if (why_not != NULL)
        json_object_set_new(j, "reproducible_why_not", json_string(why_not));
    json_object_set_new(j, "peak_rss_bytes", json_integer((json_int_t)usage.ru_maxrss * 1024));
    json_object_set_new(j, "params_xxh3", json_string(hash));
    json_object_set_new(j, "workers_detail", json_pack("[o]", worker_detail(s, host)));
    return j;
}
