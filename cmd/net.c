/* net.c - `yoke net show`: the layers of a .net file, with their shapes, parameters, operations and
 * memory.
 *
 * MEMORY is what a forward pass leaves for the backward pass: four bytes for each number that a
 * layer puts out; flatten adds nothing to its input. An engine may need less (a relu in the place
 * of its convolution), and keeps as much again for gradients. */
#include "cmd/cmd.h"

#include "base/buf.h"
#include "base/text.h"
#include "model/net/net.h"
#include "train/net_settings.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static uint64_t memory_of(const struct yk_layer *l)
{
    return l->kind == YK_LAYER_flatten ? 0
                                       : sizeof(float) * (uint64_t)l->out.c * l->out.h * l->out.w;
}

static uint64_t memory_of_all(const struct yk_net *n)
{
    uint64_t sum = 0; /* of 512 layers of less than 2^33 bytes */
    for (unsigned i = 0; i < n->layers; i++)
        sum += memory_of(&n->layer[i]);
    return sum;
}

/* The batch size that the net itself asks for; 0 if there is none. */
static uint64_t batch_of(const struct yk_net *n)
{
    for (size_t i = 0; n->setting[i] != NULL; i += 2)
        if (strcmp(n->setting[i], "batch") == 0)
            return strtoull(n->setting[i + 1], NULL, 10);
    return 0;
}

/* 1429425328 as 1.43 G */
static const char *rounded(uint64_t v, char out[24])
{
    static const char *const UNIT[] = {"", " k", " M", " G", " T", " P", " E"};
    double d = (double)v;
    unsigned u = 0;
    for (; d >= 999.5 && u < 6; u++)
        d /= 1000;
    snprintf(out, 24, u == 0 ? "%.0f%s" : "%.3g%s", d, UNIT[u]);
    return out;
}

static const char *shape_text(struct yk_shape s, char out[40])
{
    if (s.h == 1 && s.w == 1)
        snprintf(out, 40, "%u", s.c);
    else
        snprintf(out, 40, "%ux%ux%u", s.h, s.w, s.c);
    return out;
}

/* A layer as a line of the file, without words that the file may leave out. */
static void describe(const struct yk_layer *l, struct yk_buf *out)
{
    bool window =
        l->kind == YK_LAYER_conv || l->kind == YK_LAYER_maxpool || l->kind == YK_LAYER_avgpool;
    const uint32_t *s = l->stride, *k = l->kernel, *p = l->pad, usual[2] = {1, 1};
    yk_buf_text(out, yk_layer_name(l->kind));
    if (window)
        yk_buf_format(out, " %ux%u", k[0], k[1]);
    if (window && memcmp(s, l->kind == YK_LAYER_conv ? usual : k, sizeof usual) != 0)
        yk_buf_format(out, s[0] == s[1] ? " stride %u" : " stride %ux%u", s[0], s[1]);
    if (p[0] == p[2] && p[1] == p[3] && (p[0] | p[1]) != 0)
        yk_buf_format(out, p[0] == p[1] ? " pad %u" : " pad %ux%u", p[0], p[1]);
    else if ((p[0] | p[1] | p[2] | p[3]) != 0)
        yk_buf_format(out, " pad %ux%ux%ux%u", p[0], p[1], p[2], p[3]);
    if (l->groups > 1)
        yk_buf_format(out, " groups %u", l->groups);
    if (l->kind == YK_LAYER_lrn)
        yk_buf_format(out, " %u", l->size);
    if (l->kind == YK_LAYER_dropout)
        yk_buf_format(out, " %g", (double)l->rate);
}

static void row(struct yk_buf *out, const struct yk_layer *l)
{
    struct yk_buf what = {0};
    char shape[40], weights[32], flops[24], memory[24];
    describe(l, &what);
    yk_buf_format(out, "%-12s %-28s %13s %13s %9s %10s\n", l->name,
                  what.data != NULL ? what.data : "", shape_text(l->out, shape),
                  l->weights > 0 ? yk_count_text(l->weights, weights) : "-",
                  l->flops > 0 ? rounded(l->flops, flops) : "-",
                  memory_of(l) > 0 ? yk_size_text(memory_of(l), memory) : "-");
    out->failed |= what.failed;
    yk_buf_release(&what);
}

static void print_table(const struct yk_net *n, struct yk_buf *out)
{
    char shape[40], weights[32], flops[24], memory[24];
    uint64_t batch = batch_of(n);
    yk_buf_format(out, "%s: %u layers, %s in, %u classes out\n\n", n->name, n->layers,
                  shape_text(n->input, shape), n->classes);
    yk_buf_format(out, "%-12s %-28s %13s %13s %9s %10s\n", "layer", "", "out", "parameters",
                  "FLOPs", "memory");
    for (unsigned i = 0; i < n->layers; i++)
        row(out, &n->layer[i]);
    yk_buf_format(out, "%-12s %-28s %13s %13s %9s %10s\n\n", "total", "", "",
                  yk_count_text(n->weights, weights), rounded(n->flops, flops),
                  yk_size_text(memory_of_all(n), memory));
    yk_buf_format(out, "parameters  %s\n", yk_size_text(sizeof(float) * n->weights, memory));
    yk_buf_text(out, "FLOPs       of a forward pass for one example; training takes about three "
                     "times as many\n");
    if (batch > 0 && memory_of_all(n) <= UINT64_MAX / batch)
        yk_buf_format(
            out, "memory      of the outputs of layers for one example; %s for a batch of %llu\n",
            yk_size_text(batch * memory_of_all(n), memory), (unsigned long long)batch);
    for (size_t i = 0; n->setting[i] != NULL; i += 2)
        yk_buf_format(out, "%s --%s %s%s", i == 0 ? "options    " : "", n->setting[i],
                      n->setting[i + 1], n->setting[i + 2] == NULL ? "\n" : "");
}

static json_t *shape_json(struct yk_shape s)
{
    return json_pack("[i, i, i]", (int)s.h, (int)s.w, (int)s.c);
}

static json_t *table_json(const struct yk_net *n)
{
    json_t *layers = json_array(), *options = json_object();
    for (unsigned i = 0; i < n->layers; i++) {
        const struct yk_layer *l = &n->layer[i];
        json_array_append_new(
            layers, json_pack("{s:s, s:s, s:o, s:o, s:I, s:I, s:I}", "name", l->name, "kind",
                              yk_layer_name(l->kind), "in", shape_json(l->in), "out",
                              shape_json(l->out), "parameters", (json_int_t)l->weights, "flops",
                              (json_int_t)l->flops, "memory_bytes", (json_int_t)memory_of(l)));
    }
    for (size_t i = 0; n->setting[i] != NULL; i += 2)
        json_object_set_new(options, n->setting[i], json_string(n->setting[i + 1]));
    return json_pack("{s:s, s:o, s:I, s:I, s:I, s:I, s:o, s:o}", "net", n->name, "input",
                     shape_json(n->input), "classes", (json_int_t)n->classes, "parameters",
                     (json_int_t)n->weights, "flops", (json_int_t)n->flops, "memory_bytes",
                     (json_int_t)memory_of_all(n), "layers", layers, "options", options);
}

static yk_code show(const struct yk_net *n, bool as_json, struct yk_error *e)
{
    struct yk_buf text = {0};
    yk_code rc = YK_OK;
    if (as_json) {
        json_t *j = table_json(n);
        if (j == NULL)
            return yk_fail_memory(e, 0);
        json_dumpf(j, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(j);
        return YK_OK;
    }
    print_table(n, &text);
    if (text.failed)
        rc = yk_fail_memory(e, text.len);
    else
        fwrite(text.data, 1, text.len, stdout); /* main looks for errors */
    yk_buf_release(&text);
    return rc;
}

struct net_options {
    char *config;
    bool json;
    bool quiet;
};

#define AT(f) offsetof(struct net_options, f)
static const struct yk_opt TABLE[] = {
    {"config", .field = AT(config)},
    {"json", .field = AT(json)},
    {"quiet", .field = AT(quiet)},
    {0},
};

static yk_code run(struct call *call, struct yk_error *e)
{
    const struct net_options *o = call->values;
    struct yk_net n = {0};
    if (call->words == 0 || strcmp(call->word[0], "show") != 0) {
        yk_fail(e, YK_USAGE,
                call->words == 0 ? "'yoke net' needs a word: show"
                                 : "'yoke net %.40s' is unknown: show",
                call->words == 0 ? "" : call->word[0]);
        yk_hint(e, "'yoke net show lenet' prints the layers of LeNet");
        return YK_USAGE;
    }
    if (call->words < 2) {
        yk_fail(e, YK_USAGE, "which net?");
        yk_hint(e, "name a .net file, or one that comes with yoke: lenet, alexnet, ...");
        return YK_USAGE;
    }
    yk_code rc = yk_net_read(call->word[1], &n, e);
    if (rc == YK_OK)
        rc = yk_net_settings_check(call->word[1], &n, e);
    if (rc == YK_OK)
        rc = show(&n, o->json, e);
    yk_net_release(&n);
    return rc;
}

static void list(FILE *out)
{
    for (const struct yk_net_file *f = yk_net_files; f->name != NULL; f++) {
        struct yk_net n;
        char weights[32], shape[40];
        if (yk_net_read(f->name, &n, NULL) != YK_OK)
            continue;
        fprintf(out, "  %-14s %s in, %u classes, %s parameters\n", f->name,
                shape_text(n.input, shape), n.classes, yk_count_text(n.weights, weights));
        yk_net_release(&n);
    }
}

const struct verb verb_net = {
    .name = "net",
    .args = "show FILE|NAME",
    .summary = "show the layers, shapes and sizes of a net",
    .details = "Reads a .net file, or one of the nets that come with yoke, and prints for each\n"
               "layer the shape of its output, its parameters, the floating-point operations\n"
               "of a forward pass for one example, and the memory of its output. A file has\n"
               "one layer per line:\n"
               "\n"
               "  net digits\n"
               "  input 28x28x1\n"
               "  conv 6 5x5 pad 2\n"
               "  relu\n"
               "  maxpool 2x2\n"
               "  dense 10\n"
               "  softmax\n"
               "  train batch 64 lr 0.05\n"
               "\n"
               "docs/nets.md has all layers. 'yoke train' takes the same files and names:",
    .examples = "yoke net show alexnet\n"
                "yoke net show digits.net --json",
    .list = list,
    .choices = "show",
    .most = 2,
    .options = TABLE,
    .values = sizeof(struct net_options),
    .run = run,
};
