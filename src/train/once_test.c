/* once_test.c - asynchronous runs are cut off and resumed: which examples were trained, and how
 * often.
 *
 * Row i has feature i alone, so that weight i moves when row i is trained and at no other time.
 * The rate is 2^-39: every score stays so close to 0 that every slope is 1/2, and a move is
 * 2^-40 over the rows of a step. So a weight says how often it has moved; after any number of
 * cuts that has to be the number of epochs, for every row. Totals would not notice a row that
 * was trained twice while another was left out. */
#include "tests/tiny.h"

#include "param/safetensors.h"

#include <dirent.h>

enum { ROWS = 240, SIDE = 16, MOST = 4096 }; /* steps of one, two and four rows divide an epoch */
#define RATE 0x1p-39

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { CUTS = 4, STOPS = 3 };
#else
enum { CUTS = 6, STOPS = 6 };
#endif

/* Crews whose steps have the same size, so that they can go on with each other's runs: a move is
 * 1/size of a slope. */
static const struct team {
    unsigned size; /* rows of a step */
    const char *crew[6];
} TEAM[] = {
    {1, {"mode=async workers=4 ps=1", "mode=async workers=3 ps=2", "mode=async workers=2 ps=3"}},
    {1,
     {"mode=ssp workers=4 staleness=0 ps=2", "mode=ssp workers=3 staleness=3 ps=1",
      "mode=ssp workers=2 staleness=1 ps=3"}},
    {1,
     {"mode=sync workers=3 backup=2 ps=2", "mode=async workers=4 ps=3", "mode=ssp workers=3 ps=2",
      "mode=async workers=1"}},
    {2,
     {"mode=sync workers=3 backup=1 ps=1", "mode=sync workers=4 backup=2 ps=3",
      "mode=sync workers=3 backup=1 ps=2"}},
    {4,
     {"mode=sync workers=5 backup=1 ps=2", "mode=sync workers=6 backup=2 ps=1",
      "mode=sync workers=5 backup=1 ps=3"}},
};
enum { TEAMS = sizeof TEAM / sizeof TEAM[0] };

static const char *crew_of(const struct team *t, unsigned i)
{
    unsigned n = 0;
    while (n < 6 && t->crew[n] != NULL)
        n++;
    return t->crew[i % n];
}

/* The rows once as images of one bright pixel, for a dense model, and once as text, for a sparse
 * one. */
static int once_setup(void **state)
{
    if (testdir_setup(state) != 0 || chdir(*state) != 0 || setenv("XDG_CACHE_HOME", *state, 1) != 0)
        return -1;
    uint8_t head[16] = {0, 0, 8, 3, 0, 0, 0, ROWS, 0, 0, 0, SIDE, 0, 0, 0, SIDE};
    uint8_t label_head[8] = {0, 0, 8, 1, 0, 0, 0, ROWS};
    struct yk_buf images = {0}, labels = {0}, text = {0};
    yk_buf_add(&images, head, sizeof head);
    yk_buf_add(&labels, label_head, sizeof label_head);
    for (unsigned i = 0; i < ROWS; i++) {
        uint8_t image[SIDE * SIDE] = {0}, label = i % 2;
        image[i] = 255;
        yk_buf_add(&images, image, sizeof image);
        yk_buf_add(&labels, &label, 1);
        yk_buf_format(&text, "%u %u:1\n", i % 2, i);
    }
    yk_code rc = yk_mkdirs("dense", NULL);
    for (unsigned part = 0; part < 2 && rc == YK_OK; part++) {
        rc = yk_file_write(part == 0 ? "dense/train-images-idx3-ubyte"
                                     : "dense/t10k-images-idx3-ubyte",
                           images.data, images.len, NULL);
        if (rc == YK_OK)
            rc = yk_file_write(part == 0 ? "dense/train-labels-idx1-ubyte"
                                         : "dense/t10k-labels-idx1-ubyte",
                               labels.data, labels.len, NULL);
    }
    if (rc == YK_OK)
        rc = yk_file_write("sparse.libsvm", text.data, text.len, NULL);
    yk_buf_release(&images);
    yk_buf_release(&labels);
    yk_buf_release(&text);
    return rc == YK_OK ? 0 : -1;
}

static struct yk_session *once_open(const char *model, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static struct yk_session *once_open(const char *model, const char *fmt, ...)
{
    char text[256];
    struct yk_options values = {0};
    struct yk_opts opts;
    struct yk_session *s;
    struct yk_error e;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    bool resume = strstr(text, "resume=") != NULL;
    assert_int_equal(yk_opts_init(&opts, yk_option_table, yk_option_count, &values, NULL), YK_OK);
    tiny_options(
        resume ? "quiet=true"
               : "quiet=true threads=1 batch=1 optimizer=sgd lr=1.8189894035458565e-12 keep=100000",
        tiny_set, &opts);
    if (!resume)
        tiny_set(&opts, "data", strcmp(model, "softmax") == 0 ? "dense" : "sparse.libsvm");
    tiny_options(text, tiny_set, &opts);
    if (yk_session_open(&s, &opts, resume ? NULL : model, &e) != YK_OK)
        fail_msg("%s: %s", text, e.text);
    yk_opts_release(&opts);
    return s;
}

/* How often weight `w` of row i has moved; every move goes the way that the row's label says. */
static unsigned moves_of(float w, unsigned size, unsigned i)
{
    double moves = (i % 2 == 1 ? (double)w : -(double)w) / (RATE / 2 / size);
    if (fabs(moves - round(moves)) > 0.01 || moves < 0)
        fail_msg("weight %u is %g, which is no whole number of moves: %g", i, (double)w, moves);
    return (unsigned)round(moves);
}

/* (ROWS) The weights of the rows, those of class 1 in the dense model. */
static const float *weights_of(const char *model, const float *weight)
{
    return weight + (strcmp(model, "softmax") == 0 ? SIDE * SIDE : 0);
}

static void assert_moves(const struct yk_session *s, unsigned size, unsigned epochs,
                         const char *what)
{
    const struct yk_view *v =
        yk_params_find(&s->state.params, s->ops->keys == NULL ? "softmax.weight" : "logreg.weight");
    const float *w = weights_of(s->model_name, s->state.params.flat + v->at);
    for (unsigned i = 0; i < ROWS; i++)
        if (moves_of(w[i], size, i) != epochs)
            fail_msg("%s: row %u was trained %u times in %u epochs", what, i,
                     moves_of(w[i], size, i), epochs);
    assert_int_equal(s->now.examples, (uint64_t)epochs * ROWS);
}

static uint64_t number_of(const struct yk_tensors *t, const char *key)
{
    const char *text = yk_tensors_meta(t, key);
    assert_non_null(text);
    return strtoull(text, NULL, 10);
}

/* In a checkpoint a row has moved as often as it was dealt, less its places in the list of parts
 * that were under way. Returns their number. */
static unsigned assert_pool(struct yk_session *s, const char *path, unsigned size)
{
    struct yk_tensors t;
    struct yk_error e;
    unsigned want[ROWS] = {0}, parts = 0;
    if (yk_tensors_read(path, &t, &e) != YK_OK)
        fail_msg("%s", e.text);
    const uint64_t position = number_of(&t, "epoch") * ROWS + number_of(&t, "epoch_at");
    for (uint64_t at = 0; at < position; at++) {
        struct yk_batch batch;
        yk_source_at(&s->input.source, at, 1, UINT64_MAX, &batch);
        want[batch.row[0]]++;
    }
    const char *pool = yk_tensors_meta(&t, "pool.0"); /* one line is enough for a few workers */
    assert_null(yk_tensors_meta(&t, "pool.1"));
    for (char *end; pool != NULL && *pool != '\0'; pool = end, parts++) {
        struct yk_batch batch;
        yk_source_at(&s->input.source, position - strtoull(pool, &end, 10), 1, UINT64_MAX, &batch);
        assert_true(end > pool && want[batch.row[0]] > 0);
        want[batch.row[0]]--;
    }
    const struct yk_tensor *weight =
        yk_tensors_find(&t, s->ops->keys == NULL ? "softmax.weight" : "logreg.weight");
    const float *w = weights_of(s->model_name, weight->data);
    for (unsigned i = 0; i < ROWS; i++)
        if (moves_of(w[i], size, i) != want[i])
            fail_msg("'%s': row %u has moved %u times, and was trained %u times by what it says",
                     path, i, moves_of(w[i], size, i), want[i]);
    yk_tensors_release(&t);
    return parts;
}

static void train(struct yk_session *s)
{
    struct yk_error e;
    if (yk_session_train(s, &e) != YK_OK)
        fail_msg("%s", e.text);
}

/* Every checkpoint of a run is looked at. Those after a random one of them go, as if the run had
 * been killed before it wrote them. Returns the parts that were under way. */
static unsigned cut(struct yk_session *s, unsigned size, struct yk_rng *r)
{
    char folder[64], path[400];
    unsigned n = 0, parts = 0;
    static uint64_t step[MOST];
    snprintf(folder, sizeof folder, "%.32s/checkpoints", s->run.dir);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir)) != NULL && n < MOST;)
        if (strncmp(d->d_name, "step-", 5) == 0)
            step[n++] = strtoull(d->d_name + 5, NULL, 10);
    assert_in_range(n, 1, MOST - 1);
    uint64_t last = step[yk_rng_below(r, n)];
    closedir(dir);
    for (unsigned i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/step-%012llu.safetensors", folder,
                 (unsigned long long)step[i]);
        parts += assert_pool(s, path, size);
        if (step[i] > last)
            assert_int_equal(unlink(path), 0);
    }
    return parts;
}

/* Killed at a checkpoint again and again, and gone on with by another crew. */
static void killed(const char *model)
{
    struct yk_rng r;
    enum { EPOCHS = 5 };
    yk_rng_init(&r, 11, (uint64_t)model[0], 0, 0);
    unsigned parts = 0;
    for (unsigned t = 0; t < TEAMS; t++) {
        struct yk_session *s =
            once_open(model, "%s epochs=%d eval-every=1e9 checkpoint-every=3 run=killed%u",
                      TEAM[t].crew[0], EPOCHS, t);
        for (unsigned i = 0; i <= CUTS; i++) {
            train(s);
            assert_moves(s, TEAM[t].size, EPOCHS, crew_of(&TEAM[t], i));
            parts += cut(s, TEAM[t].size, &r);
            yk_session_close(s);
            s = once_open(model, "resume=killed%u %s", t, crew_of(&TEAM[t], i + 1));
        }
        yk_session_close(s);
    }
    assert_true(parts >= CUTS); /* otherwise little was put to the test */
}

/* The checkpoint with which a start has ended, of a run that is open again. */
static void assert_last(struct yk_session *s, unsigned size)
{
    char path[128];
    snprintf(path, sizeof path, "%.32s/checkpoints/step-%012llu.safetensors", s->run.dir,
             (unsigned long long)s->now.step);
    assert_pool(s, path, size);
}

/* The rest, to the end of an epoch. */
static void end(struct yk_session *s, const char *model, const struct team *t)
{
    unsigned epochs = (unsigned)(s->now.position / ROWS) + 1;
    char run[32];
    snprintf(run, sizeof run, "%.31s", s->run.dir);
    yk_session_close(s);
    s = once_open(model, "resume=%s epochs=%u", run, epochs);
    train(s);
    assert_moves(s, t->size, epochs, t->crew[0]);
    yk_session_close(s);
}

/* Stopped by hand at random steps: the checkpoint that ends a start lists what was under way. */
static void stopped(const char *model)
{
    struct yk_rng r;
    yk_rng_init(&r, 12, (uint64_t)model[0], 0, 0);
    for (unsigned t = 0; t < TEAMS; t++) {
        struct yk_session *s = once_open(model, "%s epochs=100000 eval-every=1e9 run=stopped-%c%u",
                                         TEAM[t].crew[0], model[0], t);
        for (unsigned i = 0; i < STOPS; i++) {
            struct tiny_stop stop = {s, s->now.step + 1 + yk_rng_below(&r, ROWS / TEAM[t].size)};
            pthread_t thread;
            assert_int_equal(pthread_create(&thread, NULL, tiny_stop_at, &stop), 0);
            train(s);
            pthread_join(thread, NULL);
            assert_int_equal(s->stop, YK_STOP_SIGNAL);
            yk_session_close(s);
            s = once_open(model, "resume=stopped-%c%u %s", model[0], t, crew_of(&TEAM[t], i + 1));
            assert_last(s, TEAM[t].size);
        }
        end(s, model, &TEAM[t]);
    }
}

/* Ended by a target, which leaves the state of the check that reached it, and forgets what came
 * after. Half of the rows are right from the beginning, so that every check reaches it. */
static void reached(const char *model)
{
    for (unsigned t = 0; t < TEAMS; t++) {
        struct yk_session *s = once_open(
            model, "%s target-accuracy=0.4 eval-every=17 run=reached-%c%u%s", TEAM[t].crew[0],
            model[0], t, strcmp(model, "logreg") == 0 ? " test-data=sparse.libsvm" : "");
        for (unsigned i = 0; i < STOPS; i++) {
            train(s);
            assert_int_equal(s->stop, YK_STOP_TARGET_ACCURACY);
            yk_session_close(s);
            s = once_open(model, "resume=reached-%c%u %s", model[0], t, crew_of(&TEAM[t], i + 1));
            assert_last(s, TEAM[t].size);
        }
        end(s, model, &TEAM[t]);
    }
}

static void test_sparse_killed(void **state)
{
    (void)state;
    killed("logreg");
}

static void test_dense_killed(void **state)
{
    (void)state;
    killed("softmax");
}

static void test_stopped(void **state)
{
    (void)state;
    stopped("logreg");
    stopped("softmax");
}

static void test_reached(void **state)
{
    (void)state;
    reached("logreg");
    reached("softmax");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sparse_killed, once_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_dense_killed, once_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_stopped, once_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_reached, once_setup, tiny_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
