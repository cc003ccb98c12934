/* net.c - fuzz target: any bytes either are a net, and then keep the promises of net.h, or give one
 * sentence with a place. */
#include "model/net/net.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool promise)
{
    if (!promise)
        abort();
}

static uint64_t numbers(struct yk_shape s)
{
    return (uint64_t)s.c * s.h * s.w;
}

/* Layers hand on what they get, and every size is what a program may multiply. */
static void check_layers(const struct yk_net *net)
{
    uint64_t weights = 0, flops = 0;
    struct yk_shape now = net->input;
    for (unsigned i = 0; i < net->layers; i++) {
        const struct yk_layer *l = &net->layer[i];
        must(memcmp(&l->in, &now, sizeof now) == 0 && l->kind < YK_LAYER_COUNT && l->line >= 1 &&
             l->column >= 1);
        must(numbers(l->out) >= 1 && numbers(l->out) <= INT32_MAX &&
             memchr(l->name, '\0', sizeof l->name) != NULL);
        must(l->kernel[0] >= 1 && l->kernel[1] >= 1 && l->stride[0] >= 1 && l->stride[1] >= 1 &&
             l->groups >= 1);
        must(l->pad[0] < l->kernel[0] && l->pad[1] < l->kernel[1] && l->pad[2] < l->kernel[0] &&
             l->pad[3] < l->kernel[1]);
        weights += l->weights;
        flops += l->flops;
        now = l->out;
    }
    must(weights == net->weights && flops == net->flops && now.c == net->classes &&
         net->classes >= 2);
    must(net->layer[net->layers - 1].kind == YK_LAYER_softmax);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static struct yk_view view[4 * YK_NET_LAYERS];
    struct yk_net net;
    struct yk_params p;
    struct yk_error e = {0};
    yk_code rc = yk_net_parse("fuzz.net", (const char *)bytes, n, &net, &e);
    if (rc != YK_OK) {
        must(rc == YK_USAGE && e.code == rc && strstr(e.text, "fuzz.net") != NULL &&
             net.layer == NULL && net.setting == NULL);
        return 0;
    }
    must(net.layers >= 1 && net.layers <= YK_NET_LAYERS && numbers(net.input) <= INT32_MAX);
    must(net.text_length == n && memcmp(net.text, bytes, n) == 0);
    check_layers(&net);
    unsigned views = yk_net_views(&net, view), settings = 0;
    must(views <= 4 * net.layers);
    if (views > 0) {
        must(yk_params_layout(&p, view, views, &e) ==
             YK_OK); /* no two names alike, no shape too large */
        must(p.weights >= net.weights);
        yk_params_release(&p);
    }
    while (net.setting[settings] != NULL)
        must(strlen(net.setting[settings++]) > 0);
    must(settings % 2 == 0);
    yk_net_release(&net);
    return 0;
}
