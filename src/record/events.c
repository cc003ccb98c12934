/* events.c - TensorBoard event files: TFRecords that each hold one Event message.
 *
 *     record    u64le  length of the data
 *               u32le  masked crc32c of those 8 bytes
 *               ...    data: an Event
 *               u32le  masked crc32c of the data
 *
 *     Event             1 wall_time double   2 step int64, then one of
 *                       3 file_version text ("brain.Event:2", always and only the first record)
 *                       4 graph_def bytes    5 summary    7 session_log { 1 status (1: start) }
 *     Summary           1 value (repeated)
 *     Summary.Value     1 tag   2 simple_value float   8 tensor   9 metadata
 *     SummaryMetadata   1 plugin_data { 1 plugin_name }   4 data_class (2: tensor)
 *     TensorProto       1 dtype (2: double)   2 tensor_shape
 *                       4 tensor_content, little-endian, row-major
 *     TensorShapeProto  2 dim (repeated) { 1 size }
 *     GraphDef          1 node (repeated)   4 versions { 1 producer }
 *     NodeDef           1 name   2 op   3 input (repeated)   5 attr (map entry: 1 key, 2 value)
 *     AttrValue         1 list { 7 shape (repeated) }
 *
 * Readers follow only the newest file of a folder by name, so the name starts with the time, and
 * every start of a run has a file of its own. */
#include "record/events.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/pb.h"
#include "record/append.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "lengths, checksums and tensors are stored as they are in memory");

enum { BUCKETS = 30, DT_DOUBLE = 2, DATA_CLASS_TENSOR = 2, GRAPH_PRODUCER = 22, SESSION_START = 1 };

struct yk_events {
    struct yk_append file;
    /* One buffer per depth of nesting; they stay allocated, so a scalar allocates nothing. */
    struct yk_buf event, summary, value, part, leaf, dim;
};

static struct yk_buf *fresh(struct yk_buf *b)
{
    yk_buf_clear(b);
    return b;
}

/* Starts ev->event. The caller adds the content and then calls put_record. */
static void begin_event(struct yk_events *ev, uint64_t step, double wall)
{
    yk_pb_double(fresh(&ev->event), 1, wall);
    yk_pb_varint(&ev->event, 2, step);
}

static void put_record(struct yk_events *ev)
{
    struct yk_buf *out = &ev->file.buf;
    uint64_t len = ev->event.len;
    uint32_t len_crc = yk_crc32c_masked(&len, sizeof len);
    uint32_t data_crc = yk_crc32c_masked(ev->event.data, ev->event.len);
    yk_buf_add(out, &len, sizeof len);
    yk_buf_add(out, &len_crc, sizeof len_crc);
    yk_buf_add(out, ev->event.data, ev->event.len);
    yk_buf_add(out, &data_crc, sizeof data_crc);
    out->failed |= ev->event.failed;
    yk_append_done(&ev->file);
}

/* Records ev->value as the only value of a summary. */
static void put_value(struct yk_events *ev, uint64_t step, double wall)
{
    yk_pb_message(fresh(&ev->summary), 1, &ev->value);
    begin_event(ev, step, wall);
    yk_pb_message(&ev->event, 5, &ev->summary);
    put_record(ev);
}

yk_code yk_events_open(struct yk_events **out, const char *folder, struct yk_error *e)
{
    static atomic_uint serial; /* two writers in one process never share a name */
    char path[YK_PATH_MAX], host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    yk_code rc = yk_path(path, e, "%s/events.out.tfevents.%010lld.%s.%ld.%u", folder,
                         (long long)yk_wall(), host, (long)getpid(), atomic_fetch_add(&serial, 1));
    if (rc == YK_OK)
        rc = yk_mkdirs(folder, e);
    if (rc != YK_OK)
        return rc;
    struct yk_events *ev = calloc(1, sizeof *ev);
    if (ev == NULL)
        return yk_fail_memory(e, sizeof *ev);
    rc = yk_append_open(&ev->file, path, e);
    if (rc != YK_OK) {
        free(ev);
        return rc;
    }
    begin_event(ev, 0, yk_wall());
    yk_pb_text(&ev->event, 3, "brain.Event:2");
    put_record(ev);
    *out = ev;
    return YK_OK;
}

void yk_events_scalar(struct yk_events *ev, uint64_t step, double wall, const char *tag,
                      double value)
{
    yk_pb_text(fresh(&ev->value), 1, tag);
    yk_pb_float(&ev->value, 2, (float)value);
    put_value(ev, step, wall);
}

/* Appends a dim of a TensorShapeProto to `shape`. */
static void put_dim(struct yk_events *ev, struct yk_buf *shape, int64_t size)
{
    yk_pb_varint(fresh(&ev->dim), 1, (uint64_t)size);
    yk_pb_message(shape, 2, &ev->dim);
}

/* Fills rows of left, right, count and returns their number: 0 if no value is finite, 1 if all are
 * equal. */
static size_t fill_buckets(double row[BUCKETS][3], const float *v, size_t n)
{
    double lo = INFINITY, hi = -INFINITY, finite = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(v[i]))
            continue;
        lo = v[i] < lo ? v[i] : lo;
        hi = v[i] > hi ? v[i] : hi;
        finite += 1;
    }
    if (finite == 0)
        return 0;
    if (lo == hi) { /* a bucket without width would be invisible */
        memcpy(row[0], (double[3]){lo - 0.5, hi + 0.5, finite}, sizeof row[0]);
        return 1;
    }
    double width = (hi - lo) / BUCKETS;
    for (int b = 0; b < BUCKETS; b++)
        memcpy(row[b], (double[3]){lo + b * width, b + 1 < BUCKETS ? lo + (b + 1) * width : hi, 0},
               sizeof row[b]);
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(v[i]))
            continue;
        int b = (int)((v[i] - lo) / width); /* BUCKETS for the largest value */
        row[b < BUCKETS ? b : BUCKETS - 1][2] += 1;
    }
    return BUCKETS;
}

void yk_events_histogram(struct yk_events *ev, uint64_t step, double wall, const char *tag,
                         const float *v, size_t n)
{
    double row[BUCKETS][3];
    size_t k = fill_buckets(row, v, n);

    yk_pb_text(fresh(&ev->value), 1, tag);

    yk_buf_clear(&ev->leaf); /* tensor */
    put_dim(ev, &ev->leaf, (int64_t)k);
    put_dim(ev, &ev->leaf, 3);
    yk_pb_varint(fresh(&ev->part), 1, DT_DOUBLE);
    yk_pb_message(&ev->part, 2, &ev->leaf);
    yk_pb_bytes(&ev->part, 4, row, k * sizeof row[0]);
    yk_pb_message(&ev->value, 8, &ev->part);

    yk_pb_text(fresh(&ev->leaf), 1, "histograms"); /* metadata */
    yk_pb_message(fresh(&ev->part), 1, &ev->leaf);
    yk_pb_varint(&ev->part, 4, DATA_CLASS_TENSOR);
    yk_pb_message(&ev->value, 9, &ev->part);

    put_value(ev, step, wall);
}

/* Puts a NodeDef into ev->value. */
static void make_node(struct yk_events *ev, const struct yk_graph_node *node)
{
    yk_pb_text(fresh(&ev->value), 1, node->name);
    yk_pb_text(&ev->value, 2, node->op);
    for (size_t i = 0; i < sizeof node->inputs / sizeof node->inputs[0] && node->inputs[i] != NULL;
         i++)
        yk_pb_text(&ev->value, 3, node->inputs[i]);
    if (node->ndim == 0)
        return;
    /* The shape is wrapped as a list of one, as an AttrValue, as the value of a map entry. */
    yk_buf_clear(&ev->leaf);
    for (unsigned d = 0; d < node->ndim; d++)
        put_dim(ev, &ev->leaf, node->shape[d]);
    yk_pb_message(fresh(&ev->part), 7, &ev->leaf);
    yk_pb_message(fresh(&ev->leaf), 1, &ev->part);
    yk_pb_text(fresh(&ev->part), 1, "_output_shapes");
    yk_pb_message(&ev->part, 2, &ev->leaf);
    yk_pb_message(&ev->value, 5, &ev->part);
}

void yk_events_graph(struct yk_events *ev, const struct yk_graph_node *node, size_t n)
{
    yk_buf_clear(&ev->summary); /* serves as the GraphDef here */
    for (size_t i = 0; i < n; i++) {
        make_node(ev, &node[i]);
        yk_pb_message(&ev->summary, 1, &ev->value);
    }
    yk_pb_varint(fresh(&ev->value), 1, GRAPH_PRODUCER);
    yk_pb_message(&ev->summary, 4, &ev->value);
    begin_event(ev, 0, yk_wall());
    yk_pb_message(&ev->event, 4, &ev->summary);
    put_record(ev);
}

void yk_events_restart(struct yk_events *ev, uint64_t step)
{
    begin_event(ev, step, yk_wall());
    yk_pb_varint(fresh(&ev->part), 1, SESSION_START);
    yk_pb_message(&ev->event, 7, &ev->part);
    put_record(ev);
}

yk_code yk_events_flush(struct yk_events *ev, struct yk_error *e)
{
    return yk_append_flush(&ev->file, e);
}

yk_code yk_events_close(struct yk_events *ev, struct yk_error *e)
{
    if (ev == NULL)
        return YK_OK;
    yk_code rc = yk_append_close(&ev->file, e);
    struct yk_buf *const bufs[] = {&ev->event, &ev->summary, &ev->value,
                                   &ev->part,  &ev->leaf,    &ev->dim};
    for (size_t i = 0; i < sizeof bufs / sizeof bufs[0]; i++)
        yk_buf_release(bufs[i]);
    free(ev);
    return rc;
}
