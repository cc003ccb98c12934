/* recipe.c - how the parameters move: from --optimizer, --lr and the like to the recipe that every
 * owner follows. Options that would be parsed and ignored are refused. */
#include "train/recipe.h"

#include <stdlib.h>
#include <string.h>

static yk_code check_dense(const struct yk_opts *opts, const char *name, struct yk_error *e)
{
    static const char *const DENSE[] = {"weight-decay",      "bias-lr",       "bias-momentum",
                                        "bias-weight-decay", "bias-schedule", "clip"};
    for (size_t i = 0; i < sizeof DENSE / sizeof DENSE[0]; i++)
        if (yk_opts_typed(opts, DENSE[i])) {
            yk_fail(e, YK_USAGE, "--%s means nothing to %s", DENSE[i], name);
            yk_hint(e, "a step only changes the weights that it touches; --l1 and --l2 make up for "
                       "the others later");
            return YK_USAGE;
        }
    return YK_OK;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Biases are a group of their own if any of their options differs; so are a net's statistics. */
static enum yk_group group_of(const struct yk_view *v, bool net, bool own_biases)
{
    if (own_biases && ends_with(v->name, ".bias"))
        return YK_BIASES;
    bool statistic = net && (ends_with(v->name, ".mean") || ends_with(v->name, ".var"));
    return statistic ? YK_STATISTICS : YK_WEIGHTS;
}

static const char *const BIAS[] = {"bias-lr", "bias-momentum", "bias-weight-decay",
                                   "bias-schedule"};
enum { BIAS_OPTIONS = sizeof BIAS / sizeof BIAS[0] };

yk_code yk_recipe_groups(struct yk_recipe *r, const struct yk_opts *opts,
                         const struct yk_model_ops *ops, const char *name, struct yk_state *s,
                         struct yk_error *e)
{
    const struct yk_options *o = opts->values;
    bool own = false;
    unsigned biases = 0;
    if (r->sparse)
        return YK_OK;
    for (size_t i = 0; i < BIAS_OPTIONS; i++)
        own = own || yk_opts_given(opts, BIAS[i]);
    r->bias.lr = o->bias_lr > 0 ? o->bias_lr : r->lr;
    r->bias.momentum =
        yk_opts_given(opts, "bias-momentum") ? (float)o->bias_momentum : r->constants.momentum;
    r->bias.decay =
        yk_opts_given(opts, "bias-weight-decay") ? (float)o->bias_weight_decay : r->constants.decay;
    s->span = calloc(s->params.views, sizeof *s->span);
    if (s->span == NULL)
        return yk_fail_memory(e, s->params.views * sizeof *s->span);
    for (size_t i = 0; i < s->params.views; i++) {
        const struct yk_view *v = &s->params.view[i]; /* sorted by name, and so by place */
        enum yk_group group = group_of(v, ops->open_net != NULL, own);
        biases += group == YK_BIASES;
        if (group != YK_WEIGHTS)
            s->span[r->spans++] =
                (struct yk_span){.lo = v->at, .hi = v->at + v->count, .group = group};
    }
    r->span = s->span;
    if (biases == 0)
        for (size_t i = 0; i < BIAS_OPTIONS; i++)
            if (yk_opts_typed(opts, BIAS[i]))
                return yk_fail(e, YK_USAGE, "--%s means nothing to %s, which has no biases",
                               BIAS[i], name);
    return yk_schedule_parse(o->bias_schedule != NULL ? o->bias_schedule : o->schedule,
                             &r->bias.schedule, e);
}

yk_code yk_recipe_plan(struct yk_recipe *r, const struct yk_opts *opts,
                       const struct yk_model_ops *ops, const char *name, struct yk_error *e)
{
    const struct yk_options *o = opts->values;
    const struct yk_update update = {.momentum = (float)o->momentum,
                                     .beta2 = (float)o->beta2,
                                     .eps = (float)o->eps,
                                     .l1 = (float)o->l1,
                                     .l2 = (float)o->l2,
                                     .decay = (float)o->weight_decay,
                                     .beta = (float)o->ftrl_beta};
    *r = (struct yk_recipe){.optimizer = yk_optimizer_find(o->optimizer),
                            .lr = o->lr,
                            .constants = update,
                            .clip = (float)o->clip,
                            .sparse = ops->keys != NULL};
    yk_code rc = r->sparse ? check_dense(opts, name, e) : YK_OK;
    return rc == YK_OK ? yk_schedule_parse(o->schedule, &r->schedule, e) : rc;
}
