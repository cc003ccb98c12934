/* events_reader.c - prints a TensorBoard event file, one line per entry:
 *
 *     version brain.Event:2
 *     node softmax/product MatMul flatten softmax/weight
 *     scalar 100 train/loss 1.88451
 *     histogram 100 softmax.bias 30 10          (step, tag, buckets, values counted)
 *     session 200                               (a restart at this step: later ones are void)
 *
 * It was written from the definition of the format alone (TFRecord framing, masked crc32c, protobuf
 * wire format), without a line of yoke's own code, so that an error in one shows. Exit status 1,
 * with a sentence, at the first byte that is wrong. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    const uint8_t *p;
    size_t n;
};

struct field {
    unsigned number;
    uint64_t value;   /* of varints and fixed-size numbers */
    struct bytes sub; /* of everything with a length */
};

static void die(const char *why)
{
    printf("bad event file: %s\n", why);
    exit(1);
}

static uint32_t masked_crc(const uint8_t *p, size_t n)
{
    uint32_t c = ~0u;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
    }
    c = ~c;
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

static uint64_t little(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static const uint8_t *take(struct bytes *b, uint64_t n)
{
    if (n > b->n)
        die("something ends too early");
    b->p += n;
    b->n -= n;
    return b->p - n;
}

static uint64_t varint(struct bytes *b)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = *take(b, 1);
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return v;
    }
    die("a number without an end");
    return 0;
}

/* The next field of a message; 0 at its end. */
static int next(struct bytes *b, struct field *f)
{
    if (b->n == 0)
        return 0;
    uint64_t key = varint(b);
    *f = (struct field){.number = (unsigned)(key >> 3)};
    switch (key & 7) {
    case 0:
        f->value = varint(b);
        break;
    case 1:
        f->value = little(take(b, 8), 8);
        break;
    case 2:
        f->sub.n = varint(b);
        f->sub.p = take(b, f->sub.n);
        break;
    case 5:
        f->value = little(take(b, 4), 4);
        break;
    default:
        die("an unknown wire type");
    }
    return 1;
}

/* The field `number` of a message, the last one if it is repeated; all zero if absent. */
static struct field find(struct bytes message, unsigned number)
{
    struct field f, found = {0};
    while (next(&message, &f))
        if (f.number == number)
            found = f;
    return found;
}

static double as_double(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void show_graph(struct bytes graph)
{
    for (struct field node, f; next(&graph, &node);) {
        if (node.number != 1)
            continue;
        struct field name = find(node.sub, 1), op = find(node.sub, 2);
        printf("node %.*s %.*s", (int)name.sub.n, name.sub.p, (int)op.sub.n, op.sub.p);
        for (struct bytes b = node.sub; next(&b, &f);)
            if (f.number == 3)
                printf(" %.*s", (int)f.sub.n, f.sub.p);
        printf("\n");
    }
}

/* A tensor of doubles, (buckets, 3): left, right, count. */
static void show_histogram(uint64_t step, struct field tag, struct bytes tensor,
                           struct bytes metadata)
{
    struct field plugin = find(find(metadata, 1).sub, 1), content = find(tensor, 4);
    if (plugin.sub.n != 10 || memcmp(plugin.sub.p, "histograms", 10) != 0)
        die("a tensor of another plugin");
    if (find(tensor, 1).value != 2)
        die("a histogram that is not of doubles");
    uint64_t dims[2] = {0}, n = 0;
    for (struct bytes shape = find(tensor, 2).sub; shape.n > 0;) {
        struct field dim;
        next(&shape, &dim);
        if (dim.number == 2 && n < 2)
            dims[n++] = find(dim.sub, 1).value;
    }
    if (n != 2 || dims[1] != 3 || content.sub.n != dims[0] * 3 * 8)
        die("a histogram that is not (buckets, 3)");
    double count = 0, right = -1e300;
    for (uint64_t i = 0; i < dims[0]; i++) {
        const uint8_t *row = content.sub.p + 24 * i;
        if (as_double(little(row, 8)) < right - 1e-9 ||
            as_double(little(row + 8, 8)) <= as_double(little(row, 8)))
            die("buckets that overlap or are empty");
        right = as_double(little(row + 8, 8));
        count += as_double(little(row + 16, 8));
    }
    printf("histogram %" PRIu64 " %.*s %" PRIu64 " %.0f\n", step, (int)tag.sub.n, tag.sub.p,
           dims[0], count);
}

static void show_summary(uint64_t step, struct bytes summary)
{
    for (struct field value, f; next(&summary, &value);) {
        int scalar = 0;
        struct field tag = find(value.sub, 1), tensor = find(value.sub, 8);
        for (struct bytes b = value.sub; next(&b, &f);)
            if (f.number == 2) {
                uint32_t bits = (uint32_t)f.value;
                float v;
                memcpy(&v, &bits, sizeof v);
                printf("scalar %" PRIu64 " %.*s %.6g\n", step, (int)tag.sub.n, tag.sub.p,
                       (double)v);
                scalar = 1;
            }
        if (tensor.sub.p != NULL)
            show_histogram(step, tag, tensor.sub, find(value.sub, 9).sub);
        else if (!scalar)
            die("a value that is neither a number nor a tensor");
    }
}

static void show_event(struct bytes event, int first)
{
    uint64_t step = find(event, 2).value;
    double wall = as_double(find(event, 1).value);
    struct field version = find(event, 3);
    if (wall < 1.5e9 || wall > 1e11)
        die("a wall time that cannot be");
    if ((version.sub.p != NULL) != first)
        die("the version belongs in the first record and only there");
    if (first)
        printf("version %.*s\n", (int)version.sub.n, version.sub.p);
    for (struct field f; next(&event, &f);) {
        if (f.number == 4)
            show_graph(f.sub);
        else if (f.number == 5)
            show_summary(step, f.sub);
        else if (f.number == 7)
            printf("session %" PRIu64 "\n", step);
        else if (f.number > 7)
            die("a field that an event does not have");
    }
}

int main(int argc, char **argv)
{
    static uint8_t data[64 << 20];
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (file == NULL)
        die("cannot open it");
    struct bytes all = {data, fread(data, 1, sizeof data, file)};
    fclose(file);
    for (int first = 1; all.n > 0; first = 0) {
        const uint8_t *length = take(&all, 8);
        if (little(take(&all, 4), 4) != masked_crc(length, 8))
            die("the crc of a length is wrong");
        struct bytes event = {.n = little(length, 8)};
        event.p = take(&all, event.n);
        if (little(take(&all, 4), 4) != masked_crc(event.p, event.n))
            die("the crc of a record is wrong");
        show_event(event, first);
    }
    return 0;
}
