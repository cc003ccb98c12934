/* net_read.c - reads .net files; see net.h, and docs/nets.md for the grammar.
 *
 *     net NAME                                             first; a name for runs and reports
 *     input HxWxC [mean M ...] [std S ...]
 *     LAYER [sizes] [option value ...]                     in their order; the last one is softmax
 *     train [biases] OPTION VALUE [OPTION VALUE ...]       anywhere after `net`
 *
 * One layer a line; words are separated by blanks, and # makes the rest of a line a comment. Words
 * are net_line.c's, layers those of layer_*.c, shapes net_shape.c's.
 * LIMITS: a file of 1 MB, lines of 64 words, words of 255 characters, 512 layers, 64 settings;
 * sizes up to 2^20. */
#include "base/file.h"
#include "base/opt.h"
#include "model/net/layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 20, SETTINGS_MOST = 64, OPTIONS_MOST = 32 /* of a layer */ };

struct net_reader {
    struct yk_net_line line;
    struct yk_net *net;
    unsigned settings;
    unsigned kinds[YK_LAYER_COUNT]; /* layers of each kind so far */
    bool named;                     /* the 'net' line was read */
    bool input;                     /* the 'input' line was read */
};

#define FAIL(r, ...) YK_LINE_FAIL(&(r)->line, __VA_ARGS__)
static const char *next(const struct net_reader *r)
{
    return yk_next_word(&r->line);
}

/* --- layers --- */

static yk_code read_name(struct yk_net_line *r, struct yk_layer *l)
{
    return yk_take_name(r, "name", l->name, sizeof l->name);
}

/* Option i of a kind: its own ones, and behind them the name, which every layer may have. */
static struct yk_layer_option option_at(const struct yk_layer_ops *ops, unsigned i)
{
    static const struct yk_layer_option NAME = {.word = "name", .read = read_name};
    unsigned own = 0;
    while (ops->options != NULL && ops->options[own].word != NULL)
        own++;
    return i < own ? ops->options[i] : i == own ? NAME : (struct yk_layer_option){0};
}

static yk_code unknown_option(struct yk_net_line *r, const struct yk_layer_ops *ops)
{
    const char *known[OPTIONS_MOST];
    size_t n = 0;
    for (; option_at(ops, (unsigned)n).word != NULL; n++)
        known[n] = option_at(ops, (unsigned)n).word;
    const char *nearest = yk_nearest(yk_next_word(r), known, n, sizeof *known);
    YK_LINE_FAIL(r, "%s does not know '%.40s'", ops->name, yk_next_word(r));
    if (nearest != NULL)
        yk_hint(r->e, "did you mean '%s'?", nearest);
    return YK_USAGE;
}

/* option value option value ..., to the end of the line */
static yk_code read_options(struct yk_net_line *r, struct yk_layer *l)
{
    const struct yk_layer_ops *ops = yk_layer_ops(l->kind);
    uint32_t seen = 0;
    while (yk_next_word(r) != NULL) {
        unsigned i = 0;
        struct yk_layer_option o;
        while ((o = option_at(ops, i)).word != NULL && strcmp(o.word, yk_next_word(r)) != 0)
            i++;
        if (o.word == NULL)
            return unknown_option(r, ops);
        if (seen & (1u << i))
            return YK_LINE_FAIL(r, "'%s' stands twice in one line", o.word);
        seen |= 1u << i;
        r->at++;
        yk_code rc = o.read != NULL
                         ? o.read(r, l)
                         : yk_take_number(r, o.word, o.least, o.most, (void *)((char *)l + o.at));
        if (rc != YK_OK)
            return rc;
    }
    return YK_OK;
}

/* The rest of a line that begins with a layer's kind. `nth`: among the layers of this kind, for its
 * name. */
static yk_code read_layer_line(struct yk_net_line *r, enum yk_layer_kind kind, unsigned nth,
                               struct yk_layer *l)
{
    const struct yk_layer_ops *ops = yk_layer_ops(kind);
    *l = (struct yk_layer){.kind = kind,
                           .line = r->number,
                           .column = yk_line_column(r),
                           .kernel = {1, 1},
                           .stride = {1, 1},
                           .groups = 1};
    snprintf(l->name, sizeof l->name, "%s%u", ops->name, nth);
    r->at++;
    yk_code rc = ops->read != NULL ? ops->read(r, l) : YK_OK;
    return rc == YK_OK ? read_options(r, l) : rc;
}

static yk_code read_layer(struct net_reader *r, enum yk_layer_kind kind)
{
    struct yk_net *net = r->net;
    if (net->layers == YK_NET_LAYERS)
        return FAIL(r, "a net has at most %d layers", YK_NET_LAYERS);
    struct yk_layer *l = &net->layer[net->layers];
    yk_code rc = read_layer_line(&r->line, kind, ++r->kinds[kind], l);
    if (rc != YK_OK)
        return rc;
    for (unsigned i = 0; i < net->layers; i++)
        if (strcmp(net->layer[i].name, l->name) == 0) {
            YK_LAYER_FAIL(l, r->line.what, r->line.e, "the layer in line %u is called '%s' too",
                          net->layer[i].line, l->name);
            yk_hint(r->line.e, "'name X' gives a layer another name");
            return YK_USAGE;
        }
    net->layers++;
    return YK_OK;
}

/* --- the other lines --- */

static yk_code read_net(struct net_reader *r)
{
    if (r->named)
        return FAIL(r, "a second 'net' line");
    r->named = true;
    r->line.at++;
    return yk_take_name(&r->line, "the net's name", r->net->name, sizeof r->net->name);
}

/* As many numbers as the input has channels, or one for all of them. */
static yk_code read_channels(struct net_reader *r, const char *of, double least, float *out)
{
    uint32_t channels = r->net->input.c, n = 0;
    float unused;
    if (channels > YK_NET_CHANNELS)
        return FAIL(r, "%s needs an input of at most %d channels", of, YK_NET_CHANNELS);
    r->line.at++;
    while (n < channels && (n == 0 || yk_is_number(next(r), &unused))) {
        yk_code rc = yk_take_number(&r->line, of, least, 1e6, &out[n++]);
        if (rc != YK_OK)
            return rc;
    }
    if (n > 1 && n < channels)
        return FAIL(r, "%s needs one number or %u, one a channel", of, channels);
    for (; n < channels; n++)
        out[n] = out[0];
    r->net->normalized = true;
    return YK_OK;
}

static yk_code read_input(struct net_reader *r)
{
    uint32_t shape[3];
    unsigned n = 0, at = ++r->line.at;
    if (r->input || r->net->layers > 0) {
        r->line.at--;
        return FAIL(r, r->input ? "a second 'input' line" : "'input' stands behind a layer");
    }
    yk_code rc = yk_take_sizes(&r->line, "the input", 1, shape, 3, &n);
    if (rc == YK_OK && n != 3) {
        r->line.at = at;
        return FAIL(r, "the input is '%.40s', not height x width x channels, such as 28x28x1",
                    next(r));
    }
    if (rc != YK_OK)
        return rc;
    r->input = true;
    r->net->input = (struct yk_shape){.h = shape[0], .w = shape[1], .c = shape[2]};
    for (unsigned i = 0; i < YK_NET_CHANNELS; i++)
        r->net->deviation[i] = 1;
    bool mean = false, deviation = false;
    while (rc == YK_OK && next(r) != NULL) {
        bool *which = strcmp(next(r), "mean") == 0  ? &mean
                      : strcmp(next(r), "std") == 0 ? &deviation
                                                    : NULL;
        if (which == NULL)
            return FAIL(r, "input does not know '%.40s': mean and std are possible", next(r));
        if (*which)
            return FAIL(r, "'%s' stands twice in one line", next(r));
        *which = true;
        rc = which == &mean ? read_channels(r, "mean", -1e6, r->net->mean)
                            : read_channels(r, "std", 1e-6, r->net->deviation);
    }
    return rc;
}

/* An option and its value, as a user types them after two dashes. */
static yk_code add_setting(struct net_reader *r, const char *group, const char *option,
                           const char *value)
{
    struct yk_net *net = r->net;
    char *name = NULL, *copy = NULL;
    if (r->settings == SETTINGS_MOST)
        return FAIL(r, "a net has at most %d settings", SETTINGS_MOST);
    if (asprintf(&name, "%s%s", group, option) < 0)
        return yk_fail_memory(r->line.e, strlen(option));
    for (unsigned i = 0; i < r->settings; i++)
        if (strcmp(net->setting[2 * i], name) == 0) {
            free(name);
            return FAIL(r, "line %u sets '%.60s' already", net->setting_line[i], option);
        }
    if ((copy = strdup(value)) == NULL) {
        free(name);
        return yk_fail_memory(r->line.e, strlen(value));
    }
    net->setting[2 * r->settings] = name;
    net->setting[2 * r->settings + 1] = copy;
    net->setting_line[r->settings++] = r->line.number;
    return YK_OK;
}

static yk_code read_train(struct net_reader *r)
{
    const char *group = "";
    yk_code rc = YK_OK;
    r->line.at++;
    if (next(r) != NULL && strcmp(next(r), "biases") == 0) {
        group = "bias-";
        r->line.at++;
    }
    if (next(r) == NULL)
        return FAIL(r, "'train' needs an option and a value, such as 'train lr 0.05'");
    while (rc == YK_OK && next(r) != NULL) {
        if (r->line.at + 1 == r->line.words)
            return FAIL(r, "'%.60s' has no value", next(r));
        rc = add_setting(r, group, next(r), r->line.word[r->line.at + 1].text);
        r->line.at += 2;
    }
    return rc;
}

static const struct {
    const char *word;
    yk_code (*read)(struct net_reader *r);
} LINES[] = {{"net", read_net}, {"input", read_input}, {"train", read_train}};
enum { N_LINES = sizeof LINES / sizeof *LINES };

static void hint_layers(struct yk_error *e)
{
    char names[256] = "";
    size_t used = 0;
    for (unsigned i = 0; i < YK_LAYER_COUNT; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                 i == 0                    ? ""
                                 : i + 1 == YK_LAYER_COUNT ? " and "
                                                           : ", ",
                                 yk_layer_name((enum yk_layer_kind)i));
    yk_hint(e, "layers are %s", names);
}

static yk_code unknown_line(struct net_reader *r)
{
    const char *known[N_LINES + YK_LAYER_COUNT];
    size_t n = 0;
    for (size_t i = 0; i < N_LINES; i++)
        known[n++] = LINES[i].word;
    for (int i = 0; i < YK_LAYER_COUNT; i++)
        known[n++] = yk_layer_name((enum yk_layer_kind)i);
    const char *nearest = yk_nearest(next(r), known, n, sizeof *known);
    FAIL(r, "'%.40s' is no layer", next(r));
    if (nearest != NULL)
        yk_hint(r->line.e, "did you mean '%s'?", nearest);
    else
        hint_layers(r->line.e);
    return YK_USAGE;
}

static yk_code read_words(struct net_reader *r)
{
    yk_code rc = YK_OK;
    size_t i = 0;
    if (!r->named && strcmp(next(r), "net") != 0) {
        FAIL(r, "a net begins with 'net NAME', not with '%.40s'", next(r));
        yk_hint(r->line.e, "'yoke help net' shows an example");
        return YK_USAGE;
    }
    while (i < N_LINES && strcmp(LINES[i].word, next(r)) != 0)
        i++;
    if (i < N_LINES) {
        rc = LINES[i].read(r);
    } else {
        enum yk_layer_kind kind = 0;
        while (kind < YK_LAYER_COUNT && strcmp(yk_layer_name(kind), next(r)) != 0)
            kind++;
        if (kind == YK_LAYER_COUNT)
            return unknown_line(r);
        if (!r->input)
            return FAIL(r, "'%s' stands before the 'input' line", next(r));
        rc = read_layer(r, kind);
    }
    if (rc == YK_OK && next(r) != NULL)
        return FAIL(r, "unexpected '%.40s' at the end of the line", next(r));
    return rc;
}

static yk_code read_lines(struct net_reader *r, const char *text, size_t n)
{
    yk_code rc = YK_OK;
    for (size_t at = 0; rc == YK_OK && at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t length = end != NULL ? (size_t)(end - text) - at : n - at;
        r->line.number++;
        rc = yk_line_cut(&r->line, text + at, length);
        if (rc == YK_OK && r->line.words > 0)
            rc = read_words(r);
        at += length + 1;
    }
    return rc;
}

yk_code yk_net_parse(const char *what, const char *text, size_t n, struct yk_net *out,
                     struct yk_error *e)
{
    struct yk_net net = {0};
    struct net_reader r = {.line = {.what = what, .e = e}, .net = &net};
    yk_code rc;
    *out = net;
    if (n > FILE_MOST)
        return yk_fail(e, YK_USAGE, "'%.200s' has %zu bytes: a net has at most %d", what, n,
                       FILE_MOST);
    net.layer = calloc(YK_NET_LAYERS, sizeof *net.layer);
    net.setting = calloc(2 * SETTINGS_MOST + 1, sizeof *net.setting);
    net.setting_line = calloc(SETTINGS_MOST, sizeof *net.setting_line);
    net.text = malloc(n + 1);
    if (net.layer == NULL || net.setting == NULL || net.setting_line == NULL || net.text == NULL) {
        rc = yk_fail_memory(e, YK_NET_LAYERS * sizeof *net.layer + n);
        goto out_net;
    }
    if (n > 0)
        memcpy(net.text, text, n);
    net.text[n] = '\0';
    net.text_length = n;
    rc = read_lines(&r, text, n);
    if (rc == YK_OK && !r.named) {
        rc = yk_fail(e, YK_USAGE, "'%.200s' is empty: a net begins with 'net NAME'", what);
        yk_hint(e, "'yoke help net' shows an example");
    } else if (rc == YK_OK && !r.input) {
        rc = yk_net_fail(e, what, r.line.number, 1, "the net has no 'input' line");
    }
    if (rc == YK_OK)
        rc = yk_net_shape(what, &net, e);
    if (rc == YK_OK) {
        *out = net;
        return YK_OK;
    }
out_net:
    yk_net_release(&net);
    return rc;
}

void yk_net_release(struct yk_net *n)
{
    if (n->setting != NULL)
        for (size_t i = 0; n->setting[i] != NULL; i++)
            free(n->setting[i]);
    free(n->setting);
    free(n->setting_line);
    free(n->layer);
    free(n->text);
    *n = (struct yk_net){0};
}

static yk_code unknown_net(const char *what, struct yk_error *e)
{
    size_t n = 0, len = 0;
    char names[256] = "";
    for (; yk_net_files[n].name != NULL; n++)
        len += (size_t)snprintf(names + len, len < sizeof names ? sizeof names - len : 0, "%s%s",
                                n > 0 ? ", " : "", yk_net_files[n].name);
    yk_fail(e, YK_USAGE, "there is no net '%.100s'", what);
    const char *nearest = yk_nearest(what, yk_net_files, n, sizeof yk_net_files[0]);
    if (nearest != NULL)
        yk_hint(e, "did you mean '%s'?", nearest);
    else
        yk_hint(e, "give a file, or one of %.240s", names);
    return YK_USAGE;
}

yk_code yk_net_read(const char *what, struct yk_net *out, struct yk_error *e)
{
    char *text = NULL;
    size_t n = 0;
    *out = (struct yk_net){0};
    bool file = strchr(what, '/') != NULL || strstr(what, ".net") != NULL;
    for (size_t i = 0; yk_net_files[i].name != NULL; i++)
        if (strcmp(yk_net_files[i].name, what) == 0)
            return yk_net_parse(what, yk_net_files[i].text, strlen(yk_net_files[i].text), out, e);
    if (!file && !yk_exists(what))
        return unknown_net(what, e);
    yk_code rc = yk_file_read(what, FILE_MOST, &text, &n, e);
    if (rc == YK_OK)
        rc = yk_net_parse(what, text, n, out, e);
    /* what to train is part of the call, not of the data */
    else if (e != NULL && rc == YK_DATA)
        e->code = rc = YK_USAGE;
    free(text);
    return rc;
}
