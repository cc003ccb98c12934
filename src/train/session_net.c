/* session_net.c - nets in a session: from a word of the command line to a model, and which engine
 * computes it.
 *
 * The net's text becomes the option "net". So config.json has it, a resumed run and a rank that
 * joins later get it like any other option, ranks that read different files refuse each other,
 * and the file is not read again. Likewise "engine": the measured engine becomes part of the
 * run, because bits depend on it. Over MPI rank 0 measures for all. The choice is also noted in
 * the cache folder, so that the same command gives the same bits again, however busy the machine
 * was meanwhile. */
#include "train/session_net.h"

#include "model/net/net.h"
#include "train/net_settings.h"
#include "train/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

yk_code yk_session_net_find(struct yk_session *s, const char *word, struct yk_error *e)
{
    bool has_text = s->o.net != NULL;
    yk_code rc = has_text ? yk_net_parse(s->model_name, s->o.net, strlen(s->o.net), &s->net, e)
                          : yk_net_read(word, &s->net, e);
    if (rc == YK_OK)
        rc = yk_net_settings_check(has_text ? s->model_name : word, &s->net, e);
    if (rc == YK_OK && s->net.text_length > YK_NET_TEXT)
        rc = yk_fail(
            e, YK_USAGE,
            "the net '%s' is too long to be kept in checkpoints: %zu characters, at most %d",
            s->net.name, s->net.text_length, YK_NET_TEXT);
    if (rc == YK_OK && !has_text)
        rc = yk_opts_set(&s->opts, "net", s->net.text, YK_COMMAND_LINE, e);
    if (rc != YK_OK)
        return rc;
    snprintf(s->model_name, sizeof s->model_name, "%s", s->net.name);
    s->ops = &yk_model_net;
    return YK_OK;
}

yk_code yk_session_net_open(struct yk_session *s, struct yk_error *e)
{
    if (strcmp(s->o.init, "auto") != 0)
        for (unsigned i = 0; i < s->net.layers; i++)
            if (!s->net.layer[i].init_given)
                snprintf(s->net.layer[i].init, sizeof s->net.layer[i].init, "%s", s->o.init);
    /* An asynchronous push may be as many steps late as there are other workers. Running statistics
     * that moved a whole step at each push would swing ever wider. */
    const struct yk_rule *r = &s->crew.rule;
    const struct yk_net_how how = {.seed = (uint64_t)s->o.seed,
                                   .label_smoothing = (float)s->o.label_smoothing,
                                   .async_workers = r->fresh ? 1 : r->workers};
    for (unsigned i = 0; i < s->net.layers; i++)
        if (s->net.layer[i].kind == YK_LAYER_batchnorm && r->codec.kind != YK_CODEC_NONE &&
            r->codec.kind != YK_CODEC_BF16) {
            yk_fail(
                e, YK_USAGE,
                "--compress %s does not work with batchnorm ('%s'): its running statistics would "
                "be rounded together with gradients, or come late",
                s->o.compress, s->net.layer[i].name);
            yk_hint(e, "--compress bf16 works: it rounds every number separately");
            return YK_USAGE;
        }
    return s->ops->open_net(&s->model, &s->net, &how, &s->input.train, e);
}

/* The engine that a rank has chosen, or why it could not. */
struct choice {
    int32_t code;
    char engine[16];
    char text[sizeof(((struct yk_error *)0)->text)];
};

/* Examples of the largest shard of a step, which a worker computes in one go. */
static uint32_t largest_shard(const struct yk_session *s)
{
    uint32_t all = s->crew.rule.batch, v = s->crew.rule.shards > 0 ? s->crew.rule.shards : 1;
    return (all + v - 1) / v;
}

/* Makes the model compute with the engine `name`; "auto" measures. *chosen is its name. */
static yk_code use_engine(struct yk_session *s, const char *name, const char **chosen,
                          char said[256], struct yk_error *e)
{
    return s->ops->engine(s->model, &s->state.params, name, largest_shard(s), s->threads, s->o.isa,
                          chosen, said, e);
}

/* The file that notes the engine measured for these layers, shards, threads and instructions. False
 * if there is no folder for it. */
static bool note_path(const struct yk_session *s, char path[YK_PATH_MAX], struct yk_error *e)
{
    char dir[YK_PATH_MAX], how[96];
    snprintf(how, sizeof how, "%s %u %u %s", YK_VERSION, largest_shard(s), s->threads, s->o.isa);
    uint64_t key = XXH3_64bits(how, strlen(how));
    for (unsigned i = 0; i < s->net.layers; i++) {
        const struct yk_layer *l = &s->net.layer[i];
        const uint32_t shape[] = {(uint32_t)l->kind, l->in.c,      l->in.h,      l->in.w,
                                  l->out.c,          l->out.h,     l->out.w,     l->kernel[0],
                                  l->kernel[1],      l->stride[0], l->stride[1], l->pad[0],
                                  l->pad[1],         l->pad[2],    l->pad[3],    l->groups};
        key = XXH3_64bits_withSeed(shape, sizeof shape, key);
    }
    return yk_cache_dir(dir, e) == YK_OK &&
           yk_path(path, e, "%s/engines/%016" PRIx64, dir, key) == YK_OK;
}

/* Takes the noted engine; without a usable note, measures and writes one. */
static yk_code measure_engine(struct yk_session *s, const char **chosen, char said[256],
                              struct yk_error *e)
{
    char path[YK_PATH_MAX], *text = NULL;
    size_t n;
    struct yk_error why = {0};
    bool noted = note_path(s, path, &why);
    if (noted && yk_file_read(path, 32, &text, &n, &why) == YK_OK && strcmp(text, "auto") != 0 &&
        use_engine(s, text, chosen, said, &why) == YK_OK) {
        snprintf(said, 256, "%s was measured before, see '%.200s'", *chosen, path);
        free(text);
        return YK_OK;
    }
    free(text);
    yk_code rc = use_engine(s, "auto", chosen, said, e);
    if (rc == YK_OK && noted) {
        char *name = strrchr(path, '/');
        *name = '\0';
        noted = yk_mkdirs(path, &why) == YK_OK;
        *name = '/';
        if (!noted || yk_file_write(path, *chosen, strlen(*chosen), &why) != YK_OK)
            yk_log_line(s->log, YK_DEBUG, "the engine is not noted for the next run: %s", why.text);
    }
    return rc;
}

yk_code yk_session_engine(struct yk_session *s, struct yk_error *e)
{
    if (s->ops->engine == NULL)
        return YK_OK;
    const bool automatic = strcmp(s->o.engine, "auto") == 0;
    struct choice mine = {0};
    const char *chosen = s->o.engine;
    char said[256] = "";
    yk_code rc = YK_OK;
    if (!automatic)
        rc = use_engine(s, s->o.engine, &chosen, said, e);
    else if (s->job.mpi.rank == 0)
        rc = measure_engine(s, &chosen, said, e);
    if (automatic && yk_job_has_peers(&s->job)) {
        struct choice *all = calloc((size_t)s->job.mpi.size, sizeof *all);
        if (all == NULL)
            return yk_fail_memory(e, (size_t)s->job.mpi.size * sizeof *all);
        mine.code = (int32_t)rc;
        snprintf(mine.engine, sizeof mine.engine, "%s", chosen);
        if (rc != YK_OK && e != NULL)
            snprintf(mine.text, sizeof mine.text, "%s", e->text);
        rc = yk_mpi_agree(&mine, sizeof mine, all, e);
        if (rc == YK_OK && all[0].code != YK_OK)
            rc = yk_fail(e, (yk_code)all[0].code, "rank 0: %.480s", all[0].text);
        mine = all[0];
        free(all);
        chosen = mine.engine;
        if (rc == YK_OK && s->job.mpi.rank != 0)
            rc = use_engine(s, chosen, &chosen, said, e);
    }
    if (rc == YK_OK && automatic)
        rc = yk_opts_set(&s->opts, "engine", chosen, YK_COMMAND_LINE, e);
    if (rc == YK_OK && said[0] != '\0' && s->job.mpi.rank == 0)
        yk_log_line(s->log, YK_DEBUG, "%s", said);
    return rc;
}

yk_code yk_session_prepare(struct yk_session *s, struct yk_error *e)
{
    yk_code rc = YK_OK;
    char said[256] = "";
    if (s->ops->prepare == NULL)
        return YK_OK;
    for (unsigned i = 0; i < s->crew.locals && rc == YK_OK; i++)
        rc = s->ops->prepare(s->crew.local[i].work, largest_shard(s), true, said, e);
    if (rc == YK_OK && said[0] != '\0')
        yk_log_line(s->log, YK_DEBUG, "%s", said);
    return rc;
}
