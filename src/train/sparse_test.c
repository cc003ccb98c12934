/* sparse_test.c - whole runs of logreg on sparse rows, in one process: against a slow reference
 * in doubles, with the same bits for any crew, through stops and resumes, and as good as the
 * model that made the data. */
#include "tests/tiny.h"
#include "train/loop.h"

#include "data/rows/synth.h"
#include "param/checkpoint.h"

enum { ROWS = 1003, LEFT = 100 }; /* steps of 60: the last of an epoch has 43 */

static const char *const SPARSE = "data=synth-criteo:1003:600:3 threads=1";

static void options_of(char out[512], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, 512, fmt, ap);
    va_end(ap);
    assert_in_range(n, 1, 511);
}

/* A new folder, with a cache of its own. */
static int sparse_setup(void **state)
{
    return testdir_setup(state) == 0 && chdir(*state) == 0 ? setenv("XDG_CACHE_HOME", *state, 1)
                                                           : -1;
}

static yk_code sparse_open(struct yk_session **out, const char *options, struct yk_error *e)
{
    struct yk_options values = {0};
    struct yk_opts opts;
    bool resume = strstr(options, "resume=") != NULL;
    assert_int_equal(yk_opts_init(&opts, yk_option_table, yk_option_count, &values, NULL), YK_OK);
    tiny_set(&opts, "quiet", "true");
    tiny_options(options, tiny_set, &opts);
    *out = NULL;
    *e = (struct yk_error){0};
    yk_code rc = yk_session_open(out, &opts, resume ? NULL : "logreg", e);
    assert_int_equal(rc == YK_OK, *out != NULL);
    yk_opts_release(&opts);
    return rc;
}

static struct yk_session *sparse_train(const char *options)
{
    struct yk_session *s;
    struct yk_error e;
    if (sparse_open(&s, options, &e) != YK_OK || yk_session_train(s, &e) != YK_OK)
        fail_msg("%s: %s", options, e.text);
    return s;
}

/* The hash as the summary has it: that of the values, what is owed to untouched keys included. */
static void hash_of(const struct yk_session *s, char hash[17])
{
    json_t *j = yk_session_summary(s);
    snprintf(hash, 17, "%s", tiny_text(j, "params_xxh3"));
    json_decref(j);
}

static void sparse_hash(const char *options, char hash[17])
{
    struct yk_session *s = sparse_train(options);
    hash_of(s, hash);
    yk_session_close(s);
}

static double sigmoid(double z)
{
    return 1 / (1 + exp(-z));
}

static double loss_of(double z, unsigned label)
{
    double m = label ? -z : z;
    return m > 0 ? m + log1p(exp(-m)) : log1p(exp(m));
}

static double score_of(const struct yk_row *row, const double *w, double bias)
{
    double z = bias;
    for (uint32_t k = 0; k < row->n; k++)
        z += w[row->key[k]] * (row->value != NULL ? (double)row->value[k] : 1);
    return z;
}

/* Rows in the order of the file, one at a time, in doubles: the same weights and the same
 * progressive loss. */
static void test_by_hand(void **state)
{
    (void)state;
    static const char *const NAME[] = {"sgd", "adagrad"};
    for (size_t opt = 0; opt < 2; opt++) {
        char options[512];
        options_of(options,
                   "%s optimizer=%s lr=0.05 batch=1 shuffle-buffer=1 epochs=2 features=700", SPARSE,
                   NAME[opt]);
        struct yk_session *s = sparse_train(options);
        double w[701] = {0}, n[701] = {0}, total = 0; /* the bias last */
        for (uint64_t i = 0; i < 2 * (uint64_t)ROWS; i++) {
            struct yk_row row = yk_row_at(s->input.train.sparse, i % ROWS);
            double z = score_of(&row, w, w[700]), g = sigmoid(z) - row.label;
            total += loss_of(z, row.label);
            for (uint32_t k = 0; k <= row.n; k++) { /* no row has a key twice */
                uint32_t key = k < row.n ? row.key[k] : 700;
                double slope = g * (k < row.n && row.value != NULL ? (double)row.value[k] : 1);
                n[key] += slope * slope;
                w[key] -= 0.05 * slope / (opt == 0 ? 1 : sqrt(n[key]) + 1e-8);
            }
        }
        const struct yk_view *bias = &s->state.params.view[0], *weight = &s->state.params.view[1];
        assert_string_equal(bias->name, "logreg.bias");
        assert_int_equal(weight->count, 700);
        assert_true(fabs((double)s->state.params.flat[bias->at] - w[700]) < 1e-4);
        for (size_t i = 0; i < 700; i++)
            if (fabs((double)s->state.params.flat[weight->at + i] - w[i]) > 1e-4)
                fail_msg("%s: weight %d is %g, not %g", NAME[opt], (int)i,
                         (double)s->state.params.flat[weight->at + i], w[i]);
        json_t *j = yk_session_summary(s);
        assert_true(fabs(tiny_number(j, "progressive_loss") - total / (2 * ROWS)) < 1e-5);
        assert_true(w[s->input.train.sparse->block[0].key[0]] != 0);
        json_decref(j);
        yk_session_close(s);
    }
}

/* Sanitizers look at the same code many times slower. They see every optimizer and every crew,
 * but not every pair of them, and fewer rows. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SLOW = 1, EVERY = 4 };
#else
enum { SLOW = 0, EVERY = 1 };
#endif
static const char *const OPTIMIZER[] = {
    "sgd lr=0.05",      "sgd lr=0.05 l2=0.01", "sgd lr=0.05 l1=0.001 l2=0.01",
    "adagrad l1=0.001", "adagrad l2=0.01",     "momentum lr=0.01",
    "ftrl l1=0.1",      "ftrl l2=0.1",         "adagrad schedule=warmup:10,cosine:50"};
enum { OPTIMIZERS = sizeof OPTIMIZER / sizeof OPTIMIZER[0] };

/* local, sync and allreduce, 1 to 4 workers, 1 to 3 owners, every optimizer that has a sparse
 * use, with what is caught up lazily: one hash. */
static void test_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPTIMIZERS; i++) {
        char options[512], expected[17], hash[17];
        options_of(options, "%s global-batch=60 shards=12 steps=40 optimizer=%s", SPARSE,
                   OPTIMIZER[i]);
        sparse_hash(options, expected);
        for (unsigned workers = 1; workers <= 4; workers++)
            for (unsigned ps = 0; ps <= 3; ps++) {
                char mode[32];
                if (SLOW && (4 * workers + ps + i) % 8 != 0)
                    continue;
                snprintf(mode, sizeof mode, ps == 0 ? "allreduce" : "sync ps=%u", ps);
                options_of(options,
                           "%s global-batch=60 shards=12 steps=40 optimizer=%s mode=%s workers=%u",
                           SPARSE, OPTIMIZER[i], mode, workers);
                sparse_hash(options, hash);
                if (strcmp(hash, expected) != 0)
                    fail_msg("%s: %s, not %s", options, hash, expected);
            }
        if (SLOW && i > 0)
            continue;
        options_of(options, "%s global-batch=60 shards=11 steps=40 optimizer=%s", SPARSE,
                   OPTIMIZER[i]);
        sparse_hash(options, hash);
        assert_string_not_equal(hash, expected); /* the order of the sums is what makes it so */
    }
}

/* Steps that are applied where the parameters are (a sweep) and steps that are pushed, by one
 * worker: the same bits. */
static void test_sweep(void **state)
{
    (void)state;
    static const char *const BATCH[] = {"batch=1", "batch=7", "batch=60"};
    for (size_t i = 0; i < OPTIMIZERS; i++)
        for (size_t b = 0; b < 3; b++) {
            char options[512], swept[17], pushed[17];
            if (SLOW && (i + b) % 3 != 0)
                continue;
            options_of(options, "%s %s epochs=2 optimizer=%s", SPARSE, BATCH[b], OPTIMIZER[i]);
            struct yk_session *s = sparse_train(options);
            assert_true(yk_sweep_fits(s));
            hash_of(s, swept);
            yk_session_close(s);
            options_of(options, "%s %s epochs=2 optimizer=%s mode=sync workers=1", SPARSE, BATCH[b],
                       OPTIMIZER[i]);
            s = sparse_train(options);
            assert_false(yk_sweep_fits(s));
            hash_of(s, pushed);
            yk_session_close(s);
            assert_string_equal(swept, pushed);
        }
}

/* Stopped and resumed again and again, each time by another crew: the bits, the counts and the
 * losses of a run that nobody touched. */
static void test_resume(void **state)
{
    (void)state;
    static const char *const CREW[] = {"mode=local workers=1", "mode=sync workers=3 ps=2",
                                       "mode=allreduce workers=2", "mode=sync workers=4 ps=1",
                                       "mode=sync workers=1 ps=3"};
    for (size_t i = 0; i < OPTIMIZERS; i += EVERY) {
        char options[512], expected[17], hash[17];
        options_of(options,
                   "%s global-batch=60 shards=12 steps=100 optimizer=%s holdout=0.1 run=whole%zu",
                   SPARSE, OPTIMIZER[i], i);
        struct yk_session *s = sparse_train(options);
        hash_of(s, expected);
        json_t *whole = yk_session_summary(s), *j;
        yk_session_close(s);
        for (unsigned start = 0; start < 5; start++) {
            if (start == 0)
                options_of(
                    options,
                    "%s global-batch=60 shards=12 steps=20 optimizer=%s holdout=0.1 run=run%zu %s",
                    SPARSE, OPTIMIZER[i], i, CREW[start]);
            else
                options_of(options, "resume=run%zu steps=%u %s", i, 20 * (start + 1),
                           CREW[(start + i) % 5]);
            s = sparse_train(options);
            assert_int_equal(s->now.step, 20 * (start + 1));
            if (start == 4)
                hash_of(s, hash);
            j = yk_session_summary(s);
            yk_session_close(s);
            if (start < 4)
                json_decref(j);
        }
        if (strcmp(hash, expected) != 0)
            fail_msg("%s: %s, not %s", OPTIMIZER[i], hash, expected);
        assert_true(tiny_number(j, "examples") == tiny_number(whole, "examples"));
        assert_true(tiny_number(j, "test_loss") == tiny_number(whole, "test_loss"));
        assert_true(tiny_number(j, "test_auc") == tiny_number(whole, "test_auc"));
        assert_true(fabs(tiny_number(j, "progressive_loss") -
                         tiny_number(whole, "progressive_loss")) < 1e-9);
        json_decref(j);
        json_decref(whole);
    }
}

/* The test loss, accuracy, precision, recall and AUC of a run, against a look at every pair of
 * rows; in batches of any size. */
static void test_metrics(void **state)
{
    (void)state;
    static const unsigned SIZE[] = {1, 7, 1000, 4096};
    for (size_t i = 0; i < 4; i++) {
        char options[512];
        options_of(options, "%s holdout=0.25 batch=10 epochs=3 lr=0.05 test-batch=%u", SPARSE,
                   SIZE[i]);
        struct yk_session *s = sparse_train(options);
        double p[ROWS], loss = 0, above = 0, pairs = 0, w[601];
        unsigned right = 0, said = 0, hits = 0, are = 0, n = s->input.test.rows;
        assert_int_equal(n + s->input.train.rows, ROWS);
        assert_in_range(n, ROWS / 4 - 1, ROWS / 4 + 1);
        for (size_t k = 0; k < s->state.params.view[1].count; k++)
            w[k] = (double)s->state.params.flat[s->state.params.view[1].at + k];
        uint8_t label[ROWS];
        uint32_t *rows = tiny_test_rows(s);
        for (unsigned r = 0; r < n; r++) {
            struct yk_row row = yk_row_at(s->input.test.sparse, rows[r]);
            double z = score_of(&row, w, (double)s->state.params.flat[s->state.params.view[0].at]);
            p[r] = z;
            label[r] = row.label;
            loss += loss_of(z, row.label);
            right += (z > 0) == row.label;
            said += z > 0;
            hits += z > 0 && row.label;
            are += row.label;
        }
        for (unsigned a = 0; a < n; a++)
            for (unsigned b = 0; b < n; b++)
                if (label[a] && !label[b]) {
                    pairs++;
                    above += p[a] > p[b] ? 1 : p[a] == p[b] ? 0.5 : 0;
                }
        assert_true(hits > 5 && said > hits && are > hits);
        json_t *j = yk_session_summary(s);
        assert_true(fabs(tiny_number(j, "test_loss") - loss / n) < 1e-5);
        assert_true(fabs(tiny_number(j, "test_accuracy") - (double)right / n) < 1e-9);
        assert_true(fabs(tiny_number(j, "test_precision") - (double)hits / said) < 1e-9);
        assert_true(fabs(tiny_number(j, "test_recall") - (double)hits / are) < 1e-9);
        assert_true(fabs(tiny_number(j, "test_auc") - above / pairs) < 1e-4); /* counted in bins */
        json_decref(j);
        free(rows);
        yk_session_close(s);
    }
}

/* Rows that are held out are no row that is trained on, and none is left out. */
static void test_holdout(void **state)
{
    (void)state;
    struct yk_buf text = {0};
    for (unsigned i = 0; i < LEFT; i++) /* row i has feature i alone */
        yk_buf_format(&text, "%u %u:1\n", i % 2, i);
    assert_int_equal(yk_file_write("own.libsvm", text.data, text.len, NULL), YK_OK);
    yk_buf_release(&text);
    struct yk_session *s =
        sparse_train("data=own.libsvm holdout=0.3 batch=7 epochs=2 optimizer=sgd lr=1 threads=1");
    unsigned test = 0;
    assert_true(s->input.test.rows == 30 && s->input.train.rows == 70 &&
                s->state.params.view[1].count == LEFT);
    uint32_t *rows = tiny_test_rows(s);
    for (unsigned i = 0; i < LEFT; i++) {
        bool held = false;
        for (uint64_t r = 0; r < s->input.test.rows; r++)
            held = held || yk_row_at(s->input.test.sparse, rows[r]).key[0] == i;
        assert_int_equal(s->state.params.flat[s->state.params.view[1].at + i] == 0, held);
        test += held;
    }
    assert_int_equal(test, 30);
    free(rows);
    yk_session_close(s);
}

/* Every example once an epoch where the order is not fixed, and a loss that is not far from one
 * worker's. */
static void test_modes(void **state)
{
    (void)state;
    static const char *const MODE[] = {"mode=async workers=3", "mode=async workers=4 ps=3",
                                       "mode=ssp workers=3 staleness=1 ps=2",
                                       "mode=sync workers=3 backup=1 ps=2"};
    unsigned rows = SLOW ? 6000 : 40000;
    double alone = 0;
    for (size_t i = 0; i <= 4; i++) {
        char options[512];
        options_of(options, "data=synth-criteo:%u:5000:3 threads=1 batch=20 epochs=2 %s", rows,
                   i == 0 ? "mode=local" : MODE[i - 1]);
        struct yk_session *s = sparse_train(options);
        json_t *j = yk_session_summary(s);
        double progressive = tiny_number(j, "progressive_loss");
        assert_true(s->now.examples == (uint64_t)2 * rows && s->stop == YK_STOP_EPOCHS);
        assert_int_equal(json_is_true(json_object_get(j, "reproducible")), i == 0);
        alone = i == 0 ? progressive : alone;
        if (fabs(progressive / alone - 1) > (SLOW ? 0.1 : 0.04))
            fail_msg("%s: progressive loss %g, and alone %g", options, progressive, alone);
        json_decref(j);
        yk_session_close(s);
    }
    assert_true(alone > 0.3 && alone < 0.6);
}

static double progressive_of(const char *options, uint64_t rows, bool reproducible)
{
    struct yk_session *s = sparse_train(options);
    json_t *j = yk_session_summary(s);
    double loss = tiny_number(j, "progressive_loss");
    assert_int_equal(s->now.examples, rows);
    assert_int_equal(json_is_true(json_object_get(j, "reproducible")), reproducible);
    json_decref(j);
    yk_session_close(s);
    return loss;
}

/* Several threads on the same parameters: every row once, within 0.7 % of one, and the summary
 * does not promise bits. A step of one thread does not know the step that the other one makes at
 * the same time; what that costs falls with the number of steps, so large batches need more rows. A
 * thread that stands still for long on a busy machine makes the other's
 * changes old, so the best of three tries counts. Sanitizers look for races: with them there are
 * fewer rows, and so more noise in the loss. */
static void test_threads(void **state)
{
    (void)state;
    enum { TRIES = 3, LARGE = 2 /* the large batch */ };
    static const char *const RUN[] = {"batch=1", "batch=100", SLOW ? "batch=200" : "batch=1000",
                                      "batch=100 optimizer=sgd lr=0.05", "batch=10 optimizer=ftrl"};
    for (size_t i = 0; i < 5; i++) {
        char options[512];
        unsigned rows = (SLOW ? 16000 : 200000) * (i == LARGE ? 5 : 1);
        options_of(options, "data=synth-criteo:%u:50000:3 %s threads=1", rows, RUN[i]);
        double one = progressive_of(options, rows, true), two = INFINITY,
               most = SLOW ? 0.02 : 0.007;
        options_of(options, "data=synth-criteo:%u:50000:3 %s threads=2", rows, RUN[i]);
        for (int k = 0; k < TRIES && !(fabs(two / one - 1) <= most); k++)
            two = progressive_of(options, rows, false);
        if (!(fabs(two / one - 1) <= most))
            fail_msg("%s: loss %g with one thread, %g with two", RUN[i], one, two);
    }
}

/* Data from a model of 10,000 weights, and rows enough: the test loss is within 2 % of the best
 * that anybody can do, which the generator knows, and so is the true model's own on these very
 * rows. */
static void __attribute__((unused)) test_planted(void **state)
{
    (void)state;
    enum { MANY = 1000000, FEATURES = 10000 };
    struct yk_session *s = sparse_train(
        "data=synth-criteo:1000000:10000:1 holdout=0.1 batch=100 epochs=2 lr=0.03 threads=1");
    struct yk_synth *truth;
    struct yk_error e;
    double theirs = 0;
    assert_int_equal(yk_synth_open(&truth, MANY, FEATURES, 1, &e), YK_OK);
    double best = yk_synth_best(truth, 0, MANY);
    uint32_t *rows = tiny_test_rows(s);
    for (uint64_t r = 0; r < s->input.test.rows; r++) {
        struct yk_row row = yk_row_at(s->input.test.sparse, rows[r]);
        theirs += loss_of(yk_synth_score(truth, rows[r]), row.label);
    }
    theirs /= (double)s->input.test.rows;
    assert_true(fabs(theirs / best - 1) < 0.01); /* the labels are drawn as it says */
    if (s->curve.test_loss > best * 1.02 || s->curve.test_loss > theirs * 1.02 ||
        s->curve.test_loss < theirs)
        fail_msg("test loss %g; the true model's is %g, and %g is the best", s->curve.test_loss,
                 theirs, best);
    yk_synth_close(truth);
    free(rows);
    yk_session_close(s);
}

/* A test set may have keys that no training row had: they count for nothing. */
static void test_unknown(void **state)
{
    (void)state;
    struct yk_session *s;
    static const char TRAIN[] = "1 3:1 9:1\n0 4:1\n-1 2:1\n+1 3:2\n", KNOWN[] = "1 3:1\n0 4:1\n",
                      UNKNOWN[] = "1 3:1 10:5 4294967000:7\n0 4:1 77:1\n";
    double loss[2];
    assert_int_equal(yk_file_write("train.libsvm", TRAIN, sizeof TRAIN - 1, NULL), YK_OK);
    assert_int_equal(yk_file_write("known.libsvm", KNOWN, sizeof KNOWN - 1, NULL), YK_OK);
    assert_int_equal(yk_file_write("unknown.libsvm", UNKNOWN, sizeof UNKNOWN - 1, NULL), YK_OK);
    for (unsigned i = 0; i < 2; i++) {
        s = sparse_train(i == 0 ? "data=train.libsvm test-data=known.libsvm batch=2 epochs=9"
                                : "data=train.libsvm test-data=unknown.libsvm batch=2 epochs=9");
        assert_int_equal(s->state.params.view[1].count, 10);
        loss[i] = s->curve.test_loss;
        yk_session_close(s);
    }
    assert_true(loss[0] == loss[1] && loss[0] < 0.69);
}

/* The weights of a few rows leave the range of floats, and no other row has their features: no
 * loss shows it. What is written, piece by piece, does, whoever owns them; and the half-written
 * file goes. */
static void test_diverged(void **state)
{
    (void)state;
    static const char BASE[] =
        "data=hot.libsvm lr=1000 batch=2 epochs=1 checkpoint-every=1 threads=1";
    static const char *const HOW[] = {
        "optimizer=sgd",
        "optimizer=sgd l2=0.01", /* values are made from raw weights */
        "optimizer=momentum",
        "optimizer=adagrad",
        "optimizer=ftrl",
        "optimizer=sgd threads=2",
        "optimizer=sgd mode=sync workers=2",
        "optimizer=sgd mode=async workers=2 ps=2 l2=0.01",
        "optimizer=momentum mode=allreduce workers=2",
    };
    struct yk_buf rows = {0};
    for (unsigned i = 0; i < 198; i++)
        yk_buf_format(&rows, "%u %u:1 9:0.5\n", i % 2, i % 7 + 1);
    for (unsigned i = 0; i < 20; i++) /* some have a large gradient, whatever the bias is */
        yk_buf_format(&rows, "%u %u:3e38\n", i % 2, 20 + i);
    assert_int_equal(yk_file_write("hot.libsvm", rows.data, rows.len, NULL), YK_OK);
    yk_buf_release(&rows);
    for (size_t i = 0; i < sizeof HOW / sizeof HOW[0]; i++) {
        char options[512], dir[64], path[YK_PATH_MAX];
        struct yk_session *s;
        struct yk_error e;
        struct yk_tensors t;
        int found;
        options_of(options, "%s run=hot%zu %s", BASE, i, HOW[i]);
        if (sparse_open(&s, options, &e) != YK_OK)
            fail_msg("%s: %s", options, e.text);
        yk_code rc = yk_session_train(s, &e);
        yk_session_close(s);
        if (rc != YK_FAILED ||
            strstr(e.text, "diverged: a parameter or its optimizer state") == NULL)
            fail_msg("%s: %s", options, e.text);
        snprintf(dir, sizeof dir, "hot%zu/checkpoints", i);
        assert_int_equal(yk_checkpoint_newest(dir, &t, path, &found, NULL, NULL, &e), YK_OK);
        for (size_t k = 0; found && k < t.n; k++)
            assert_true(strstr(t.tensor[k].name, "optimizer.seen.") != NULL ||
                        yk_floats_finite(t.tensor[k].data, t.tensor[k].count));
        if (found)
            yk_tensors_release(&t);
        snprintf(path, sizeof path, "hot%zu/summary.json", i);
        assert_false(yk_exists(path));
    }
}

static void test_refuses(void **state)
{
    (void)state;
    static const char TRAIN[] = "1 3:1 9:1\n0 4:1\n-1 2:1\n+1 3:2\n",
                      BAD[] = "1 3:1\n1 x3\n0 4:1\n";
    static const struct {
        const char *options, *text;
        yk_code code;
    } WRONG[] = {
        {"batch=1", "'yoke train logreg' needs --data", YK_USAGE},
        {"data=bad.libsvm batch=1", "'bad.libsvm' line 2: expected index:value, found 'x3'",
         YK_DATA},
        {"data=train.libsvm test-data=bad.libsvm batch=1", "'bad.libsvm' line 2", YK_DATA},
        {"data=empty.libsvm batch=1", "no rows", YK_DATA},
        {"data=absent.libsvm batch=1", "cannot open 'absent.libsvm'", YK_DATA},
        {"data=train.libsvm batch=1 optimizer=adam", "--optimizer adam would move all 11 weights",
         YK_USAGE},
        {"data=train.libsvm batch=1 features=9", "has 10 features, more than --features 9",
         YK_USAGE},
        {"data=train.libsvm batch=5", "--batch 5 is more than the 4 examples", YK_USAGE},
        {"data=train.libsvm batch=1 target-loss=0.1", "a target needs test data", YK_USAGE},
        {"data=train.libsvm batch=1 mode=sync workers=2 ps=18", "owners are too many", YK_USAGE},
    };
    assert_int_equal(yk_file_write("train.libsvm", TRAIN, sizeof TRAIN - 1, NULL), YK_OK);
    assert_int_equal(yk_file_write("bad.libsvm", BAD, sizeof BAD - 1, NULL), YK_OK);
    assert_int_equal(yk_file_write("empty.libsvm", "", 0, NULL), YK_OK);
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        struct yk_session *s;
        struct yk_error e;
        yk_code rc = sparse_open(&s, WRONG[i].options, &e);
        if (rc != WRONG[i].code || strstr(e.text, WRONG[i].text) == NULL)
            fail_msg("%s: %d, '%s'", WRONG[i].options, (int)rc, e.text);
        assert_false(yk_exists("runs"));
    }
    struct yk_session *s = sparse_train("data=bad.libsvm batch=1 skip-bad=1");
    json_t *j = yk_session_summary(s);
    assert_true(tiny_number(j, "bad_rows") == 1 && tiny_number(j, "examples") == 2);
    json_decref(j);
    yk_session_close(s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, sparse_setup, tiny_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_by_hand),
        TEST(test_same_bits),
        TEST(test_sweep),
        TEST(test_resume),
        TEST(test_metrics),
        TEST(test_holdout),
        TEST(test_modes),
        TEST(test_unknown),
        TEST(test_refuses),
        TEST(test_threads),
        TEST(test_diverged),
#if !defined(__SANITIZE_THREAD__) &&                                                               \
    !defined(__SANITIZE_ADDRESS__) /* a million rows, by one thread */
        TEST(test_planted),
#endif
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
