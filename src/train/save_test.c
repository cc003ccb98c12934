/* save_test.c - a run that was stopped, killed, or lost its newest checkpoint ends with the bits
 * of one that was not; and what cannot be gone on with is refused. */
#include "tests/tiny.h"

#include "param/checkpoint.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

static void newest(const char *run, struct yk_tensors *t)
{
    char dir[YK_PATH_MAX], path[YK_PATH_MAX];
    int found;
    struct yk_error e;
    assert_int_equal(yk_path(dir, NULL, "%s/checkpoints", run), YK_OK);
    if (yk_checkpoint_newest(dir, t, path, &found, NULL, NULL, &e) != YK_OK)
        fail_msg("%s", e.text);
    assert_true(found);
}

static const char *meta(const struct yk_tensors *t, const char *key)
{
    const char *v = yk_tensors_meta(t, key);
    if (v == NULL)
        fail_msg("no '%s' in the checkpoint", key);
    return v;
}

/* The newest checkpoints of two runs hold the same: every tensor bit by bit, and every word but the
 * time, the run's own id and the checksum over them. */
static void assert_same_state(const char *a, const char *b)
{
    struct yk_tensors x, y;
    newest(a, &x);
    newest(b, &y);
    assert_int_equal(x.n, y.n);
    for (size_t i = 0; i < x.n; i++) {
        assert_string_equal(x.tensor[i].name, y.tensor[i].name);
        assert_int_equal(x.tensor[i].count, y.tensor[i].count);
        assert_memory_equal(x.tensor[i].data, y.tensor[i].data, x.tensor[i].count * sizeof(float));
    }
    assert_int_equal(x.metas, y.metas);
    for (size_t i = 0; i < x.metas; i++) {
        assert_string_equal(x.meta[i].key, y.meta[i].key);
        static const char *const OWN[] = {"seconds", "run_id", "xxh3_header"};
        bool own = false;
        for (size_t k = 0; k < 3; k++)
            own = own || strcmp(x.meta[i].key, OWN[k]) == 0;
        if (!own)
            assert_string_equal(x.meta[i].value, y.meta[i].value);
    }
    yk_tensors_release(&x);
    yk_tensors_release(&y);
}

static void done(const char *options)
{
    yk_session_close(tiny_train(options));
}

/* Stopped at several places, in the middle and at the end of an epoch: the end is the same, for
 * every optimizer of the list. */
static void test_resume(void **state)
{
    (void)state;
    for (unsigned i = 0; yk_optimizer_at(i) != NULL; i++) {
        const char *name = yk_optimizer_at(i)->name;
        char options[128], straight[32], stopped[32];
        snprintf(straight, sizeof straight, "%s-straight", name);
        snprintf(stopped, sizeof stopped, "%s-stopped", name);
        snprintf(options, sizeof options,
                 "run=%s optimizer=%s batch=100 steps=40 schedule=warmup:10,cosine:50", straight,
                 name);
        done(options);
        snprintf(options, sizeof options,
                 "run=%s optimizer=%s batch=100 steps=5 schedule=warmup:10,cosine:50", stopped,
                 name);
        done(options);
        static const int STEPS[] = {6, 11, 22, 23, 40}; /* 11 steps are an epoch */
        for (size_t k = 0; k < sizeof STEPS / sizeof STEPS[0]; k++) {
            snprintf(options, sizeof options, "resume=%s steps=%d", stopped, STEPS[k]);
            done(options);
        }
        assert_same_state(straight, stopped);
        struct yk_tensors t;
        newest(stopped, &t);
        assert_int_equal(t.n, 2 * (1 + yk_optimizer_at(i)->slots)); /* its state is in there */
        yk_tensors_release(&t);
    }
}

static void test_metadata(void **state)
{
    (void)state;
    struct yk_tensors t;
    char hash[17];
    struct yk_session *s = tiny_train("run=a batch=100 steps=14 seed=77 optimizer=momentum");
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)s->input.train.xxh3);
    newest("a", &t);
    assert_string_equal(meta(&t, "step"), "14");
    assert_string_equal(meta(&t, "examples"), "1303"); /* 1003 and three hundred more */
    assert_string_equal(meta(&t, "epoch"), "1");
    assert_string_equal(meta(&t, "epoch_at"), "300");
    assert_string_equal(meta(&t, "seed"), "77");
    assert_string_equal(meta(&t, "batch"), "100");
    assert_string_equal(meta(&t, "optimizer"), "momentum");
    assert_string_equal(meta(&t, "shape"), "8x8x1");
    assert_string_equal(meta(&t, "classes"), "4");
    assert_string_equal(meta(&t, "model"), "softmax");
    assert_string_equal(meta(&t, "data_xxh3"), hash);
    assert_non_null(yk_tensors_find(&t, "softmax.weight"));
    assert_non_null(yk_tensors_find(&t, "optimizer.velocity.softmax.weight"));
    const struct yk_view *v = yk_params_find(&s->state.params, "softmax.weight");
    assert_memory_equal(yk_tensors_find(&t, v->name)->data, s->state.params.flat + v->at,
                        v->count * sizeof(float));
    assert_memory_equal(yk_tensors_find(&t, "optimizer.velocity.softmax.weight")->data,
                        s->state.slot[0] + v->at, v->count * sizeof(float));
    yk_tensors_release(&t);
    yk_session_close(s);
}

static void spoil(const char *path, bool cut)
{
    char *bytes;
    size_t n;
    assert_int_equal(yk_file_read(path, 1 << 20, &bytes, &n, NULL), YK_OK);
    bytes[n - 5] ^= 1;
    assert_int_equal(yk_file_write(path, bytes, cut ? n / 2 : n, NULL), YK_OK);
    free(bytes);
}

/* A damaged newest one: said, passed over, and the lost steps are done again to the same end. */
static void test_damaged(void **state)
{
    (void)state;
    for (int cut = 0; cut < 2; cut++) {
        char run[16], options[64], path[YK_PATH_MAX], *log;
        size_t n;
        struct yk_session *s;
        struct yk_error e;
        snprintf(run, sizeof run, "run%d", cut);
        snprintf(options, sizeof options, "run=%s-straight batch=50 steps=30 optimizer=adam", run);
        done(options);
        snprintf(options, sizeof options, "run=%s batch=50 steps=12 optimizer=adam", run);
        done(options);
        snprintf(options, sizeof options, "resume=%s steps=20", run);
        done(options);
        assert_int_equal(yk_path(path, NULL, "%s/checkpoints/step-000000000020.safetensors", run),
                         YK_OK);
        spoil(path, cut);
        snprintf(options, sizeof options, "resume=%s steps=30", run);
        assert_int_equal(tiny_open(&s, options, &e), YK_OK);
        assert_int_equal(s->now.step, 12);
        assert_int_equal(yk_session_train(s, &e), YK_OK);
        yk_session_close(s);
        assert_int_equal(yk_path(path, NULL, "%s/log.txt", run), YK_OK);
        assert_int_equal(yk_file_read(path, 1 << 20, &log, &n, NULL), YK_OK);
        assert_non_null(strstr(log, "step-000000000020.safetensors"));
        assert_non_null(strstr(log, "falling back"));
        free(log);
        snprintf(path, sizeof path, "%s-straight", run);
        assert_same_state(path, run);
    }
    struct yk_session *s; /* and if none is whole */
    struct yk_error e;
    spoil("run0/checkpoints/step-000000000030.safetensors", true);
    spoil("run0/checkpoints/step-000000000012.safetensors", true);
    if (yk_exists("run0/checkpoints/step-000000000020.safetensors"))
        spoil("run0/checkpoints/step-000000000020.safetensors", true);
    assert_int_equal(tiny_open(&s, "resume=run0 steps=40", &e), YK_DATA);
}

static void test_other_data(void **state)
{
    (void)state;
    struct yk_session *s;
    struct yk_error e;
    done("run=a steps=3");
    spoil("data/train-images-idx3-ubyte", false); /* one pixel */
    assert_int_equal(tiny_open(&s, "resume=a steps=5", &e), YK_DATA);
    assert_non_null(strstr(e.text, "has changed"));
    assert_non_null(strstr(e.hint, "without --resume"));
    tiny_write("data", "train", TINY_TRAIN, TINY_SIDE, 1);
    assert_int_equal(tiny_open(&s, "resume=a steps=5", &e), YK_OK);
    yk_session_close(s);
}

/* Whole files that are not this run's are told by what they say of themselves, and if all that
 * is the same, by the run's id; there is no fallback to an older one. */
static void test_other_checkpoint(void **state)
{
    (void)state;
    static const char *const RUN[][2] = {
        {"optimizer=adam", "belongs to another run: its optimizer is adam, config.json says sgd"},
        {"seed=5", "belongs to another run: its seed is 5, config.json says 1"},
        {"lr=0.5 batch=10", "belongs to another run: its run_id is "},
        {"batch=100", "belongs to another run: its run_id is "},
    };
    struct yk_session *s;
    struct yk_error e;
    done("run=a steps=3 batch=100");
    for (size_t i = 0; i < sizeof RUN / sizeof RUN[0]; i++) {
        char options[64], theirs[YK_PATH_MAX];
        snprintf(options, sizeof options, "run=b%zu steps=5 %s", i, RUN[i][0]);
        done(options);
        snprintf(theirs, sizeof theirs, "b%zu/checkpoints/step-000000000005.safetensors", i);
        assert_int_equal(rename(theirs, "a/checkpoints/step-000000000005.safetensors"), 0);
        assert_int_equal(tiny_open(&s, "resume=a steps=7", &e), YK_DATA);
        if (strstr(e.text, RUN[i][1]) == NULL)
            fail_msg("%s: %s", RUN[i][0], e.text);
        assert_non_null(strstr(e.hint, "move it out of the folder"));
    }
    assert_int_equal(unlink("a/checkpoints/step-000000000005.safetensors"), 0);
    done("resume=a steps=7");
}

/* The newest checkpoint of `run`, changed: `key` becomes `value` (NULL: it goes), or, of a
 * tensor, its shape or one float. Its checksums are right. */
static void forge(const char *run, const char *key, const char *value)
{
    struct yk_tensors t;
    struct yk_error e;
    char dir[64], path[YK_PATH_MAX];
    int found;
    size_t metas = 0;
    snprintf(dir, sizeof dir, "%s/checkpoints", run);
    assert_int_equal(yk_checkpoint_newest(dir, &t, path, &found, NULL, NULL, &e), YK_OK);
    struct yk_meta *meta = calloc(t.metas + 1, sizeof *meta);
    assert_non_null(meta);
    for (size_t i = 0; i < t.metas; i++)
        if (strcmp(t.meta[i].key, key) != 0)
            meta[metas++] = t.meta[i];
    for (size_t i = 0; i < t.n && value != NULL; i++)
        if (strcmp(t.tensor[i].name, key) == 0 && strcmp(value, "transposed") == 0) {
            uint64_t rows = t.tensor[i].shape[0];
            t.tensor[i].shape[0] = t.tensor[i].shape[1];
            t.tensor[i].shape[1] = rows;
        } else if (strcmp(t.tensor[i].name, key) == 0) {
            ((float *)(uintptr_t)t.tensor[i].data)[1] = strtof(value, NULL);
        }
    if (value != NULL && yk_tensors_find(&t, key) == NULL) {
        snprintf(meta[metas].key, sizeof meta[metas].key, "%s", key);
        snprintf(meta[metas++].value, sizeof meta[0].value, "%s", value);
    }
    assert_int_equal(yk_tensors_write(path, t.tensor, t.n, meta, metas, &e), YK_OK);
    yk_tensors_release(&t);
    free(meta);
}

/* Whatever a file says of itself with right checksums, a resume ends with a sentence, at once. */
static void test_forged(void **state)
{
    (void)state;
    static const char *const CASES[][3] = {
        {"format", "yoke-9", "has the format 'yoke-9'"},
        {"format", NULL, "was not written by yoke"},
        {"model", "lenet", "its model is lenet, config.json says softmax"},
        {"model", NULL, "its model is not recorded, config.json says softmax"},
        {"optimizer", "adam", "its optimizer is adam, config.json says momentum"},
        {"seed", "2", "its seed is 2, config.json says 1"},
        {"seed", "", "its seed is , config.json says 1"},
        {"run_id", "0123456789abcdef", "its run_id is 0123456789abcdef, config.json says "},
        {"net.0", "dense 10", "its net is not the one in config.json"},
        {"classes", "3", "does not fit this run"},
        {"shape", "4x16x1", "does not fit this run"},
        {"step", "-5", "does not fit this run"},
        {"step", "abc", "does not fit this run"},
        {"step", "18446744073709551615", "does not fit this run"},
        {"examples", "18446744073709551615", "does not fit this run"},
        {"examples", "9223372036854775808", "does not fit this run"},
        {"examples", NULL, "does not fit this run"},
        {"loss_examples", "301", "does not fit this run"},
        {"epoch", "9007199254740992", "does not fit this run"},
        {"epoch_at", "1003", "does not fit this run"},
        {"seconds", "-1", "does not fit this run"},
        {"seconds", "inf", "does not fit this run"},
        {"loss", "nan", "does not fit this run"},
        {"loss", "much", "does not fit this run"},
        {"total_loss", "", "does not fit this run"},
        {"softmax.weight", "transposed", "of another shape"},
        {"optimizer.velocity.softmax.weight", "transposed", "of another shape"},
        {"softmax.weight", "nan", "infinite or NaN"},
        {"optimizer.velocity.softmax.bias", "-inf", "infinite or NaN"},
    };
    static const char NEWEST[] = "a/checkpoints/step-000000000003.safetensors";
    struct yk_session *s;
    struct yk_error e;
    char *whole, *config;
    size_t n, length;
    done("run=a steps=3 batch=100 optimizer=momentum");
    assert_int_equal(yk_file_read(NEWEST, 1 << 20, &whole, &n, NULL), YK_OK);
    assert_int_equal(yk_file_read("a/config.json", 1 << 20, &config, &length, NULL), YK_OK);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        forge("a", CASES[i][0], CASES[i][1]);
        yk_code rc = tiny_open(&s, "resume=a steps=5", &e);
        if (rc != YK_DATA || strstr(e.text, CASES[i][2]) == NULL)
            fail_msg("%s, %s: %d %s", CASES[i][0], CASES[i][1] != NULL ? CASES[i][1] : "absent", rc,
                     e.text);
        assert_int_equal(yk_file_write(NEWEST, whole, n, NULL), YK_OK);
    }
    char *seed = strstr(config, "\"seed\": 1,"); /* and the other way round */
    assert_non_null(seed);
    seed[8] = '2';
    assert_int_equal(yk_file_write("a/config.json", config, length, NULL), YK_OK);
    assert_int_equal(tiny_open(&s, "resume=a steps=5", &e), YK_DATA);
    assert_non_null(strstr(e.text, "its seed is 1, config.json says 2"));
    seed[8] = '1';
    assert_int_equal(yk_file_write("a/config.json", config, length, NULL), YK_OK);
    done("resume=a steps=5");
    free(whole);
    free(config);
}

/* The id of the run in `run`/config.json. */
static void id_of(const char *run, char out[32])
{
    json_t *config;
    char path[64];
    snprintf(path, sizeof path, "%s/config.json", run);
    assert_int_equal(yk_json_load(path, &config, NULL), YK_OK);
    snprintf(out, 32, "%s", json_string_value(json_object_get(config, "run_id")));
    json_decref(config);
}

/* A run keeps its id; two have not the same. Files and folders of an older yoke, which have
 * none, go on, and have one from then on: that of the checkpoint, if it has one. */
static void test_run_id(void **state)
{
    (void)state;
    char a[32], b[32], now[32];
    struct yk_tensors t;
    json_t *config;
    done("run=a steps=3");
    done("run=b steps=3");
    id_of("a", a);
    id_of("b", b);
    assert_true(strlen(a) == 16 && strspn(a, "0123456789abcdef") == 16);
    assert_string_not_equal(a, b);
    newest("a", &t);
    assert_string_equal(meta(&t, "run_id"), a);
    yk_tensors_release(&t);
    done("resume=a steps=4");
    id_of("a", now);
    assert_string_equal(now, a);
    forge("a", "run_id", NULL);
    done("resume=a steps=5");
    id_of("a", now);
    assert_string_equal(now, a);
    for (int both = 0; both < 2; both++) {
        assert_int_equal(yk_json_load("a/config.json", &config, NULL), YK_OK);
        json_object_del(config, "run_id");
        assert_int_equal(yk_json_save("a/config.json", config, NULL), YK_OK);
        json_decref(config);
        if (both)
            forge("a", "run_id", NULL);
        done(both ? "resume=a steps=7" : "resume=a steps=6");
        id_of("a", now);
        if (both)
            assert_string_not_equal(now, a);
        else
            assert_string_equal(now, a);
        newest("a", &t);
        assert_string_equal(meta(&t, "run_id"), now);
        yk_tensors_release(&t);
    }
    done("resume=a steps=8");
}

/* A run that had a checkpoint and has none is not started over; one that never had is. */
static void test_lost(void **state)
{
    (void)state;
    struct yk_session *s;
    struct yk_error e;
    json_t *config;
    done("run=a steps=3");
    assert_int_equal(yk_json_load("a/config.json", &config, NULL), YK_OK);
    assert_int_equal(json_integer_value(json_object_get(config, "first_checkpoint")), 3);
    done("resume=a steps=5");
    yk_checkpoint_drop_after("a/checkpoints", 0);
    assert_int_equal(tiny_open(&s, "resume=a steps=7", &e), YK_DATA);
    assert_non_null(strstr(e.text, "'a' has lost its checkpoints: it had one of step 3"));
    assert_non_null(strstr(e.hint, "a/checkpoints"));
    json_object_del(config, "first_checkpoint");
    assert_int_equal(yk_json_save("a/config.json", config, NULL), YK_OK);
    done("resume=a steps=7");
    json_decref(config);
    assert_int_equal(yk_json_load("a/config.json", &config, NULL), YK_OK);
    assert_int_equal(json_integer_value(json_object_get(config, "first_checkpoint")), 7);
    json_decref(config);
}

/* A disk that says no is an error of the run, and the checkpoint before it stays. */
static void test_cannot_write(void **state)
{
    (void)state;
    struct yk_session *s;
    struct yk_error e;
    assert_int_equal(tiny_open(&s, "run=a steps=3", &e), YK_OK);
    rmdir("a/checkpoints");
    assert_int_equal(yk_file_write("a/checkpoints", "in the way", 10, NULL), YK_OK);
    assert_int_not_equal(yk_session_train(s, &e), YK_OK);
    assert_non_null(strstr(e.text, "a/checkpoints"));
    yk_session_close(s);
}

/* Snapshots are copies: training on does not change them, and they bring everything back. */
static void test_snapshot(void **state)
{
    (void)state;
    struct yk_session *s = tiny_train("steps=7 optimizer=adam batch=100"),
                      *other = tiny_train("steps=3 optimizer=adam batch=100");
    struct yk_snapshot snap = {0};
    char seven[17], hash[17];
    size_t bytes = s->state.params.count * sizeof(float);
    assert_int_equal(yk_snapshot_init(&snap, &s->crew, &s->state, true, NULL), YK_OK);
    yk_snapshot_take(&snap, &s->crew, &s->state, &s->now);
    yk_params_hash(&s->state.params, seven);
    assert_int_equal(snap.at.step, 7);
    memset(s->state.params.flat, 0, bytes);
    memset(s->state.slot[1], 0, bytes);
    yk_params_hash(&snap.params, hash);
    assert_string_equal(hash, seven);
    yk_snapshot_restore(&snap, &other->crew, &other->state);
    yk_params_hash(&other->state.params, hash);
    assert_string_equal(hash, seven);
    assert_true(other->crew.server[0].owner.step == 7 && snap.at.examples == 700 &&
                snap.at.position == 700);
    assert_memory_equal(other->state.slot[1], snap.slot[1], bytes);
    bool any = false;
    for (size_t i = 0; i < s->state.params.count; i++)
        any |= snap.slot[1][i] > 0;
    assert_true(any);
    yk_snapshot_release(&snap);
    yk_snapshot_release(&snap);
    yk_session_close(s);
    yk_session_close(other);
}

/* A run of `options` and so many steps: it ends with a model of numbers, or with an error;
 * either way the newest checkpoint holds numbers and is of a step before the one that broke.
 * Returns the error's text, "" if there is none. */
static const char *last_step(const char *options, int steps)
{
    static struct yk_error e;
    static int runs;
    char all[256], run[16], dir[64], path[YK_PATH_MAX];
    struct yk_session *s;
    struct yk_tensors t;
    int found;
    snprintf(run, sizeof run, "run%d", runs++);
    snprintf(all, sizeof all, "run=%s %s steps=%d checkpoint-every=1 keep=9", run, options, steps);
    assert_int_equal(tiny_open(&s, all, &e), YK_OK);
    yk_code rc = yk_session_train(s, &e);
    uint64_t end = s->now.step;
    yk_session_close(s);
    assert_true(rc == YK_OK || rc == YK_FAILED);
    assert_true(rc == YK_OK || strstr(e.text, "training diverged: ") != NULL);
    assert_true(rc == YK_OK || strstr(e.hint, "smaller --lr") != NULL);
    snprintf(dir, sizeof dir, "%s/checkpoints", run);
    assert_int_equal(yk_checkpoint_newest(dir, &t, path, &found, NULL, NULL, NULL), YK_OK);
    if (!found) {
        assert_int_equal(rc, YK_FAILED);
        return e.text;
    }
    for (size_t i = 0; i < t.n; i++)
        assert_true(yk_floats_finite(t.tensor[i].data, t.tensor[i].count));
    uint64_t step = strtoull(meta(&t, "step"), NULL, 10);
    yk_tensors_release(&t);
    assert_true(rc == YK_OK ? step == end : step < end);
    return rc == YK_OK ? "" : e.text;
}

/* Whichever step is the last, a model that is not made of numbers is no success: the test loss
 * of its check says so, or what was to be saved. */
static void test_diverged(void **state)
{
    (void)state;
    static const char *const CREW[] = {"mode=local workers=1", "mode=sync workers=2",
                                       "mode=async workers=2 ps=2", "mode=allreduce workers=2"};
    for (unsigned k = 0; k < 8; k++) {
        char options[192];
        bool tested = k % 2 == 0, by_loss = false, by_check = false, by_state = false, good = false;
        snprintf(options, sizeof options, "batch=100 lr=1e6 l2=1e6 optimizer=momentum%s %s",
                 tested ? "" : " data=data/train-images-idx3-ubyte", CREW[k / 2]);
        for (int steps = 1; steps <= 8; steps++) {
            const char *why = last_step(options, steps);
            good = good || why[0] == '\0';
            by_loss = by_loss || strstr(why, ": the loss of step") != NULL;
            by_check = by_check || strstr(why, "the test loss of step") != NULL;
            by_state = by_state || strstr(why, "optimizer state after step") != NULL;
        }
        if (!good || !by_loss || !(tested ? by_check : by_state)) /* otherwise nothing was tried */
            fail_msg("'%s': good %d, loss %d, check %d, state %d", options, good, by_loss, by_check,
                     by_state);
    }
}

/* kill -9 while it trains and writes: what was saved last is whole, and from there the bits are
 * the same. */
static void test_killed(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct yk_session *s;
        struct yk_error e;
        if (tiny_open(
                &s, "run=a steps=1000000000 batch=10 checkpoint-every=20 optimizer=momentum keep=2",
                &e) == YK_OK)
            yk_session_train(s, &e);
        _exit(1);
    }
    unsigned files = 0;
    for (int tries = 0; files < 2 && tries < 2000;
         tries++) { /* at least two have come, whatever the machine is doing */
        usleep(5000);
        files = 0;
        DIR *dir = opendir("a/checkpoints");
        for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;)
            files += strstr(d->d_name, ".safetensors") != NULL && strstr(d->d_name, ".tmp") == NULL;
        if (dir != NULL)
            closedir(dir);
    }
    int status;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && files >= 2);

    struct yk_tensors t;
    newest("a", &t);
    unsigned long long step = strtoull(meta(&t, "step"), NULL, 10);
    yk_tensors_release(&t);
    char options[96];
    snprintf(options, sizeof options, "resume=a steps=%llu", step + 33);
    done(options);
    snprintf(options, sizeof options, "run=straight steps=%llu batch=10 optimizer=momentum",
             step + 33);
    done(options);
    assert_same_state("a", "straight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_killed, tiny_setup,
                                        tiny_teardown), /* first: no thread has been started yet */
        cmocka_unit_test_setup_teardown(test_resume, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_metadata, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_damaged, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_other_data, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_other_checkpoint, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_forged, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_run_id, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_lost, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_cannot_write, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_diverged, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_snapshot, tiny_setup, tiny_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
