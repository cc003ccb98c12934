/* tiny.h - a small data set that can be learnt, and training runs on it in an empty folder.
 *
 * It has 1003 training and 257 test images of 8x8 pixels in 4 classes. Each class has a bright
 * quarter, and one label in ten is wrong, so the loss falls but never reaches zero. Options are
 * given as "steps=10 batch=7"; a value has no blanks. */
#ifndef YK_TESTS_TINY_H
#define YK_TESTS_TINY_H

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "tests/testdir.h"
#include "train/config.h"
#include "train/session.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TINY_TRAIN = 1003, TINY_TEST = 257, TINY_SIDE = 8, TINY_CLASSES = 4 };

/* Writes the images and labels of one part ("train" or "t10k") as IDX files into `folder`. */
static inline void tiny_write(const char *folder, const char *part, uint32_t rows, uint32_t side,
                              uint64_t seed)
{
    uint8_t head[16] = {0,
                        0,
                        8,
                        3,
                        0,
                        0,
                        (uint8_t)(rows >> 8),
                        (uint8_t)rows,
                        0,
                        0,
                        0,
                        (uint8_t)side,
                        0,
                        0,
                        0,
                        (uint8_t)side};
    uint8_t label_head[8] = {0, 0, 8, 1, 0, 0, (uint8_t)(rows >> 8), (uint8_t)rows};
    struct yk_buf images = {0}, labels = {0};
    struct yk_rng r;
    char path[YK_PATH_MAX];
    yk_rng_init(&r, seed, rows, side, 0);
    yk_buf_add(&images, head, sizeof head);
    yk_buf_add(&labels, label_head, sizeof label_head);
    for (uint32_t i = 0; i < rows; i++) {
        uint8_t truth = (uint8_t)yk_rng_below(&r, TINY_CLASSES);
        uint8_t label = yk_rng_below(&r, 10) == 0 ? (uint8_t)yk_rng_below(&r, TINY_CLASSES) : truth;
        yk_buf_add(&labels, &label, 1);
        for (uint32_t y = 0; y < side; y++)
            for (uint32_t x = 0; x < side; x++) {
                bool bright = (y >= side / 2) * 2u + (x >= side / 2) == truth;
                uint8_t pixel = yk_rng_below(&r, 3) > 0
                                    ? 0
                                    : (uint8_t)(yk_rng_below(&r, 100) + (bright ? 100u : 0u));
                yk_buf_add(&images, &pixel, 1);
            }
    }
    assert_false(images.failed || labels.failed);
    assert_int_equal(yk_mkdirs(folder, NULL), YK_OK);
    assert_int_equal(yk_path(path, NULL, "%s/%s-images-idx3-ubyte", folder, part), YK_OK);
    assert_int_equal(yk_file_write(path, images.data, images.len, NULL), YK_OK);
    assert_int_equal(yk_path(path, NULL, "%s/%s-labels-idx1-ubyte", folder, part), YK_OK);
    assert_int_equal(yk_file_write(path, labels.data, labels.len, NULL), YK_OK);
    yk_buf_release(&images);
    yk_buf_release(&labels);
}

/* cmocka set-up: a new folder, which becomes the current one, with the data below data/. */
static inline int tiny_setup(void **state)
{
    if (testdir_setup(state) != 0 || chdir(*state) != 0)
        return -1;
    tiny_write("data", "train", TINY_TRAIN, TINY_SIDE, 1);
    tiny_write("data", "t10k", TINY_TEST, TINY_SIDE, 2);
    return 0;
}

static inline int tiny_teardown(void **state)
{
    return chdir("/") == 0 ? testdir_teardown(state) : -1;
}

/* Calls set(arg, name, value) for each "name=value" of `options`. */
static inline void tiny_options(const char *options,
                                void (*set)(void *arg, const char *name, const char *value),
                                void *arg)
{
    char copy[1024], *rest = NULL;
    assert_true(strlen(options) < sizeof copy);
    strcpy(copy, options);
    for (char *p = strtok_r(copy, " ", &rest); p != NULL; p = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(p, '=');
        assert_non_null(value);
        *value = '\0';
        set(arg, p, value + 1);
    }
}

static inline void tiny_set(void *arg, const char *name, const char *value)
{
    struct yk_error e;
    if (yk_opts_set(arg, name, value, YK_COMMAND_LINE, &e) != YK_OK)
        fail_msg("%s", e.text);
}

/* Opens a session: softmax on data/ unless `options` resume a run or name other data. */
static inline yk_code tiny_open(struct yk_session **out, const char *options, struct yk_error *e)
{
    struct yk_options values = {0};
    struct yk_opts opts;
    bool resume = strstr(options, "resume=") != NULL;
    assert_int_equal(yk_opts_init(&opts, yk_option_table, yk_option_count, &values, NULL), YK_OK);
    tiny_set(&opts, "quiet", "true");
    if (!resume)
        tiny_set(&opts, "data", "data");
    tiny_options(options, tiny_set, &opts);
    *out = NULL;
    *e = (struct yk_error){0};
    yk_code rc = yk_session_open(out, &opts, resume ? NULL : "softmax", e);
    assert_int_equal(rc == YK_OK, *out != NULL);
    yk_opts_release(&opts);
    return rc;
}

/* The same, and trains until it stops; a failure fails the test. The caller closes it. */
static inline struct yk_session *tiny_train(const char *options)
{
    struct yk_session *s;
    struct yk_error e;
    if (tiny_open(&s, options, &e) != YK_OK || yk_session_train(s, &e) != YK_OK)
        fail_msg("%s: %s", options, e.text);
    return s;
}

/* The rows of the test set in the order of the file; the caller frees them. */
static inline uint32_t *tiny_test_rows(const struct yk_session *s)
{
    uint32_t *rows = malloc((s->input.test.rows + 1) * sizeof *rows);
    assert_non_null(rows);
    yk_dataset_rows(&s->input.test, rows);
    return rows;
}

/* The same, and closes it; only the hash of the parameters is returned. */
static inline void tiny_hash(const char *options, char hash[17])
{
    struct yk_session *s = tiny_train(options);
    yk_params_hash(&s->state.params, hash);
    yk_session_close(s);
}

struct tiny_stop {
    struct yk_session *session;
    uint64_t step; /* stop after this step, however slow the machine is */
};

/* A thread that stops a session as Ctrl-C does. */
static inline void *tiny_stop_at(void *arg)
{
    const struct tiny_stop *stop = arg;
    struct yk_session *s = stop->session;
    struct yk_comm *c = s->crew.comm;
    for (int tries = 0; tries < 20000; tries++) {
        c->ops->lock(c, 0); /* the session does not change while it is held */
        bool enough = s->now.step >= stop->step;
        c->ops->unlock(c, 0);
        if (enough)
            break;
        usleep(1000);
    }
    s->stop_signal = 1;
    return NULL;
}

/* The steps of the lines of metrics.jsonl, at most `max`, and one value of each unless `key` is
 * NULL. */
static inline unsigned tiny_metrics(const char *run, const char *key, uint64_t *step, double *value,
                                    unsigned max)
{
    char path[YK_PATH_MAX], *text, *rest = NULL;
    size_t n;
    unsigned lines = 0;
    assert_int_equal(yk_path(path, NULL, "%s/metrics.jsonl", run), YK_OK);
    assert_int_equal(yk_file_read(path, 1 << 24, &text, &n, NULL), YK_OK);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL && lines < max;
         line = strtok_r(NULL, "\n", &rest), lines++) {
        json_t *j = json_loads(line, 0, NULL);
        assert_non_null(j);
        step[lines] = (uint64_t)json_integer_value(json_object_get(j, "step"));
        if (key != NULL)
            value[lines] = json_number_value(json_object_get(j, key));
        json_decref(j);
    }
    free(text);
    return lines;
}

static inline double tiny_number(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);
    if (!json_is_number(v))
        fail_msg("'%s' is not a number", key);
    return json_number_value(v);
}

static inline const char *tiny_text(const json_t *j, const char *key)
{
    const char *v = json_string_value(json_object_get(j, key));
    if (v == NULL)
        fail_msg("'%s' is not a text", key);
    return v;
}

#endif
