/* input.c - the data of a run: what this process opens, and which worker trains on which rows.
 *
 * Mostly every process has all training data, and every worker may train on any example. With
 * --data-local each host has files of its own: an epoch is the rows of the first host, then
 * those of the second, and so on. The workers of a host get tasks of its share only (deal.h),
 * and find them in their own data by yk_input_position. No process reads another host's files,
 * and a parameter server opens no training data at all. */
#include "train/input.h"

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/fetch.h"
#include "data/images/images.h"
#include "data/rows/synth.h"
#include "train/plan.h"
#include "train/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* A relative path would be lost when the run is resumed, or evaluated, from another folder. */
static yk_code fix_path(struct yk_session *s, const char *option, const char *value,
                        struct yk_error *e)
{
    char *path = value != NULL && !yk_fetch_knows(value) ? realpath(value, NULL) : NULL;
    yk_code rc = path != NULL ? yk_opts_set(&s->opts, option, path, YK_COMMAND_LINE, e) : YK_OK;
    free(path);
    return rc;
}

static void log_line(void *arg, const char *line)
{
    yk_log_line(arg, YK_INFO, "%s", line);
}

void yk_input_keep(uint64_t free_bytes, unsigned ranks, bool both, uint64_t keep[2])
{
    uint64_t mine = free_bytes / 2 / ranks; /* all ranks may be on one host */
    keep[0] = both ? mine - mine / 4 : mine;
    keep[1] = both ? mine / 4 : mine;
    for (int i = 0; i < 2; i++)
        keep[i] = keep[i] > 0 ? keep[i] : 1;
}

/* The names of the classes go into checkpoints, as text. */
static yk_code check_names(const struct yk_dataset *d, const char *what, struct yk_error *e)
{
    json_t *j = d->class_names != NULL ? json_string(d->class_names) : json_null();
    bool can = j != NULL;
    json_decref(j);
    return can ? YK_OK
               : yk_fail(e, YK_DATA, "a class folder of '%s' has a name that is not valid UTF-8",
                         what);
}

/* Only photos can be cropped and flipped, and only nets train on photos. */
static yk_code check_augment(const struct yk_session *s, struct yk_error *e)
{
    if (!yk_opts_typed(&s->opts, "augment") ||
        (s->ops->open_net != NULL && s->input.train.images != NULL &&
         s->input.train.images->varied))
        return YK_OK;
    return yk_fail(e, YK_USAGE,
                   "--augment means nothing to %s on '%s': it is for nets on class folders",
                   s->model_name, s->input.path);
}

/* Refuses sparse rows, and options that are for them. */
static yk_code check_pixels(const struct yk_session *s, struct yk_error *e)
{
    static const char *const ROWS[] = {"features",   "format",     "hash-bits", "label-name",
                                       "index-name", "value-name", "skip-bad"};
    const char *path = s->input.path;
    struct stat st;
    uint64_t rows, features, seed;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++)
        if (yk_opts_typed(&s->opts, ROWS[i]))
            return yk_fail(e, YK_USAGE, "--%s means nothing to '%s': it is for sparse rows",
                           ROWS[i], path);
    bool file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    if (!yk_synth_name(path, &rows, &features, &seed) &&
        !(file && !yk_data_is_dense(path) && yk_rows_sniff(path, NULL)))
        return YK_OK;
    yk_fail(e, YK_USAGE, "'%s' holds sparse rows, and %s takes dense sets", path, s->model_name);
    yk_hint(e, "'yoke train logreg' takes sparse rows");
    return YK_USAGE;
}

static yk_code open_pixels(struct yk_session *s, bool trains, bool tests, struct yk_error *e)
{
    struct yk_input *in = &s->input;
    bool own_test = tests && s->o.test_data != NULL;
    uint64_t keep[2];
    yk_input_keep(yk_memory_free(), (unsigned)s->job.mpi.size, trains && own_test, keep);
    struct yk_imaging how = {.holdout = s->o.holdout, .keep = keep[0]};
    char folder[YK_PATH_MAX];
    if (s->ops->open_net != NULL) { /* photos are resized to the input of the net */
        how.shape[0] = s->net.input.h;
        how.shape[1] = s->net.input.w;
        how.shape[2] = s->net.input.c;
    }
    yk_code rc = check_pixels(s, e);
    if (rc == YK_OK && yk_fetch_knows(in->path))
        rc = yk_fetch(in->path, NULL, log_line, s->log, folder, e);
    if (rc == YK_OK && trains)
        rc = yk_data_open(in->path, &how, &in->train, tests && !own_test ? &in->test : NULL, e);
    if (rc == YK_OK && trains)
        rc = check_augment(s, e);
    if (rc == YK_OK)
        rc = check_names(&in->train, in->path, e);
    if (rc == YK_OK && own_test) {
        how.holdout = 0;
        how.keep = keep[1];
        how.classes = in->train.class_names;
        if (in->train.rows > 0) /* photos are resized to those of the training data */
            memcpy(how.shape, in->train.shape, sizeof how.shape);
        rc = yk_data_open_test(s->o.test_data, &how, &in->test, e);
    }
    return rc;
}

/* Sparse rows. Features of the test set that the training data lack count nothing. */
static yk_code open_rows(struct yk_session *s, bool trains, bool tests, struct yk_error *e)
{
    struct yk_input *in = &s->input;
    struct yk_reading how;
    yk_code rc = check_augment(s, e);
    if (rc != YK_OK)
        return rc;
    yk_options_reading(&s->opts, &how);
    bool speaks = tests || s->o.data_local; /* one rank of those that read the same files */
    how.say = speaks ? log_line : NULL;
    how.say_arg = s->log;
    if (trains)
        rc = yk_data_open_rows(in->path, &how, s->o.holdout, &in->train, tests ? &in->test : NULL,
                               e);
    if (rc == YK_OK && tests && s->o.test_data != NULL)
        rc = yk_data_open_rows(s->o.test_data, &how, 0, &in->test, NULL, e);
    if (rc != YK_OK || !trains)
        return rc;
    const struct yk_rows *rows = in->train.sparse;
    if (rows->note[0] != '\0' && speaks)
        yk_log_line(s->log, YK_INFO, "'%s' has no cache and is read again at every start: %s",
                    in->path, rows->note);
    if (rows->bad > 0 && speaks)
        yk_log_line(s->log, YK_WARN, "%llu rows of '%s' are malformed and left out",
                    (unsigned long long)rows->bad, in->path);
    if (s->o.features > 0 && (uint64_t)s->o.features < rows->features)
        return yk_fail(e, YK_USAGE, "'%s' has %llu features, more than --features %lld", in->path,
                       (unsigned long long)rows->features, (long long)s->o.features);
    if (s->o.features > 0)
        in->train.features = in->train.shape[1] = (uint32_t)s->o.features;
    return YK_OK;
}

/* With --data-local, "%h" in --data stands for the name of the host. */
static yk_code name_data(struct yk_session *s, struct yk_error *e)
{
    char host[64] = "";
    const char *mark = s->o.data_local ? strstr(s->o.data, "%h") : NULL;
    gethostname(host, sizeof host - 1);
    if (mark == NULL)
        return yk_path(s->input.path, e, "%s", s->o.data);
    return yk_path(s->input.path, e, "%.*s%s%s", (int)(mark - s->o.data), s->o.data, host,
                   mark + 2);
}

/* A sparse model takes the images of two classes as rows. */
static yk_code make_sparse(struct yk_dataset *d, struct yk_error *e)
{
    return d->rows > 0 && d->classes == 2 ? yk_dataset_sparse(d, e) : YK_OK;
}

yk_code yk_input_open(struct yk_session *s, struct yk_error *e)
{
    bool tests = s->job.mpi.rank == 0;                    /* owner 0 evaluates */
    bool trains = !s->o.data_local || s->crew.locals > 0; /* else the data are on other hosts */
    if (s->o.data == NULL) {
        yk_fail(e, YK_USAGE, "'yoke train %s' needs --data", s->model_name);
        if (s->ops->keys != NULL)
            yk_hint(e,
                    "for example --data train.libsvm, or made-up rows: --data synth-criteo:100000");
        return YK_USAGE;
    }
    yk_code rc = name_data(s, e);
    if (rc != YK_OK)
        return rc;
    if (s->o.holdout > 0 && s->o.test_data != NULL)
        return yk_fail(e, YK_USAGE, "--holdout and --test-data exclude each other");
    bool sparse = s->ops->keys != NULL, dense = sparse && yk_data_is_dense(s->input.path);
    rc = sparse && !dense ? open_rows(s, trains, tests, e) : open_pixels(s, trains, tests, e);
    if (rc == YK_OK && dense)
        rc = make_sparse(&s->input.train, e);
    if (rc == YK_OK && dense)
        rc = make_sparse(&s->input.test, e);
    if (rc == YK_OK && tests && s->input.test.rows == 0 &&
        (s->o.target_loss > 0 || s->o.target_accuracy > 0)) {
        yk_fail(e, YK_USAGE, "a target needs test data, and '%s' has none", s->o.data);
        yk_hint(e, "name some with --test-data");
        rc = YK_USAGE;
    }
    if (rc == YK_OK && s->ops->packed && s->crew.locals > 0)
        rc = yk_dataset_pack(&s->input.train, e);
    if (rc == YK_OK && s->ops->packed && tests)
        rc = yk_dataset_pack(&s->input.test, e);
    return rc;
}

void yk_input_release(struct yk_input *in)
{
    yk_dataset_release(&in->train);
    yk_dataset_release(&in->test);
    free(in->share);
    free(in->share_of);
}

yk_code yk_input_intact(const struct yk_input *in, struct yk_error *e)
{
    yk_code rc = yk_rows_intact(in->train.sparse, e);
    return rc == YK_OK ? yk_rows_intact(in->test.sparse, e) : rc;
}

uint64_t yk_input_names_xxh3(const struct yk_dataset *d)
{
    return d->class_names != NULL ? XXH3_64bits(d->class_names, strlen(d->class_names)) : 0;
}

/* A parameter server with --data-local has test data alone; fit_names() has compared the names. */
const char *yk_input_class_names(const struct yk_input *in)
{
    return in->train.rows > 0 ? in->train.class_names : in->test.class_names;
}

/* Each host numbers its own class folders, so their names have to be the same everywhere. */
static yk_code fit_names(const struct yk_session *s, const struct yk_portion *p, struct yk_error *e)
{
    const char *other = NULL;
    for (unsigned w = 0; w < s->crew.rule.workers; w++)
        if (p[w].names != p[0].names)
            other = p[w].host;
    if (p[0].names != 0 && s->input.train.rows == 0 && s->input.test.class_names != NULL &&
        yk_input_names_xxh3(&s->input.test) != p[0].names)
        other = s->o.test_data;
    if (other == NULL)
        return YK_OK;
    yk_fail(e, YK_USAGE, "'%s' and '%s' have different class folders", other, p[0].host);
    yk_hint(e, "give all the same folders, so that labels mean the same; a folder may be empty");
    return YK_USAGE;
}

/* Makes the training data of all hosts one set: of sparse rows the widest counts; images must have
 * one shape. */
static yk_code fit(struct yk_session *s, const struct yk_portion *p, struct yk_error *e)
{
    struct yk_dataset *t = &s->input.train;
    for (unsigned w = 0; w < s->crew.rule.workers; w++) {
        if (s->ops->keys == NULL && memcmp(p[w].shape, p[0].shape, sizeof p[0].shape) != 0)
            return yk_fail(e, YK_USAGE, "the images of '%s' are %ux%ux%u, those of '%s' %ux%ux%u",
                           p[w].host, p[w].shape[0], p[w].shape[1], p[w].shape[2], p[0].host,
                           p[0].shape[0], p[0].shape[1], p[0].shape[2]);
        for (unsigned i = 0; i < 3; i++)
            t->shape[i] = p[w].shape[i] > t->shape[i] ? p[w].shape[i] : t->shape[i];
        t->classes = p[w].classes > t->classes ? p[w].classes : t->classes;
    }
    t->features = t->shape[0] * t->shape[1] * t->shape[2];
    if (t->name[0] == '\0')
        snprintf(t->name, sizeof t->name, "%.*s", (int)sizeof t->name - 1, s->o.data);
    return YK_OK;
}

/* A host's workers have one share; hosts follow each other in the order of their first worker. */
static void deal_hosts(struct yk_session *s, const struct yk_portion *p)
{
    struct yk_rule *r = &s->crew.rule;
    XXH3_state_t *all = XXH3_createState();
    bool hashed = all != NULL && XXH3_64bits_reset(all) == XXH_OK;
    r->shares = 0;
    for (unsigned w = 0; w < r->workers; w++) {
        unsigned first = 0;
        while (strcmp(p[first].host, p[w].host) != 0)
            first++;
        if (first < w) {
            s->input.share_of[w] = s->input.share_of[first];
            continue;
        }
        s->input.share[r->shares] =
            (struct yk_share){.from = r->rows, .rows = p[w].rows, .next = r->rows};
        s->input.share_of[w] = r->shares++;
        r->rows += p[w].rows;
        hashed = hashed && XXH3_64bits_update(all, &p[w].xxh3, sizeof p[w].xxh3) == XXH_OK;
    }
    s->input.xxh3 = hashed ? XXH3_64bits_digest(all) : 0;
    XXH3_freeState(all);
}

yk_code yk_input_share(struct yk_session *s, const struct yk_portion *p, struct yk_error *e)
{
    struct yk_rule *r = &s->crew.rule;
    s->input.share = calloc(r->workers, sizeof *s->input.share);
    s->input.share_of = calloc(r->workers, sizeof *s->input.share_of);
    if (s->input.share == NULL || s->input.share_of == NULL)
        return yk_fail_memory(e, r->workers * sizeof *s->input.share);
    if (p == NULL || !s->o.data_local) {
        s->input.share[0].rows = r->rows = s->input.train.rows;
        s->input.xxh3 = s->input.train.xxh3;
        r->shares = 1;
    } else {
        yk_code rc = fit(s, p, e);
        if (rc == YK_OK)
            rc = fit_names(s, p, e);
        if (rc != YK_OK)
            return rc;
        deal_hosts(s, p);
    }
    r->share = s->input.share;
    r->share_of = r->shares > 1 ? s->input.share_of : NULL;
    const struct yk_dataset *t = &s->input.train, *test = &s->input.test;
    if (s->ops->keys == NULL && s->o.test_data != NULL && test->rows > 0 &&
        (test->features != t->features || test->classes > t->classes))
        return yk_fail(e, YK_USAGE,
                       "'%s' (%ux%ux%u, %u classes) does not fit '%s' (%ux%ux%u, %u classes)",
                       s->o.test_data, test->shape[0], test->shape[1], test->shape[2],
                       test->classes, s->o.data, t->shape[0], t->shape[1], t->shape[2], t->classes);
    if (s->ops->keys == NULL && test->rows > 0)
        s->input.test.classes = t->classes;
    if (yk_session_batch(s) > r->rows)
        return yk_fail(e, YK_USAGE, "%s %u is more than the %llu examples of '%s'",
                       r->workers > 1 ? "a global batch of" : "--batch", yk_session_batch(s),
                       (unsigned long long)r->rows, s->o.data);
    yk_code rc = fix_path(s, "data", s->o.data, e);
    return rc == YK_OK ? fix_path(s, "test-data", s->o.test_data, e) : rc;
}

void yk_input_log(const struct yk_session *s)
{
    const struct yk_rule *r = &s->crew.rule;
    unsigned first = yk_plan_first_worker(r);
    if (!s->o.data_local)
        return;
    yk_log_line(s->log, YK_INFO, "%u host%s train%s on %llu rows of their own", r->shares,
                r->shares == 1 ? "" : "s", r->shares == 1 ? "s" : "", (unsigned long long)r->rows);
    if (s->job.host == NULL)
        return;
    for (unsigned i = 0; i < r->shares; i++) {
        unsigned workers = 0, w = 0;
        for (unsigned k = r->workers; k-- > 0;)
            if (s->input.share_of[k] == i) {
                w = k;
                workers++;
            }
        yk_log_line(s->log, YK_INFO, "  %-20s %12llu rows, %u worker%s", s->job.host[first + w],
                    (unsigned long long)s->input.share[i].rows, workers, workers == 1 ? "" : "s");
    }
}

uint64_t yk_input_position(const struct yk_session *s, uint64_t id)
{
    const struct yk_rule *r = &s->crew.rule;
    if (r->share_of == NULL || id == YK_NO_PART)
        return id;
    const struct yk_share *mine = &r->share[r->share_of[s->crew.first_local]];
    return id / r->rows * mine->rows + (id % r->rows - mine->from);
}
