/* save.c - checkpoints: what a run needs to go on as if it had never stopped.
 *
 * A checkpoint is one safetensors file: every view of the parameters, the optimizer's state under "optimizer.<slot>.<view>",
 * and in its metadata the step, the examples, the data cursor, the seed, the hash of the data and the names of model and data.
 * The training thread copies the state; a lane of its own writes it, so training does not wait for the disk. A write that fails (a full
 * disk) ends the run with an error; the last good checkpoint is untouched, and a resumed run repeats the lost steps bit by bit. */
#include "param/checkpoint.h"
#include "train/session.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EPOCHS_APART = 1 << 20
}; /* that hosts with data of their own may be, and what is left of a pool */
enum {
    POOL_LINES = 12,
    METAS = 26 + 2 * POOL_LINES + YK_NET_LINES
}; /* 12 lines hold the parts of 1024 workers */

yk_code yk_snapshot_init(struct yk_snapshot *n, const struct yk_session *s, bool with_slots,
                         struct yk_error *e)
{
    unsigned slots = yk_recipe_slots(&s->crew.recipe);
    bool copies =
        !s->crew.recipe.sparse ||
        !yk_crew_elsewhere(s); /* else every owner has a copy of its part, yk_server_keep's */
    yk_code rc = yk_params_layout(&n->params, s->params.view, s->params.views, e);
    if (rc == YK_OK && copies && (n->params.flat = yk_floats(s->owned)) == NULL)
        rc = yk_fail_memory(e, s->owned * sizeof(float));
    for (unsigned i = 0; rc == YK_OK && copies && with_slots && i < slots; i++) {
        n->slot[i] = yk_floats(s->owned);
        if (n->slot[i] == NULL)
            rc = yk_fail_memory(e, s->owned * sizeof(float));
    }
    bool lazy =
        slots > s->crew.recipe.optimizer
                    ->slots; /* something is owed to keys that were not touched for a while */
    if (rc == YK_OK && (lazy || !copies) &&
        (n->owner = calloc(s->crew.servers, sizeof *n->owner)) == NULL)
        rc = yk_fail_memory(e, s->crew.servers * sizeof *n->owner);
    if (rc == YK_OK && s->crew.rule.shares > 1 &&
        (n->next = calloc(s->crew.rule.shares, sizeof *n->next)) == NULL)
        rc = yk_fail_memory(e, s->crew.rule.shares * sizeof *n->next);
    if (rc == YK_OK && s->crew.rule.pooled) {
        n->pool = calloc(2 * (size_t)s->crew.clock.deal.most, sizeof *n->pool);
        if (n->pool == NULL)
            rc = yk_fail_memory(e, 2 * (size_t)s->crew.clock.deal.most * sizeof *n->pool);
    }
    return rc;
}

void yk_snapshot_release(struct yk_snapshot *n)
{
    yk_params_release(&n->params);
    for (unsigned i = 0; i < YK_SLOTS; i++)
        yk_floats_free(n->slot[i]);
    free(n->owner);
    free(n->pool);
    free(n->next);
    *n = (struct yk_snapshot){0};
}

static void copy_state(float *flat, float *const *slot, const float *from, float *const *from_slot,
                       size_t count)
{
    if (flat != NULL && from != NULL) /* a sparse model is evaluated where it is */
        memcpy(flat, from, count * sizeof(float));
    for (unsigned i = 0; i < YK_SLOTS; i++)
        if (slot[i] != NULL && from_slot[i] != NULL)
            memcpy(slot[i], from_slot[i], count * sizeof(float));
}

/* Parts that have been dealt and not come back are as good as new: whoever goes on from here deals them again. */
static void copy_pool(struct yk_snapshot *n, const struct yk_deal *d)
{
    memcpy(n->pool, d->back, d->backs * sizeof *n->pool);
    memcpy(n->pool + d->backs, d->out, d->outs * sizeof *n->pool);
    n->pooled = d->backs + d->outs;
}

void yk_snapshot_take(struct yk_snapshot *n, struct yk_session *s)
{
    n->at = s->now;
    n->at.seconds = yk_session_seconds(s);
    if (n->pool != NULL) /* parts may have been dealt since the last step */
        n->at.position = yk_deal_position(&s->crew.clock.deal);
    for (unsigned i = 0; n->next != NULL && i < s->crew.rule.shares; i++)
        n->next[i] = s->crew.clock.deal.share[i].next;
    copy_state(n->params.flat, n->slot, s->params.flat, s->slot, s->owned);
    if (n->pool != NULL)
        copy_pool(n, &s->crew.clock.deal);
    for (unsigned i = 0; n->owner != NULL && i < s->crew.servers; i++)
        n->owner[i] = s->crew.server[i].owner;
}

void yk_snapshot_restore(const struct yk_snapshot *n, struct yk_session *s)
{
    s->now = n->at;
    for (unsigned i = 0; i < s->crew.servers; i++)
        s->crew.server[i].owner.step = n->at.step;
    copy_state(s->params.flat, s->slot, n->params.flat, n->slot, s->owned);
    if (n->pool !=
        NULL) { /* so that the last checkpoint names the parts that this state has not seen */
        struct yk_deal *d = &s->crew.clock.deal;
        d->outs = d->backs = 0;
        for (unsigned i = 0; i < d->shares; i++)
            d->share[i].next = n->next != NULL ? n->next[i] : n->at.position;
        memcpy(d->out, n->pool, n->pooled * sizeof *d->out);
        d->outs = n->pooled;
    }
}

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

/* "pool.0": "12 260 40": how far before the position the parts lie that have to be dealt again ("share.0": the next parts of the hosts); as many
 * such lines as it takes. */
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

/* "net.0", "net.1", ...: a long text, cut where it has to be, but not inside a character of several bytes. */
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

/* What evaluation needs to read other rows the same way. */
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

/* The tensors of the state that is being saved: values, state vectors and, where values are made from them, raw weights. Returns how many. */
static size_t tensors_of(struct yk_session *s, struct yk_far *far, struct yk_tensor *tensor)
{
    const struct yk_snapshot *snap = &s->saving;
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
        const float *flat = k > 1            ? snap->slot[k - 2]
                            : k == 0 && lazy ? NULL
                                             : snap->params.flat; /* values are made when written */
        for (size_t i = 0; i < s->params.views; i++, n++) {
            if (flat != NULL)
                tensor_of(&tensor[n], &s->params.view[i], prefix, flat);
            else
                yk_far_tensor(far, &tensor[n], &s->params.view[i], prefix, k);
        }
    }
    return n;
}

static yk_code write_snapshot(struct yk_session *s, struct yk_error *e)
{
    const struct yk_snapshot *snap = &s->saving;
    const struct yk_optimizer_ops *optimizer = s->crew.recipe.optimizer;
    size_t views = s->params.views, metas = 0;
    char dir[YK_PATH_MAX], path[YK_PATH_MAX];
    struct yk_far far = {0};
    const char *names = yk_input_class_names(s);
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
    yk_far_open(&far, s);
    size_t n = tensors_of(s, &far, tensor);
    meta_of(meta, &metas, "format", "yoke-1");
    meta_of(meta, &metas, "model", "%s", s->model_name);
    meta_of(meta, &metas, "data", "%s", s->o.data);
    meta_of(meta, &metas, "data_xxh3", "%016" PRIx64, s->data_xxh3);
    meta_of(meta, &metas, "shape", "%ux%ux%u", s->train.shape[0], s->train.shape[1],
            s->train.shape[2]);
    meta_of(meta, &metas, "classes", "%u", s->train.classes);
    meta_of(meta, &metas, "optimizer", "%s", optimizer->name);
    meta_of(meta, &metas, "seed", "%lld", (long long)s->o.seed);
    meta_of(meta, &metas, "batch", "%lld", (long long)yk_session_batch(s));
    meta_of(meta, &metas, "part", "%u", s->crew.rule.batch);
    meta_of(meta, &metas, "step", "%" PRIu64, snap->at.step);
    meta_of(meta, &metas, "examples", "%" PRIu64, snap->at.examples);
    meta_of(meta, &metas, "epoch", "%" PRIu64, snap->at.position / s->crew.rule.rows);
    meta_of(meta, &metas, "epoch_at", "%" PRIu64, snap->at.position % s->crew.rule.rows);
    meta_of(meta, &metas, "seconds", "%.9f", snap->at.seconds);
    meta_of(meta, &metas, "loss", "%.17g", snap->at.loss);
    meta_of(meta, &metas, "loss_examples", "%" PRIu64, snap->at.loss_examples);
    meta_of(meta, &metas, "total_loss", "%.17g", snap->at.total_loss);
    if (s->o.test_data != NULL)
        meta_of(meta, &metas, "test_data", "%s", s->o.test_data);
    if (s->o.holdout > 0)
        meta_of(meta, &metas, "holdout", "%.17g", s->o.holdout);
    if (s->ops->keys != NULL)
        reading_of(meta, &metas, &s->o);
    if (s->o.net != NULL) {
        meta_of(meta, &metas, "engine", "%s", s->o.engine);
        text_of(meta, &metas, "net", s->o.net, YK_NET_LINES);
    }
    if (names != NULL)
        text_of(meta, &metas, "class_names", names, name_lines);
    places_of(meta, &metas, "pool", snap->at.position, snap->pool, snap->pooled);
    places_of(meta, &metas, "share", snap->at.position, snap->next,
              snap->next != NULL ? s->crew.rule.shares : 0);
    if (s->crew.recipe.sparse &&
        far.vectors == 0) /* nobody has them all again, once they are written */
        yk_params_hash(&snap->params, s->saved_hash);
    yk_code rc = yk_run_path(&s->run, "checkpoints", dir, e);
    if (rc == YK_OK)
        rc = yk_checkpoint_write(dir, snap->at.step, tensor, n, meta, metas, (unsigned)s->o.keep,
                                 path, e);
    yk_far_close(&far, s->saved_hash);
    free(tensor);
    free(meta);
    return rc;
}

static void write_job(void *arg)
{
    struct yk_session *s = arg;
    s->save_error = (struct yk_error){0};
    yk_code rc = write_snapshot(s, &s->save_error);
    if (s->crew.recipe
            .sparse) { /* a copy of millions of weights is there only while it is written */
        struct yk_moment at = s->saving.at;
        yk_snapshot_release(&s->saving);
        s->saving.at = at;
    }
    if (rc != YK_OK)
        return;
    atomic_store(&s->saved_step, (long long)s->saving.at.step);
    if (s->saved != NULL)
        s->saved(s->saved_arg, (long long)s->saving.at.step);
}

yk_code yk_saver_open(struct yk_session *s, struct yk_error *e)
{
    yk_code rc = s->crew.recipe.sparse ? YK_OK : yk_snapshot_init(&s->saving, s, true, e);
    return rc == YK_OK ? yk_lane_open(&s->writer, "yoke-save", e) : rc;
}

void yk_saver_close(struct yk_session *s)
{
    yk_lane_close(s->writer);
    s->writer = NULL;
    yk_snapshot_release(&s->saving);
}

yk_code yk_saver_wait(struct yk_session *s, struct yk_error *e)
{
    if (!s->save_pending)
        return YK_OK;
    yk_lane_wait(s->writer);
    s->save_pending = false;
    if (s->save_error.code == YK_OK)
        yk_log_line(s->log, YK_DEBUG, "checkpoint of step %llu is on the disk",
                    (unsigned long long)s->saving.at.step);
    if (s->save_error.code != YK_OK && e != NULL)
        *e = s->save_error;
    return s->save_error.code;
}

yk_code yk_saver_post(struct yk_session *s, struct yk_error *e)
{
    if (s->save_pending && yk_lane_busy(s->writer))
        return YK_OK;
    yk_code rc = yk_saver_wait(s, e);
    if (rc == YK_OK && s->crew.recipe.sparse)
        rc = yk_snapshot_init(&s->saving, s, true, e);
    if (rc != YK_OK)
        return rc;
    if (s->crew.recipe.sparse && yk_crew_elsewhere(s))
        rc = yk_server_keep(&s->crew.server[0], s->crew.servers, e);
    if (rc != YK_OK)
        return rc;
    yk_snapshot_take(&s->saving, s);
    s->save_pending = true;
    yk_lane_post(s->writer, write_job, s);
    return rc;
}

static void say_damaged(void *arg, const struct yk_error *why)
{
    struct yk_session *s = arg;
    yk_log_line(s->log, YK_WARN, "%s; falling back to the checkpoint before it", why->text);
}

static bool meta_number(const struct yk_tensors *t, const char *key, uint64_t *out)
{
    const char *text = yk_tensors_meta(t, key);
    char *end;
    if (text == NULL || text[0] < '0' || text[0] > '9')
        return false;
    *out = strtoull(text, &end, 10);
    return *end == '\0';
}

/* Into `flat`, or if it is NULL only whether they are there. */
static bool restore_views(const struct yk_tensors *t, const struct yk_params *p, const char *prefix,
                          float *flat)
{
    for (size_t i = 0; i < p->views; i++) {
        char name[2 * YK_NAME];
        snprintf(name, sizeof name, "%s%s", prefix, p->view[i].name);
        const struct yk_tensor *from = yk_tensors_find(t, name);
        if (from == NULL || from->count != p->view[i].count)
            return false;
        if (flat != NULL)
            memcpy(flat + p->view[i].at, from->data, from->count * sizeof(float));
    }
    return true;
}

/* A list that places_of wrote; false if it is none, or far too long. */
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

/* The parts that were under way: dealt first. A step of whole batches has no place for them. Where hosts have their own data, also how far each
 * of them is. */
static yk_code restore_pool(struct yk_session *s, const struct yk_tensors *t, const char *path,
                            struct yk_error *e)
{
    struct yk_rule *r = &s->crew.rule;
    uint64_t next[YK_POOL_MOST];
    unsigned shares = 0;
    bool sound = places_in(s, t, "pool", s->restored_pool, &s->restored) &&
                 places_in(s, t, "share", next, &shares);
    for (unsigned i = 0; sound && shares > 0 && i < r->shares; i++) {
        uint64_t at = shares == r->shares ? next[i] % r->rows : UINT64_MAX;
        sound = at >= s->share[i].from && at < s->share[i].from + s->share[i].rows;
        s->share[i].next = sound ? next[i] : 0;
    }
    if (!sound || (r->shares > 1 && shares == 0))
        return yk_fail(e, YK_DATA, "'%s' does not fit this run: its list of parts is damaged",
                       path);
    const char *part = yk_tensors_meta(t, "part");
    if (s->restored > 0 && s->crew.rule.pooled &&
        (part == NULL || strtoull(part, NULL, 10) != s->crew.rule.batch)) {
        yk_fail(e, YK_USAGE,
                "'%s' was written in the middle of an epoch that was dealt in parts of %s "
                "examples, not %u",
                path, part != NULL ? part : "other", s->crew.rule.batch);
        yk_hint(e, "keep --workers less --backup as it was, so that a part stays what it is");
        return YK_USAGE;
    }
    if (s->restored > 0 && !s->crew.rule.pooled) {
        yk_fail(e, YK_USAGE, "'%s' was written in the middle of an asynchronous epoch", path);
        yk_hint(e, "it can go on with --mode async or ssp");
        return YK_USAGE;
    }
    return YK_OK;
}

yk_code yk_saver_restore(struct yk_session *s, bool *found, struct yk_error *e)
{
    struct yk_tensors t;
    struct yk_moment m = {0};
    char dir[YK_PATH_MAX], path[YK_PATH_MAX];
    int any = 0;
    yk_code rc = yk_run_path(&s->run, "checkpoints", dir, e);
    if (rc == YK_OK)
        rc = yk_checkpoint_newest(dir, &t, path, &any, say_damaged, s, e);
    *found = any != 0;
    if (rc != YK_OK || !any)
        return rc;
    const struct yk_optimizer_ops *optimizer = s->crew.recipe.optimizer;
    uint64_t epoch = 0, epoch_at = 0;
    char data_hash[24];
    snprintf(data_hash, sizeof data_hash, "%016" PRIx64, s->data_xxh3);
    const char *hash = yk_tensors_meta(&t, "data_xxh3"), *seconds = yk_tensors_meta(&t, "seconds"),
               *loss = yk_tensors_meta(&t, "loss"), *total = yk_tensors_meta(&t, "total_loss");
    unsigned slots = yk_recipe_slots(&s->crew.recipe);
    bool far =
        s->crew.recipe.sparse && s->job.joined && s->job.mpi.size > 1 && s->crew.rule.owners > 1;
    bool whole = restore_views(&t, &s->params, slots > optimizer->slots ? YK_RAW : "",
                               far ? NULL : s->params.flat);
    for (unsigned k = 0; k < slots && whole; k++) {
        char prefix[YK_NAME];
        snprintf(prefix, sizeof prefix, "optimizer.%s.", optimizer->slot[k]);
        whole = restore_views(&t, &s->params, prefix, far ? NULL : s->slot[k]);
    }
    whole = whole && meta_number(&t, "step", &m.step) && meta_number(&t, "examples", &m.examples) &&
            meta_number(&t, "epoch", &epoch) && meta_number(&t, "epoch_at", &epoch_at) &&
            epoch_at <= s->crew.rule.rows && epoch < UINT64_MAX / s->crew.rule.rows &&
            hash != NULL && seconds != NULL && loss != NULL &&
            meta_number(&t, "loss_examples", &m.loss_examples);
    if (hash != NULL && strcmp(hash, data_hash) != 0) { /* then its tensors may not fit either */
        rc = yk_fail(e, YK_DATA, "the data '%s' has changed since '%s' was written", s->o.data,
                     path);
        yk_hint(e, "a run can only be resumed on the bytes it began with; start a new one without "
                   "--resume");
    } else if (!whole) {
        rc = yk_fail(e, YK_DATA, "'%s' does not fit this run: tensors or metadata are missing",
                     path);
    } else {
        m.seconds = strtod(seconds, NULL);
        m.loss = strtod(loss, NULL);
        m.total_loss = total != NULL ? strtod(total, NULL) : 0;
        m.position = epoch * s->crew.rule.rows + epoch_at;
        s->now = m;
        atomic_store(&s->saved_step, (long long)m.step);
        rc = restore_pool(s, &t, path, e);
    }
    if (rc == YK_OK && far)
        s->restored_state = t; /* it goes to its owners when they can be reached */
    else
        yk_tensors_release(&t);
    return rc;
}
