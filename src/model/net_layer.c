/* net_layer.c - reads the lines of a .net file that are layers; see net_line.h.
 * What a layer takes is data: KINDS says what must follow its name, OPTIONS what may, in any order. */
#include "model/net_line.h"

#include "base/opt.h"

#include <stdio.h>
#include <string.h>

/* --- what a layer may say after what it must: one function a word --- */

static yk_code read_stride(struct yk_net_line *r, struct yk_layer *l)
{
    return yk_take_pair(r, "stride", 1, l->stride);
}

/* 2, 2x1 (above and below, left and right) or 0x0x1x1 (top, left, bottom, right) */
static yk_code read_pad(struct yk_net_line *r, struct yk_layer *l)
{
    unsigned n = 0, at = r->at;
    yk_code rc = yk_take_sizes(r, "pad", 0, l->pad, 4, &n);
    if (rc != YK_OK)
        return rc;
    if (n == 3) {
        r->at = at;
        return YK_LINE_FAIL(r, "pad is '%.40s': one, two or four numbers are possible",
                            yk_next_word(r));
    }
    if (n == 1)
        l->pad[1] = l->pad[0];
    if (n < 4) {
        l->pad[2] = l->pad[0];
        l->pad[3] = l->pad[1];
    }
    return YK_OK;
}

static yk_code read_groups(struct yk_net_line *r, struct yk_layer *l)
{
    return yk_take_size(r, "groups", 1, &l->groups);
}

static yk_code read_bias(struct yk_net_line *r, struct yk_layer *l)
{
    if (yk_next_word(r) != NULL && strcmp(yk_next_word(r), "none") == 0) {
        l->bias = false;
        r->at++;
        return YK_OK;
    }
    return yk_take_number(r, "bias", -1e6, 1e6, &l->bias_start);
}

static yk_code read_init(struct yk_net_line *r, struct yk_layer *l)
{
    const char *p = yk_next_word(r);
    if (p == NULL || !yk_choice_has("he|glorot|zero|normal", p))
        return YK_LINE_FAIL(r, "init is '%.40s': he, glorot, zero or normal X are possible",
                            p != NULL ? p : "");
    snprintf(l->init, sizeof l->init, "%s", p);
    l->init_said = true;
    r->at++;
    return strcmp(l->init, "normal") == 0
               ? yk_take_number(r, "the deviation after 'normal'", 1e-12, 1e6, &l->init_scale)
               : YK_OK;
}

static yk_code read_alpha(struct yk_net_line *r, struct yk_layer *l)
{
    return yk_take_number(r, "alpha", 0, 1e6, &l->alpha);
}

static yk_code read_beta(struct yk_net_line *r, struct yk_layer *l)
{
    return yk_take_number(r, "beta", 0, 100, &l->beta);
}

static yk_code read_k(struct yk_net_line *r, struct yk_layer *l)
{
    return yk_take_number(r, "k", 1e-6, 1e6, &l->k);
}

static yk_code read_momentum(struct yk_net_line *r, struct yk_layer *l)
{
    return yk_take_number(r, "momentum", 0, 0.999999, &l->momentum);
}

static yk_code read_eps(struct yk_net_line *r, struct yk_layer *l)
{
    return yk_take_number(r, "eps", 1e-12, 1, &l->eps);
}

static yk_code read_name(struct yk_net_line *r, struct yk_layer *l)
{
    return yk_take_name(r, "name", l->name, sizeof l->name);
}

#define OF(kind) (1u << YK_LAYER_##kind)
#define WINDOWS (OF(conv) | OF(maxpool) | OF(avgpool))
#define PRODUCTS (OF(conv) | OF(dense))
static const struct {
    const char *word;
    uint32_t kinds;
    yk_code (*read)(struct yk_net_line *r, struct yk_layer *l);
} OPTIONS[] = {
    {"stride", WINDOWS, read_stride},
    {"pad", WINDOWS, read_pad},
    {"groups", OF(conv), read_groups},
    {"bias", PRODUCTS, read_bias},
    {"init", PRODUCTS, read_init},
    {"alpha", OF(lrn), read_alpha},
    {"beta", OF(lrn), read_beta},
    {"k", OF(lrn), read_k},
    {"momentum", OF(batchnorm), read_momentum},
    {"eps", OF(batchnorm), read_eps},
    {"name", UINT32_MAX, read_name},
};
enum { N_OPTIONS = sizeof OPTIONS / sizeof *OPTIONS };

/* --- what a layer must say: one function a kind that must say anything --- */

static yk_code read_window(struct yk_net_line *r, struct yk_layer *l)
{
    yk_code rc = yk_take_pair(r, "the window", 1, l->kernel);
    if (rc == YK_OK && l->kind != YK_LAYER_conv)
        memcpy(l->stride, l->kernel, sizeof l->stride);
    return rc;
}

static yk_code read_conv(struct yk_net_line *r, struct yk_layer *l)
{
    yk_code rc = yk_take_size(r, "the number of channels", 1, &l->out.c);
    return rc == YK_OK ? read_window(r, l) : rc;
}

static yk_code read_dense(struct yk_net_line *r, struct yk_layer *l)
{
    return yk_take_size(r, "the number of outputs", 1, &l->out.c);
}

static yk_code read_lrn(struct yk_net_line *r, struct yk_layer *l)
{
    yk_code rc = yk_take_size(r, "the number of channels", 1, &l->size);
    if (rc == YK_OK && l->size % 2 == 0) {
        r->at--;
        return YK_LINE_FAIL(
            r, "the number of channels is %u: lrn takes an odd one, as many before as behind",
            l->size);
    }
    return rc;
}

static yk_code read_dropout(struct yk_net_line *r, struct yk_layer *l)
{
    return yk_take_number(r, "the share to drop", 0, 0.999, &l->rate);
}

static yk_code (*const KINDS[YK_LAYER_COUNT])(struct yk_net_line *r, struct yk_layer *l) = {
    [YK_LAYER_conv] = read_conv,      [YK_LAYER_maxpool] = read_window,
    [YK_LAYER_avgpool] = read_window, [YK_LAYER_dense] = read_dense,
    [YK_LAYER_lrn] = read_lrn,        [YK_LAYER_dropout] = read_dropout,
};

static yk_code unknown_option(struct yk_net_line *r, enum yk_layer_kind kind)
{
    const char *known[N_OPTIONS];
    size_t n = 0;
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (OPTIONS[i].kinds & (1u << kind))
            known[n++] = OPTIONS[i].word;
    const char *near = yk_nearest(yk_next_word(r), known, n, sizeof *known);
    YK_LINE_FAIL(r, "%s does not know '%.40s'", yk_layer_name(kind), yk_next_word(r));
    if (near != NULL)
        yk_hint(r->e, "did you mean '%s'?", near);
    return YK_USAGE;
}

/* option value option value ..., to the end of the line */
static yk_code read_options(struct yk_net_line *r, struct yk_layer *l)
{
    uint32_t seen = 0;
    while (yk_next_word(r) != NULL) {
        size_t i = 0;
        while (i < N_OPTIONS && (strcmp(OPTIONS[i].word, yk_next_word(r)) != 0 ||
                                 !(OPTIONS[i].kinds & (1u << l->kind))))
            i++;
        if (i == N_OPTIONS)
            return unknown_option(r, l->kind);
        if (seen & (1u << i))
            return YK_LINE_FAIL(r, "'%s' stands twice in one line", yk_next_word(r));
        seen |= 1u << i;
        r->at++;
        yk_code rc = OPTIONS[i].read(r, l);
        if (rc != YK_OK)
            return rc;
    }
    return YK_OK;
}

yk_code yk_net_layer(struct yk_net_line *r, enum yk_layer_kind kind, unsigned nth,
                     struct yk_layer *l)
{
    *l = (struct yk_layer){.kind = kind,
                           .line = r->number,
                           .column = yk_line_column(r),
                           .kernel = {1, 1},
                           .stride = {1, 1},
                           .groups = 1,
                           .bias = kind == YK_LAYER_conv || kind == YK_LAYER_dense,
                           .alpha = 1e-4f,
                           .beta = 0.75f,
                           .k = 1,
                           .momentum = 0.9f,
                           .eps = 1e-5f};
    snprintf(l->name, sizeof l->name, "%s%u", yk_layer_name(kind), nth);
    r->at++;
    yk_code rc = KINDS[kind] != NULL ? KINDS[kind](r, l) : YK_OK;
    return rc == YK_OK ? read_options(r, l) : rc;
}
