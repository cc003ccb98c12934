/* summary.c - the result of a run as JSON: what --json prints and summary.json keeps. The keys are a contract with other tools.
 * A run of one process has one worker and no servers; it says so in the same keys that a cluster fills. */
#include "train/session.h"

#include "base/clock.h"
#include "base/json.h"

#include <math.h>
#include <string.h>
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
        [YK_STOP_LOST] = "lost",
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
    if (s->crew.rule.mode == YK_MODE_async || s->crew.rule.mode == YK_MODE_ssp)
        return "the order of asynchronous updates depends on timing";
    if (s->crew.rule.pooled && s->crew.rule.need < s->crew.rule.workers)
        return "which workers are left out by --backup depends on timing";
    if (s->crew.rule.codec.kind != YK_CODEC_NONE)
        return "what --compress rounds away depends on who sends what";
    if (yk_session_sweeps(s) && s->threads > 1)
        return "several threads update the parameters without waiting for each other";
    if (target && s->o.eval_every.unit == YK_SECONDS)
        return "the clock decided when to check the target";
    return NULL;
}

static const char *host_of(const struct yk_session *s, unsigned rank, char out[256])
{
    if (s->job.host != NULL && rank < (unsigned)s->job.mpi.size)
        return s->job.host[rank];
    out[0] = '\0';
    gethostname(out, 255);
    return out;
}

static json_t *
histogram(const struct yk_ledger
              *l) /* pushes by staleness, up to the largest seen; the last of 256 holds all above */
{
    json_t *list = json_array();
    uint64_t last = l->most < YK_STALE - 1 ? l->most : YK_STALE - 1;
    for (uint64_t i = 0; l->steps > 0 && i <= last; i++)
        json_array_append_new(list, json_integer((json_int_t)l->stale[i]));
    return list;
}

static json_t *staleness(const struct yk_ledger *l)
{
    return json_pack("{s:o, s:I, s:I, s:o}", "mean", yk_json_real(yk_ledger_mean(l)), "p99",
                     (json_int_t)yk_ledger_quantile(l, 0.99), "max", (json_int_t)l->most,
                     "histogram", histogram(l));
}

/* One worker: what the clock counted, and where its time went, scaled from the sampled steps to its training time. */
static json_t *worker_detail(const struct yk_session *s, unsigned w, uint64_t pushes)
{
    const struct yk_crew *c = &s->crew;
    const struct yk_phases *p = &c->account[w];
    const struct yk_member *m = &c->clock.member[w];
    bool alone =
        c->rule.workers == 1 && c->comm->shared; /* its seconds are the run's, over all starts */
    unsigned rank =
        c->rule.mode == YK_MODE_allreduce || c->rule.mode == YK_MODE_local ? w : c->rule.owners + w;
    double seconds = alone             ? s->now.seconds
                     : c->comm->shared ? s->now.seconds - s->times.before
                                       : p->seconds;
    double all = p->input + p->pull + p->compute + p->push,
           exact = p->shuffle + p->images; /* of all steps; the others of a sample */
    double scale = all > 0 ? fmax(seconds - exact, 0) / all : 0;
    char host[256];
    json_t *j = json_pack("{s:i, s:s, s:I, s:I, s:o, s:I, s:I}", "rank", (int)rank, "host",
                          host_of(s, rank, host), "steps",
                          (json_int_t)(alone ? s->now.step : m->ledger.steps), "examples",
                          (json_int_t)(alone ? s->now.examples : m->ledger.examples), "seconds",
                          yk_json_real(seconds), "bytes_sent", (json_int_t)(alone ? 0 : p->sent),
                          "bytes_received", (json_int_t)(alone ? 0 : p->received));
    json_object_set_new(
        j, "phases",
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "input", yk_json_real(p->input * scale + exact),
                  "pull", yk_json_real(alone ? p->pull * scale : 0), "compute",
                  yk_json_real(p->compute * scale), "push", yk_json_real(p->push * scale), "wait",
                  yk_json_real(alone ? s->times.blocked : p->pull * scale)));
    if (p->images > 0)
        json_object_set_new(j, "image_seconds", yk_json_real(p->images));
    if (!alone) {
        json_object_set_new(j, "worker", json_integer(w));
        json_object_set_new(j, "alive", json_boolean(m->alive));
        json_object_set_new(
            j, "share", yk_json_real(pushes > 0 ? (double)m->ledger.steps / (double)pushes : 0));
        json_object_set_new(j, "stale_dropped", json_integer((json_int_t)m->ledger.dropped));
        json_object_set_new(j, "torn", json_integer((json_int_t)m->ledger.torn));
        json_object_set_new(j, "staleness", staleness(&m->ledger));
    }
    return j;
}

static json_t *hosts(const struct yk_session *s)
{
    char host[256];
    json_t *list = json_array();
    for (int i = 0; i < s->job.mpi.size; i++) {
        const char *name = host_of(s, (unsigned)i, host);
        bool known = false;
        for (size_t k = 0; k < json_array_size(list); k++)
            known = known || strcmp(json_string_value(json_array_get(list, k)), name) == 0;
        if (!known)
            json_array_append_new(list, json_string(name));
    }
    return list;
}

static json_t *events(const struct yk_session *s)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < s->events; i++)
        json_array_append_new(
            list, json_pack("{s:o, s:I, s:s}", "seconds", yk_json_real(s->event[i].seconds), "step",
                            (json_int_t)s->event[i].step, "what", s->event[i].text));
    return list;
}

json_t *yk_session_summary(const struct yk_session *s)
{
    if (s->already_done)
        return json_incref(s->old_summary);
    char hash[17];
    const struct yk_rule *rule = &s->crew.rule;
    struct yk_ledger ledger = {0};
    struct rusage usage;
    double seconds = s->now.seconds;
    const char *why_not = irreproducible(s);
    int64_t rss = 0;
    for (unsigned w = 0; w < rule->workers; w++) {
        yk_ledger_add(&ledger, &s->crew.clock.member[w].ledger);
        rss = (int64_t)s->crew.account[w].rss > rss ? (int64_t)s->crew.account[w].rss : rss;
    }
    getrusage(RUSAGE_SELF, &usage);
    int64_t own = (int64_t)usage.ru_maxrss * 1024;
    bool served = rule->mode != YK_MODE_local && rule->mode != YK_MODE_allreduce;
    if (s->crew.recipe.sparse)
        snprintf(hash, sizeof hash, "%s", s->saved_hash);
    else
        yk_params_hash(&s->params, hash);

    json_t *j = json_object();
    json_object_set_new(j, "schema", json_integer(SCHEMA));
    json_object_set_new(j, "version", json_string(YK_VERSION));
    json_object_set_new(j, "run", json_string(s->run.dir));
    json_object_set_new(j, "model", json_string(s->model_name));
    json_object_set_new(j, "data", json_string(s->o.data));
    json_object_set_new(j, "mode", json_string(yk_mode_name(rule->mode)));
    json_object_set_new(j, "workers", json_integer(rule->workers));
    json_object_set_new(j, "ps", json_integer(served ? rule->owners : 0));
    json_object_set_new(j, "hosts", hosts(s));
    json_object_set_new(j, "batch", json_integer(s->o.batch));
    json_object_set_new(j, "global_batch", json_integer(yk_session_batch(s)));
    json_object_set_new(j, "shards", json_integer(rule->shards));
    json_object_set_new(j, "threads", json_integer(s->threads));
    json_object_set_new(j, "isa", json_string(s->o.isa));
    if (s->ops->engine != NULL)
        json_object_set_new(j, "engine", json_string(s->o.engine));
    json_object_set_new(j, "seed", json_integer(s->o.seed));
    json_object_set_new(j, "optimizer", json_string(s->o.optimizer));
    json_object_set_new(j, "lr", yk_json_real(s->o.lr));
    json_object_set_new(j, "compress", json_string(s->o.compress));
    json_object_set_new(j, "parameters", json_integer((json_int_t)s->params.weights));
    json_object_set_new(j, "global_steps", json_integer((json_int_t)s->now.step));
    json_object_set_new(j, "discarded_steps", json_integer((json_int_t)s->discarded));
    json_object_set_new(j, "examples", json_integer((json_int_t)s->now.examples));
    json_object_set_new(j, "epochs",
                        yk_json_real((double)s->now.examples / (double)s->crew.rule.rows));
    json_object_set_new(j, "seconds", yk_json_real(seconds));
    json_object_set_new(j, "startup_seconds", yk_json_real(s->times.startup));
    json_object_set_new(j, "eval_seconds", yk_json_real(s->times.eval_seconds));
    json_object_set_new(j, "eval_overlapped", json_boolean(s->overlap));
    json_object_set_new(j, "wall_seconds", yk_json_real(yk_now() - s->times.opened));
    json_object_set_new(j, "steps_per_second", yk_json_real((double)s->now.step / seconds));
    json_object_set_new(j, "examples_per_second", yk_json_real((double)s->now.examples / seconds));
    json_object_set_new(j, "train_loss", yk_json_real(s->curve.train_loss));
    json_object_set_new(j, "test_loss", yk_json_real(s->curve.test_loss));
    json_object_set_new(j, "test_accuracy", yk_json_real(s->curve.test_accuracy));
    if (s->ops->keys != NULL) {
        json_object_set_new(
            j, "progressive_loss",
            yk_json_real(s->now.examples > 0 ? s->now.total_loss / (double)s->now.examples : NAN));
        json_object_set_new(j, "test_auc", yk_json_real(s->curve.test_auc));
        json_object_set_new(j, "test_precision", yk_json_real(s->curve.test_precision));
        json_object_set_new(j, "test_recall", yk_json_real(s->curve.test_recall));
        json_object_set_new(
            j, "bad_rows",
            json_integer(s->train.sparse != NULL ? (json_int_t)s->train.sparse->bad : 0));
    }
    json_object_set_new(j, "stop_reason", json_string(yk_stop_name(s->stop)));
    json_object_set_new(j, "target_seconds", yk_json_real(s->curve.target_seconds));
    json_object_set_new(j, "stale_dropped", json_integer((json_int_t)ledger.dropped));
    json_object_set_new(j, "staleness", staleness(&ledger));
    json_object_set_new(j, "restarts", json_integer(s->restarts));
    json_object_set_new(j, "reproducible", json_boolean(why_not == NULL));
    if (why_not != NULL)
        json_object_set_new(j, "reproducible_why_not", json_string(why_not));
    json_object_set_new(j, "peak_rss_bytes", json_integer((json_int_t)(rss > own ? rss : own)));
    json_object_set_new(j, "params_xxh3", json_string(hash));
    if (ledger.torn > 0)
        json_object_set_new(j, "torn_pushes", json_integer((json_int_t)ledger.torn));
    json_object_set_new(j, "lost_workers", json_integer(s->lost));
    json_object_set_new(j, "events", events(s));
    json_t *detail = json_array();
    for (unsigned w = 0; w < rule->workers; w++)
        json_array_append_new(detail, worker_detail(s, w, ledger.steps));
    json_object_set_new(j, "workers_detail", detail);
    return j;
}
