/* netcheck_test.c - the plan of pairs, the verdict and its two forms, and whole checks with threads
 * as ranks. */
#include "netcheck/netcheck.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 300 };

static struct yk_netcheck_rank who[MANY];

/* `each` ranks on every host. */
static void name_hosts(int ranks, int each)
{
    for (int r = 0; r < ranks; r++) {
        snprintf(who[r].host, sizeof who[r].host, "n%d", r / each);
        who[r].pid = 1000 + r;
    }
}

static int host(int rank)
{
    return (int)strtol(who[rank].host + 1, NULL, 10);
}

/* --- the plan --- */

/* Nobody with himself, nothing twice, both ways, no host twice in a round, rounds in order. Returns
 * the pairs of the fullest round. */
static size_t check_plan(const struct yk_netcheck_pair *pair, size_t pairs, int ranks)
{
    static unsigned char seen[MANY][MANY];
    static unsigned taken[MANY]; /* the round in which a host was last */
    size_t fullest = 0, in_round = 0;
    memset(seen, 0, sizeof seen);
    memset(taken, 0, sizeof taken);
    for (size_t i = 0; i < pairs; i++) {
        const struct yk_netcheck_pair *p = &pair[i];
        assert_in_range(p->from, 0, ranks - 1);
        assert_in_range(p->to, 0, ranks - 1);
        assert_int_not_equal(p->from, p->to);
        assert_int_equal(seen[p->from][p->to]++, 0);
        assert_true(i == 0 ? p->round == 1
                           : p->round == pair[i - 1].round || p->round == pair[i - 1].round + 1);
        in_round = i > 0 && p->round == pair[i - 1].round ? in_round + 1 : 1;
        fullest = in_round > fullest ? in_round : fullest;
        assert_true(taken[host(p->from)] < p->round && taken[host(p->to)] < p->round);
        taken[host(p->from)] = taken[host(p->to)] = p->round;
    }
    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < ranks; b++)
            assert_int_equal(seen[a][b], seen[b][a]);
    return fullest;
}

static void plan_of_few_has_all_pairs(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= YK_NETCHECK_ALL_PAIRS; ranks++)
        for (int each = 1; each <= ranks; each++) {
            struct yk_netcheck_pair *pair;
            size_t pairs;
            name_hosts(ranks, each);
            assert_int_equal(yk_netcheck_plan(&pair, &pairs, who, ranks, NULL), YK_OK);
            assert_int_equal(pairs, ranks * (ranks - 1));
            size_t fullest = check_plan(pair, pairs, ranks);
            if (ranks <= 4 || each == ranks)
                assert_int_equal(fullest, 1);
            else if (each == 1 && ranks >= 6)
                assert_true(fullest >= 2);
            free(pair);
        }
}

static void plan_of_many_is_a_fair_sample(void **state)
{
    (void)state;
    static const int RANKS[] = {17, 18, 33, 64, 119, 120, 121, 299};
    for (size_t k = 0; k < sizeof RANKS / sizeof *RANKS; k++) {
        int ranks = RANKS[k], in[MANY] = {0};
        struct yk_netcheck_pair *pair;
        size_t pairs;
        name_hosts(ranks, 4);
        assert_int_equal(yk_netcheck_plan(&pair, &pairs, who, ranks, NULL), YK_OK);
        check_plan(pair, pairs, ranks);
        assert_true(pairs <= 240 || pairs == 2 * (size_t)ranks);
        bool between = false;
        for (size_t i = 0; i < pairs; i++) {
            in[pair[i].from]++;
            between = between || host(pair[i].from) != host(pair[i].to);
        }
        for (int r = 0; r < ranks; r++)
            assert_int_equal(in[r], pairs / (size_t)ranks);
        assert_true(between);
        free(pair);
    }
}

/* --- the verdict --- */

static struct yk_netcheck_pair all[20 * 19];

static struct yk_netcheck_result made_up(int ranks, int each)
{
    struct yk_netcheck_result r = {
        .rank = who, .ranks = ranks, .pair = all, .parallel = 1, .seconds = 1};
    name_hosts(ranks, each);
    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < ranks; b++)
            if (a != b)
                all[r.pairs++] =
                    (struct yk_netcheck_pair){.from = a,
                                              .to = b,
                                              .latency = 50e-6,
                                              .latency_p99 = 90e-6,
                                              .bandwidth_31k = 80e6,
                                              .bandwidth = host(a) == host(b) ? 5e9 : 100e6,
                                              .message = YK_NETCHECK_MESSAGE};
    for (int i = 0; i < YK_NETCHECK_SIZES; i++) {
        uint64_t bytes = i == YK_NETCHECK_31K ? YK_NETCHECK_SMALL : YK_NETCHECK_LARGE;
        r.to_one[i] = (struct yk_netcheck_pattern){
            .bytes = bytes, .rounds = 9, .seconds = i + 1e-4, .bandwidth = 1e8};
        r.to_all[i] = r.to_one[i];
    }
    return r;
}

static struct yk_netcheck_pair *link_of(const struct yk_netcheck_result *r, int from, int to)
{
    for (size_t i = 0; i < r->pairs; i++)
        if (r->pair[i].from == from && r->pair[i].to == to)
            return &r->pair[i];
    return NULL;
}

static void a_slow_host_is_named(void **state)
{
    (void)state;
    struct yk_netcheck_verdict v;
    struct yk_netcheck_result r = made_up(3, 1);
    for (size_t i = 0; i < r.pairs; i++)
        if (all[i].from == 2 || all[i].to == 2)
            all[i].bandwidth = 25e6;
    link_of(&r, 1, 2)->bandwidth = 24e6;
    yk_netcheck_judge(&r, &v);
    assert_ptr_equal(v.slowest, link_of(&r, 1, 2));
    assert_true(v.slow);
    assert_true(fabs(v.of_best - 0.24) < 1e-9);
    assert_string_equal(v.host, "n2");
    assert_null(v.uneven);
}

static void one_slow_link_is_not_its_hosts_fault(void **state)
{
    (void)state;
    struct yk_netcheck_verdict v;
    struct yk_netcheck_result r = made_up(3, 1);
    link_of(&r, 0, 2)->bandwidth = 10e6;
    yk_netcheck_judge(&r, &v);
    assert_ptr_equal(v.slowest, link_of(&r, 0, 2));
    assert_true(v.slow);
    assert_null(v.host);
    assert_ptr_equal(v.uneven, link_of(&r, 0, 2));
    assert_true(fabs(v.back - 100e6) < 1);
    link_of(&r, 1, 2)->bandwidth =
        10e6; /* now the same of all that goes to n2, but not of what it sends */
    yk_netcheck_judge(&r, &v);
    assert_true(v.slow && v.host == NULL);
}

static void links_inside_a_host_do_not_count(void **state)
{
    (void)state;
    struct yk_netcheck_verdict v;
    struct yk_netcheck_result r = made_up(4, 2);
    yk_netcheck_judge(&r, &v);
    assert_int_not_equal(host(v.slowest->from), host(v.slowest->to));
    assert_true(!v.slow && fabs(v.of_best - 1) < 1e-9);
    assert_true(v.host == NULL && v.uneven == NULL);
}

static void on_one_host_no_link_is_to_blame(void **state)
{
    (void)state;
    struct yk_netcheck_verdict v;
    struct yk_netcheck_result r = made_up(3, 3);
    link_of(&r, 2, 1)->bandwidth = 1e9;
    yk_netcheck_judge(&r, &v);
    assert_ptr_equal(v.slowest, link_of(&r, 2, 1));
    assert_true(!v.slow && v.host == NULL && v.uneven == NULL);
}

static void of_two_hosts_neither_is_to_blame(void **state)
{
    (void)state;
    struct yk_netcheck_verdict v;
    struct yk_netcheck_result r = made_up(2, 1);
    link_of(&r, 1, 0)->bandwidth = 10e6;
    yk_netcheck_judge(&r, &v);
    assert_true(v.slow && v.host == NULL);
    assert_ptr_equal(v.uneven, link_of(&r, 1, 0));
}

/* --- its forms --- */

static void check_columns(const struct yk_netcheck_result *r)
{
    struct yk_buf out = {0};
    yk_netcheck_table(r, &out);
    assert_false(out.failed);
    for (const char *line = out.data; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        if (n > 80)
            fail_msg("%zu columns: %.*s", n, (int)n, line);
        line += n + (line[n] == '\n');
    }
    yk_buf_release(&out);
}

static void the_table_fits_the_page(void **state)
{
    (void)state;
    static const double RATES[] = {1e3, 99.96e6, 999.9e6, 999.99e9};
    for (int ranks = 2; ranks <= 16; ranks++)
        for (size_t k = 0; k < sizeof RATES / sizeof *RATES; k++)
            for (int each = 1; each <= ranks; each += ranks - 1) {
                struct yk_netcheck_result r = made_up(ranks, each);
                for (int i = 0; i < ranks && k % 2 == 0; i++)
                    snprintf(who[i].host, sizeof who[i].host,
                             "%02d.a-host-with-a-long-name.of-a-domain.example", i / each);
                for (size_t i = 0; i < r.pairs; i++) {
                    all[i].bandwidth = all[i].bandwidth_31k = RATES[k] * (i % 2 ? 1 : 0.1);
                    all[i].latency = all[i].latency_p99 = 999.0 / RATES[k];
                    all[i].message = 256 << 10;
                }
                for (int i = 0; i < YK_NETCHECK_SIZES; i++) {
                    r.to_one[i].bandwidth = r.to_all[i].bandwidth = RATES[k];
                    r.to_one[i].seconds = r.to_all[i].seconds = 20;
                }
                check_columns(&r);
            }
}

static void the_table_says_what_was_found(void **state)
{
    (void)state;
    struct yk_buf out = {0};
    struct yk_netcheck_result r = made_up(3, 1);
    link_of(&r, 0, 2)->bandwidth = 12.5e6;
    yk_netcheck_table(&r, &out);
    assert_non_null(strstr(out.data, "3 ranks on 3 hosts; every pair, one at a time"));
    assert_non_null(strstr(out.data, "slowest: rank 0 n0 to rank 2 n2"));
    assert_non_null(strstr(out.data, "12.5 MB/s, 12 % of the best link between hosts"));
    assert_non_null(strstr(out.data, "uneven: rank 0 n0 to rank 2 n2"));
    assert_non_null(
        strstr(out.data, "sync, 1 server, 2 workers                100 us            3.64 s"));
    yk_buf_release(&out);
    r = made_up(20, 2);
    r.pairs = 7;
    r.parallel = 3;
    yk_netcheck_table(&r, &out);
    assert_non_null(strstr(out.data, "20 ranks on 10 hosts; 7 of 380 pairs, up to 3 at a time"));
    yk_buf_release(&out);
}

static void json_has_every_key(void **state)
{
    (void)state;
    struct yk_netcheck_result r = made_up(3, 1);
    link_of(&r, 2, 0)->bandwidth = 20e6;
    json_t *j = yk_netcheck_json(&r);
    assert_non_null(j);
    int from, to, schema, rounds, rank, pid;
    double us, p99, small, large, bus, best, back, step, net;
    const char *version, *name;
    assert_int_equal(json_unpack(j, "{s:i, s:s, s:[{s:i, s:s, s:i}]}", "schema", &schema, "version",
                                 &version, "ranks", "rank", &rank, "host", &name, "pid", &pid),
                     0);
    assert_int_equal(json_array_size(json_object_get(j, "ranks")), 3);
    assert_int_equal(json_array_size(json_object_get(j, "pairs")), 6);
    assert_int_equal(json_unpack(j, "{s:[{s:i, s:i, s:F, s:F, s:F, s:F}]}", "pairs", "from", &from,
                                 "to", &to, "latency_us", &us, "latency_p99_us", &p99,
                                 "bandwidth_31k", &small, "bandwidth", &large),
                     0);
    assert_true(fabs(us - 50) < 1e-6 && fabs(p99 - 90) < 1e-6 && fabs(small - 80e6) < 1 &&
                fabs(large - 100e6) < 1);
    assert_int_equal(json_unpack(j, "{s:{s:{s:i, s:F, s:F}, s:F, s:F}}", "all_to_all", "large",
                                 "rounds", &rounds, "round_us", &us, "bus_bandwidth", &bus,
                                 "softmax_step_us", &step, "net_61m_step_seconds", &net),
                     0);
    assert_true(rounds == 9 && fabs(us - 1.0001e6) < 1 && fabs(step - 100) < 1e-6 &&
                fabs(net - 3.6362) < 1e-3);
    assert_int_equal(json_unpack(j, "{s:{s:i, s:i, s:s, s:F}, s:{s:i, s:F}}", "slowest", "from",
                                 &from, "to", &to, "from_host", &name, "of_best", &best,
                                 "asymmetric", "from", &from, "back", &back),
                     0);
    assert_true(from == 2 && to == 0 && fabs(best - 0.2) < 1e-9 && fabs(back - 100e6) < 1);
    assert_string_equal(name, "n2");
    json_decref(j);
}

/* --- with threads as ranks --- */

struct crew {
    struct yk_comm *comm;
    int ranks;
    pthread_barrier_t attached;
    int orders, stop_after; /* rank 0's; 0: it runs to its end */
    double part;
};

struct member {
    struct crew *crew;
    int rank;
    yk_code rc;
    struct yk_netcheck_result result;
};

static void said(void *arg, double part, const char *what)
{
    struct crew *c = arg;
    assert_true(part >= c->part && part <= 1 && what[0] != '\0');
    c->part = part;
    c->orders++;
}

static bool enough(void *arg)
{
    const struct crew *c = arg;
    return c->stop_after > 0 && c->orders >= c->stop_after;
}

static void *take_part(void *arg)
{
    struct member *m = arg;
    struct crew *c = m->crew;
    struct yk_netcheck *n;
    struct yk_error e;
    m->rc = yk_netcheck_open(&n, m->rank, c->ranks, &e);
    assert_int_equal(m->rc, YK_OK);
    const struct yk_netcheck_ask ask = {.comm = c->comm,
                                        .rank = who,
                                        .pace = 0.05,
                                        .large = 100000,
                                        .say = said,
                                        .stopped = enough,
                                        .arg = c};
    yk_netcheck_attach(n, &ask);
    pthread_barrier_wait(&c->attached);
    m->rc = yk_netcheck_run(n, &m->result, &e);
    pthread_barrier_wait(&c->attached); /* nobody's handler is called any more */
    yk_netcheck_close(n);
    return NULL;
}

static void run_crew(struct crew *c, struct member *member, int each)
{
    pthread_t thread[16];
    name_hosts(c->ranks, each);
    assert_int_equal(yk_comm_threads(&c->comm, c->ranks, c->ranks, NULL), YK_OK);
    pthread_barrier_init(&c->attached, NULL, (unsigned)c->ranks);
    for (int r = 0; r < c->ranks; r++) {
        member[r] = (struct member){.crew = c, .rank = r};
        assert_int_equal(pthread_create(&thread[r], NULL, take_part, &member[r]), 0);
    }
    for (int r = 0; r < c->ranks; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < c->ranks; r++)
        assert_int_equal(member[r].rc, YK_OK);
    pthread_barrier_destroy(&c->attached);
    c->comm->ops->close(c->comm, true);
}

static void a_check_measures_everything(void **state)
{
    (void)state;
    static const int RANKS[] = {2, 3, 6};
    for (size_t k = 0; k < 3; k++) {
        struct member member[16];
        struct crew c = {.ranks = RANKS[k]};
        run_crew(&c, member, 1);
        const struct yk_netcheck_result *r = &member[0].result;
        assert_int_equal(r->pairs, c.ranks * (c.ranks - 1));
        assert_true(c.ranks > 4 ? r->parallel > 1 : r->parallel == 1);
        assert_false(r->stopped);
        for (size_t i = 0; i < r->pairs; i++) {
            const struct yk_netcheck_pair *p = &r->pair[i];
            assert_true(p->latency > 0 && p->latency <= p->latency_p99 && p->bandwidth_31k > 0 &&
                        p->bandwidth > 0);
        }
        for (int i = 0; i < YK_NETCHECK_SIZES; i++) {
            double n = c.ranks, bytes = i == YK_NETCHECK_31K ? YK_NETCHECK_SMALL : 100000;
            const struct yk_netcheck_pattern *one = &r->to_one[i], *to_all = &r->to_all[i];
            assert_true((double)one->bytes == bytes && (double)to_all->bytes == bytes &&
                        one->rounds > 0 && to_all->rounds > 0);
            assert_true(one->seconds > 0 &&
                        fabs(one->bandwidth * one->seconds / (2 * (n - 1) * bytes) - 1) < 1e-9);
            assert_true(to_all->seconds > 0 &&
                        fabs(to_all->bandwidth * to_all->seconds / (2 * (n - 1) / n * bytes) - 1) <
                            1e-9);
        }
        yk_netcheck_result_release(&member[0].result);
    }
}

static void a_check_can_be_stopped_anywhere(void **state)
{
    (void)state;
    for (int after = 1; after < 20; after += 3) {
        struct member member[16];
        struct crew c = {.ranks = 3, .stop_after = after};
        run_crew(&c, member, 3);
        assert_true(member[0].result.stopped);
        assert_int_equal(c.orders, after);
        yk_netcheck_result_release(&member[0].result);
    }
}

static void one_rank_is_refused(void **state)
{
    (void)state;
    struct yk_netcheck *n = NULL;
    struct yk_error e;
    assert_int_equal(yk_netcheck_open(&n, 0, 1, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "two ranks"));
    yk_netcheck_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_of_few_has_all_pairs),
        cmocka_unit_test(plan_of_many_is_a_fair_sample),
        cmocka_unit_test(a_slow_host_is_named),
        cmocka_unit_test(one_slow_link_is_not_its_hosts_fault),
        cmocka_unit_test(links_inside_a_host_do_not_count),
        cmocka_unit_test(on_one_host_no_link_is_to_blame),
        cmocka_unit_test(of_two_hosts_neither_is_to_blame),
        cmocka_unit_test(the_table_fits_the_page),
        cmocka_unit_test(the_table_says_what_was_found),
        cmocka_unit_test(json_has_every_key),
        cmocka_unit_test(a_check_measures_everything),
        cmocka_unit_test(a_check_can_be_stopped_anywhere),
        cmocka_unit_test(one_rank_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
