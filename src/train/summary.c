/* summary.c - the result of a run as JSON: --json prints it and summary.json keeps it. The keys
 * are a contract with other tools. A run of one process has one worker and no servers, in the
 * same keys that a cluster fills. */
#include "train/loop.h"
#include "train/plan.h"
#include "train/save.h"
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
    if (s->stop == YK_STOP_SIGNAL)
        return "a signal ended the run";
    if (s->stop == YK_STOP_MAX_SECONDS)
        return "the clock ended the run";
    if (!s->crew.rule.fresh)
        return "the order of asynchronous updates depends on timing";
    if (s->crew.rule.pooled && s->crew.rule.need < s->crew.rule.workers)
        return "which workers are left out by --backup depends on timing";
    if (s->crew.rule.codec.kind != YK_CODEC_NONE)
        return "the rounding of --compress depends on which worker sends which gradients";
    if (yk_sweep_fits(s) && s->threads > 1)
        return "several threads update the parameters without waiting for each other";
    if (yk_session_reached_target(s) && s->o.eval_every.unit == YK_SECONDS)
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

/* Pushes by staleness, up to the largest seen; the last of 256 counts all above. */
static json_t *histogram(const struct yk_ledger *l)
{
    json_t *list = json_array();
    uint64_t last = l->most < YK_STALE - 1 ? l->most : YK_STALE - 1;
    if (l->steps > 0)
        for (uint64_t i = 0; i <= last; i++)
            json_array_append_new(list, json_integer((json_int_t)l->stale[i]));
    return list;
}

static json_t *staleness(const struct yk_ledger *l)
{
    return json_pack("{s:o, s:I, s:I, s:o}", "mean", yk_json_real(yk_ledger_mean(l)), "p99",
                     (json_int_t)yk_ledger_quantile(l, 0.99), "max", (json_int_t)l->most,
                     "histogram", histogram(l));
}

/* One worker: the counts of the clock, and its time by phases, scaled from the sampled steps to its
 * training time. */
static json_t *worker_detail(const struct yk_session *s, unsigned w, uint64_t pushes)
{
    const struct yk_crew *c = &s->crew;
    const struct yk_phases *p = &c->account[w];
    const struct yk_member *m = &c->clock.member[w];
    /* Then its seconds are those of the run, over all starts. */
    bool alone = c->rule.workers == 1 && c->comm->shared;
    unsigned rank = yk_plan_first_worker(&c->rule) + w;
    double seconds = alone             ? s->now.seconds
                     : c->comm->shared ? s->now.seconds - s->times.before
                                       : p->seconds;
    double all = p->input + p->pull + p->compute + p->push; /* of sampled steps */
    double exact = p->shuffle + p->images;                  /* of all steps */
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
    for (unsigned i = 0; i < s->incidents.events; i++)
        json_array_append_new(list, json_pack("{s:o, s:I, s:s}", "seconds",
                                              yk_json_real(s->incidents.event[i].seconds), "step",
                                              (json_int_t)s->incidents.event[i].step, "what",
                                              s->incidents.event[i].text));
    return list;
}

static void set_text(json_t *j, const char *key, const char *value)
{
    json_object_set_new(j, key, json_string(value));
}

static void set_count(json_t *j, const char *key, uint64_t value)
{
    json_object_set_new(j, key, json_integer((json_int_t)value));
}

static void set_real(json_t *j, const char *key, double value)
{
    json_object_set_new(j, key, yk_json_real(value));
}

/* What was trained, by whom, and with which settings. */
static void add_settings(json_t *j, const struct yk_session *s)
{
    const struct yk_rule *rule = &s->crew.rule;
    set_count(j, "schema", SCHEMA);
    set_text(j, "version", YK_VERSION);
    set_text(j, "run", s->run.dir);
    set_text(j, "model", s->model_name);
    set_text(j, "data", s->o.data);
    set_text(j, "mode", yk_mode_name(rule->mode));
    set_count(j, "workers", rule->workers);
    set_count(j, "ps", yk_plan_has_servers(rule) ? rule->owners : 0);
    json_object_set_new(j, "hosts", hosts(s));
    json_object_set_new(j, "batch", json_integer(s->o.batch));
    set_count(j, "global_batch", yk_session_batch(s));
    set_count(j, "shards", rule->shards);
    set_count(j, "threads", s->threads);
    set_text(j, "isa", s->o.isa);
    if (s->ops->engine != NULL)
        set_text(j, "engine", s->o.engine);
    json_object_set_new(j, "seed", json_integer(s->o.seed));
    set_text(j, "optimizer", s->o.optimizer);
    set_real(j, "lr", s->o.lr);
    set_text(j, "compress", s->o.compress);
    set_count(j, "parameters", s->state.params.weights);
}

static void add_progress(json_t *j, const struct yk_session *s)
{
    const struct yk_moment *now = &s->now;
    set_count(j, "global_steps", now->step);
    set_count(j, "discarded_steps", s->curve.discarded);
    set_count(j, "examples", now->examples);
    set_real(j, "epochs", (double)now->examples / (double)s->crew.rule.rows);
    set_real(j, "seconds", now->seconds);
    set_real(j, "startup_seconds", s->times.startup);
    set_real(j, "eval_seconds", s->times.eval_seconds);
    json_object_set_new(j, "eval_overlapped", json_boolean(yk_evaluator_overlaps(s)));
    set_real(j, "wall_seconds", yk_now() - s->times.opened);
    set_real(j, "steps_per_second", (double)now->step / now->seconds);
    set_real(j, "examples_per_second", (double)now->examples / now->seconds);
}

static void add_quality(json_t *j, const struct yk_session *s)
{
    const struct yk_curve *curve = &s->curve;
    const struct yk_rows *rows = s->input.train.sparse;
    set_real(j, "train_loss", curve->train_loss);
    set_real(j, "test_loss", curve->test_loss);
    set_real(j, "test_accuracy", curve->test_accuracy);
    if (s->ops->keys != NULL) {
        set_real(j, "progressive_loss",
                 s->now.examples > 0 ? s->now.total_loss / (double)s->now.examples : NAN);
        set_real(j, "test_auc", curve->test_auc);
        set_real(j, "test_precision", curve->test_precision);
        set_real(j, "test_recall", curve->test_recall);
        set_count(j, "bad_rows", rows != NULL ? rows->bad : 0);
    }
    set_text(j, "stop_reason", yk_stop_name(s->stop));
    set_real(j, "target_seconds", curve->target_seconds);
}

/* The largest memory of a process that reported it. */
static uint64_t peak_memory(const struct yk_session *s)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    uint64_t most = (uint64_t)usage.ru_maxrss * 1024;
    for (unsigned w = 0; w < s->crew.rule.workers; w++)
        most = s->crew.account[w].rss > most ? s->crew.account[w].rss : most;
    return most;
}

static void add_hash(json_t *j, const struct yk_session *s)
{
    char hash[17];
    if (!s->crew.recipe.sparse)
        yk_params_hash(&s->state.params, hash);
    set_text(j, "params_xxh3", s->crew.recipe.sparse ? yk_saver_hash(s) : hash);
}

static void add_workers(json_t *j, const struct yk_session *s, uint64_t pushes)
{
    json_t *detail = json_array();
    for (unsigned w = 0; w < s->crew.rule.workers; w++)
        json_array_append_new(detail, worker_detail(s, w, pushes));
    json_object_set_new(j, "workers_detail", detail);
}

json_t *yk_session_summary(const struct yk_session *s)
{
    if (s->resume.start == YK_START_DONE)
        return json_incref(s->resume.old_summary);
    struct yk_ledger ledger = {0};
    for (unsigned w = 0; w < s->crew.rule.workers; w++)
        yk_ledger_add(&ledger, &s->crew.clock.member[w].ledger);
    const char *why_not = irreproducible(s);
    json_t *j = json_object();
    add_settings(j, s);
    add_progress(j, s);
    add_quality(j, s);
    set_count(j, "stale_dropped", ledger.dropped);
    json_object_set_new(j, "staleness", staleness(&ledger));
    set_count(j, "restarts", s->incidents.restarts);
    json_object_set_new(j, "reproducible", json_boolean(why_not == NULL));
    if (why_not != NULL)
        set_text(j, "reproducible_why_not", why_not);
    set_count(j, "peak_rss_bytes", peak_memory(s));
    add_hash(j, s);
    if (ledger.torn > 0)
        set_count(j, "torn_pushes", ledger.torn);
    set_count(j, "lost_workers", s->incidents.lost);
    json_object_set_new(j, "events", events(s));
    add_workers(j, s, ledger.steps);
    return j;
}
