/* pack_test.c - runs with --compress, over a simulated network between real servers and workers:
 * rounding errors are not lost, workers of whole batches all compute with the same parameters, and
 * runs survive lost workers and refuse broken messages. */
#include "tests/sim_network.h"

#include <math.h>

static const char *const CODEC[] = {"bf16", "fp16", "int8", "topk:0.1"};
enum { CODECS = 4, STEPS = 400 };

static struct yk_codec codec_of(const char *name)
{
    struct yk_codec c;
    assert_int_equal(yk_codec_parse(name, &c, NULL), YK_OK);
    c.piece = 32; /* a few pieces an owner, so small is the cluster */
    return c;
}

/* One number is so large that in int8 most others are less than half a step: rounded off at
 * every step they would never arrive. Among a few that are always the largest, the others would
 * wait for long. */
static float large = 100;
static float large_and_small(size_t i)
{
    return i % 40 == 5 ? large : i < CLUSTER_ROWS ? 0.05f * (float)(1 + i % 7) : 0;
}

static void uneven(uint64_t from, uint64_t to, float *g, size_t n)
{
    for (size_t i = 0; i < n; i++)
        g[i] = large_and_small(i) * (float)(to - from);
}

static struct yk_rule rule_of(unsigned kind, unsigned workers, unsigned owners, const char *codec)
{
    static const enum yk_mode MODE[] = {YK_MODE_sync, YK_MODE_async, YK_MODE_allreduce};
    struct yk_rule rule = kind == 3 ? cluster_backup_rule(workers, 1, owners)
                                    : cluster_rule(MODE[kind], workers, owners);
    rule.held = kind != 1;
    rule.codec = codec_of(codec);
    rule.last_step = STEPS;
    return rule;
}

static void open_steady(struct cluster *r, struct network *o, const struct yk_rule *rule,
                        cluster_gradient g)
{
    cluster_open(r, rule, yk_optimizer_find("sgd"), g);
    network_open(o, r);
    for (unsigned k = 0; k < rule->owners; k++)
        r->server[k].owner.schedule.shape = YK_CONSTANT;
}

static void play(struct network *o, uint64_t seed)
{
    struct yk_rng rng;
    yk_rng_init(&rng, seed, 9, 0, 0);
    for (uint64_t i = 0; o->cluster->server[0].state < YK_SERVER_ENDED || o->under_way > 0; i++) {
        if (i > 3000000)
            fail_msg("nobody goes on at step %d", (int)o->cluster->steps);
        network_event(o, &rng);
    }
    assert_int_equal(o->cluster->server[0].failed, YK_OK);
}

static unsigned packed, plain;

/* Gradients of more than a few floats are packed, and so is every set of parameters but a
 * worker's first. */
static bool look_at(struct network *o, struct yk_note *n, char **data)
{
    bool worker = n->from >= o->cluster->comm->owners,
         to_self = o->cluster->rule.mode == YK_MODE_allreduce &&
                   n->from % o->cluster->rule.workers == n->to % o->cluster->rule.workers;
    (void)data;
    if (n->kind != YK_PUSH && n->kind != YK_PIECE && n->kind != YK_REPLY)
        return true;
    if (n->flags & YK_PACKED_FLAG) {
        packed++;
        assert_false(to_self);
        assert_true(worker ? n->bytes < 4 * 32 : n->bytes <= 4 * 32);
    } else if (worker && !to_self) {
        plain++;
        assert_true(n->bytes < 40);
    } else if (!to_self && n->bytes > 0) {
        assert_int_equal(n->step, 0);
    }
    return true;
}

/* After hundreds of steps the weights are off by about one rounding, not by hundreds. */
static void test_nothing_is_lost(void **state)
{
    (void)state;
    static const float OFF[CODECS] = {
        0.5f, 0.1f, 1, 10}; /* times the rate; the sum of all steps is 20 to 140, and 40,000 */
    for (unsigned c = 0; c < CODECS; c++)
        for (unsigned kind = 0; kind < 4; kind++)
            for (unsigned workers = kind == 3 ? 2 : 1; workers <= 3; workers++) {
                unsigned owners = kind == 2 ? workers : 1 + (workers + c) % 3;
                const struct yk_rule rule = rule_of(kind, workers, owners, CODEC[c]);
                struct network o;
                struct cluster r;
                packed = plain = 0;
                large = c == 3 ? 0.4f : 100;
                open_steady(&r, &o, &rule, uneven);
                o.intercept = look_at;
                cluster_start(&r, true);
                play(&o, workers + 10 * c);
                assert_int_equal(r.steps, STEPS);
                for (size_t i = 0; i < CLUSTER_ROWS; i++) {
                    float expected = -0.01f * STEPS * large_and_small(i),
                          off = fabsf(r.params.flat[i] - expected);
                    /* Dropped pushes take their carried errors with them. */
                    float most = 0.01f * OFF[c] + (kind == 3 ? 0.2f : 1e-4f) * fabsf(expected);
                    if (off > most)
                        fail_msg("%s, kind %u, %u workers, %u owners: %g instead of %g", CODEC[c],
                                 kind, workers, owners, (double)r.params.flat[i], (double)expected);
                }
                assert_true(packed > 0 || (kind == 2 && workers == 1));
                network_close(&o);
            }
}

static bool stale; /* the hook below has seen parameters that are not exact */

/* Whoever is in step has what the owners believe, and that is close to what they have. */
static void compare(struct cluster *r, unsigned w)
{
    const struct yk_worker *me = &r->worker[w];
    for (unsigned k = 0; k < r->rule.owners; k++) {
        const struct yk_owner *own = &r->server[k].owner;
        for (size_t i = own->lo; i < own->hi; i++) {
            if (r->rule.pooled) { /* bf16 */
                uint32_t bits;
                memcpy(&bits, &me->params.flat[i], sizeof bits);
                assert_int_equal(bits & 0xffff, 0);
                continue;
            }
            if (own->step != r->driver[w].task.step)
                continue; /* this owner is ahead; another lacks a push */
            if (r->server[k].buckets.applied[(i - own->lo) / r->rule.codec.piece])
                continue; /* of the step that is done again */
            assert_true(me->params.flat[i] == r->server[k].pack.known[i - own->lo]);
            float off = fabsf(me->params.flat[i] - own->weights[i]);
            assert_true(off <= 0.02f + 0.1f * fabsf(own->weights[i]));
            stale = stale || off > 0;
        }
    }
}

/* A problem whose gradients depend on the parameters: the result is that of the run without
 * compression, up to a few roundings. */
static void exact(uint64_t steps, float *w)
{
    struct yk_rule rule = cluster_batches(1, 1, steps);
    struct cluster r;
    cluster_open(&r, &rule, yk_optimizer_find("sgd"), NULL);
    r.touch = cluster_some;
    cluster_start(&r, true);
    cluster_play(&r, 1, false);
    memcpy(w, r.params.flat, CLUSTER_ROWS * sizeof *w);
    cluster_close(&r);
}

static void assert_near(const struct cluster *r, const float *expected, float share)
{
    float most = 0;
    for (size_t i = 0; i < CLUSTER_ROWS; i++)
        most = fmaxf(most, fabsf(expected[i]));
    for (size_t i = 0; i < CLUSTER_ROWS; i++)
        if (fabsf(r->params.flat[i] - expected[i]) > share * most)
            fail_msg("%g instead of %g, of at most %g", (double)r->params.flat[i],
                     (double)expected[i], (double)most);
}

static void test_in_step(void **state)
{
    (void)state;
    float expected[CLUSTER_ROWS];
    exact(25, expected);
    stale = false;
    for (unsigned c = 0; c < CODECS - 1; c++)
        for (unsigned workers = 1; workers <= 4; workers++)
            for (unsigned owners = 1; owners <= 3; owners++) {
                struct yk_rule rule = cluster_batches(workers, owners, 25);
                struct network o;
                struct cluster r;
                rule.held = true; /* as between processes, of one worker too */
                rule.codec = codec_of(CODEC[c]);
                cluster_open(&r, &rule, yk_optimizer_find("sgd"), NULL);
                r.touch = cluster_some;
                r.pulled = compare;
                network_open(&o, &r);
                cluster_start(&r, true);
                play(&o, workers);
                assert_near(&r, expected, c == 2 ? 0.05f : 0.01f);
                network_close(&o);
            }
    assert_true(stale); /* or nothing was rounded */
}

static void test_as_they_like(void **state)
{
    (void)state;
    for (unsigned c = 0; c < CODECS; c++)
        for (unsigned kind = 1; kind <= 3; kind += 2) {
            struct yk_rule rule = rule_of(kind, 3, 2, CODEC[c]);
            struct network o;
            struct cluster r;
            rule.last_step = 60;
            cluster_open(&r, &rule, yk_optimizer_find("sgd"), NULL);
            r.touch = cluster_some;
            r.pulled = compare;
            network_open(&o, &r);
            cluster_start(&r, true);
            play(&o, c);
            assert_int_equal(r.steps, 60);
            network_close(&o);
        }
}

/* Two of four are lost at any moment, and in half of the runs one is replaced: those who live
 * on, and the new one, have what owners believe that they have. A change that is added twice, or
 * to another step's parameters, would be seen at once. */
static void test_losses(void **state)
{
    (void)state;
    float expected[CLUSTER_ROWS];
    unsigned new_ones = 0;
    exact(25, expected);
    for (uint64_t seed = 0; seed < 150; seed++) {
        struct yk_rule rule = cluster_batches(4, 1 + (unsigned)seed % 3, 25);
        struct network o;
        struct cluster r;
        struct yk_rng rng;
        struct yk_error e;
        rule.codec = codec_of(CODEC[seed % 2 * 2]);
        cluster_open(&r, &rule, yk_optimizer_find("sgd"), NULL);
        r.touch = cluster_some;
        r.pulled = compare;
        r.replaces = seed % 4 >= 2;
        network_open(&o, &r);
        cluster_start(&r, true);
        yk_rng_init(&rng, seed, 3, 0, 0);
        uint64_t first = 100 + yk_rng_below(&rng, 4000),
                 second = r.replaces ? UINT64_MAX : first + yk_rng_below(&rng, 300);
        for (uint64_t i = 0; r.server[0].state < YK_SERVER_ENDED || o.under_way > 0; i++) {
            if (i > 3000000)
                fail_msg("seed %d: nobody goes on at step %d", (int)seed, (int)r.steps);
            if ((i == first || i == second) && r.server[0].state < YK_SERVER_ENDED)
                network_lose_worker(&o, i == first ? 1 : 3, &rng);
            if (r.server[0].replace.called && o.under_way == 0) {
                yk_worker_release(&r.worker[1]);
                assert_int_equal(
                    yk_worker_init(&r.worker[1], r.comm, &r.rule, 1, &r.params, true, &e), YK_OK);
                r.driver[1] = (struct cluster_driver){0};
                o.end[yk_worker_endpoint(r.comm, 1)].gone = false;
                for (unsigned k = 0; k < rule.owners; k++)
                    yk_server_replaced(&r.server[k], 1, true);
                yk_worker_start(&r.worker[1]);
                new_ones++;
            }
            network_event(&o, &rng);
        }
        assert_int_equal(r.server[0].failed, YK_OK);
        assert_int_equal(r.steps, 25);
        assert_near(&r, expected, 0.06f);
        network_close(&o);
    }
    assert_true(new_ones > 20);
}

enum wrong { SHORT, COUNT, NONE, EMPTY, WRONGS };
static enum wrong wrong;
static unsigned spoilt;
static size_t spoilt_at;

static bool spoil(struct network *o, struct yk_note *n, char **data)
{
    static const uint64_t COUNTS[] = {[COUNT] = 1000000, [NONE] = 0, [EMPTY] = UINT64_MAX};
    (void)o;
    if (n->kind != YK_PUSH || n->to != 1 || !(n->flags & YK_PACKED_FLAG) || spoilt++ > 0)
        return true;
    spoilt_at = n->push.lo;
    if (wrong == SHORT)
        n->bytes -= 1;
    else
        memcpy(*data, &COUNTS[wrong], 8);
    return true;
}

/* A packed push that is not what it says ends the job with a reason, and nothing is written
 * beyond its place (the sanitizers look). */
static void test_wrong(void **state)
{
    (void)state;
    for (wrong = 0; wrong < WRONGS; wrong++) {
        struct yk_rule rule = rule_of(0, 2, 2, "int8");
        struct network o;
        struct cluster r;
        struct yk_rng rng;
        open_steady(&r, &o, &rule, uneven);
        spoilt = 0;
        o.intercept = spoil;
        cluster_start(&r, true);
        yk_rng_init(&rng, wrong, 6, 0, 0);
        for (uint64_t i = 0; i < 100000 && r.server[0].failed == YK_OK; i++)
            network_event(&o, &rng);
        assert_true(r.server[0].failed == YK_FAILED &&
                    strstr(r.server[0].why, "a packed push does not fit its range") != NULL);
        assert_true(r.params.flat[spoilt_at] == 0); /* other buckets may have been applied */
        network_close(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_lost), cmocka_unit_test(test_in_step),
        cmocka_unit_test(test_as_they_like),    cmocka_unit_test(test_losses),
        cmocka_unit_test(test_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
