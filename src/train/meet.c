/* meet.c - what the ranks of a job must agree upon before they train: that all of them got this far, and that they run the same
 * binary with the same configuration on the same data. Every rank hands in a card and sees everybody's, so all of them find the same
 * fault and refuse together, each with the reason; nobody is left waiting.
 *
 * Two settings depend on the machines and must be the same everywhere for equal bits: the instruction set is the widest that all have, and
 * the threads of a worker are what the most crowded host allows. */
#include "train/session.h"

#include "base/file.h"
#include "base/team.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

struct card {
    uint64_t binary, config;
    struct yk_portion portion;
    int32_t rank, pid, code;
    uint32_t isa, cpus, threads; /* threads: 0 if the user did not say */
    char text[sizeof(((struct yk_error *)0)->text)];
    char hint[sizeof(((struct yk_error *)0)->hint)];
};

/* XXH3 of the program file; 0 where it cannot be read, which then is so for all. */
static uint64_t binary_hash(void)
{
    char *bytes = NULL;
    size_t n = 0;
    uint64_t hash = 0;
    if (yk_file_read("/proc/self/exe", (size_t)1 << 30, &bytes, &n, NULL) == YK_OK)
        hash = XXH3_64bits(bytes, n);
    free(bytes);
    return hash;
}

/* Everything that the run remembers, but for what the ranks settle among themselves and what is one rank's business. */
static uint64_t config_hash(const struct yk_session *s)
{
    json_t *config = yk_opts_json(&s->opts, YK_VERB(train));
    json_object_del(config, "isa");
    json_object_del(config, "threads");
    json_object_del(
        config,
        "data"); /* hosts may have the same bytes at different places: their hash is compared */
    json_object_del(config, "test-data");
    char *text = json_dumps(config, JSON_SORT_KEYS | JSON_COMPACT);
    uint64_t hash = text != NULL
                        ? XXH3_64bits_withSeed(text, strlen(text),
                                               XXH3_64bits(s->model_name, strlen(s->model_name)))
                        : 0;
    free(text);
    json_decref(config);
    return hash;
}

static void fill(struct card *c, const struct yk_session *s, yk_code rc, const struct yk_error *e)
{
    memset(c, 0, sizeof *c);
    c->binary = binary_hash();
    c->config = rc == YK_OK ? config_hash(s) : 0;
    c->portion = (struct yk_portion){.rows = s->train.rows,
                                     .xxh3 = s->train.xxh3,
                                     .classes = s->train.classes,
                                     .names = yk_input_names_xxh3(&s->train)};
    memcpy(c->portion.shape, s->train.shape, sizeof c->portion.shape);
    c->rank = s->job.mpi.rank;
    c->pid = (int32_t)getpid();
    c->code = rc;
    c->isa = yk_kernels_rank(s->o.isa);
    c->cpus = yk_cpus();
    c->threads = (uint32_t)s->o.threads;
    gethostname(c->portion.host, sizeof c->portion.host - 1);
    if (rc != YK_OK && e != NULL) {
        snprintf(c->text, sizeof c->text, "%s", e->text);
        snprintf(c->hint, sizeof c->hint, "%s", e->hint);
    }
}

/* The first thing that is wrong, the same on every rank. */
static yk_code verdict(const struct card *card, int size, int me, bool local, struct yk_error *e)
{
    for (int i = 0; i < size; i++) {
        if (card[i].code == YK_OK)
            continue;
        if (i == me) {
            yk_fail(e, (yk_code)card[i].code, "%s", card[i].text);
        } else {
            yk_fail(e, (yk_code)card[i].code, "rank %d on '%s': %.400s", i, card[i].portion.host,
                    card[i].text);
        }
        if (card[i].hint[0] != '\0')
            yk_hint(e, "%s", card[i].hint);
        return (yk_code)card[i].code;
    }
    for (int i = 1; i < size; i++) {
        const char *what = card[i].binary != card[0].binary   ? "another binary"
                           : card[i].config != card[0].config ? "other options"
                           : !local && card[i].portion.xxh3 != card[0].portion.xxh3 ? "other data"
                                                                                    : NULL;
        if (what == NULL)
            continue;
        yk_fail(e, YK_USAGE, "rank %d on '%s' has %s than rank 0 on '%s'", i, card[i].portion.host,
                what, card[0].portion.host);
        yk_hint(
            e,
            "all ranks need the same yoke, the same command line and yoke.ini, and the same files");
        return YK_USAGE;
    }
    return YK_OK;
}

/* Who is where, and the settings that all must share. */
static yk_code settle(struct yk_session *s, const struct card *card, struct yk_error *e)
{
    struct yk_job *job = &s->job;
    int size = job->mpi.size,
        first_worker = s->crew.rule.mode == YK_MODE_allreduce ? 0 : (int)s->crew.rule.owners;
    unsigned isa = card[0].isa, threads = UINT32_MAX;
    free(job->host);
    free(job->pid);
    job->host = calloc((size_t)size, sizeof *job->host);
    job->pid = calloc((size_t)size, sizeof *job->pid);
    if (job->host == NULL || job->pid == NULL)
        return yk_fail_memory(e, (size_t)size * sizeof *job->host);
    for (int i = 0; i < size; i++) {
        unsigned here = 0; /* workers on this rank's host */
        memcpy(job->host[i], card[i].portion.host, sizeof job->host[i]);
        job->pid[i] = card[i].pid;
        isa = card[i].isa < isa ? card[i].isa : isa;
        for (int k = first_worker; k < size; k++)
            here += strcmp(card[k].portion.host, card[i].portion.host) == 0;
        if (here > 0 && card[i].cpus / here < threads)
            threads = card[i].cpus / here;
    }
    char text[16];
    snprintf(text, sizeof text, "%u", threads > 0 ? threads : 1);
    yk_code rc = yk_opts_set(&s->opts, "isa", yk_kernels_name(isa), YK_COMMAND_LINE, e);
    if (rc == YK_OK && !yk_opts_given(&s->opts, "threads"))
        rc = yk_opts_set(&s->opts, "threads", text, YK_FROM_MODEL, e);
    s->threads = (unsigned)s->o.threads;
    return rc;
}

/* Who has what to train on. */
static yk_code share(struct yk_session *s, const struct card *card, struct yk_error *e)
{
    unsigned workers = s->crew.rule.workers,
             first = s->crew.rule.mode == YK_MODE_allreduce ? 0 : s->crew.rule.owners;
    struct yk_portion *p = calloc(workers, sizeof *p);
    if (p == NULL)
        return yk_fail_memory(e, workers * sizeof *p);
    for (unsigned w = 0; w < workers; w++)
        p[w] = card[first + w].portion;
    yk_code rc = yk_input_share(s, p, e);
    free(p);
    return rc;
}

yk_code yk_meet(struct yk_session *s, yk_code rc, struct yk_error *e)
{
    int size = s->job.mpi.size;
    if (!s->job.joined || size == 1 ||
        s->job.mpi.replacement) /* who comes later was told everything */
        return rc;
    struct card mine, *all = calloc((size_t)size, sizeof *all);
    if (all == NULL && rc == YK_OK)
        rc = yk_fail_memory(e, (size_t)size * sizeof *all);
    fill(&mine, s, rc, e);
    struct yk_error worse;
    yk_code met = all != NULL ? yk_mpi_agree(&mine, sizeof mine, all, &worse) : rc;
    if (met != YK_OK) {
        if (rc == YK_OK && e != NULL)
            *e = worse;
        rc = rc == YK_OK ? met : rc;
    } else {
        rc = verdict(all, size, s->job.mpi.rank, s->o.data_local, e);
        if (rc == YK_OK)
            rc = settle(s, all, e);
        if (rc == YK_OK && s->share == NULL && !s->already_done)
            rc = share(s, all, e);
    }
    free(all);
    return rc;
}

struct shared_config {
    int32_t code;
    int32_t done; /* there is nothing left to do */
    char model[YK_NAME];
    char text[sizeof(((struct yk_error *)0)->text)];
    char hint[sizeof(((struct yk_error *)0)->hint)];
    char config
        [6144 +
         2 * YK_NET_TEXT]; /* as in config.json; a few dozen short options, and the text of a net */
};

yk_code yk_meet_config(struct yk_session *s, yk_code rc, struct yk_error *e)
{
    int size = s->job.mpi.size;
    if (!s->job.joined || size == 1 || s->job.mpi.replacement)
        return rc;
    struct shared_config mine = {.code = rc, .done = s->already_done},
                         *all = calloc((size_t)size, sizeof *all);
    if (all == NULL)
        return yk_fail_memory(e, (size_t)size * sizeof *all);
    if (s->job.mpi.rank == 0 && rc == YK_OK) {
        json_t *config = yk_opts_json(&s->opts, YK_VERB(train));
        char *text = json_dumps(config, JSON_COMPACT);
        json_decref(config);
        if (text == NULL || strlen(text) >= sizeof mine.config)
            rc = mine.code = yk_fail(
                e, YK_USAGE, "the configuration of '%s' is too long to be shared", s->run.dir);
        else
            snprintf(mine.config, sizeof mine.config, "%s", text);
        snprintf(mine.model, sizeof mine.model, "%s", s->model_name);
        free(text);
    }
    if (rc != YK_OK && e != NULL) {
        snprintf(mine.text, sizeof mine.text, "%s", e->text);
        snprintf(mine.hint, sizeof mine.hint, "%s", e->hint);
    }
    struct yk_error worse;
    yk_code met = yk_mpi_agree(&mine, sizeof mine, all, &worse);
    if (met != YK_OK) {
        rc = met;
        if (e != NULL)
            *e = worse;
    } else if (s->job.mpi.rank != 0 && all[0].code != YK_OK) {
        rc = yk_fail(e, (yk_code)all[0].code, "rank 0: %.480s", all[0].text);
        if (all[0].hint[0] != '\0')
            yk_hint(e, "%s", all[0].hint);
    } else if (s->job.mpi.rank != 0 && rc == YK_OK) {
        snprintf(s->model_name, sizeof s->model_name, "%s", all[0].model);
        s->already_done = all[0].done;
        json_t *config = json_loads(all[0].config, 0, NULL);
        rc = config != NULL
                 ? yk_opts_load(&s->opts, config, "config.json", YK_RESUMED, 0, e)
                 : yk_fail(e, YK_DATA, "rank 0 sent a configuration that cannot be read");
        json_decref(config);
    }
    free(all);
    return rc;
}
