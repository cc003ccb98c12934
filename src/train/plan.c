/* plan.c - who trains: from --mode, --workers, --ps and the like to the rule of the run. Every
 * combination that cannot work is refused here, with one sentence for each mistake, before any data
 * are read or a folder is made. */
#include "train/plan.h"

#include "base/text.h"
#include "train/session.h"

#include <stdio.h>
#include <string.h>

/* Options of some modes only; in another mode they would be parsed and ignored. */
static const struct {
    const char *option;
    unsigned modes;
} ONLY[] = {
    {"ps", 1u << YK_MODE_sync | 1u << YK_MODE_async | 1u << YK_MODE_ssp},
    {"ps-hosts", 1u << YK_MODE_sync | 1u << YK_MODE_async | 1u << YK_MODE_ssp},
    {"backup", 1u << YK_MODE_sync},
    {"staleness", 1u << YK_MODE_ssp},
    {"shards", 1u << YK_MODE_local | 1u << YK_MODE_sync | 1u << YK_MODE_allreduce},
    {"global-batch", 1u << YK_MODE_local | 1u << YK_MODE_sync | 1u << YK_MODE_allreduce},
};

static void modes_text(unsigned modes, char *out, size_t cap)
{
    size_t n = 0;
    for (unsigned i = 0; i < YK_MODE_COUNT; i++)
        if (modes & 1u << i)
            n += (size_t)snprintf(out + n, n < cap ? cap - n : 0, "%s%s", n > 0 ? " or " : "",
                                  yk_mode_name((enum yk_mode)i));
}

enum yk_mode yk_plan_mode(const struct yk_options *o)
{
    enum yk_mode mode = o->workers > 1 ? YK_MODE_sync : YK_MODE_local;
    if (o->mode != NULL)
        yk_mode_find(o->mode, &mode);
    return mode;
}

static yk_code check_modes(const struct yk_opts *opts, enum yk_mode mode, struct yk_error *e)
{
    for (size_t i = 0; i < sizeof ONLY / sizeof ONLY[0]; i++) {
        char modes[64];
        if (!yk_opts_typed(opts, ONLY[i].option) || (ONLY[i].modes & 1u << mode))
            continue;
        modes_text(ONLY[i].modes, modes, sizeof modes);
        yk_fail(e, YK_USAGE, "--%s means nothing to --mode %s", ONLY[i].option, yk_mode_name(mode));
        yk_hint(e, "it is for %s", modes);
        return YK_USAGE;
    }
    return YK_OK;
}

yk_code yk_plan_check(const struct yk_opts *opts, struct yk_error *e)
{
    const struct yk_options *o = opts->values;
    enum yk_mode mode = yk_plan_mode(o);
    bool counted = o->workers > 0;                         /* else the number of processes tells */
    int64_t backup = mode == YK_MODE_sync ? o->backup : 0; /* a resumed run may have had some */
    if (o->mode == NULL && !counted)
        return YK_OK;
    yk_code rc = check_modes(opts, mode, e);
    if (rc != YK_OK)
        return rc;
    if (mode == YK_MODE_local && o->workers > 1) {
        yk_fail(e, YK_USAGE, "--mode local has one worker, not %lld", (long long)o->workers);
        yk_hint(e, "sync, async, ssp and allreduce take several");
        return YK_USAGE;
    }
    if (counted && backup >= o->workers) {
        yk_fail(e, YK_USAGE, "--backup %lld leaves none of %lld workers to wait for",
                (long long)backup, (long long)o->workers);
        yk_hint(e, "a step takes workers - backups pushes");
        return YK_USAGE;
    }
    if (backup > 0 && yk_opts_typed(opts, "shards"))
        return yk_fail(
            e, YK_USAGE,
            "--shards fixes the order of every sum and --backup does not: they exclude each "
            "other");
    if (o->data_local && yk_opts_typed(opts, "shards"))
        return yk_fail(
            e, YK_USAGE,
            "--shards divides one batch among all workers, and with --data-local each has its "
            "own: they exclude each other");
    if (o->data_local && o->holdout > 0) {
        yk_fail(e, YK_USAGE,
                "--holdout would leave test rows on every host, and with --data-local no process "
                "reads another host's");
        yk_hint(e, "name a test set with --test-data; the first rank reads it");
        return YK_USAGE;
    }
    if (o->data_local && o->on_worker_loss != NULL && strcmp(o->on_worker_loss, "replace") == 0) {
        yk_fail(e, YK_USAGE,
                "--on-worker-loss replace may start the new worker on a host without the data of "
                "the lost one");
        yk_hint(e, "with --data-local: continue (while a host has a worker left), restart or fail");
        return YK_USAGE;
    }
    if (counted && o->shards > 0 && !o->data_local && o->workers > o->shards &&
        mode != YK_MODE_async && mode != YK_MODE_ssp && backup == 0) {
        yk_fail(e, YK_USAGE, "%lld workers are more than --shards %lld", (long long)o->workers,
                (long long)o->shards);
        yk_hint(e, "each worker needs a shard of the global batch");
        return YK_USAGE;
    }
    if (yk_opts_typed(opts, "batch") && yk_opts_typed(opts, "global-batch")) {
        yk_fail(e, YK_USAGE, "--batch and --global-batch exclude each other");
        yk_hint(e, "--batch is for each worker, --global-batch for all of them together");
        return YK_USAGE;
    }
    return YK_OK;
}

static yk_code set_number(struct yk_session *s, const char *name, int64_t value, struct yk_error *e)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return yk_opts_set(&s->opts, name, text, YK_COMMAND_LINE, e);
}

/* Workers and owners must be as many as there are processes. */
static yk_code count(struct yk_session *s, struct yk_error *e)
{
    struct yk_options *o = &s->o;
    int size = s->job.mpi.size;
    enum yk_mode mode = yk_plan_mode(o);
    if (!s->job.joined)
        return o->workers > 0 ? YK_OK : set_number(s, "workers", 1, e);
    if (o->mode == NULL && o->workers == 0 && size > 1)
        mode = YK_MODE_sync;
    if (s->job.mpi.replacement) { /* the ranks are those of the job that it joins */
        s->job.mpi.rank = s->job.mpi.endpoint;
        s->job.mpi.size = (int)(o->workers + (o->ps > 0 ? o->ps : 1));
        return YK_OK;
    }
    int64_t owners = mode == YK_MODE_allreduce || mode == YK_MODE_local ? 0 : o->ps > 0 ? o->ps : 1;
    /* A resumed run takes as many workers as there are, unless the user asks for a number. */
    bool counted =
        o->workers > 0 && (s->resume.start == YK_START_NEW || yk_opts_typed(&s->opts, "workers"));
    yk_code rc = !counted && size > owners ? set_number(s, "workers", size - owners, e) : YK_OK;
    if (rc != YK_OK)
        return rc;
    if (mode == YK_MODE_local && size == 1)
        return YK_OK;
    if (o->workers + owners != size) {
        yk_fail(
            e, YK_USAGE,
            "%lld worker%s and %lld parameter server%s make %lld processes, but %d were started",
            (long long)o->workers, o->workers == 1 ? "" : "s", (long long)owners,
            owners == 1 ? "" : "s", (long long)(o->workers + owners), size);
        yk_hint(e, "leave out --workers, or start %lld", (long long)(o->workers + owners));
        return YK_USAGE;
    }
    return YK_OK;
}

/* The global batch: the one that was asked for, or the sum over all workers but the backups. */
static yk_code size_batch(struct yk_session *s, struct yk_rule *r, struct yk_error *e)
{
    int64_t taken = r->workers - s->o.backup, batch = s->o.batch;
    if (!r->fresh) {
        r->batch = (uint32_t)batch;
        return YK_OK;
    }
    int64_t global = s->o.global_batch > 0 ? s->o.global_batch : batch * taken;
    if (global > 1000000)
        return yk_fail(e, YK_USAGE, "a global batch of %lld examples is more than 1000000",
                       (long long)global);
    if (r->pooled && global % taken != 0)
        return yk_fail(e, YK_USAGE,
                       "--global-batch %lld is not a multiple of the %lld pushes that make a step",
                       (long long)global, (long long)taken);
    r->batch = (uint32_t)(r->pooled ? global / taken : global);
    yk_code rc = set_number(s, "global-batch", global, e);
    if (rc == YK_OK)
        rc = set_number(s, "batch", global / taken > 0 ? global / taken : 1, e);
    return rc;
}

/* Threads of one process are not lost one by one, and no wire connects them. */
static yk_code check_threads(const struct yk_opts *opts, struct yk_error *e)
{
    static const char *const PROCESSES[] = {"heartbeat", "on-worker-loss", "restarts", "compress"};
    const struct yk_options *o = opts->values;
    for (size_t i = 0; i < sizeof PROCESSES / sizeof PROCESSES[0]; i++) {
        bool none = strcmp(PROCESSES[i], "compress") == 0 && strcmp(o->compress, "none") == 0;
        if (yk_opts_typed(opts, PROCESSES[i]) && !none) {
            yk_fail(e, YK_USAGE, "--%s means nothing to workers that are threads of one process",
                    PROCESSES[i]);
            yk_hint(e, "it is for processes: --hosts localhost:3 starts three");
            return YK_USAGE;
        }
    }
    return YK_OK;
}

/* Compression on the wire. A run that is resumed in threads goes on without it. */
static yk_code plan_codec(struct yk_session *s, struct yk_rule *r, struct yk_error *e)
{
    yk_code rc = yk_codec_parse(s->o.compress, &r->codec, e);
    bool alone = !yk_job_has_peers(&s->job);
    if (rc != YK_OK || r->codec.kind == YK_CODEC_NONE)
        return rc;
    if (r->sparse && yk_opts_typed(&s->opts, "compress")) {
        yk_fail(e, YK_USAGE, "--compress means nothing to %s", s->model_name);
        yk_hint(e, "a sparse model sends only the weights that a batch touches, uncompressed");
        return YK_USAGE;
    }
    if (!alone && !r->sparse)
        return YK_OK;
    if (alone && yk_opts_typed(&s->opts, "compress") && s->resume.start == YK_START_NEW) {
        yk_fail(e, YK_USAGE, "--compress means nothing to one process: nothing is sent");
        return YK_USAGE;
    }
    r->codec = (struct yk_codec){0};
    return yk_opts_set(&s->opts, "compress", "none", YK_COMMAND_LINE, e);
}

static struct yk_rule make_rule(const struct yk_session *s, enum yk_mode mode)
{
    struct yk_rule r = {.mode = mode,
                        .workers = (unsigned)s->o.workers,
                        .staleness = -1,
                        .need = 1,
                        .shards = 1,
                        .owners = 1,
                        .sparse = s->ops->keys != NULL};
    if (mode == YK_MODE_allreduce)
        r.owners = r.workers;
    else if (s->o.ps > 0 && mode != YK_MODE_local)
        r.owners = (unsigned)s->o.ps;
    r.fresh = mode != YK_MODE_async && mode != YK_MODE_ssp;
    r.pooled = !r.fresh || s->o.backup > 0 || (s->o.data_local && r.workers > 1);
    /* Over a wire, a dense push of the only worker is held, too, and applied bucket by bucket. */
    r.held = r.fresh && (r.workers > 1 || (yk_job_has_peers(&s->job) && !r.sparse));
    if (r.pooled && r.fresh)
        r.need = r.workers - (unsigned)s->o.backup;
    if (mode == YK_MODE_ssp)
        r.staleness = yk_opts_given(&s->opts, "staleness") ? s->o.staleness : 3;
    if (!r.pooled)
        r.shards = s->o.shards > 0 ? (uint32_t)s->o.shards : r.workers;
    return r;
}

yk_code yk_plan(struct yk_session *s, struct yk_error *e)
{
    struct yk_rule *r = &s->crew.rule;
    yk_code rc = s->job.joined ? YK_OK : check_threads(&s->opts, e);
    if (rc == YK_OK)
        rc = count(s, e);
    if (rc == YK_OK)
        rc = yk_plan_check(&s->opts, e);
    if (rc != YK_OK)
        return rc;
    enum yk_mode mode = yk_plan_mode(&s->o);
    if (mode != YK_MODE_sync && s->o.backup > 0) /* of the run that is resumed */
        rc = set_number(s, "backup", 0, e);
    if (rc != YK_OK)
        return rc;
    *r = make_rule(s, mode);
    if (r->workers > r->shards && !r->pooled) {
        yk_fail(e, YK_USAGE, "%u workers are more than the %u shards of this run", r->workers,
                r->shards);
        yk_hint(e, "start with a larger --shards to be able to add workers later");
        return YK_USAGE;
    }
    rc = plan_codec(s, r, e);
    if (rc == YK_OK)
        rc = size_batch(s, r, e);
    if (rc == YK_OK)
        rc = yk_opts_set(&s->opts, "mode", yk_mode_name(mode), YK_COMMAND_LINE, e);
    if (rc == YK_OK && !r->pooled)
        rc = set_number(s, "shards", r->shards, e);
    if (rc == YK_OK && r->staleness >= 0)
        rc = set_number(s, "staleness", r->staleness, e);
    return rc;
}

static void rule_text(const struct yk_session *s, struct yk_buf *out)
{
    const struct yk_rule *r = &s->crew.rule;
    const char *where = yk_job_has_peers(&s->job) ? "processes" : "threads";
    yk_buf_format(out, "mode      %s", yk_mode_name(r->mode));
    if (!yk_plan_is_local(r))
        yk_buf_format(out, ", %u workers (%s)", r->workers, where);
    if (yk_plan_has_servers(r))
        yk_buf_format(out, ", %u parameter server%s", r->owners, r->owners == 1 ? "" : "s");
    if (s->o.backup > 0)
        yk_buf_format(out, ", a step takes the first %u pushes", r->need);
    if (r->staleness >= 0)
        yk_buf_format(out, ", at most %lld batches ahead of the slowest", (long long)r->staleness);
    if (!r->pooled && r->shards > 1)
        yk_buf_format(out, ", %u shards", r->shards);
    if (r->codec.kind != YK_CODEC_NONE)
        yk_buf_format(out, ", %s on the wire", s->o.compress);
    yk_buf_text(out, "\n");
}

void yk_plan_text(const struct yk_session *s, struct yk_buf *out)
{
    char size[24];
    uint64_t trained = s->crew.rule.rows,
             bytes = (trained + s->input.test.rows) * (s->input.train.features + 1ull);
    const struct yk_rows *rows = s->input.train.sparse;
    yk_buf_format(out, "model     %s, %zu parameters\n", s->model_name, s->state.params.weights);
    if (rows != NULL)
        yk_buf_format(out,
                      "data      %s: %llu training and %u test rows, %.1f non-zeros each, %u "
                      "features, %s mapped\n",
                      s->o.data, (unsigned long long)trained, s->input.test.rows,
                      (double)rows->entries / (double)rows->rows, s->input.train.features,
                      yk_size_text(rows->entries * 8 + rows->rows * 5, size));
    else
        yk_buf_format(out,
                      "data      %s: %llu training and %u test examples of %ux%ux%u, %u classes, "
                      "%s in memory\n",
                      s->o.data, (unsigned long long)trained, s->input.test.rows,
                      s->input.train.shape[0], s->input.train.shape[1], s->input.train.shape[2],
                      s->input.train.classes, yk_size_text(bytes, size));
    uint32_t batch = yk_session_batch(s);
    yk_buf_format(out, "steps     of %u examples, %llu an epoch, seed %lld\n", batch,
                  (unsigned long long)((trained + batch - 1) / batch), (long long)s->o.seed);
    rule_text(s, out);
    yk_buf_format(out, "optimizer %s, rate %g, schedule %s\n", s->o.optimizer, s->o.lr,
                  s->o.schedule);
    yk_buf_format(out, "compute   %s kernels, %u thread%s a worker\n", s->o.isa, s->threads,
                  s->threads == 1 ? "" : "s");
    yk_buf_text(out, "stops    ");
    if (s->o.steps > 0)
        yk_buf_format(out, " after %lld steps", (long long)s->o.steps);
    if (s->o.epochs > 0)
        yk_buf_format(out, " after %lld epochs", (long long)s->o.epochs);
    if (s->o.target_loss > 0)
        yk_buf_format(out, " at test loss %g", s->o.target_loss);
    if (s->o.target_accuracy > 0)
        yk_buf_format(out, " at test accuracy %g", s->o.target_accuracy);
    if (s->o.max_seconds > 0)
        yk_buf_format(out, " after %g s", s->o.max_seconds);
    yk_buf_text(out, "\n");
}

json_t *yk_plan_json(const struct yk_session *s)
{
    json_t *plan = yk_opts_json(&s->opts);
    json_object_set_new(plan, "model", json_string(s->model_name));
    json_object_set_new(plan, "dry_run", json_true());
    json_object_set_new(plan, "parameters", json_integer((json_int_t)s->state.params.weights));
    json_object_set_new(plan, "train_examples", json_integer((json_int_t)s->crew.rule.rows));
    json_object_set_new(plan, "test_examples", json_integer(s->input.test.rows));
    return plan;
}
