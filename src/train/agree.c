/* agree.c - over MPI, the ranks agree before they train: all of them got this far, and they run the
 * same program with the same options on the same data. Every rank hands in a report and sees those
 * of all, so all ranks find the same fault and refuse together, each with the reason; none is left
 * waiting.
 *
 * Two settings depend on the machines and must be equal everywhere for equal bits: the
 * instruction set is the widest that all hosts have, and the threads of a worker are as many as
 * the most crowded host allows. */
#include "train/agree.h"

#include "base/file.h"
#include "base/team.h"
#include "kernel/kernel.h"
#include "train/plan.h"
#include "train/session.h"
#include "train/session_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

struct report {
    uint64_t binary, config; /* hashes of the program and of its options */
    uint64_t test;           /* hash of the name of the test data, 0 for none */
    struct yk_portion portion;
    int32_t pid, code;
    uint32_t isa, cpus;
    char text[sizeof(((struct yk_error *)0)->text)];
    char hint[sizeof(((struct yk_error *)0)->hint)];
};

uint64_t yk_agree_binary(void)
{
    char *bytes = NULL;
    size_t n = 0;
    uint64_t hash = 0;
    if (yk_file_read("/proc/self/exe", (size_t)1 << 30, &bytes, &n, NULL) == YK_OK)
        hash = XXH3_64bits(bytes, n);
    free(bytes);
    return hash;
}

/* All options of the run but those that the ranks settle together, or that one rank alone uses.
 * Hosts may have the same data at different places, so the hashes of the data are compared. */
static uint64_t config_hash(const struct yk_session *s)
{
    json_t *config = yk_opts_json(&s->opts);
    json_object_del(config, "isa");
    json_object_del(config, "threads");
    json_object_del(config, "data");
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

/* Only rank 0 reads test data, so their name is compared, as the user gave it. After the first
 * agreement it is a path of this host, and is not compared any more. */
static uint64_t test_hash(const struct yk_session *s)
{
    const char *name = s->input.share == NULL ? s->o.test_data : NULL;
    return name != NULL ? XXH3_64bits(name, strlen(name)) : 0;
}

static void fill(struct report *c, const struct yk_session *s, yk_code rc, const struct yk_error *e)
{
    memset(c, 0, sizeof *c);
    c->binary = yk_agree_binary();
    c->config = rc == YK_OK ? config_hash(s) : 0;
    c->test = test_hash(s);
    c->portion = (struct yk_portion){.rows = s->input.train.rows,
                                     .xxh3 = s->input.train.xxh3,
                                     .classes = s->input.train.classes,
                                     .names = yk_input_names_xxh3(&s->input.train)};
    memcpy(c->portion.shape, s->input.train.shape, sizeof c->portion.shape);
    c->pid = (int32_t)getpid();
    c->code = rc;
    c->isa = yk_kernels_rank(s->o.isa);
    c->cpus = yk_cpus();
    gethostname(c->portion.host, sizeof c->portion.host - 1);
    if (rc != YK_OK && e != NULL) {
        snprintf(c->text, sizeof c->text, "%s", e->text);
        snprintf(c->hint, sizeof c->hint, "%s", e->hint);
    }
}

/* The first fault, which is the same on every rank. */
static yk_code verdict(const struct report *report, int size, int me, bool local,
                       struct yk_error *e)
{
    for (int i = 0; i < size; i++) {
        if (report[i].code == YK_OK)
            continue;
        if (i == me)
            yk_fail(e, (yk_code)report[i].code, "%s", report[i].text);
        else
            yk_fail(e, (yk_code)report[i].code, "rank %d on '%s': %.400s", i,
                    report[i].portion.host, report[i].text);
        if (report[i].hint[0] != '\0')
            yk_hint(e, "%s", report[i].hint);
        return (yk_code)report[i].code;
    }
    for (int i = 1; i < size; i++) {
        const char *what = report[i].binary != report[0].binary   ? "a different binary"
                           : report[i].config != report[0].config ? "different options"
                           : report[i].test != report[0].test     ? "different test data"
                           : !local && report[i].portion.xxh3 != report[0].portion.xxh3
                               ? "different data"
                               : NULL;
        if (what == NULL)
            continue;
        yk_fail(e, YK_USAGE, "rank %d on '%s' has %s than rank 0 on '%s'", i,
                report[i].portion.host, what, report[0].portion.host);
        yk_hint(e, "all ranks need the same yoke, the same command line and yoke.ini, and the "
                   "same files");
        return YK_USAGE;
    }
    return YK_OK;
}

/* Notes the host of every rank, and fixes the settings that all must share. */
static yk_code settle(struct yk_session *s, const struct report *report, struct yk_error *e)
{
    struct yk_job *job = &s->job;
    int size = job->mpi.size, first_worker = (int)yk_plan_first_worker(&s->crew.rule);
    unsigned isa = report[0].isa, threads = UINT32_MAX;
    free(job->host);
    free(job->pid);
    job->host = calloc((size_t)size, sizeof *job->host);
    job->pid = calloc((size_t)size, sizeof *job->pid);
    if (job->host == NULL || job->pid == NULL)
        return yk_fail_memory(e, (size_t)size * sizeof *job->host);
    for (int i = 0; i < size; i++) {
        unsigned here = 0; /* workers on this rank's host */
        memcpy(job->host[i], report[i].portion.host, sizeof job->host[i]);
        job->pid[i] = report[i].pid;
        isa = report[i].isa < isa ? report[i].isa : isa;
        for (int k = first_worker; k < size; k++)
            here += strcmp(report[k].portion.host, report[i].portion.host) == 0;
        if (here > 0 && report[i].cpus / here < threads)
            threads = report[i].cpus / here;
    }
    char text[16];
    snprintf(text, sizeof text, "%u", threads > 0 ? threads : 1);
    yk_code rc = yk_opts_set(&s->opts, "isa", yk_kernels_name(isa), YK_COMMAND_LINE, e);
    if (rc == YK_OK && !yk_opts_given(&s->opts, "threads"))
        rc = yk_opts_set(&s->opts, "threads", text, YK_FROM_MODEL, e);
    s->threads = (unsigned)s->o.threads;
    return rc;
}

/* Decides which worker trains on which rows. */
static yk_code share(struct yk_session *s, const struct report *report, struct yk_error *e)
{
    unsigned workers = s->crew.rule.workers, first = yk_plan_first_worker(&s->crew.rule);
    struct yk_portion *p = calloc(workers, sizeof *p);
    if (p == NULL)
        return yk_fail_memory(e, workers * sizeof *p);
    for (unsigned w = 0; w < workers; w++)
        p[w] = report[first + w].portion;
    yk_code rc = yk_input_share(s, p, e);
    free(p);
    return rc;
}

/* A replacement comes too late to agree with the others; rank 0 has sent it its hashes. */
static yk_code agree_later(const struct yk_session *s, struct yk_error *e)
{
    const char *what = s->job.binary != yk_agree_binary() ? "a different binary"
                       : s->job.config != config_hash(s)  ? "different options"
                                                          : NULL;
    return what == NULL ? YK_OK : yk_fail(e, YK_USAGE, "a new rank has %s than rank 0", what);
}

yk_code yk_agree(struct yk_session *s, yk_code rc, struct yk_error *e)
{
    int size = s->job.mpi.size;
    if (s->job.mpi.replacement)
        return rc == YK_OK ? agree_later(s, e) : rc;
    if (!yk_job_has_peers(&s->job))
        return rc;
    struct report mine, *all = calloc((size_t)size, sizeof *all);
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
        if (rc == YK_OK && s->input.share == NULL && s->resume.start != YK_START_DONE)
            rc = share(s, all, e);
    }
    free(all);
    return rc;
}

struct shared_config {
    int32_t code;
    int32_t done; /* there is nothing left to do */
    char text[sizeof(((struct yk_error *)0)->text)];
    char hint[sizeof(((struct yk_error *)0)->hint)];
    /* As in config.json: a few dozen short options, and the text of a net. */
    char config[6144 + 2 * YK_NET_TEXT];
};

char *yk_agree_config_text(const struct yk_session *s)
{
    json_t *config = yk_opts_json(&s->opts);
    json_object_set_new(config, "model", json_string(s->model_name));
    json_object_set_new(config, "binary_xxh3", json_integer((json_int_t)yk_agree_binary()));
    json_object_set_new(config, "config_xxh3", json_integer((json_int_t)config_hash(s)));
    char *text = json_dumps(config, JSON_COMPACT);
    json_decref(config);
    return text;
}

/* Takes rank 0's configuration over. Only options typed for this start are stronger. */
static yk_code take_config(struct yk_session *s, const char *text, struct yk_error *e)
{
    json_t *config = json_loads(text, 0, NULL);
    const char *model = json_string_value(json_object_get(config, "model"));
    yk_code rc = YK_OK;
    if (model == NULL || strlen(model) >= sizeof s->model_name)
        rc = yk_fail(e, YK_DATA, "rank 0 sent a configuration that cannot be read");
    else
        snprintf(s->model_name, sizeof s->model_name, "%s", model);
    s->job.binary = (uint64_t)json_integer_value(json_object_get(config, "binary_xxh3"));
    s->job.config = (uint64_t)json_integer_value(json_object_get(config, "config_xxh3"));
    if (rc == YK_OK)
        rc = yk_opts_load(&s->opts, config, "config.json", YK_RESUMED, 0, e);
    json_decref(config);
    return rc;
}

yk_code yk_agree_config(struct yk_session *s, yk_code rc, struct yk_error *e)
{
    int size = s->job.mpi.size;
    if (s->job.mpi.replacement)
        return take_config(s, s->job.mpi.told, e);
    if (!yk_job_has_peers(&s->job))
        return rc;
    struct shared_config mine = {.code = rc, .done = s->resume.start == YK_START_DONE},
                         *all = calloc((size_t)size, sizeof *all);
    if (all == NULL)
        return yk_fail_memory(e, (size_t)size * sizeof *all);
    if (s->job.mpi.rank == 0 && rc == YK_OK) {
        char *text = yk_agree_config_text(s);
        if (text == NULL || strlen(text) >= sizeof mine.config)
            rc = mine.code = yk_fail(
                e, YK_USAGE, "the configuration of '%s' is too long to be shared", s->run.dir);
        else
            snprintf(mine.config, sizeof mine.config, "%s", text);
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
        s->resume.start = all[0].done ? YK_START_DONE : YK_START_RESUMED;
        rc = take_config(s, all[0].config, e);
    }
    free(all);
    return rc;
}
