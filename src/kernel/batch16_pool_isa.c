/* batch16_pool_isa.c - max and average pooling in the layout of batch16.h. Compiled once per
 * instruction set.
 *
 * Forward of max pooling notes which pixel of a window won, one byte a lane, and backward needs
 * nothing else: not the input, which is the largest tensor of a net of this kind. Windows of 2 x 2,
 * side by side, have loops of their own, in which backward writes every pixel once; others may
 * overlap or leave gaps, so they begin with zeros and add.
 * THREADS: see batch16.h. */
#include "kernel/batch16_vec.h"

typedef uint8_t bytes __attribute__((vector_size(WIDTH)));

INLINE void store_index(uint8_t *p, vec_i index)
{
    bytes b = __builtin_convertvector(index, bytes);
    memcpy(p, &b, sizeof b);
}

INLINE vec_i load_index(const uint8_t *p)
{
    bytes b;
    memcpy(&b, p, sizeof b);
    return __builtin_convertvector(b, vec_i);
}

INLINE vec_i all_int(int32_t x)
{
    return x - (vec_i){0};
}

static bool is_plain_2x2(const struct yk_batch16_window *g)
{
    return g->kernel[0] == 2 && g->kernel[1] == 2 && g->stride[0] == 2 && g->stride[1] == 2 &&
           (g->pad[0] | g->pad[1] | g->pad[2] | g->pad[3]) == 0;
}

/* The part of a window that is not border: rows [y0, y1) and columns [x0, x1) of the input, which
 * begin at (top, left) of the window. */
struct view {
    uint32_t y0, y1, x0, x1, top, left;
};

INLINE struct view view_of(const struct yk_batch16_window *g, uint32_t y, uint32_t x)
{
    uint32_t at_y = y * g->stride[0], at_x = x * g->stride[1]; /* counted with the border */
    struct view v = {.top = at_y < g->pad[0] ? g->pad[0] - at_y : 0,
                     .left = at_x < g->pad[1] ? g->pad[1] - at_x : 0};
    v.y0 = at_y + v.top - g->pad[0];
    v.x0 = at_x + v.left - g->pad[1];
    v.y1 = at_y + g->kernel[0] - g->pad[0];
    v.x1 = at_x + g->kernel[1] - g->pad[1];
    v.y1 = v.y1 < g->h ? v.y1 : g->h;
    v.x1 = v.x1 < g->w ? v.x1 : g->w;
    return v;
}

INLINE float share_of(const struct yk_batch16_window *g, struct view v)
{
    return 1.0f /
           (float)(g->include_pad ? g->kernel[0] * g->kernel[1] : (v.y1 - v.y0) * (v.x1 - v.x0));
}

INLINE void challenge(vec x, int32_t k, vec *best, vec_i *index)
{
    vec_i wins = x > *best;
    *index = (vec_i)choose(wins, (vec)all_int(k), (vec)*index);
    *best = choose(wins, x, *best);
}

/* --- max --- */

static void maxpool_2x2(const struct yk_batch16_window *g, const float *in, float *out,
                        uint8_t *index)
{
    const size_t row = (size_t)g->w * LANES;
    for (size_t c = 0; c < g->c; c++)
        for (size_t y = 0; y < g->out_h; y++) {
            const float *from = in + (c * g->h + 2 * y) * row;
            for (size_t x = 0; x < g->out_w; x++, from += 2 * LANES)
                for (size_t part = 0; part < LANES; part += WIDTH, out += WIDTH) {
                    const float *p = from + part;
                    vec best = load(p);
                    vec_i which = {0};
                    challenge(load(p + LANES), 1, &best, &which);
                    challenge(load(p + row), 2, &best, &which);
                    challenge(load(p + row + LANES), 3, &best, &which);
                    store(out, g->relu ? relu(best) : best);
                    if (index != NULL) {
                        store_index(index, which);
                        index += WIDTH;
                    }
                }
        }
}

static void maxpool_any(const struct yk_batch16_window *g, const float *in, float *out,
                        uint8_t *index)
{
    for (size_t c = 0; c < g->c; c++, in += (size_t)g->h * g->w * LANES)
        for (uint32_t oy = 0; oy < g->out_h; oy++)
            for (uint32_t ox = 0; ox < g->out_w; ox++) {
                const struct view v = view_of(g, oy, ox);
                for (size_t part = 0; part < LANES; part += WIDTH, out += WIDTH) {
                    vec best = load(in + ((size_t)v.y0 * g->w + v.x0) * LANES + part);
                    vec_i which = all_int((int32_t)(v.top * g->kernel[1] + v.left));
                    for (uint32_t y = v.y0; y < v.y1; y++)
                        for (uint32_t x = v.x0; x < v.x1; x++)
                            challenge(
                                load(in + ((size_t)y * g->w + x) * LANES + part),
                                (int32_t)((y - v.y0 + v.top) * g->kernel[1] + x - v.x0 + v.left),
                                &best, &which);
                    store(out, g->relu ? relu(best) : best);
                    if (index != NULL) {
                        store_index(index, which);
                        index += WIDTH;
                    }
                }
            }
}

void JOIN(yk_batch16_maxpool_, YK_ISA)(const struct yk_batch16_window *g, const float *in,
                                       float *out, uint8_t *index);
void JOIN(yk_batch16_maxpool_, YK_ISA)(const struct yk_batch16_window *g, const float *in,
                                       float *out, uint8_t *index)
{
    if (is_plain_2x2(g))
        maxpool_2x2(g, in, out, index);
    else
        maxpool_any(g, in, out, index);
}

/* Undoes the relu that pooling did on the way out. */
INLINE vec through_relu(bool fused, vec d, const float *out)
{
    return fused ? choose(load(out) > 0, d, (vec){0}) : d;
}

static void maxpool_back_2x2(const struct yk_batch16_window *g, const float *dout,
                             const uint8_t *index, const float *out, float *din)
{
    const size_t row = (size_t)g->w * LANES;
    for (size_t c = 0; c < g->c; c++)
        for (size_t y = 0; y < g->out_h; y++) {
            float *to = din + (c * g->h + 2 * y) * row;
            for (size_t x = 0; x < g->out_w; x++, to += 2 * LANES)
                for (size_t part = 0; part < LANES;
                     part += WIDTH, dout += WIDTH, out += g->relu ? WIDTH : 0, index += WIDTH) {
                    const vec d = through_relu(g->relu, load(dout), out);
                    const vec_i which = load_index(index);
                    float *p = to + part;
                    store(p, choose(which == 0, d, (vec){0}));
                    store(p + LANES, choose(which == 1, d, (vec){0}));
                    store(p + row, choose(which == 2, d, (vec){0}));
                    store(p + row + LANES, choose(which == 3, d, (vec){0}));
                }
        }
}

static void maxpool_back_any(const struct yk_batch16_window *g, const float *dout,
                             const uint8_t *index, const float *out, float *din)
{
    for (size_t c = 0; c < g->c; c++, din += (size_t)g->h * g->w * LANES)
        for (uint32_t oy = 0; oy < g->out_h; oy++)
            for (uint32_t ox = 0; ox < g->out_w; ox++) {
                const struct view v = view_of(g, oy, ox);
                for (size_t part = 0; part < LANES;
                     part += WIDTH, dout += WIDTH, out += g->relu ? WIDTH : 0, index += WIDTH) {
                    const vec d = through_relu(g->relu, load(dout), out);
                    const vec_i which = load_index(index);
                    for (uint32_t y = v.y0; y < v.y1; y++)
                        for (uint32_t x = v.x0; x < v.x1; x++) {
                            float *p = din + ((size_t)y * g->w + x) * LANES + part;
                            int32_t k =
                                (int32_t)((y - v.y0 + v.top) * g->kernel[1] + x - v.x0 + v.left);
                            store(p, load(p) + choose(which == k, d, (vec){0}));
                        }
                }
            }
}

static void clear_input(const struct yk_batch16_window *g, float *din)
{
    memset(din, 0, sizeof(float) * LANES * g->c * g->h * g->w);
}

void JOIN(yk_batch16_maxpool_back_, YK_ISA)(const struct yk_batch16_window *g, const float *dout,
                                            const uint8_t *index, const float *out, float *din);
void JOIN(yk_batch16_maxpool_back_, YK_ISA)(const struct yk_batch16_window *g, const float *dout,
                                            const uint8_t *index, const float *out, float *din)
{
    bool simple = is_plain_2x2(g);
    if (!simple || g->h != 2 * g->out_h || g->w != 2 * g->out_w)
        clear_input(g, din);
    if (simple)
        maxpool_back_2x2(g, dout, index, out, din);
    else
        maxpool_back_any(g, dout, index, out, din);
}

/* --- average --- */

void JOIN(yk_batch16_avgpool_, YK_ISA)(const struct yk_batch16_window *g, const float *in,
                                       float *out);
void JOIN(yk_batch16_avgpool_, YK_ISA)(const struct yk_batch16_window *g, const float *in,
                                       float *out)
{
    for (size_t c = 0; c < g->c; c++, in += (size_t)g->h * g->w * LANES)
        for (uint32_t oy = 0; oy < g->out_h; oy++)
            for (uint32_t ox = 0; ox < g->out_w; ox++) {
                const struct view v = view_of(g, oy, ox);
                const float scale = share_of(g, v);
                for (size_t part = 0; part < LANES; part += WIDTH, out += WIDTH) {
                    vec sum = {0};
                    for (uint32_t y = v.y0; y < v.y1; y++)
                        for (uint32_t x = v.x0; x < v.x1; x++)
                            sum += load(in + ((size_t)y * g->w + x) * LANES + part);
                    sum *= scale;
                    store(out, g->relu ? relu(sum) : sum);
                }
            }
}

void JOIN(yk_batch16_avgpool_back_, YK_ISA)(const struct yk_batch16_window *g, const float *dout,
                                            const float *out, float *din);
void JOIN(yk_batch16_avgpool_back_, YK_ISA)(const struct yk_batch16_window *g, const float *dout,
                                            const float *out, float *din)
{
    clear_input(g, din);
    for (size_t c = 0; c < g->c; c++, din += (size_t)g->h * g->w * LANES)
        for (uint32_t oy = 0; oy < g->out_h; oy++)
            for (uint32_t ox = 0; ox < g->out_w; ox++) {
                const struct view v = view_of(g, oy, ox);
                const float scale = share_of(g, v);
                for (size_t part = 0; part < LANES;
                     part += WIDTH, dout += WIDTH, out += g->relu ? WIDTH : 0) {
                    const vec d = through_relu(g->relu, load(dout), out) * scale;
                    for (uint32_t y = v.y0; y < v.y1; y++)
                        for (uint32_t x = v.x0; x < v.x1; x++) {
                            float *p = din + ((size_t)y * g->w + x) * LANES + part;
                            store(p, load(p) + d);
                        }
                }
            }
}
