/* events_test.c - reads event files back with an independent reader, written from the definition of
 * the format: its own CRC, one bit at a time, and its own protobuf parser. It shares no code with
 * the writer, so an error in either shows. */
#include "record/events.h"

#include "base/file.h"
#include "tests/testdir.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* ---- the reader ---- */

struct payload {
    const uint8_t *p;
    size_t n;
};

struct pb_field {
    unsigned number, type;
    uint64_t value;       /* types 0, 1 and 5 */
    struct payload bytes; /* type 2 */
};

static uint32_t crc(const uint8_t *p, size_t n)
{
    uint32_t c = 0xffffffffu;
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++)
            c = ((c ^ (p[i] >> bit)) & 1) ? (c >> 1) ^ 0x82f63b78u : c >> 1;
    c = ~c;
    return ((c >> 15) | (c << 17)) + 0xa282ead8u;
}

static uint64_t little(const uint8_t *p, int n)
{
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static uint64_t take_varint(struct payload *b)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        assert_true(b->n > 0);
        uint8_t byte = *b->p;
        b->p++;
        b->n--;
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return v;
    }
    fail_msg("a varint without an end");
    return 0;
}

static int next_field(struct payload *b, struct pb_field *f)
{
    if (b->n == 0)
        return 0;
    uint64_t key = take_varint(b);
    size_t n = 0;
    *f = (struct pb_field){.number = (unsigned)(key >> 3), .type = key & 7};
    switch (f->type) {
    case 0:
        f->value = take_varint(b);
        return 1;
    case 1:
        n = 8;
        break;
    case 2:
        n = take_varint(b);
        break;
    case 5:
        n = 4;
        break;
    default:
        fail_msg("wire type %u", f->type);
    }
    assert_true(n <= b->n);
    f->bytes = (struct payload){b->p, n};
    if (f->type != 2)
        f->value = little(b->p, (int)n);
    b->p += n;
    b->n -= n;
    return 1;
}

/* The `index`-th occurrence of a field; fails if it is not there. */
static struct pb_field get(struct payload message, unsigned number, int index)
{
    struct pb_field f;
    while (next_field(&message, &f))
        if (f.number == number && index-- == 0)
            return f;
    fail_msg("no field %u", number);
    return f;
}

static int count(struct payload message, unsigned number)
{
    struct pb_field f;
    int n = 0;
    while (next_field(&message, &f))
        n += f.number == number;
    return n;
}

static struct payload sub(struct payload message, unsigned number)
{
    struct pb_field f = get(message, number, 0);
    assert_int_equal(f.type, 2);
    return f.bytes;
}

static double as_double(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, 8);
    return v;
}

static float as_float(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float v;
    memcpy(&v, &low, 4);
    return v;
}

static void assert_text(struct payload b, const char *want)
{
    assert_int_equal(b.n, strlen(want));
    assert_memory_equal(b.p, want, b.n);
}

static char *file_bytes;
static struct payload events[5000];
static size_t n_events;

/* Find the only file of the folder, check its name, split it into records and check every crc. */
static void read_events(const char *folder)
{
    char path[YK_PATH_MAX], host[256] = "";
    long long secs = 0;
    int pid = 0, serial = -1, files = 0, end = 0;
    size_t n;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        files++;
        gethostname(host, sizeof host - 1);
        char pattern[600];
        snprintf(pattern, sizeof pattern, "events.out.tfevents.%%lld.%s.%%d.%%d%%n", host);
        assert_int_equal(sscanf(e->d_name, pattern, &secs, &pid, &serial, &end), 3);
        assert_int_equal(end, strlen(e->d_name));
        yk_path(path, NULL, "%s/%s", folder, e->d_name);
    }
    closedir(d);
    assert_int_equal(files, 1);
    assert_int_equal(pid, getpid());
    assert_true(llabs(secs - (long long)time(NULL)) < 60);

    assert_int_equal(yk_file_read(path, 1 << 24, &file_bytes, &n, NULL), YK_OK);
    const uint8_t *p = (const uint8_t *)file_bytes, *stop = p + n;
    n_events = 0;
    while (p < stop) {
        assert_true(stop - p >= 16);
        uint64_t len = little(p, 8);
        assert_int_equal(little(p + 8, 4), crc(p, 8));
        assert_true(len <= (uint64_t)(stop - p - 16));
        assert_int_equal(little(p + 12 + len, 4), crc(p + 12, len));
        assert_true(n_events < 5000);
        events[n_events++] = (struct payload){p + 12, len};
        p += 16 + len;
    }
    assert_true(n_events > 0);
    assert_text(sub(events[0], 3), "brain.Event:2");
    assert_true(fabs(as_double(get(events[0], 1, 0).value) - (double)time(NULL)) < 60);
}

/* ---- the tests ---- */

static struct yk_events *open_events(void **state, char folder[YK_PATH_MAX])
{
    struct yk_events *ev;
    struct yk_error e;
    yk_path(folder, NULL, "%s/events/worker-0", (char *)*state);
    assert_int_equal(yk_events_open(&ev, folder, &e), YK_OK);
    return ev;
}

static void test_scalars(void **state)
{
    char folder[YK_PATH_MAX];
    struct yk_events *ev = open_events(state, folder);
    yk_events_scalar(ev, 100, 1700000000.25, "train/loss", 0.5);
    yk_events_scalar(ev, 1ull << 40, 1700000001.5, "test/accuracy", NAN);
    assert_int_equal(yk_events_flush(ev, NULL), YK_OK); /* readable before it is closed */
    read_events(folder);
    assert_int_equal(n_events, 3);
    assert_true(as_double(get(events[1], 1, 0).value) == 1700000000.25);
    assert_int_equal(get(events[1], 2, 0).value, 100);
    assert_int_equal(count(sub(events[1], 5), 1), 1);
    struct payload value = sub(sub(events[1], 5), 1);
    assert_text(sub(value, 1), "train/loss");
    assert_int_equal(get(value, 2, 0).type, 5);
    assert_true(as_float(get(value, 2, 0).value) == 0.5f);
    assert_int_equal(get(events[2], 2, 0).value, 1ull << 40);
    assert_true(isnan(as_float(get(sub(sub(events[2], 5), 1), 2, 0).value)));
    free(file_bytes);
    assert_int_equal(yk_events_close(ev, NULL), YK_OK);
}

static void test_many_cross_the_buffer(void **state)
{
    char folder[YK_PATH_MAX];
    struct yk_events *ev = open_events(state, folder);
    for (uint64_t i = 1; i < 4000; i++) /* about 200 KB */
        yk_events_scalar(ev, i, (double)i, "lr", (double)i / 8);
    assert_int_equal(yk_events_close(ev, NULL), YK_OK);
    read_events(folder);
    assert_int_equal(n_events, 4000);
    for (uint64_t i = 1; i < 4000; i++) {
        assert_int_equal(get(events[i], 2, 0).value, i);
        assert_true(as_float(get(sub(sub(events[i], 5), 1), 2, 0).value) == (float)i / 8);
    }
    free(file_bytes);
}

/* Checks everything around the buckets; returns how many there are and copies them. */
static size_t histogram_rows(struct payload event, const char *tag, double row[30][3])
{
    struct payload value = sub(sub(event, 5), 1), tensor = sub(value, 8), meta = sub(value, 9);
    assert_text(sub(value, 1), tag);
    assert_int_equal(count(value, 2), 0);
    assert_text(sub(sub(meta, 1), 1), "histograms");
    assert_int_equal(get(meta, 4, 0).value, 2);   /* DATA_CLASS_TENSOR */
    assert_int_equal(get(tensor, 1, 0).value, 2); /* DT_DOUBLE */
    struct payload shape = sub(tensor, 2), content = sub(tensor, 4);
    assert_int_equal(count(shape, 2), 2);
    size_t k = get(get(shape, 2, 0).bytes, 1, 0).value;
    assert_int_equal(get(get(shape, 2, 1).bytes, 1, 0).value, 3);
    assert_true(k <= 30);
    assert_int_equal(content.n, k * 3 * 8);
    for (size_t i = 0; i < 3 * k; i++)
        row[i / 3][i % 3] = as_double(little(content.p + 8 * i, 8));
    return k;
}

static void test_histogram(void **state)
{
    char folder[YK_PATH_MAX];
    double row[30][3];
    float v[303], same[5] = {1e30f, 1e30f, NAN, 1e30f, -INFINITY}, none[2] = {NAN, INFINITY};
    for (int i = 0; i <= 300;
         i++) /* -1.5 .. 1.5: ten to each bucket, and the largest joins the last */
        v[i] = ((float)i + (i < 300 ? 0.25f : 0)) / 100 - 1.5f;
    v[0] = -1.5f;
    v[301] = NAN;
    v[302] = INFINITY;
    struct yk_events *ev = open_events(state, folder);
    yk_events_histogram(ev, 7, 1.0, "weights/w", v, 303);
    yk_events_histogram(ev, 8, 1.0, "same", same, 5);
    yk_events_histogram(ev, 9, 1.0, "none", none, 2);
    yk_events_histogram(ev, 10, 1.0, "empty", NULL, 0);
    assert_int_equal(yk_events_close(ev, NULL), YK_OK);
    read_events(folder);
    assert_int_equal(n_events, 5);

    assert_int_equal(get(events[1], 2, 0).value, 7);
    assert_int_equal(histogram_rows(events[1], "weights/w", row), 30);
    double total = 0;
    for (int b = 0; b < 30; b++) {
        assert_true(fabs(row[b][0] - (-1.5 + 0.1 * b)) < 1e-9);
        assert_true(fabs(row[b][1] - (-1.4 + 0.1 * b)) < 1e-9);
        assert_int_equal(row[b][2], b < 29 ? 10 : 11);
        total += row[b][2];
    }
    assert_int_equal(total, 301);

    assert_int_equal(histogram_rows(events[2], "same", row), 1);
    assert_int_equal(row[0][2], 3);
    assert_true(row[0][0] <= 1e30f && row[0][1] >= 1e30f);
    assert_int_equal(histogram_rows(events[3], "none", row), 0);
    assert_int_equal(histogram_rows(events[4], "empty", row), 0);
    free(file_bytes);
}

static void test_graph(void **state)
{
    static const struct yk_graph_node nodes[] = {
        {.name = "images", .op = "Placeholder", .shape = {-1, 784}, .ndim = 2},
        {.name = "softmax/weight", .op = "VariableV2", .shape = {784, 10}, .ndim = 2},
        {.name = "softmax/logits",
         .op = "MatMul",
         .inputs = {"images", "softmax/weight"},
         .shape = {-1, 10},
         .ndim = 2},
        {.name = "loss", .op = "SoftmaxCrossEntropyWithLogits", .inputs = {"softmax/logits"}},
    };
    char folder[YK_PATH_MAX];
    struct yk_events *ev = open_events(state, folder);
    yk_events_graph(ev, nodes, 4);
    assert_int_equal(yk_events_close(ev, NULL), YK_OK);
    read_events(folder);
    assert_int_equal(n_events, 2);
    struct payload graph = sub(events[1], 4);
    assert_int_equal(count(graph, 1), 4);
    assert_int_equal(get(sub(graph, 4), 1, 0).value, 22);
    for (int i = 0; i < 4; i++) {
        struct payload node = get(graph, 1, i).bytes;
        assert_text(sub(node, 1), nodes[i].name);
        assert_text(sub(node, 2), nodes[i].op);
        int inputs = 0;
        for (; inputs < 4 && nodes[i].inputs[inputs] != NULL; inputs++)
            assert_text(get(node, 3, inputs).bytes, nodes[i].inputs[inputs]);
        assert_int_equal(count(node, 3), inputs);
        assert_int_equal(count(node, 5), nodes[i].ndim > 0);
        if (nodes[i].ndim == 0)
            continue;
        struct payload attr = sub(node, 5);
        assert_text(sub(attr, 1), "_output_shapes");
        struct payload shape = sub(sub(sub(attr, 2), 1), 7);
        assert_int_equal(count(shape, 2), nodes[i].ndim);
        for (unsigned d = 0; d < nodes[i].ndim; d++)
            assert_true((int64_t)get(get(shape, 2, (int)d).bytes, 1, 0).value == nodes[i].shape[d]);
    }
    free(file_bytes);
}

static void test_every_start_has_its_own_file(void **state)
{
    char folder[YK_PATH_MAX];
    struct yk_events *a = open_events(state, folder), *b = open_events(state, folder);
    yk_events_close(a, NULL);
    yk_events_close(b, NULL);
    int files = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        files += e->d_name[0] != '.';
    closedir(d);
    assert_int_equal(files, 2);
}

static void test_failures(void **state)
{
    struct yk_events *ev;
    struct yk_error e;
    char path[YK_PATH_MAX];
    yk_path(path, NULL, "%s/plain", (char *)*state);
    yk_file_write(path, "x", 1, NULL);
    assert_int_equal(yk_events_open(&ev, path, &e), YK_FAILED);
    assert_int_equal(yk_events_close(NULL, &e), YK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_scalars, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_many_cross_the_buffer, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test_setup_teardown(test_histogram, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_graph, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_every_start_has_its_own_file, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test_setup_teardown(test_failures, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
