/* resize.c - resizes by a triangle filter, first down the columns, then along the rows.
 *
 * A pixel of the result lies at (o + 1/2) * from / to of the source and weighs the pixels round it
 * by their distance. That is linear interpolation where a picture grows; where it shrinks the
 * triangle is wide enough for every source pixel to count. Weights are integers that sum to exactly
 * 2^14, and sums are integers, too: the result has the same bits on every machine and in every
 * window.
 *
 * Columns come first because that pass works on whole rows, as vectors, and leaves fewer rows for
 * the second pass.
 * THREADS: no state but the canvas. */
#include "data/images/resize.h"

#include <string.h>

enum { ONE = 1 << 14, HALF = ONE / 2 };

/* The source pixels [first, first + n) of one pixel of the result, with their weights. */
struct taps {
    uint32_t first, n;
    int32_t *weight;
};

static uint32_t most_taps(uint32_t from, uint32_t to)
{
    return from > to ? 2 * (from / to + 1) + 1 : 3;
}

static void find_taps(uint32_t o, uint32_t from, uint32_t to, struct taps *t)
{
    double scale = (double)from / to, reach = scale > 1 ? scale : 1, centre = (o + 0.5) * scale;
    double low = centre - reach, high = centre + reach, sum = 0;
    uint32_t first = low > 0 ? (uint32_t)low : 0, end = high < from ? (uint32_t)high + 1 : from,
             best = 0;
    uint32_t most = most_taps(from, to);
    end = end < from ? end : from;
    end = end - first > most ? first + most : end;
    for (uint32_t i = first; i < end; i++) {
        double d = (i + 0.5 - centre) / reach, w = 1 - (d < 0 ? -d : d);
        sum += w > 0 ? w : 0;
    }
    int32_t left = ONE;
    for (uint32_t i = first; i < end; i++) {
        double d = (i + 0.5 - centre) / reach, w = 1 - (d < 0 ? -d : d);
        t->weight[i - first] = w > 0 ? (int32_t)(w / sum * ONE + 0.5) : 0;
        left -= t->weight[i - first];
        best = t->weight[i - first] > t->weight[best] ? i - first : best;
    }
    t->weight[best] += left; /* the rest of rounding */
    t->first = first;
    t->n = end - first;
}

/* Sums source rows by weight: `n` bytes of a row of the result, before columns are resized. */
static void sum_rows(const uint8_t *from, size_t stride, const struct taps *t, int32_t *sum,
                     uint8_t *to, size_t n)
{
    for (size_t k = 0; k < n; k++)
        sum[k] = HALF;
    for (uint32_t i = 0; i < t->n; i++) {
        const uint8_t *row = from + (t->first + i) * stride;
        int32_t weight = t->weight[i];
        for (size_t k = 0; k < n; k++)
            sum[k] += weight * row[k];
    }
    for (size_t k = 0; k < n; k++)
        to[k] = (uint8_t)(sum[k] >> 14);
}

static void sum_columns(const uint8_t *row, uint32_t channels, const struct taps *t, uint8_t *to)
{
    int32_t a = HALF, b = HALF, c = HALF;
    const uint8_t *p = row + (size_t)t->first * channels;
    if (channels == 1) {
        for (uint32_t i = 0; i < t->n; i++)
            a += t->weight[i] * p[i];
        to[0] = (uint8_t)(a >> 14);
        return;
    }
    for (uint32_t i = 0; i < t->n; i++, p += 3) {
        a += t->weight[i] * p[0];
        b += t->weight[i] * p[1];
        c += t->weight[i] * p[2];
    }
    to[0] = (uint8_t)(a >> 14);
    to[1] = (uint8_t)(b >> 14);
    to[2] = (uint8_t)(c >> 14);
}

bool yk_resize(const struct yk_resize *r, struct yk_canvas *c, uint8_t *out)
{
    uint32_t ch = r->channels, each_y = most_taps(r->from_h, r->to_h),
             each_x = most_taps(r->from_w, r->to_w);
    size_t row = (size_t)r->from_w * ch;
    if (r->from_h == r->to_h && r->from_w == r->to_w) {
        for (uint32_t y = 0; y < r->h; y++)
            memcpy(out + (size_t)y * r->w * ch,
                   r->from + (r->y + y) * r->stride + (size_t)r->x * ch, (size_t)r->w * ch);
        return true;
    }
    /* taps of every column, sums, weights of one row, weights of every column */
    size_t sums = row * sizeof(int32_t),
           weights = (each_y + (size_t)each_x * r->w) * sizeof(int32_t);
    char *room = yk_room(&c->sums, r->w * sizeof(struct taps) + sums + weights);
    uint8_t *line = yk_room(&c->rows, row);
    if (room == NULL || line == NULL)
        return false;
    struct taps *column = (struct taps *)(void *)room, down;
    int32_t *sum = (int32_t *)(void *)(column + r->w), *weight = sum + row;
    down.weight = weight;
    for (uint32_t x = 0; x < r->w; x++) {
        column[x].weight = weight + each_y + (size_t)x * each_x;
        find_taps(r->x + x, r->from_w, r->to_w, &column[x]);
    }
    /* the bytes that are used */
    size_t lo = (size_t)column[0].first * ch,
           hi = ((size_t)column[r->w - 1].first + column[r->w - 1].n) * ch;
    for (uint32_t y = 0; y < r->h; y++) {
        find_taps(r->y + y, r->from_h, r->to_h, &down);
        sum_rows(r->from + lo, r->stride, &down, sum, line + lo, hi - lo);
        for (uint32_t x = 0; x < r->w; x++)
            sum_columns(line, ch, &column[x], out + ((size_t)y * r->w + x) * ch);
    }
    return true;
}
