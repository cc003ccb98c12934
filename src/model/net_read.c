/* net_read.c - reads .net files; see net.h, and docs/nets.md for the grammar.
 *
 *     net NAME                                             first; a name for runs and reports
 *     input HxWxC [mean M ...] [std S ...]
 *     LAYER [what it must have] [option value ...]         in the order of the data's way; the last one is softmax
 *     train [biases] OPTION VALUE [OPTION VALUE ...]       anywhere after `net`
 *
 * One layer a line; words are separated by blanks, and # makes the rest of a line a comment. Words are net_line.c's, layers net_layer.c's,
 * shapes net_shape.c's.
 * LIMITS: a file of 1 MB, lines of 64 words, words of 255 characters, 512 layers, 64 settings; sizes up to 2^20. */
#include "model/net.h"

#include "base/file.h"
#include "base/opt.h"
#include "model/net_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 20, SETTINGS_MOST = 64 };

struct reader {
    struct yk_net_line line;
    struct yk_net *net;
    unsigned settings;
    unsigned kinds[YK_LAYER_COUNT]; /* layers of each kind so far */
    bool named;                     /* the 'net' line was there, */
    bool input;                     /* and the 'input' line */
};

#define FAIL(r, ...) YK_LINE_FAIL(&(r)->line, __VA_ARGS__)
static const char *next(const struct reader *r)
{
    return yk_next_word(&r->line);
}

static yk_code read_layer(struct reader *r, enum yk_layer_kind kind)
{
    struct yk_net *net = r->net;
    if (net->layers == YK_NET_LAYERS)
        return FAIL(r, "a net has at most %d layers", YK_NET_LAYERS);
    struct yk_layer *l = &net->layer[net->layers];
    yk_code rc = yk_net_layer(&r->line, kind, ++r->kinds[kind], l);
    for (unsigned i = 0; rc == YK_OK && i < net->layers; i++)
        if (strcmp(net->layer[i].name, l->name) == 0) {
            rc =
                yk_net_fail(r->line.e, r->line.what, l->line, l->column,
                            "the layer in line %u is called '%s' too", net->layer[i].line, l->name);
            yk_hint(r->line.e, "'name X' gives a layer another name");
        }
    if (rc == YK_OK)
        net->layers++;
    return rc;
}

static yk_code read_net(struct reader *r)
{
    if (r->named)
        return FAIL(r, "a second 'net' line");
    r->named = true;
    r->line.at++;
    return yk_take_name(&r->line, "the net's name", r->net->name, sizeof r->net->name);
}

/* As many numbers as the input has channels, or one for all of them. */
static yk_code read_channels(struct reader *r, const char *of, double least, float *out)
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

static yk_code read_input(struct reader *r)
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

/* A pair is what the user would type after two dashes. */
static yk_code add_setting(struct reader *r, const char *group, const char *option,
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

static yk_code read_train(struct reader *r)
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
    yk_code (*read)(struct reader *r);
} LINES[] = {{"net", read_net}, {"input", read_input}, {"train", read_train}};
enum { N_LINES = sizeof LINES / sizeof *LINES };

static yk_code unknown_line(struct reader *r)
{
    const char *known[N_LINES + YK_LAYER_COUNT];
    size_t n = 0;
    for (size_t i = 0; i < N_LINES; i++)
        known[n++] = LINES[i].word;
    for (int i = 0; i < YK_LAYER_COUNT; i++)
        known[n++] = yk_layer_name((enum yk_layer_kind)i);
    const char *near = yk_nearest(next(r), known, n, sizeof *known);
    FAIL(r, "'%.40s' is no layer", next(r));
    if (near != NULL)
        yk_hint(r->line.e, "did you mean '%s'?", near);
    else
        yk_hint(r->line.e, "layers are conv, maxpool, avgpool, dense, relu, tanh, sigmoid, lrn, "
                           "dropout, batchnorm, flatten and softmax");
    return YK_USAGE;
}

static yk_code read_words(struct reader *r)
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
        return FAIL(r, "the line goes on with '%.40s', which means nothing here", next(r));
    return rc;
}

static yk_code read_lines(struct reader *r, const char *text, size_t n)
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
    struct reader r = {.line = {.what = what, .e = e}, .net = &net};
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
    for (size_t i = 0; n->setting != NULL && n->setting[i] != NULL; i++)
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
    const char *near = yk_nearest(what, yk_net_files, n, sizeof yk_net_files[0]);
    if (near != NULL)
        yk_hint(e, "did you mean '%s'?", near);
    else
        yk_hint(e, "a file, or one of %.250s", names);
    return YK_USAGE;
}

yk_code yk_net_read(const char *what, struct yk_net *out, struct yk_error *e)
{
    char *text = NULL;
    size_t n = 0;
    *out = (struct yk_net){0};
    bool file = strchr(what, '/') != NULL || strstr(what, ".net") != NULL;
    for (size_t i = 0; !file && yk_net_files[i].name != NULL; i++)
        if (strcmp(yk_net_files[i].name, what) == 0)
            return yk_net_parse(what, yk_net_files[i].text, strlen(yk_net_files[i].text), out, e);
    if (!file && !yk_exists(what))
        return unknown_net(what, e);
    yk_code rc = yk_file_read(what, FILE_MOST, &text, &n, e);
    if (rc == YK_OK)
        rc = yk_net_parse(what, text, n, out, e);
    else if (e != NULL && rc == YK_DATA)
        e->code = rc = YK_USAGE; /* what to train is part of the call, not of the data */
    free(text);
    return rc;
}
