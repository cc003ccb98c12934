/* recipe.c - how the parameters move: from --optimizer, --lr and the like to the recipe that every owner follows. What would be parsed and
 * ignored is refused here. */
#include "train/session.h"

#include <stdlib.h>
#include <string.h>

/* What is for dense models, or for a net, and would be parsed and ignored elsewhere. */
static yk_code check_dense(const struct yk_session *s, struct yk_error *e)
{
    static const char *const DENSE[] = {"weight-decay",      "bias-lr",       "bias-momentum",
                                        "bias-weight-decay", "bias-schedule", "clip"};
    for (size_t i = 0; s->ops->keys != NULL && i < sizeof DENSE / sizeof DENSE[0]; i++)
        if (yk_opts_typed(&s->opts, DENSE[i])) {
            yk_fail(e, YK_USAGE, "--%s means nothing to %s", DENSE[i], s->model_name);
            yk_hint(e, "a step may not look at weights that it does not touch; --l1 and --l2 are "
                       "caught up later");
            return YK_USAGE;
        }
    return YK_OK;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* What is updated in another way than the weights: biases, if anything about them differs, and a net's statistics. */
static enum yk_group group_of(const struct yk_session *s, const struct yk_view *v, bool own_biases)
{
    if (own_biases && ends_with(v->name, ".bias"))
        return YK_BIASES;
    bool statistic =
        s->ops->open_net != NULL && (ends_with(v->name, ".mean") || ends_with(v->name, ".var"));
    return statistic ? YK_STATISTICS : YK_WEIGHTS;
}

yk_code yk_session_groups(struct yk_session *s, struct yk_error *e)
{
    struct yk_recipe *r = &s->crew.recipe;
    const struct yk_opts *o = &s->opts;
    static const char *const BIAS[] = {"bias-lr", "bias-momentum", "bias-weight-decay",
                                       "bias-schedule"};
    bool own = false;
    unsigned biases = 0;
    for (size_t i = 0; i < sizeof BIAS / sizeof BIAS[0]; i++)
        own = own || yk_opts_given(o, BIAS[i]);
    if (r->sparse)
        return YK_OK;
    r->bias.lr = s->o.bias_lr > 0 ? s->o.bias_lr : r->lr;
    r->bias.momentum =
        yk_opts_given(o, "bias-momentum") ? (float)s->o.bias_momentum : r->constants.momentum;
    r->bias.decay =
        yk_opts_given(o, "bias-weight-decay") ? (float)s->o.bias_weight_decay : r->constants.decay;
    s->span = calloc(s->params.views, sizeof *s->span);
    if (s->span == NULL)
        return yk_fail_memory(e, s->params.views * sizeof *s->span);
    for (size_t i = 0; i < s->params.views; i++) {
        const struct yk_view *v = &s->params.view[i]; /* sorted by name, and so by place */
        enum yk_group group = group_of(s, v, own);
        biases += group == YK_BIASES;
        if (group != YK_WEIGHTS)
            s->span[r->spans++] =
                (struct yk_span){.lo = v->at, .hi = v->at + v->count, .group = group};
    }
    r->span = s->span;
    for (size_t i = 0; biases == 0 && i < sizeof BIAS / sizeof BIAS[0]; i++)
        if (yk_opts_typed(o, BIAS[i]))
            return yk_fail(e, YK_USAGE, "--%s means nothing to %s, which has no biases", BIAS[i],
                           s->model_name);
    return yk_schedule_parse(s->o.bias_schedule != NULL ? s->o.bias_schedule : s->o.schedule,
                             &r->bias.schedule, e);
}

yk_code yk_session_recipe(struct yk_session *s, struct yk_error *e)
{
    const struct yk_update update = {.momentum = (float)s->o.momentum,
                                     .beta2 = (float)s->o.beta2,
                                     .eps = (float)s->o.eps,
                                     .l1 = (float)s->o.l1,
                                     .l2 = (float)s->o.l2,
                                     .decay = (float)s->o.weight_decay,
                                     .beta = (float)s->o.ftrl_beta};
    s->crew.recipe = (struct yk_recipe){.optimizer = yk_optimizer_find(s->o.optimizer),
                                        .lr = s->o.lr,
                                        .constants = update,
                                        .clip = (float)s->o.clip,
                                        .sparse = s->ops->keys != NULL};
    yk_code rc = check_dense(s, e);
    return rc == YK_OK ? yk_schedule_parse(s->o.schedule, &s->crew.recipe.schedule, e) : rc;
}
