/* exchange_range_test.c - the semantics of all modes, with real servers and workers, driven
 * event by event or in threads: which pushes form a step, which are dropped, and that none is
 * lost or applied twice. Each test would fail under a usual mistake, which it names. */
#include "tests/sim_cluster.h"

/* What the steps [0, steps) of whole batches make of zero weights, by one plain call of the
 * optimizer each. */
static void by_hand(const struct cluster *r, uint64_t steps, float *w, bool sum_for_mean)
{
    float g[CLUSTER_ROWS],
        state[YK_SLOTS][CLUSTER_ROWS] = {{0}}, *const slot[YK_SLOTS] = {state[0], state[1]};
    uint64_t at = 0;
    memset(w, 0, CLUSTER_ROWS * sizeof *w);
    for (uint64_t step = 0; step < steps; step++) {
        uint64_t left = CLUSTER_ROWS - at % CLUSTER_ROWS,
                 b = left < CLUSTER_BATCH ? left : CLUSTER_BATCH;
        struct yk_update u = r->recipe.constants;
        u.lr = (float)yk_schedule_at(&r->recipe.schedule, r->recipe.lr, step);
        u.scale = sum_for_mean ? 1 : 1.0f / (float)b;
        u.step = step;
        r->gradient(at, at + b, g, CLUSTER_ROWS);
        r->recipe.optimizer->apply(&u, w, g, slot, CLUSTER_ROWS);
        at += b;
    }
}

/* Shards of 3, 3 and 4 examples, and at the end of an epoch of 1: the update is the mean over
 * examples, not the sum, and not the mean of the workers' means. Any number of workers and
 * owners; every optimizer. */
static void test_mean(void **state)
{
    (void)state;
    for (unsigned o = 0; yk_optimizer_at(o) != NULL; o++)
        for (unsigned workers = 1; workers <= 4; workers++)
            for (unsigned owners = 1; owners <= 3; owners++) {
                struct yk_rule rule = cluster_rule(YK_MODE_sync, workers, owners);
                struct cluster r;
                float expected[CLUSTER_ROWS], sums[CLUSTER_ROWS];
                rule.last_step = 2 * CLUSTER_PARTS;
                cluster_open(&r, &rule, yk_optimizer_at(o), cluster_whole);
                cluster_start(&r, true);
                cluster_play(&r, workers, false);
                by_hand(&r, rule.last_step, expected, false);
                by_hand(&r, rule.last_step, sums, true);
                assert_memory_equal(r.params.flat, expected, sizeof expected);
                assert_memory_not_equal(r.params.flat, sums, sizeof sums);
                assert_true(r.examples == 2 * CLUSTER_ROWS && r.loss == 2 * CLUSTER_ROWS);
                cluster_close(&r);
            }
    /* in this one case the mean of the means can be told by hand: workers with 3 and 4 of 7
     * examples, one weight */
    struct yk_rule rule = cluster_rule(YK_MODE_sync, 2, 1);
    struct cluster r;
    float g[3][CLUSTER_ROWS];
    rule.batch = 7;
    rule.last_step = 1;
    cluster_open(&r, &rule, yk_optimizer_find("sgd"), cluster_whole);
    cluster_start(&r, true);
    cluster_play(&r, 1, false);
    cluster_whole(0, 3, g[0], CLUSTER_ROWS);
    cluster_whole(3, 7, g[1], CLUSTER_ROWS);
    cluster_whole(0, 7, g[2], CLUSTER_ROWS);
    for (size_t i = 0; i < CLUSTER_ROWS; i++) {
        float mean = 0.01f * (1.0f / 7) * g[2][i], wrong = 0.01f * (g[0][i] / 3 + g[1][i] / 4) / 2;
        assert_true(r.params.flat[i] == -mean);
        g[0][i] = wrong - mean;
    }
    assert_true(g[0][0] != 0 && g[0][1] != 0);
    cluster_close(&r);
}

/* Twelve shards: the same bits for any number of workers and owners, whatever order their pushes
 * come in; other bits for other shards. */
static void test_bits(void **state)
{
    (void)state;
    for (unsigned o = 0; yk_optimizer_at(o) != NULL; o++) {
        float first[CLUSTER_ROWS] = {0};
        for (unsigned shards = 12; shards >= 11; shards--)
            for (unsigned workers = 1; workers <= 5; workers++)
                for (unsigned owners = 1; owners <= 3; owners++) {
                    struct yk_rule rule =
                        cluster_rule(workers == 1 && owners == 1 ? YK_MODE_local : YK_MODE_sync,
                                     workers, owners);
                    struct cluster r;
                    rule.shards = shards;
                    rule.last_step = 15;
                    cluster_open(&r, &rule, yk_optimizer_at(o), cluster_noise);
                    cluster_start(&r, true);
                    cluster_play(&r, workers * 10 + owners, owners == 2);
                    if (shards == 12 && workers == 1 && owners == 1)
                        memcpy(first, r.params.flat, sizeof first);
                    else if (shards == 12)
                        assert_memory_equal(r.params.flat, first, sizeof first);
                    else
                        assert_memory_not_equal(r.params.flat, first, sizeof first);
                    cluster_close(&r);
                }
    }
}

/* A step needs each of its pushes, the very first one too, and counts once for all of them;
 * nobody is answered before. */
static void test_no_tokens(void **state)
{
    (void)state;
    for (unsigned owners = 1; owners <= 3; owners++) {
        const struct yk_rule rule = cluster_rule(YK_MODE_sync, 3, owners);
        struct cluster r;
        cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
        cluster_start(&r, false);
        for (unsigned w = 0; w < 3;
             w++) { /* they come late, and nobody waits for the others to come */
            assert_false(cluster_answered(&r, w));
            yk_worker_start(&r.worker[w]);
            assert_true(cluster_answered(&r, w));
        }
        for (uint64_t step = 0; step < 30; step++)
            for (unsigned i = 0; i < 3; i++) {
                unsigned w = (i + (unsigned)step) % 3;
                float before[CLUSTER_ROWS];
                memcpy(before, r.params.flat, sizeof before);
                assert_true(cluster_pull(&r, w));
                assert_int_equal(r.driver[w].task.step, step);
                while (!cluster_push_piece(&r, w)) { /* a part of a push is none */
                    assert_int_equal(r.steps, step);
                    assert_int_equal(r.server[0].owner.step, step);
                }
                assert_int_equal(r.steps, i == 2 ? step + 1 : step);
                for (unsigned k = 0; k < owners; k++)
                    assert_int_equal(r.server[k].owner.step, r.steps);
                if (i < 2) {
                    assert_memory_equal(before, r.params.flat, sizeof before);
                    assert_false(cluster_answered(&r, w));
                } else {
                    assert_memory_not_equal(before, r.params.flat, sizeof before);
                }
            }
        for (unsigned w = 0; w < 3; w++)
            assert_true(cluster_answered(&r, w) && r.clock.member[w].ledger.steps == 30 &&
                        r.clock.member[w].ledger.dropped == 0);
        cluster_close(&r);
    }
}

/* A step of three of four pushes: the fourth is stale. Accepting it would be the mistake, and so
 * would forgetting its examples. */
static void test_stale(void **state)
{
    (void)state;
    for (unsigned owners = 1; owners <= 3; owners++) {
        const struct yk_rule rule = cluster_backup_rule(4, 1, owners);
        struct cluster r;
        float before[CLUSTER_ROWS];
        cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
        cluster_start(&r, true);
        for (unsigned w = 0; w < 4; w++)
            assert_true(cluster_pull(&r, w) && r.driver[w].task.id == w * CLUSTER_BATCH);
        for (unsigned i = 0; i < 3; i++)
            cluster_push_piece(&r, 1); /* owners at the end have it, the others have not */
        cluster_push(&r, 3);
        cluster_push(&r, 0);
        assert_int_equal(r.steps, 0);
        cluster_push(&r, 2);
        assert_true(r.steps == 1 && r.examples == 3 * CLUSTER_BATCH);
        for (size_t i = 0; i < CLUSTER_ROWS; i++)
            assert_true(r.params.flat[i] == (float)(i < 10 || (i >= 20 && i < 40)));
        memcpy(before, r.params.flat, sizeof before);
        assert_false(cluster_answered(&r, 1));
        while (!cluster_push_piece(&r, 1))
            ;
        assert_memory_equal(r.params.flat, before, sizeof before);
        assert_true(r.steps == 1 && cluster_dropped(&r) == 1 &&
                    r.clock.member[1].ledger.dropped == 1);
        for (unsigned k = 0; k < owners; k++)
            assert_int_equal(r.server[k].owner.step, 1);
        assert_true(cluster_pull(&r, 1)); /* it goes on at once, with what it had not got done */
        assert_true(r.driver[1].task.step == 1 && r.driver[1].task.id == 10);
        for (unsigned w = 0; w < 4; w++)
            if (w != 1)
                assert_true(cluster_pull(&r, w) && r.driver[w].task.id >= 40);
        cluster_push(&r, 0);
        cluster_push(&r, 1);
        cluster_push(&r, 2);
        cluster_push(&r, 3); /* on time, but one too many: dropped as well */
        assert_true(r.steps == 2 && cluster_dropped(&r) == 2 &&
                    r.clock.member[3].ledger.dropped == 1);
        cluster_close(&r);
    }
}

enum { STEPS = 40, PARTS_MOST = 5 };
static struct {
    uint64_t id[STEPS][PARTS_MOST]; /* the parts that made each step, */
    unsigned n[STEPS];              /* so many */
} sets;

/* What owner 0 has named for the step that it has just closed. */
static void keep_set(struct cluster *r, const struct yk_stepped *st)
{
    unsigned n = 0;
    for (uint32_t examples = 0; examples < st->examples; n++) {
        assert_true(n < PARTS_MOST);
        uint64_t id = sets.id[st->step - 1][n] = r->server[0].set[n].id;
        assert_true(n == 0 || id > sets.id[st->step - 1][n - 1]);
        examples += yk_deal_size(&r->clock.deal, id);
    }
    sets.n[st->step - 1] = n;
}

/* A task of the present step is computed with the parameters of the present step, every float of
 * them: never with those of several. */
static void check_params(struct cluster *r, unsigned w)
{
    if (r->driver[w].task.step == r->server[0].owner.step)
        assert_memory_equal(r->worker[w].params.flat, r->params.flat, CLUSTER_ROWS * sizeof(float));
}

/* The named parts added up and applied by one owner of everything. */
static void by_sets(const struct cluster *r, float *w)
{
    static float part[PARTS_MOST][CLUSTER_ROWS];
    float state[YK_SLOTS][CLUSTER_ROWS] = {{0}}, *const slot[YK_SLOTS] = {state[0], state[1]};
    struct yk_owner one;
    memset(w, 0, CLUSTER_ROWS * sizeof *w);
    yk_owner_init(&one, &r->recipe, w, slot, 0, CLUSTER_ROWS);
    for (unsigned step = 0; step < STEPS; step++) {
        struct yk_block block[PARTS_MOST];
        uint32_t examples = 0;
        for (uint32_t k = 0; k < sets.n[step]; k++) {
            uint64_t id = sets.id[step][k], n = yk_deal_size(&r->clock.deal, id);
            cluster_noise(id, id + n, part[k], CLUSTER_ROWS);
            block[k] = (struct yk_block){.first = k, .last = k + 1, .sum = part[k]};
            examples += (uint32_t)n;
        }
        yk_owner_apply_blocks(&one, block, sets.n[step], one.lo, one.hi, examples);
        yk_owner_finish(&one);
    }
}

/* With backups, whoever is late by however much: every owner applies exactly the parts that
 * owner 0 named, in their order; no two of them ever apply different sets, and nothing else. */
static void test_sets(void **state)
{
    (void)state;
    for (unsigned o = 0; yk_optimizer_at(o) != NULL; o++)
        for (uint64_t seed = 0; seed < 12; seed++)
            for (unsigned owners = 1; owners <= 3; owners++) {
                struct yk_rule rule = cluster_backup_rule(5, 1 + (unsigned)seed % 3, owners);
                struct cluster r;
                float expected[CLUSTER_ROWS];
                rule.last_step = STEPS;
                cluster_open(&r, &rule, yk_optimizer_at(o), cluster_noise);
                r.stepped = keep_set;
                r.pulled = check_params;
                cluster_start(&r, true);
                cluster_play(&r, seed, seed % 2 == 0);
                assert_true(r.steps == STEPS && cluster_dropped(&r) > 0);
                for (unsigned k = 0; k < owners; k++)
                    assert_int_equal(r.server[k].owner.step, STEPS);
                by_sets(&r, expected);
                assert_memory_equal(r.params.flat, expected, sizeof expected);
                cluster_close(&r);
            }
}

/* As many as there are backups never come back from their first part: the others go on to the
 * end, the epochs' last parts included; and who wakes then does no harm. */
static void test_stuck(void **state)
{
    (void)state;
    for (unsigned owners = 1; owners <= 3; owners++)
        for (unsigned backup = 1; backup <= 4; backup++)
            for (uint64_t seed = 0; seed < 20; seed++) {
                struct yk_rule rule = cluster_backup_rule(5, backup, owners);
                struct cluster r;
                struct yk_rng rng;
                rule.last_step = 3 * (uint64_t)((CLUSTER_PARTS + rule.need - 1) / rule.need);
                cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
                cluster_start(&r, true);
                yk_rng_init(&rng, seed, backup, 0, 0);
                for (unsigned w = 0; w < backup; w++) {
                    assert_true(cluster_pull(&r, w));
                    for (unsigned i = yk_rng_below(&rng, CLUSTER_PIECES); i > 0; i--)
                        cluster_push_piece(&r, w);
                }
                for (unsigned i = 0; i < 100000 && r.steps < rule.last_step; i++)
                    cluster_event(&r, backup + yk_rng_below(&rng, 5 - backup));
                assert_int_equal(r.steps, rule.last_step);
                cluster_assert_counts(&r, 3);
                assert_false(r.server[0].state == YK_SERVER_ENDED);
                cluster_play(&r, seed, false);
                assert_true(r.steps == rule.last_step && cluster_dropped(&r) >= backup);
                cluster_assert_counts(&r, 3);
                cluster_close(&r);
            }
}

/* Every example exactly once an epoch, the last partial part too, whoever was slow and whatever
 * was dropped. */
static void test_once(void **state)
{
    (void)state;
    for (unsigned owners = 1; owners <= 3; owners++)
        for (unsigned kind = 0; kind < 4; kind++)
            for (uint64_t seed = 0; seed < 20; seed++) {
                struct yk_rule rule = kind == 0   ? cluster_rule(YK_MODE_async, 4, owners)
                                      : kind == 1 ? cluster_rule(YK_MODE_ssp, 4, owners)
                                      : kind == 2 ? cluster_backup_rule(4, 1, owners)
                                                  : cluster_backup_rule(5, 3, owners);
                unsigned epochs = 1 + (unsigned)seed % 4;
                struct cluster r;
                rule.staleness = kind == 1 ? (int64_t)seed % 5 : -1;
                rule.last_step = epochs * (uint64_t)((CLUSTER_PARTS + rule.need - 1) / rule.need);
                cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
                cluster_start(&r, true);
                cluster_play(&r, seed, seed % 2 == 0);
                cluster_assert_counts(&r, epochs);
                assert_true(r.steps == rule.last_step &&
                            r.examples == (uint64_t)epochs * CLUSTER_ROWS &&
                            r.loss == (double)r.examples);
                uint64_t pushes = 0, steps = 0, examples = 0;
                for (unsigned w = 0; w < rule.workers; w++) {
                    pushes += r.driver[w].pushes;
                    steps += r.clock.member[w].ledger.steps;
                    examples += r.clock.member[w].ledger.examples;
                }
                assert_int_equal(examples, r.examples);
                assert_int_equal(steps, epochs * (uint64_t)CLUSTER_PARTS);
                assert_int_equal(pushes, steps + cluster_dropped(&r));
                cluster_close(&r);
            }
}

/* Staleness: the owner's step when a push is applied, less the step it was pulled at. Never the
 * pusher's own count. */
static void test_staleness(void **state)
{
    (void)state;
    for (unsigned owners = 1; owners <= 3; owners++) {
        const struct yk_rule rule = cluster_rule(YK_MODE_async, 3, owners);
        struct cluster r;
        cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
        cluster_start(&r, true);
        for (unsigned w = 0; w < 3; w++)
            assert_true(cluster_pull(&r, w));
        cluster_push(&r, 1); /* 0 stale */
        assert_true(cluster_pull(&r, 1) && r.driver[1].task.step == 1);
        cluster_push_piece(&r, 0);
        cluster_push(&r, 1); /* 0 */
        cluster_push(&r, 0); /* pulled at 0, applied at 2 */
        assert_true(cluster_pull(&r, 1) && r.driver[1].task.step == 2);
        assert_true(cluster_pull(&r, 0) && r.driver[0].task.step == 3);
        cluster_push(&r, 1); /* pulled at 2, applied at 3 */
        cluster_push(&r, 0); /* pulled at 3, applied at 4 */
        cluster_push(&r, 2); /* pulled at 0, applied at 5 */
        const struct yk_ledger *a = &r.clock.member[0].ledger, *b = &r.clock.member[1].ledger,
                               *c = &r.clock.member[2].ledger;
        assert_true(a->steps == 2 && a->stale[2] == 1 && a->stale[1] == 1 && a->most == 2);
        assert_true(b->steps == 3 && b->stale[0] == 2 && b->stale[1] == 1 && b->most == 1);
        assert_true(c->steps == 1 && c->stale[5] == 1 && c->most == 5);
        assert_true(r.steps == 6 && cluster_dropped(&r) == 0);
        cluster_close(&r);
    }
}

/* An async worker computes with the parameters of its pull, whatever others push meanwhile. */
static void test_own_copy(void **state)
{
    (void)state;
    const struct yk_rule rule = cluster_rule(YK_MODE_async, 2, 3);
    struct cluster r;
    cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
    cluster_start(&r, true);
    assert_true(cluster_pull(&r, 0) && cluster_pull(&r, 1));
    cluster_push(&r, 1);
    assert_true(r.params.flat[20] == 1 && r.worker[0].params.flat[20] == 0);
    cluster_push(&r, 0);
    assert_true(cluster_pull(&r, 0));
    assert_memory_equal(r.worker[0].params.flat, r.params.flat, CLUSTER_ROWS * sizeof(float));
    cluster_close(&r);
}

/* Whoever is answered is at most S pushes ahead of the slowest that has work, told by the test's
 * own counts at the very moment; and S is reached. */
static void test_ssp(void **state)
{
    (void)state;
    for (int64_t s = 0; s <= 4; s++)
        for (uint64_t seed = 0; seed < 10; seed++) {
            struct yk_rule rule = cluster_rule(YK_MODE_ssp, 4, 1 + (unsigned)seed % 3);
            struct cluster r;
            struct yk_rng rng;
            bool had[4] = {false};
            uint64_t most = 0;
            rule.staleness = s;
            cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
            cluster_start(&r, true);
            yk_rng_init(&rng, seed, (uint64_t)s, 0, 0);
            for (unsigned i = 0; i < 20000; i++) {
                cluster_event(&r, yk_rng_below(&rng, 3) > 0 ? 0 : yk_rng_below(&rng, 4));
                for (unsigned w = 0; w < 4; w++) {
                    bool has = r.driver[w].busy || cluster_answered(&r, w);
                    uint64_t least = UINT64_MAX;
                    for (unsigned k = 0; k < 4; k++)
                        least = r.driver[k].pushes < least && !r.clock.member[k].idle
                                    ? r.driver[k].pushes
                                    : least;
                    if (has && !had[w] && r.driver[w].pushes > least) {
                        assert_true(r.driver[w].pushes - least <= (uint64_t)s);
                        most =
                            r.driver[w].pushes - least > most ? r.driver[w].pushes - least : most;
                    }
                    had[w] = has;
                }
            }
            assert_true(most == (uint64_t)s && r.clock.most_lead == most);
            assert_true(r.steps > 300);
            cluster_close(&r);
        }
}

/* A worker that comes when everything has been dealt finds no work; the others had waited for
 * it, and go on. */
static void test_ssp_late(void **state)
{
    (void)state;
    for (unsigned late = 0; late < 3; late++) {
        struct yk_rule rule = cluster_rule(YK_MODE_ssp, 3, 2);
        struct cluster r;
        rule.staleness = 1;
        rule.last_step = 6;
        cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
        cluster_start(&r, false);
        for (unsigned w = 0; w < 3; w++)
            if (w != late)
                yk_worker_start(&r.worker[w]);
        for (unsigned i = 0; i < 1000; i++)
            for (unsigned w = 0; w < 3; w++)
                if (w != late)
                    cluster_event(&r, w);
        assert_int_equal(r.steps,
                         4); /* two pushes each: one is what S allows, and the one that it was at */
        yk_worker_start(&r.worker[late]);
        cluster_play(&r, late, false);
        assert_true(r.steps == 6 && r.driver[late].pushes == 0 && r.clock.most_lead == 1);
        cluster_close(&r);
    }
}

/* Exactly so many steps as were asked for, not one push more, in every mode: in the middle of an
 * epoch, too. */
static void test_exact_steps(void **state)
{
    (void)state;
    static const uint64_t MANY[] = {1, 2, 3, 10, 11, 12, 37};
    for (size_t i = 0; i < sizeof MANY / sizeof MANY[0]; i++)
        for (uint64_t seed = 0; seed < 10; seed++)
            for (unsigned kind = 0; kind < 4; kind++) {
                struct yk_rule rule = kind == 0   ? cluster_rule(YK_MODE_async, 4, 2)
                                      : kind == 1 ? cluster_rule(YK_MODE_ssp, 4, 2)
                                      : kind == 2 ? cluster_backup_rule(4, 2, 2)
                                                  : cluster_rule(YK_MODE_sync, 4, 2);
                struct cluster r;
                rule.last_step = MANY[i];
                cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
                cluster_start(&r, true);
                cluster_play(&r, seed, false);
                double applied = 0;
                for (size_t k = 0; k < CLUSTER_ROWS; k++)
                    applied += (double)r.params.flat[k];
                assert_int_equal(r.steps, MANY[i]);
                assert_int_equal(r.examples, applied);
                cluster_close(&r);
            }
}

/* Halt: what is under way still counts, then all stop. Leave: from that moment on nothing
 * changes. */
static void test_halt_and_leave(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++)
        for (unsigned kind = 0; kind < 3; kind++) {
            const struct yk_rule rule = kind == 0   ? cluster_rule(YK_MODE_async, 4, 1)
                                        : kind == 1 ? cluster_backup_rule(4, 1, 1)
                                                    : cluster_rule(YK_MODE_sync, 4, 1);
            struct cluster r;
            cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
            r.verdict_at = 5;
            r.verdict = seed % 2 == 0 ? YK_HALT : YK_LEAVE;
            cluster_start(&r, true);
            cluster_play(&r, seed, false);
            double applied = 0;
            for (size_t i = 0; i < CLUSTER_ROWS; i++)
                applied += (double)r.params.flat[i];
            if (r.verdict ==
                YK_LEAVE) /* where a push is applied piece by piece one may have been under way */
                assert_memory_equal(r.params.flat, r.left, sizeof r.left);
            if (r.verdict == YK_HALT || kind > 0)
                assert_int_equal(r.examples, applied); /* counted if and only if applied */
            uint64_t pushes = 0;
            for (unsigned w = 0; w < 4; w++)
                pushes += r.driver[w].pushes;
            if (kind == 0 && r.verdict == YK_HALT)
                assert_true(r.steps == pushes && r.steps >= 5 && r.steps <= 8);
            else
                assert_int_equal(r.steps, 5);
            cluster_close(&r);
        }
    struct yk_rule rule = cluster_rule(YK_MODE_async, 4, 1); /* all at work when it is said */
    for (unsigned leave = 0; leave < 2; leave++) {
        struct cluster r;
        cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
        r.verdict_at = 1;
        r.verdict = leave ? YK_LEAVE : YK_HALT;
        cluster_start(&r, true);
        for (unsigned w = 0; w < 4; w++)
            assert_true(cluster_pull(&r, w));
        for (unsigned w = 0; w < 4; w++) {
            assert_false(r.server[0].state == YK_SERVER_ENDED);
            cluster_push(&r, w);
            assert_int_equal(r.steps, leave ? 1 : w + 1);
            assert_false(cluster_pull(&r, w));
        }
        assert_true(r.server[0].state == YK_SERVER_ENDED && cluster_dropped(&r) == 0);
        cluster_close(&r);
    }
}

/* The bound, seen from a thread that has just been let go on: the others can only have come
 * nearer since. */
static void check_lead(struct cluster *r, unsigned w)
{
    r->comm->ops->lock(r->comm, 0);
    uint64_t least = UINT64_MAX;
    for (unsigned k = 0; k < r->rule.workers; k++)
        if (!r->clock.member[k].idle && r->clock.member[k].done < least)
            least = r->clock.member[k].done;
    bool within = r->clock.member[w].done <= least + (uint64_t)r->rule.staleness;
    r->comm->ops->unlock(r->comm, 0);
    assert_true(within);
}

/* The same in threads: ssp keeps its bound, synchronous modes their bits, the others count every
 * example once. */
static void test_threads(void **state)
{
    (void)state;
    enum { EPOCHS = 6 };
    float first[CLUSTER_ROWS] = {0};
    for (unsigned owners = 1; owners <= 3; owners++)
        for (unsigned kind = 0; kind < 5; kind++) {
            struct yk_rule rule = kind == 0   ? cluster_rule(YK_MODE_sync, 4, owners)
                                  : kind == 1 ? cluster_backup_rule(4, 1, owners)
                                  : kind == 2 ? cluster_rule(YK_MODE_async, 4, owners)
                                              : cluster_rule(YK_MODE_ssp, 4, owners);
            struct cluster r;
            rule.shards = kind == 0 ? 12 : 1;
            rule.staleness = kind == 3 ? 0 : kind == 4 ? 2 : -1;
            rule.last_step = EPOCHS * (uint64_t)((CLUSTER_PARTS + rule.need - 1) / rule.need);
            cluster_open(&r, &rule, kind == 0 ? yk_optimizer_find("adam") : &CLUSTER_COUNT,
                         kind == 0 ? cluster_noise : cluster_mark);
            r.pulled = kind >= 3 ? check_lead : NULL;
            cluster_run(&r);
            assert_true(r.steps == rule.last_step && r.examples == EPOCHS * CLUSTER_ROWS);
            if (kind == 0 && owners == 1)
                memcpy(first, r.params.flat, sizeof first);
            else if (kind == 0)
                assert_memory_equal(first, r.params.flat, sizeof first);
            else
                cluster_assert_counts(&r, EPOCHS);
            if (kind >= 3)
                assert_true(r.clock.most_lead <= (uint64_t)rule.staleness);
            for (unsigned w = 0; w < 4; w++) { /* every worker has asked, pushed and stopped */
                assert_int_equal(r.account[w].steps, r.driver[w].pushes);
                assert_true(r.account[w].sent >=
                            r.driver[w].pushes * (64 + CLUSTER_ROWS * sizeof(float)));
                assert_true(r.account[w].received >= (r.driver[w].pushes + 1) * 64);
            }
            cluster_close(&r);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mean),           cmocka_unit_test(test_bits),
        cmocka_unit_test(test_no_tokens),      cmocka_unit_test(test_stale),
        cmocka_unit_test(test_sets),           cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_once),           cmocka_unit_test(test_staleness),
        cmocka_unit_test(test_own_copy),       cmocka_unit_test(test_ssp),
        cmocka_unit_test(test_ssp_late),       cmocka_unit_test(test_exact_steps),
        cmocka_unit_test(test_halt_and_leave), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
