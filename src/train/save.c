/* save.c - checkpoints: everything a run needs to go on as if it had never stopped.
 *
 * A checkpoint is one safetensors file: every view of the parameters, the optimizer's state under
 * "optimizer.<slot>.<view>", and in its metadata the step, the examples, the data cursor, the seed,
 * the hash of the data and the names of model and data. The training thread copies the state; a
 * thread of its own writes it, so training does not wait for the disk. A write that fails (a full
 * disk) ends the run with an error; the last good checkpoint is untouched, and a resumed run
 * repeats the lost steps bit for bit.
 * THREADS: the writer owns `snap` and `error` until its thread is idle. */
#include "train/save.h"

#include "base/background.h"
#include "param/checkpoint.h"
#include "train/session.h"
#include "train/session_net.h"
#include "train/sparse_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "yoke-1"
enum {
    EPOCHS_APART = 1 << 20, /* a restored part may be so many epochs late: finds damaged files */
    POOL_LINES = 12,        /* lines that hold the parts of 1024 workers */
    METAS = 27 + 2 * POOL_LINES + YK_NET_LINES,
};

struct yk_saver {
    struct yk_background *writer;
    struct yk_snapshot snap;
    bool pending;          /* a write has been handed over and not collected */
    struct yk_error error; /* of the last write */
    char hash[17];         /* of a sparse model's parameters in the last checkpoint */
    atomic_llong step;     /* of the newest checkpoint on the disk; -1: none */
    void (*saved)(void *arg, long long step); /* may be NULL */
    void *saved_arg;
};

static void tensor_of(struct yk_tensor *t, const struct yk_view *v, const char *prefix,
                      const float *flat)
{
    *t = (struct yk_tensor){.ndim = v->ndim, .count = v->count, .data = flat + v->at};
    memcpy(t->shape, v->shape, sizeof t->shape);
    snprintf(t->name, sizeof t->name, "%s%s", prefix, v->name);
}

static void meta_of(struct yk_meta *m, size_t *n, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void meta_of(struct yk_meta *m, size_t *n, const char *key, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    snprintf(m[*n].key, sizeof m[*n].key, "%s", key);
    vsnprintf(m[*n].value, sizeof m[*n].value, fmt, ap);
    va_end(ap);
    (*n)++;
}

/* "pool.0": "12 260 40", on as many lines as it takes: how far before the position the parts lie
 * that have to be dealt again; under "share.0" the next part of each host. */
static void places_of(struct yk_meta *m, size_t *n, const char *key, uint64_t position,
                      const uint64_t *place, unsigned places)
{
    unsigned i = 0;
    for (unsigned line = 0; i < places && line < POOL_LINES; line++) {
        struct yk_meta *to = &m[(*n)++];
        size_t used = 0;
        snprintf(to->key, sizeof to->key, "%s.%u", key, line);
        to->value[0] = '\0';
        for (; i < places && used + 24 < sizeof to->value; i++)
            used += (size_t)snprintf(to->value + used, sizeof to->value - used, "%s%" PRIu64,
                                     used > 0 ? " " : "", position - place[i]);
    }
}

/* "net.0", "net.1", ...: a long text, cut into lines, but never inside a character of several
 * bytes. */
static void text_of(struct yk_meta *m, size_t *n, const char *key, const char *text, size_t lines)
{
    for (unsigned line = 0; text[0] != '\0' && line < lines; line++) {
        struct yk_meta *to = &m[(*n)++];
        size_t take = strnlen(text, sizeof to->value - 1);
        while (text[take] != '\0' && take > 0 && (text[take] & 0xC0) == 0x80)
            take--;
        snprintf(to->key, sizeof to->key, "%s.%u", key, line);
        memcpy(to->value, text, take);
        to->value[take] = '\0';
        text += take;
    }
}

/* How the rows were read, so that evaluation reads others the same way. */
static void reading_of(struct yk_meta *m, size_t *n, const struct yk_options *o)
{
    if (o->hash_bits > 0)
        meta_of(m, n, "hash_bits", "%lld", (long long)o->hash_bits);
    if (o->format != NULL && strcmp(o->format, "cache") != 0)
        meta_of(m, n, "row_format", "%s", o->format);
    meta_of(m, n, "label_name", "%s", o->label_name);
    meta_of(m, n, "index_name", "%s", o->index_name);
    meta_of(m, n, "value_name", "%s", o->value_name);
}

/* The tensors of the state that is being saved: values, state vectors and, if values are made
 * from them, raw weights. Returns their number. Writing a tensor sets *broken if it holds a NaN;
 * only the last state vector of a lazy optimizer, which holds the bits of integers, is not
 * looked at. */
static size_t tensors_of(struct yk_session *s, struct yk_sparse_state *state,
                         struct yk_tensor *tensor, bool *broken)
{
    const struct yk_snapshot *snap = &s->saver->snap;
    unsigned slots = yk_recipe_slots(&s->crew.recipe);
    bool lazy = slots > s->crew.recipe.optimizer->slots;
    size_t n = 0;
    for (unsigned k = 0; k < 2 + slots; k++) { /* values, raw weights, state vectors */
        char prefix[YK_NAME] = "";
        if (k == 1 && !lazy)
            continue;
        if (k > 0)
            snprintf(prefix, sizeof prefix, k == 1 ? YK_RAW : "optimizer.%s.",
                     k > 1 ? s->crew.recipe.optimizer->slot[k - 2] : "");
        /* NULL: fetched, or made from raw weights, while it is written. */
        const float *flat = k > 1 ? snap->slot[k - 2] : k == 0 && lazy ? NULL : snap->params.flat;
        for (size_t i = 0; i < s->state.params.views; i++, n++) {
            if (flat != NULL)
                tensor_of(&tensor[n], &s->state.params.view[i], prefix, flat);
            else
                yk_sparse_state_tensor(state, &tensor[n], &s->state.params.view[i], prefix, k);
            tensor[n].broken = lazy && k == 1 + slots ? NULL : broken;
        }
    }
    return n;
}

static size_t metas_of(const struct yk_session *s, struct yk_meta *m, const char *names,
                       size_t name_lines)
{
    const struct yk_moment *at = &s->saver->snap.at;
    const struct yk_snapshot *snap = &s->saver->snap;
    const struct yk_dataset *train = &s->input.train;
    const struct yk_rule *rule = &s->crew.rule;
    size_t n = 0;
    meta_of(m, &n, "format", FORMAT);
    meta_of(m, &n, "run_id", "%s", s->resume.run_id);
    meta_of(m, &n, "model", "%s", s->model_name);
    meta_of(m, &n, "data", "%s", s->o.data);
    meta_of(m, &n, "data_xxh3", "%016" PRIx64, s->input.xxh3);
    meta_of(m, &n, "shape", "%ux%ux%u", train->shape[0], train->shape[1], train->shape[2]);
    meta_of(m, &n, "classes", "%u", train->classes);
    meta_of(m, &n, "optimizer", "%s", s->crew.recipe.optimizer->name);
    meta_of(m, &n, "seed", "%lld", (long long)s->o.seed);
    meta_of(m, &n, "batch", "%lld", (long long)yk_session_batch(s));
    meta_of(m, &n, "part", "%u", rule->batch);
    meta_of(m, &n, "step", "%" PRIu64, at->step);
    meta_of(m, &n, "examples", "%" PRIu64, at->examples);
    meta_of(m, &n, "epoch", "%" PRIu64, at->position / rule->rows);
    meta_of(m, &n, "epoch_at", "%" PRIu64, at->position % rule->rows);
    meta_of(m, &n, "seconds", "%.9f", at->seconds);
    meta_of(m, &n, "loss", "%.17g", at->loss);
    meta_of(m, &n, "loss_examples", "%" PRIu64, at->loss_examples);
    meta_of(m, &n, "total_loss", "%.17g", at->total_loss);
    if (s->o.test_data != NULL)
        meta_of(m, &n, "test_data", "%s", s->o.test_data);
    if (s->o.holdout > 0)
        meta_of(m, &n, "holdout", "%.17g", s->o.holdout);
    if (s->ops->keys != NULL)
        reading_of(m, &n, &s->o);
    if (s->o.net != NULL) {
        meta_of(m, &n, "engine", "%s", s->o.engine);
        text_of(m, &n, "net", s->o.net, YK_NET_LINES);
    }
    if (names != NULL)
        text_of(m, &n, "class_names", names, name_lines);
    places_of(m, &n, "pool", at->position, snap->pool, snap->pooled);
    if (snap->next != NULL)
        places_of(m, &n, "share", at->position, snap->next, rule->shares);
    return n;
}

static yk_code write_snapshot(struct yk_session *s, struct yk_error *e)
{
    struct yk_saver *v = s->saver;
    size_t views = s->state.params.views;
    char dir[YK_PATH_MAX], path[YK_PATH_MAX];
    struct yk_sparse_state state;
    bool broken = false;
    const char *names = yk_input_class_names(&s->input);
    size_t name_lines =
        names != NULL ? strlen(names) / (sizeof(((struct yk_meta *)0)->value) - 4) + 1 : 0;
    struct yk_tensor *tensor =
        calloc(views * (2 + yk_recipe_slots(&s->crew.recipe)), sizeof *tensor);
    struct yk_meta *meta = calloc(METAS + name_lines, sizeof *meta);
    if (tensor == NULL || meta == NULL) {
        free(tensor);
        free(meta);
        return yk_fail_memory(e, views * sizeof *tensor + METAS * sizeof *meta);
    }
    yk_sparse_state_open(&state, &s->crew, &s->state, &v->snap);
    size_t n = tensors_of(s, &state, tensor, &broken), metas = metas_of(s, meta, names, name_lines);
    if (s->crew.recipe.sparse && state.vectors == 0) /* after the write the copy is gone */
        yk_params_hash(&v->snap.params, v->hash);
    yk_code rc = yk_run_path(&s->run, "checkpoints", dir, e);
    if (rc == YK_OK)
        rc = yk_checkpoint_write(dir, v->snap.at.step, tensor, n, meta, metas, (unsigned)s->o.keep,
                                 path, e);
    if (broken)
        rc = yk_session_diverged(s, v->snap.at.step, "a parameter or its optimizer state after", e);
    yk_sparse_state_close(&state, v->hash);
    free(tensor);
    free(meta);
    return rc;
}

static void write_job(void *arg)
{
    struct yk_session *s = arg;
    struct yk_saver *v = s->saver;
    v->error = (struct yk_error){0};
    yk_code rc = write_snapshot(s, &v->error);
    if (s->crew.recipe.sparse) { /* a copy of millions of weights lives only while it is written */
        struct yk_moment at = v->snap.at;
        yk_snapshot_release(&v->snap);
        v->snap.at = at;
    }
    long long step = (long long)v->snap.at.step;
    if (rc == YK_OK && s->resume.first_saved < 0) { /* from now on an empty folder is a loss */
        s->resume.first_saved = step;
        rc = yk_session_config(s, &v->error);
    }
    if (rc != YK_OK)
        return;
    atomic_store(&v->step, step);
    if (v->saved != NULL)
        v->saved(v->saved_arg, step);
}

yk_code yk_saver_open(struct yk_session *s, bool found, struct yk_error *e)
{
    struct yk_saver *v = s->saver = calloc(1, sizeof *v);
    if (v == NULL)
        return yk_fail_memory(e, sizeof *v);
    atomic_store(&v->step, found ? (long long)s->now.step : -1);
    yk_code rc =
        s->crew.recipe.sparse ? YK_OK : yk_snapshot_init(&v->snap, &s->crew, &s->state, true, e);
    return rc == YK_OK ? yk_background_open(&v->writer, "yoke-save", e) : rc;
}

void yk_saver_close(struct yk_session *s)
{
    if (s->saver == NULL)
        return;
    yk_background_close(s->saver->writer);
    yk_snapshot_release(&s->saver->snap);
    free(s->saver);
    s->saver = NULL;
}

long long yk_saver_step(const struct yk_session *s)
{
    return s->saver != NULL ? atomic_load(&s->saver->step) : -1;
}

const char *yk_saver_hash(const struct yk_session *s)
{
    return s->saver->hash;
}

void yk_saver_notify(struct yk_session *s, void (*saved)(void *arg, long long step), void *arg)
{
    if (s->saver == NULL)
        return;
    s->saver->saved = saved;
    s->saver->saved_arg = arg;
}

bool yk_saver_busy(const struct yk_session *s)
{
    return s->saver->pending && yk_background_busy(s->saver->writer);
}

yk_code yk_saver_wait(struct yk_session *s, struct yk_error *e)
{
    struct yk_saver *v = s->saver;
    if (!v->pending)
        return YK_OK;
    yk_background_wait(v->writer);
    v->pending = false;
    if (v->error.code == YK_OK)
        yk_log_line(s->log, YK_DEBUG, "checkpoint of step %llu is on the disk",
                    (unsigned long long)v->snap.at.step);
    if (v->error.code != YK_OK && e != NULL)
        *e = v->error;
    return v->error.code;
}

yk_code yk_saver_post(struct yk_session *s, struct yk_error *e)
{
    struct yk_saver *v = s->saver;
    struct yk_crew *c = &s->crew;
    if (yk_saver_busy(s))
        return YK_OK;
    yk_code rc = yk_saver_wait(s, e);
    if (rc == YK_OK && c->recipe.sparse)
        rc = yk_snapshot_init(&v->snap, c, &s->state, true, e);
    if (rc == YK_OK && c->recipe.sparse && yk_crew_elsewhere(c))
        rc = yk_server_keep(&c->server[0], c->servers, e);
    if (rc != YK_OK)
        return rc;
    struct yk_moment now = s->now;
    now.seconds = yk_session_seconds(s);
    yk_snapshot_take(&v->snap, c, &s->state, &now);
    v->pending = true;
    yk_background_post(v->writer, write_job, s);
    return YK_OK;
}

static void log_damaged(void *arg, const struct yk_error *why)
{
    struct yk_session *s = arg;
    yk_log_line(s->log, YK_WARN, "%s; falling back to the checkpoint before it", why->text);
}

yk_code yk_saved_format(const struct yk_tensors *t, const char *path, struct yk_error *e)
{
    const char *format = yk_tensors_meta(t, "format");
    if (format == NULL)
        return yk_fail(e, YK_DATA, "'%s' was not written by yoke: its metadata names no format",
                       path);
    if (strcmp(format, FORMAT) != 0)
        return yk_fail(e, YK_DATA, "'%s' has the format '%.40s', and this yoke reads '" FORMAT "'",
                       path, format);
    return YK_OK;
}

yk_code yk_saved_text(const struct yk_tensors *t, const char *name, struct yk_buf *out,
                      struct yk_error *e)
{
    const char *line;
    char key[24];
    for (unsigned i = 0;; i++) {
        snprintf(key, sizeof key, "%s.%u", name, i);
        if ((line = yk_tensors_meta(t, key)) == NULL)
            break;
        yk_buf_text(out, line);
    }
    return out->failed ? yk_fail_memory(e, out->len) : YK_OK;
}

/* The file and config.json must agree on everything that no resume may change. The batch may: it
 * changes with the workers. Files and runs of an older yoke have no run_id. */
static yk_code check_run(const struct yk_session *s, const struct yk_tensors *t, const char *path,
                         struct yk_error *e)
{
    char seed[24], why[256] = "";
    snprintf(seed, sizeof seed, "%lld", (long long)s->o.seed);
    const char *const same[][2] = {{"model", s->model_name},
                                   {"optimizer", s->o.optimizer},
                                   {"seed", seed},
                                   {"run_id", s->resume.run_id}};
    struct yk_buf net = {0};
    yk_code rc = yk_saved_format(t, path, e);
    if (rc == YK_OK)
        rc = yk_saved_text(t, "net", &net, e);
    if (rc != YK_OK)
        goto out_net;
    if (strcmp(net.len > 0 ? net.data : "", s->o.net != NULL ? s->o.net : "") != 0)
        snprintf(why, sizeof why, "its net is not the one in config.json");
    for (size_t i = sizeof same / sizeof same[0]; i-- > 0;) { /* the first that differs says most */
        const char *key = same[i][0], *want = same[i][1], *have = yk_tensors_meta(t, key);
        bool older = want == s->resume.run_id && (have == NULL || want[0] == '\0');
        if (!older && (have == NULL || strcmp(have, want) != 0))
            snprintf(why, sizeof why, "its %s is %.80s, config.json says %.80s", key,
                     have != NULL ? have : "not recorded", want);
    }
    if (why[0] != '\0') {
        rc = yk_fail(e, YK_DATA, "'%s' belongs to another run: %s", path, why);
        yk_hint(e, "move it out of the folder, or undo what was changed in config.json");
    }
out_net:
    yk_buf_release(&net);
    return rc;
}

/* Copies the views to `flat` unless it is NULL. False if one is absent, has another shape or, with
 * `numbers`, is not finite. */
static bool restore_views(const struct yk_tensors *t, const struct yk_params *p, const char *prefix,
                          bool numbers, float *flat)
{
    for (size_t i = 0; i < p->views; i++) {
        const struct yk_tensor *from = yk_tensors_view(t, prefix, &p->view[i]);
        if (from == NULL || (numbers && !yk_floats_finite(from->data, from->count)))
            return false;
        if (flat != NULL)
            memcpy(flat + p->view[i].at, from->data, from->count * sizeof(float));
    }
    return true;
}

/* Reads all tensors; with `elsewhere` only checks them. */
static bool restore_state(struct yk_session *s, const struct yk_tensors *t, bool elsewhere)
{
    const struct yk_optimizer_ops *optimizer = s->crew.recipe.optimizer;
    unsigned slots = yk_recipe_slots(&s->crew.recipe);
    bool lazy = slots > optimizer->slots;
    bool whole = restore_views(t, &s->state.params, lazy ? YK_RAW : "", true,
                               elsewhere ? NULL : s->state.params.flat);
    for (unsigned k = 0; k < slots && whole; k++) {
        char prefix[YK_NAME];
        snprintf(prefix, sizeof prefix, "optimizer.%s.", optimizer->slot[k]);
        whole = restore_views(t, &s->state.params, prefix, k < optimizer->slots,
                              elsewhere ? NULL : s->state.slot[k]);
    }
    return whole;
}

static bool meta_real(const struct yk_tensors *t, const char *key, double *out)
{
    const char *text = yk_tensors_meta(t, key);
    char *end;
    *out = text != NULL ? strtod(text, &end) : NAN;
    return text != NULL && end != text && *end == '\0' && isfinite(*out);
}

/* The moment of the checkpoint. False if a count is missing, or no run can reach it. */
static bool restore_moment(const struct yk_session *s, const struct yk_tensors *t,
                           struct yk_moment *m)
{
    uint64_t epoch, at, rows = s->crew.rule.rows, most = (uint64_t)1 << 53;
    if (!yk_tensors_count(t, "step", &m->step) || !yk_tensors_count(t, "examples", &m->examples) ||
        !yk_tensors_count(t, "loss_examples", &m->loss_examples) ||
        !yk_tensors_count(t, "epoch", &epoch) || !yk_tensors_count(t, "epoch_at", &at) ||
        m->loss_examples > m->examples || at >= rows || epoch > most / rows)
        return false;
    m->position = epoch * rows + at;
    m->total_loss = 0;
    return meta_real(t, "seconds", &m->seconds) && m->seconds >= 0 &&
           meta_real(t, "loss", &m->loss) &&
           (yk_tensors_meta(t, "total_loss") == NULL || meta_real(t, "total_loss", &m->total_loss));
}

/* The checkpoint was made with data of the same shape. */
static bool same_shape(const struct yk_session *s, const struct yk_tensors *t)
{
    char shape[64], classes[16];
    const char *has_shape = yk_tensors_meta(t, "shape"),
               *has_classes = yk_tensors_meta(t, "classes");
    snprintf(shape, sizeof shape, "%ux%ux%u", s->input.train.shape[0], s->input.train.shape[1],
             s->input.train.shape[2]);
    snprintf(classes, sizeof classes, "%u", s->input.train.classes);
    return has_shape != NULL && strcmp(has_shape, shape) == 0 && has_classes != NULL &&
           strcmp(has_classes, classes) == 0;
}

/* Reads a list that places_of wrote; false if it is damaged or far too long. */
static bool places_in(const struct yk_session *s, const struct yk_tensors *t, const char *name,
                      uint64_t *out, unsigned *n)
{
    for (unsigned line = 0; line < POOL_LINES; line++) {
        char key[16];
        snprintf(key, sizeof key, "%s.%u", name, line);
        const char *text = yk_tensors_meta(t, key);
        for (char *end; text != NULL && *text != '\0'; text = end) {
            uint64_t before = strtoull(text, &end, 10);
            if (end == text || before > s->now.position ||
                before / s->crew.rule.rows > EPOCHS_APART || *n == YK_POOL_MOST)
                return false;
            out[(*n)++] = s->now.position - before;
        }
    }
    return true;
}

/* Reads the parts that were under way, which are dealt first, and where each host was in its own
 * data. A step of whole batches cannot take such parts. */
static yk_code restore_pool(struct yk_session *s, const struct yk_tensors *t, const char *path,
                            struct yk_error *e)
{
    struct yk_rule *r = &s->crew.rule;
    uint64_t next[YK_POOL_MOST];
    unsigned shares = 0;
    bool sound = places_in(s, t, "pool", s->resume.pool, &s->resume.pooled) &&
                 places_in(s, t, "share", next, &shares);
    if (shares > 0)
        for (unsigned i = 0; i < r->shares && sound; i++) {
            struct yk_share *share = &s->input.share[i];
            uint64_t at = shares == r->shares ? next[i] % r->rows : UINT64_MAX;
            sound = at >= share->from && at < share->from + share->rows;
            share->next = sound ? next[i] : 0;
        }
    if (!sound || (r->shares > 1 && shares == 0))
        return yk_fail(e, YK_DATA, "'%s' does not fit this run: its list of parts is damaged",
                       path);
    const char *part = yk_tensors_meta(t, "part");
    if (s->resume.pooled > 0 && s->crew.rule.pooled &&
        (part == NULL || strtoull(part, NULL, 10) != s->crew.rule.batch)) {
        yk_fail(e, YK_USAGE,
                "'%s' was written in the middle of an epoch that was dealt in parts of %s "
                "examples, not %u",
                path, part != NULL ? part : "other", s->crew.rule.batch);
        yk_hint(e, "keep --workers less --backup as it was, so that a part stays what it is");
        return YK_USAGE;
    }
    if (s->resume.pooled > 0 && !s->crew.rule.pooled) {
        yk_fail(e, YK_USAGE, "'%s' was written in the middle of an asynchronous epoch", path);
        yk_hint(e, "it can go on with --mode async or ssp");
        return YK_USAGE;
    }
    return YK_OK;
}

/* Accepts `t` if it is a checkpoint of this run and the run can go on from it. */
static yk_code accept(struct yk_session *s, const struct yk_tensors *t, const char *path,
                      bool elsewhere, struct yk_error *e)
{
    char data_hash[24];
    struct yk_moment m;
    yk_code rc = check_run(s, t, path, e);
    if (rc != YK_OK)
        return rc;
    snprintf(data_hash, sizeof data_hash, "%016" PRIx64, s->input.xxh3);
    const char *hash = yk_tensors_meta(t, "data_xxh3");
    if (hash != NULL && strcmp(hash, data_hash) != 0) { /* then its tensors may not fit either */
        yk_fail(e, YK_DATA, "the data '%s' has changed since '%s' was written", s->o.data, path);
        yk_hint(e, "a run can only be resumed on the bytes it began with; start a new one without "
                   "--resume");
        return YK_DATA;
    }
    if (hash == NULL || !same_shape(s, t) || !restore_moment(s, t, &m))
        return yk_fail(e, YK_DATA,
                       "'%s' does not fit this run: its metadata is missing or out of range", path);
    if (!restore_state(s, t, elsewhere)) {
        yk_fail(e, YK_DATA,
                "'%s' does not fit this run: a tensor is absent, of another shape, or has values "
                "that are infinite or NaN",
                path);
        yk_hint(e, "move it out of the folder, and the run goes on from the checkpoint before it");
        return YK_DATA;
    }
    s->now = m;
    return restore_pool(s, t, path, e);
}

yk_code yk_saver_restore(struct yk_session *s, bool *found, struct yk_error *e)
{
    struct yk_tensors t;
    char dir[YK_PATH_MAX], path[YK_PATH_MAX];
    int any = 0;
    yk_code rc = yk_run_path(&s->run, "checkpoints", dir, e);
    if (rc == YK_OK)
        rc = yk_checkpoint_newest(dir, &t, path, &any, log_damaged, s, e);
    *found = any != 0;
    if (rc != YK_OK || !any)
        return rc;
    bool elsewhere = s->crew.recipe.sparse && yk_job_has_peers(&s->job) && s->crew.rule.owners > 1;
    rc = accept(s, &t, path, elsewhere, e);
    if (rc == YK_OK)
        rc = yk_tensors_intact(&t, path, e);
    const char *id = yk_tensors_meta(&t, "run_id");
    if (rc == YK_OK && s->resume.run_id[0] == '\0' && id != NULL)
        snprintf(s->resume.run_id, sizeof s->resume.run_id, "%s", id);
    if (rc == YK_OK && elsewhere)
        s->resume.state = t; /* sent to its owners when the crew starts */
    else
        yk_tensors_release(&t);
    return rc;
}
