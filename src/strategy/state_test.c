/* state_test.c - everything stands still when the watcher wants to see the state of a sparse run,
 * whatever is under way. Values that are read then are of one step on all owners, and pieces of the
 * copies are of that step while training goes on. A dense async run stands still too: its state has
 * all of every push, or nothing. */
#include "strategy/exchange.h"
#include "tests/sim_network.h"

enum { ROOM = CLUSTER_ROWS + 16 }; /* parameters end on a line */

static struct {
    uint64_t every;                /* the watcher holds at each multiple of `every` */
    unsigned holds;                /* how often everything stood still */
    bool still;                    /* it does now, and the test has to go on */
    float then[CLUSTER_ROWS];      /* the parameters when it did */
    uint64_t step[CLUSTER_OWNERS]; /* of each owner */
} watch;

static enum yk_verdict hold_stepped(void *arg, const struct yk_stepped *st)
{
    struct cluster *r = arg;
    if (st != NULL) {
        enum yk_verdict verdict = cluster_stepped(arg, st);
        return verdict == YK_GO && watch.every > 0 && st->step % watch.every == 0 ? YK_HOLD
                                                                                  : verdict;
    }
    memcpy(watch.then, r->params.flat, sizeof watch.then);
    for (unsigned k = 0; k < r->rule.owners; k++)
        watch.step[k] = r->server[k].owner.step;
    watch.holds++;
    watch.still = true;
    return YK_HOLD;
}

static void open_watched(struct cluster *r, const struct yk_rule *rule,
                         const struct yk_optimizer_ops *optimizer, cluster_touch touch,
                         uint64_t every)
{
    cluster_open(r, rule, optimizer, NULL);
    r->touch = touch;
    r->server[0].watcher.stepped = hold_stepped;
    memset(&watch, 0, sizeof watch);
    watch.every = every;
}

static struct yk_rule any_rule(unsigned kind, unsigned owners)
{
    struct yk_rule rule = kind == 0   ? cluster_rule(YK_MODE_async, 4, owners)
                          : kind == 1 ? cluster_rule(YK_MODE_ssp, 4, owners)
                          : kind == 2 ? cluster_backup_rule(4, 1, owners)
                                      : cluster_rule(YK_MODE_sync, 4, owners);
    rule.sparse = true;
    rule.last_step = kind == 2 ? 16 : 4 * CLUSTER_PARTS;
    return rule;
}

/* In every mode, with messages late on all ways: between the word that all stands still and
 * resuming, no float changes on any owner, though letters that are under way are delivered; and
 * all owners have applied the same pushes. */
static void test_still(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 4; kind++)
        for (unsigned owners = 1; owners <= 3; owners++)
            for (uint64_t seed = 0; seed < 20; seed++) {
                const struct yk_rule rule = any_rule(kind, owners);
                struct network o;
                struct cluster r;
                struct yk_rng rng;
                open_watched(&r, &rule, &CLUSTER_COUNT, cluster_own, 5);
                network_open(&o, &r);
                cluster_start(&r, true);
                yk_rng_init(&rng, seed, kind, 0, 0);
                bool loses = kind != 2 && seed % 4 == 3;
                for (uint64_t i = 0, since = 0;
                     r.server[0].state < YK_SERVER_ENDED || o.under_way > 0; i++) {
                    if (i > 3000000)
                        fail_msg("nobody goes on at step %d", (int)r.steps);
                    if (loses && i == 700 && r.server[0].state < YK_SERVER_ENDED)
                        network_lose_worker(&o, 1, &rng);
                    network_event(&o, &rng);
                    if (!watch.still)
                        continue;
                    for (unsigned k = 0; since == 0 && k < owners && !loses; k++)
                        assert_int_equal(watch.step[k], r.steps);
                    assert_memory_equal(watch.then, r.params.flat, sizeof watch.then);
                    if (++since < 200)
                        continue;
                    since = 0;
                    watch.still = false;
                    yk_server_resume(&r.server[0], YK_GO);
                }
                assert_true(watch.holds >= 3);
                assert_int_equal(r.steps, rule.last_step);
                if (!loses)
                    cluster_assert_counts(&r, 4);
                for (unsigned k = 0; k < owners && !loses; k++)
                    assert_int_equal(r.server[k].owner.step, rule.last_step);
                network_close(&o);
            }
}

/* In one process too, and the watcher may make up its mind at once. */
static void test_near(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 4; kind++) {
        const struct yk_rule rule = any_rule(kind, 2);
        struct cluster r;
        struct yk_rng rng;
        open_watched(&r, &rule, &CLUSTER_COUNT, cluster_own, 5);
        cluster_start(&r, true);
        yk_rng_init(&rng, kind, 0, 0, 0);
        for (uint64_t i = 0; r.server[0].state < YK_SERVER_ENDED; i++) {
            assert_true(i < 1000000);
            for (unsigned w = 0; w < 4; w++)
                if (yk_rng_below(&rng, 2) == 0)
                    cluster_event(&r, w);
            if (watch.still) {
                uint32_t key[] = {0, 5, 40, 99, 102};
                float out[5];
                struct yk_error e;
                assert_int_equal(yk_server_read(r.server, 2, key, out, 5, &e), YK_OK);
                for (unsigned k = 0; k < 5; k++)
                    assert_true(out[k] == watch.then[key[k]] && out[k] == r.params.flat[key[k]]);
                watch.still = false;
                r.comm->ops->lock(r.comm, 0);
                yk_server_resume(&r.server[0], watch.holds == 3 ? YK_HALT : YK_GO);
                r.comm->ops->unlock(r.comm, 0);
            }
        }
        assert_int_equal(watch.holds, 3);
        cluster_close(&r);
    }
}

/* --- dense: no push is applied in part --- */

static struct {
    bool wanted;   /* the watcher has said that everything shall stand still */
    bool leaves;   /* ... and leaves before it does, */
    bool left;     /* which it has */
    bool lost;     /* a worker is: what it left half done may count twice */
    unsigned seen; /* how often everything stood still */
    unsigned paused;
} torn;

/* Every example has been applied as often as its parts were dealt and are not under way: by all
 * owners. */
static void assert_whole(const struct cluster *r)
{
    const struct yk_deal *d = &r->clock.deal;
    float want[CLUSTER_ROWS] = {0};
    for (uint64_t e = 0; e < yk_deal_position(d); e++)
        want[e % CLUSTER_ROWS]++;
    for (unsigned i = 0; i < d->outs + d->backs; i++) {
        uint64_t id = i < d->outs ? d->out[i] : d->back[i - d->outs];
        for (uint64_t e = id; e < id + yk_deal_size(d, id); e++)
            want[e % CLUSTER_ROWS]--;
    }
    for (size_t i = 0; i < CLUSTER_ROWS; i++)
        if (r->params.flat[i] != want[i])
            fail_msg("step %d: example %d has been applied %g times, not %g", (int)r->steps, (int)i,
                     (double)r->params.flat[i], (double)want[i]);
}

/* Now and then the state is wanted as it comes, and while it is being fetched it shall be whole.
 * Owners elsewhere have to stand still for that; with all of them here it is enough to pause
 * until it is. */
static enum yk_verdict torn_stepped(void *arg, const struct yk_stepped *st)
{
    const struct cluster *r = arg;
    bool elsewhere = r->server[0].elsewhere;
    enum yk_verdict verdict = st != NULL ? cluster_stepped(arg, st) : torn.left ? YK_LEAVE : YK_GO;
    if (st != NULL && verdict == YK_GO && torn.wanted && torn.leaves && torn.seen == 2) {
        torn.left = true;
        return YK_LEAVE;
    }
    torn.wanted = torn.wanted || (st != NULL && verdict == YK_GO && st->step % 7 == 0);
    bool whole = elsewhere ? st == NULL : yk_servers_even(r->server, r->rule.owners);
    if (torn.wanted && !torn.left && whole) {
        if (!torn.lost)
            assert_whole(r);
        torn.wanted = false;
        torn.seen++;
    }
    if (st == NULL || verdict != YK_GO)
        return verdict;
    bool looks =
        st->step % 7 == 5 || st->step % 7 == 1; /* the latter while all comes to a standstill */
    if (looks && elsewhere)
        return YK_LOOK;
    torn.paused += torn.wanted && !elsewhere;
    return !torn.wanted ? YK_GO : elsewhere ? YK_HOLD : YK_PAUSE;
}

static bool all_stopped(const struct cluster *r)
{
    bool all = r->server[0].state == YK_SERVER_ENDED;
    for (unsigned w = 0; w < r->rule.workers; w++)
        all = all && r->driver[w].stopped;
    return all;
}

static void test_torn(void **state)
{
    (void)state;
    unsigned paused = 0, left = 0;
    for (unsigned kind = 0; kind < 4; kind++)
        for (unsigned owners = 1; owners <= 3; owners++)
            for (uint64_t seed = 0; seed < 30; seed++) {
                struct yk_rule rule =
                    cluster_rule(kind % 2 == 0 ? YK_MODE_async : YK_MODE_ssp, 4, owners);
                bool far = kind >= 2;
                struct network o;
                struct cluster r;
                struct yk_rng rng;
                float own[CLUSTER_OWNERS][ROOM] = {{0}};
                rule.last_step = 6 * CLUSTER_PARTS;
                memset(&torn, 0, sizeof torn);
                torn.leaves = seed % 5 == 4;
                cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
                r.server[0].watcher.stepped = torn_stepped;
                if (far)
                    network_open(&o, &r);
                for (unsigned k = 1; far && k < owners; k++) /* as in processes of their own */
                    r.server[k].owner.weights = own[k];
                cluster_start(&r, true);
                yk_rng_init(&rng, seed, kind, owners, 0);
                for (uint64_t i = 0; !all_stopped(&r) || (far && o.under_way > 0); i++) {
                    if (i > 3000000)
                        fail_msg("nobody goes on at step %d", (int)r.steps);
                    if (far && seed % 6 == 5 && i == 200 + 100 * seed &&
                        r.server[0].state < YK_SERVER_ENDED) {
                        torn.lost = true;
                        network_lose_worker(&o, 1, &rng);
                    }
                    if (far)
                        network_event(&o, &rng);
                    else
                        cluster_event(&r, yk_rng_below(&rng, 4));
                }
                paused += torn.paused;
                left += torn.left;
                assert_true(torn.left || (torn.seen >= 5 && r.steps == rule.last_step));
                if (!torn.left && !torn.lost)
                    cluster_assert_counts(&r, 6);
                if (far)
                    network_close(&o);
                else
                    cluster_close(&r);
            }
    assert_true(paused > 100 && left > 20);
}

/* --- from a thread that waits --- */

struct saver {
    struct cluster *cluster;
    pthread_t thread;
    atomic_bool kept, go, done;
    float then[CLUSTER_ROWS], later[1 + YK_SLOTS][ROOM], piece[ROOM];
    uint32_t key[CLUSTER_ROWS];
    size_t keys;
    yk_code rc;
};

/* As a checkpoint is written: read and copy while all stands still, fetch when training goes on. */
static void *save(void *arg)
{
    struct saver *s = arg;
    struct cluster *r = s->cluster;
    struct yk_error e;
    unsigned owners = r->rule.owners, slots = r->server[0].owner.slots;
    s->rc = yk_server_read(r->server, 1, s->key, s->then, s->keys, &e);
    if (s->rc == YK_OK)
        s->rc = yk_server_keep(r->server, 1, &e);
    atomic_store(&s->kept, true);
    for (unsigned i = 0; !atomic_load(&s->go) && i < 2000000; i++)
        sched_yield();
    for (unsigned k = 0; s->rc == YK_OK && k < owners; k++)
        for (unsigned which = 0; which <= slots; which++)
            for (size_t lo = r->server[k].owner.lo; lo < r->server[k].owner.hi && s->rc == YK_OK;
                 lo += 7) {
                size_t n = r->server[k].owner.hi - lo < 7 ? r->server[k].owner.hi - lo : 7;
                s->rc = yk_server_fetch(r->server, 1, k, which, lo, n, s->later[which] + lo, &e);
            }
    if (s->rc == YK_OK &&
        yk_server_fetch(r->server, 1, owners - 1, 0, r->params.count - 1, 2, s->piece, &e) == YK_OK)
        s->rc = YK_DATA; /* what nobody owns is refused */
    yk_server_unkeep(r->server, 1);
    atomic_store(&s->done, true);
    return NULL;
}

static void test_keep(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 4; kind += 3)
        for (unsigned owners = 1; owners <= 3; owners++) {
            const struct yk_rule rule = any_rule(kind, owners);
            struct saver s = {.cluster = NULL};
            struct network o;
            struct cluster r;
            struct yk_rng rng;
            float state_then[CLUSTER_ROWS];
            bool saving = false, gone = false;
            open_watched(&r, &rule, yk_optimizer_find("adagrad"), cluster_some, 7);
            network_open(&o, &r);
            cluster_start(&r, true);
            yk_rng_init(&rng, owners, kind, 0, 0);
            s.cluster = &r;
            for (uint32_t i = 0; i < CLUSTER_ROWS; i += 2)
                s.key[s.keys++] = i;
            for (uint64_t i = 0;
                 r.server[0].state < YK_SERVER_ENDED || o.under_way > 0 || !atomic_load(&s.done);
                 i++) {
                if (i > 30000000)
                    fail_msg("nobody goes on at step %d", (int)r.steps);
                network_event(&o, &rng);
                if (!watch.still)
                    continue;
                if (!saving) { /* the first time */
                    memcpy(state_then, r.slot[0], sizeof state_then);
                    assert_int_equal(pthread_create(&s.thread, NULL, save, &s), 0);
                    saving = true;
                    watch.every = 0;
                }
                if (!atomic_load(&s.kept))
                    continue;
                watch.still = false;
                yk_server_resume(&r.server[0], YK_GO);
                for (uint64_t step = r.steps;
                     r.steps < step + 3;) /* the copies are of before these */
                    network_event(&o, &rng);
                gone = memcmp(watch.then, r.params.flat, sizeof watch.then) != 0;
                atomic_store(&s.go, true);
            }
            pthread_join(s.thread, NULL);
            assert_int_equal(s.rc, YK_OK);
            assert_true(gone);
            for (size_t i = 0; i < s.keys; i++)
                assert_true(s.then[i] == watch.then[s.key[i]]);
            assert_memory_equal(s.later[0], watch.then, sizeof watch.then);
            assert_memory_equal(s.later[1], state_then, sizeof state_then);
            for (unsigned k = 0; k < owners; k++) {
                for (unsigned i = 0; i < 100000 && r.server[k].copy.kept[0] != NULL; i++)
                    network_event(&o, &rng); /* the word that it may go is still on its way */
                assert_null(r.server[k].copy.kept[0]);
            }
            network_close(&o);
        }
}

struct seeder {
    struct cluster *cluster;
    pthread_t thread;
    atomic_bool done;
    float from[2][ROOM];
    yk_code rc;
};

static void *put_state(void *arg)
{
    struct seeder *s = arg;
    struct cluster *r = s->cluster;
    struct yk_error e;
    for (unsigned k = 0; s->rc == YK_OK && k < r->rule.owners; k++)
        for (unsigned which = 0; which < 2; which++)
            for (size_t lo = r->server[k].owner.lo; lo < r->server[k].owner.hi && s->rc == YK_OK;
                 lo += 11) {
                size_t n = r->server[k].owner.hi - lo < 11 ? r->server[k].owner.hi - lo : 11;
                s->rc = yk_server_put(r->server, 1, k, which, lo, n, s->from[which] + lo, &e);
            }
    atomic_store(&s->done, true);
    return NULL;
}

/* A resumed run: its state reaches the owners in pieces, and before the first step. */
static void test_put(void **state)
{
    (void)state;
    for (unsigned owners = 1; owners <= 3; owners++) {
        struct yk_rule rule = any_rule(3, owners);
        struct seeder s = {.rc = YK_OK};
        struct network o;
        struct cluster r;
        struct yk_rng rng;
        rule.last_step = UINT64_MAX;
        open_watched(&r, &rule, yk_optimizer_find("adagrad"), cluster_some, 0);
        network_open(&o, &r);
        yk_rng_init(&rng, owners, 0, 0, 0);
        for (size_t i = 0; i < CLUSTER_ROWS; i++) {
            s.from[0][i] = (float)i;
            s.from[1][i] = (float)i / 2;
        }
        s.cluster = &r;
        assert_int_equal(pthread_create(&s.thread, NULL, put_state, &s), 0);
        for (uint64_t i = 0; !atomic_load(&s.done) && i < 30000000; i++)
            network_event(&o, &rng);
        pthread_join(s.thread, NULL);
        assert_int_equal(s.rc, YK_OK);
        for (unsigned k = 1; k < owners; k++)
            assert_int_equal(r.server[k].state, YK_SERVER_EMPTY);
        yk_server_seed(&r.server[0], 5, r.params.count);
        for (uint64_t i = 0; o.under_way > 0 && i < 1000000; i++)
            network_event(&o, &rng);
        assert_memory_equal(r.params.flat, s.from[0], CLUSTER_ROWS * sizeof(float));
        assert_memory_equal(r.slot[0], s.from[1], CLUSTER_ROWS * sizeof(float));
        for (unsigned k = 0; k < owners; k++)
            assert_true(r.server[k].state == YK_SERVER_RUNS && r.server[k].owner.step == 5);
        network_close(&o);
    }
}

/* An owner is lost while a thread waits for its part: it comes back and says so; after the end
 * of the run, too. */
static void test_lost_owner(void **state)
{
    (void)state;
    for (unsigned ended = 0; ended < 2; ended++) {
        const struct yk_rule rule = any_rule(3, 2);
        struct saver s = {.cluster = NULL};
        struct network o;
        struct cluster r;
        struct yk_rng rng;
        open_watched(&r, &rule, yk_optimizer_find("adagrad"), cluster_some, ended ? 0 : 3);
        network_open(&o, &r);
        cluster_start(&r, true);
        yk_rng_init(&rng, 1, 0, 0, 0);
        s.cluster = &r;
        s.key[s.keys++] = CLUSTER_ROWS - 1;
        for (uint64_t i = 0;
             i < 3000000 &&
             (ended ? r.server[0].state < YK_SERVER_ENDED || o.under_way > 0 : !watch.still);
             i++)
            network_event(&o, &rng);
        assert_true(ended ? r.server[0].state == YK_SERVER_ENDED : watch.still);
        o.end[1].gone = true;
        atomic_store(&s.go, true);
        assert_int_equal(pthread_create(&s.thread, NULL, save, &s), 0);
        sched_yield();
        assert_false(atomic_load(&s.done));
        r.comm->ops->lock(r.comm, 0);
        yk_server_handler.lost(&r.server[0], 1, "its process is gone");
        r.comm->ops->unlock(r.comm, 0);
        pthread_join(s.thread, NULL);
        assert_int_equal(s.rc, YK_LOST);
        network_close(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_still), cmocka_unit_test(test_near),
        cmocka_unit_test(test_torn),  cmocka_unit_test(test_keep),
        cmocka_unit_test(test_put),   cmocka_unit_test(test_lost_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
