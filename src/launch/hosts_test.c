/* hosts_test.c - lists, files and TF_CONFIG: what they mean, what is refused, and what the refusal
 * says. */
#include "launch/hosts.h"

#include "tests/testdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *joined(const struct yk_host_list *l, char out[512])
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < l->n; i++)
        n += (size_t)snprintf(out + n, 512 - n, "%s%s", i > 0 ? " " : "", l->name[i]);
    return out;
}

static void expect(const struct yk_hosts_ask *ask, enum yk_hosts_part part, const char *workers,
                   const char *owners)
{
    struct yk_hosts h;
    struct yk_error e = {0};
    char text[512];
    yk_code rc = yk_hosts_read(&h, ask, &e);
    if (rc != YK_OK)
        fail_msg("%s", e.text);
    assert_int_equal(h.part, part);
    assert_string_equal(joined(&h.workers, text), workers);
    assert_string_equal(joined(&h.owners, text), owners);
    assert_true((h.source == NULL) == (part == YK_HOSTS_NONE));
    yk_hosts_release(&h);
    yk_hosts_release(&h); /* twice is fine */
}

static void expect_error(const struct yk_hosts_ask *ask, yk_code code, const char *text)
{
    struct yk_hosts h;
    struct yk_error e = {0};
    assert_int_equal(yk_hosts_read(&h, ask, &e), code);
    assert_int_equal(e.code, code);
    if (strstr(e.text, text) == NULL)
        fail_msg("'%s' is not in '%s'", text, e.text);
    assert_int_equal(yk_hosts_read(&h, ask, NULL), code); /* an error is optional */
}

#define ASK(...) (&(const struct yk_hosts_ask){__VA_ARGS__})

static void test_lists(void **state)
{
    (void)state;
    expect(ASK(0), YK_HOSTS_NONE, "", "");
    expect(ASK(.tf_config = ""), YK_HOSTS_NONE, "", "");
    expect(ASK(.hosts = "a"), YK_HOSTS_LAUNCH, "a", "");
    expect(ASK(.hosts = "a,b,c"), YK_HOSTS_LAUNCH, "a b c", "");
    expect(ASK(.hosts = "a:2,b,a"), YK_HOSTS_LAUNCH, "a a b a", "");
    expect(ASK(.hosts = " a:2 ,\tb "), YK_HOSTS_LAUNCH, "a a b", "");
    expect(ASK(.hosts = "n-1.example.org:1,10.0.0.7:2"), YK_HOSTS_LAUNCH,
           "n-1.example.org 10.0.0.7 10.0.0.7", "");
    expect(ASK(.hosts = "[::1]:2,[::1]"), YK_HOSTS_LAUNCH, "localhost localhost localhost", "");
    expect(ASK(.hosts = "a,b", .ps_hosts = "p:2,q"), YK_HOSTS_LAUNCH, "a b", "p p q");
    expect(ASK(.hosts = "a,b:2", .workers = 3), YK_HOSTS_LAUNCH, "a b b", "");
}

static void test_slots_limit(void **state)
{
    (void)state;
    struct yk_hosts h;
    assert_int_equal(yk_hosts_read(&h, ASK(.hosts = "a:1000,b:24"), NULL), YK_OK);
    assert_int_equal(h.workers.n, YK_HOST_SLOTS_MAX);
    assert_string_equal(h.workers.name[999], "a");
    assert_string_equal(h.workers.name[1000], "b");
    yk_hosts_release(&h);
    expect_error(ASK(.hosts = "a:1000,b:25"), YK_USAGE, "--hosts names more than 1024 slots");
    expect_error(ASK(.hosts = "a:1025"), YK_USAGE, "'a' has 1025 slots; it may have 1 to 1024");
    expect_error(ASK(.hosts = "a:0"), YK_USAGE, "'a' has 0 slots");
    expect_error(ASK(.hosts = "a:99999999999999999999"), YK_USAGE, "does not end in a number");
}

static void test_bad_lists(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "a b",  "-oProxyCommand=x", "a;b", "a$(b)", "a/b", "a_b", "u@a", ".a",
        "a\nb", "\xc3\xa9",         "a'b", "a\"",   "*"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_error(ASK(.hosts = bad[i]), YK_USAGE, "is not the name of a host");
    for (const char *const *p = (const char *const[]){"", ",", "a,", ",a", "a,,b", ":2", " ", NULL};
         *p != NULL; p++)
        expect_error(ASK(.hosts = *p), YK_USAGE, "--hosts holds an entry without a name");
    expect_error(ASK(.hosts = "a:"), YK_USAGE, "'a:' does not end in a number");
    expect_error(ASK(.hosts = "a:x"), YK_USAGE, "'a:x' does not end in a number");
    expect_error(ASK(.hosts = "a:-1"), YK_USAGE, "does not end in a number");
    expect_error(ASK(.hosts = "fd00::7"), YK_USAGE, "is an IPv6 address");
    expect_error(ASK(.hosts = "[fd00::7]:2"), YK_USAGE, "'[fd00::7]' is an IPv6 address");
    expect_error(ASK(.hosts = "[::1"), YK_USAGE, "is not the name of a host");
    expect_error(ASK(.hosts = "[::1]x"), YK_USAGE, "is not the name of a host");
    expect_error(ASK(.hosts = "a", .ps_hosts = "-p"), YK_USAGE, "--ps-hosts: '-p'");
    expect_error(ASK(.ps_hosts = "p"), YK_USAGE, "nothing says where the workers are");
    char name[YK_HOST_MAX + 2];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    expect_error(ASK(.hosts = name), YK_USAGE, "is not the name of a host");
    name[YK_HOST_MAX] = '\0';
    expect_error(ASK(.hosts = name), YK_USAGE, "is too long for Open MPI");
    name[57] = '1';
    expect_error(ASK(.hosts = name), YK_USAGE, "is too long for Open MPI");
    name[56] = '1';
    expect(ASK(.hosts = name), YK_HOSTS_LAUNCH, name, "");
}

static void test_workers(void **state)
{
    (void)state;
    expect_error(ASK(.hosts = "a,b", .workers = 3), YK_USAGE,
                 "--workers is 3 but --hosts has 2 slots");
    expect_error(ASK(.hosts = "a", .workers = 2), YK_USAGE,
                 "--workers is 2 but --hosts has 1 slot");
    expect_error(ASK(.tf_config = "{\"cluster\":{\"worker\":[\"a\",\"b\"]}}", .workers = 1),
                 YK_USAGE, "--workers is 1 but TF_CONFIG has 2 slots");
    expect(ASK(.workers = 5), YK_HOSTS_NONE, "", "");
}

static char *put(const char *dir, const char *text, size_t n)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/hosts", dir);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void test_files(void **state)
{
    static const struct {
        const char *text, *workers;
    } good[] = {
        {"a\n", "a"},
        {"a", "a"},
        {"a slots=2\nb\n", "a a b"},
        {"a:2\r\nb slots=1\r\n", "a a b"},
        {"# all of them\n\n   \n  a   slots = 2  # two\nb#c\n\ta\n", "a a b a"},
        {"\xef\xbb\xbf"
         "a\n",
         "a"},
    };
    static const struct {
        const char *text, *error;
    } bad[] = {
        {"", "names no host"},
        {"# nothing\n\n", "names no host"},
        {"a\nb slots=x\n", "line 2: what follows 'b' is not 'slots=n'"},
        {"a\n\nb slots=0\n", "line 3: 'b' has 0 slots"},
        {"a max_slots=3\n", "line 1: what follows 'a' is not 'slots=n'"},
        {"a:2 slots=2\n", "line 1: what follows 'a' is not 'slots=n'"},
        {"a slots=2 slots=3\n", "line 1: what follows 'a' is not 'slots=n'"},
        {"a\nb,c\n", "line 2: 'b,c' is not the name of a host"},
        {"a\n-b\n", "line 2: '-b' is not the name of a host"},
        {"a slots=1024\nb\n", "line 2 names more than 1024 slots"},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        expect(ASK(.hostfile = put(*state, good[i].text, strlen(good[i].text))), YK_HOSTS_LAUNCH,
               good[i].workers, "");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_error(ASK(.hostfile = put(*state, bad[i].text, strlen(bad[i].text))), YK_DATA,
                     bad[i].error);
    expect_error(ASK(.hostfile = put(*state, "a\nb\0c\n", 6)), YK_DATA,
                 "line 2 is not a line of text");
    char longest[3000];
    memset(longest, '#', sizeof longest);
    expect_error(ASK(.hostfile = put(*state, longest, sizeof longest)), YK_DATA,
                 "line 1 is not a line of text");
    expect_error(ASK(.hostfile = "/nonexistent/hosts"), YK_DATA,
                 "cannot open '/nonexistent/hosts'");
    expect_error(ASK(.hostfile = *state), YK_DATA, "is not a regular file");
}

static void test_precedence(void **state)
{
    const char *file = put(*state, "f\n", 2),
               *tf = "{\"cluster\":{\"worker\":[\"t\"],\"ps\":[\"tp\"]}}";
    expect(ASK(.hosts = "h", .hostfile = file, .tf_config = tf), YK_HOSTS_LAUNCH, "h", "");
    expect(ASK(.hostfile = file, .tf_config = tf), YK_HOSTS_LAUNCH, "f", "");
    expect(ASK(.tf_config = tf), YK_HOSTS_LAUNCH, "t", "tp");
    expect(ASK(.tf_config = tf, .ps_hosts = "p"), YK_HOSTS_LAUNCH, "t", "p");
    expect_error(ASK(.hosts = "h", .hostfile = file, .both_typed = true), YK_USAGE,
                 "--hosts and --hostfile");
    expect(ASK(.hosts = "h", .both_typed = true), YK_HOSTS_LAUNCH, "h", "");
}

#define CLUSTER                                                                                    \
    "{\"cluster\":{\"chief\":[\"c:1\"],\"worker\":[\"a:2222\",\"b:2222\"],\"ps\":[\"p:3\",\"q\"]," \
    "\"evaluator\":[\"x\"]}"
#define WORKERS "{\"cluster\":{\"worker\":[\"a:2222\",\"[::1]:2222\"]}"

static void test_tf_config(void **state)
{
    (void)state;
    expect(ASK(.tf_config = CLUSTER ",\"task\":{\"type\":\"chief\",\"index\":0}}"), YK_HOSTS_LAUNCH,
           "c a b", "p q");
    expect(ASK(.tf_config = CLUSTER "}"), YK_HOSTS_LAUNCH, "c a b", "p q");
    expect(ASK(.tf_config = CLUSTER ",\"task\":{\"type\":\"worker\",\"index\":0}}"),
           YK_HOSTS_STAND_BY, "c a b", "p q");
    expect(ASK(.tf_config = CLUSTER ",\"task\":{\"type\":\"ps\",\"index\":0}}"), YK_HOSTS_STAND_BY,
           "c a b", "p q");
    expect(ASK(.tf_config = CLUSTER ",\"task\":{\"type\":\"evaluator\",\"index\":0}}"),
           YK_HOSTS_STAND_BY, "c a b", "p q");
    expect(ASK(.tf_config = WORKERS ",\"task\":{\"type\":\"worker\",\"index\":0}}"),
           YK_HOSTS_LAUNCH, "a localhost", "");
    expect(ASK(.tf_config = WORKERS ",\"task\":{\"type\":\"worker\",\"index\":1}}"),
           YK_HOSTS_STAND_BY, "a localhost", "");
    expect(ASK(.tf_config = "{}"), YK_HOSTS_NONE, "", "");
    expect(ASK(.tf_config = "{\"cluster\":{},\"task\":{\"type\":\"worker\",\"index\":0}}"),
           YK_HOSTS_NONE, "", "");

    struct yk_hosts h;
    assert_int_equal(
        yk_hosts_read(&h, ASK(.tf_config = WORKERS ",\"task\":{\"type\":\"worker\",\"index\":1}}"),
                      NULL),
        YK_OK);
    assert_string_equal(h.task, "worker 1");
    yk_hosts_release(&h);

    expect_error(ASK(.tf_config = "{"), YK_USAGE, "'TF_CONFIG' is not valid JSON");
    expect_error(ASK(.tf_config = "[]"), YK_USAGE, "'TF_CONFIG' is not a JSON object");
    expect_error(ASK(.tf_config = "{\"cluster\":[]}"), YK_USAGE, "\"cluster\" is not an object");
    expect_error(ASK(.tf_config = "{\"cluster\":{\"worker\":\"a\"}}"), YK_USAGE, "are not a list");
    expect_error(ASK(.tf_config = "{\"cluster\":{\"worker\":[1]}}"), YK_USAGE,
                 "a host is not a string");
    expect_error(ASK(.tf_config = "{\"cluster\":{\"ps\":[\"a\"]}}"), YK_USAGE, "no worker");
    expect_error(ASK(.tf_config = "{\"cluster\":{\"worker\":[\"a:70000\"]}}"), YK_USAGE,
                 "does not end in a port");
    expect_error(ASK(.tf_config = "{\"cluster\":{\"worker\":[\"a b:1\"]}}"), YK_USAGE,
                 "'a b' is not the name of a host");
    expect_error(ASK(.tf_config = "{\"cluster\":{\"worker\":[\"[fd00::7]:2222\"]}}"), YK_USAGE,
                 "IPv6");
    expect_error(ASK(.tf_config = WORKERS ",\"task\":{\"type\":\"worker\"}}"), YK_USAGE,
                 "\"task\" needs");
    expect_error(ASK(.tf_config = WORKERS ",\"task\":{\"type\":\"worker\",\"index\":-1}}"),
                 YK_USAGE, "\"task\" needs");
    expect_error(ASK(.tf_config = WORKERS ",\"task\":7}"), YK_USAGE, "\"task\" needs");

    /* a task must be one of the cluster's; an evaluator need not be named there */
    expect(ASK(.tf_config = WORKERS ",\"task\":{\"type\":\"evaluator\",\"index\":0}}"),
           YK_HOSTS_STAND_BY, "a localhost", "");
    expect_error(ASK(.tf_config = WORKERS ",\"task\":{\"type\":\"evaluator\",\"index\":1}}"),
                 YK_USAGE, "has 1 of that type");
    expect_error(ASK(.tf_config = WORKERS ",\"task\":{\"type\":\"worker\",\"index\":2}}"), YK_USAGE,
                 "TF_CONFIG says this is 'worker 2', but its cluster has 2 of that type");
    expect_error(
        ASK(.tf_config = WORKERS ",\"task\":{\"type\":\"worker\",\"index\":9223372036854775807}}"),
        YK_USAGE, "has 2 of that type");
    expect_error(ASK(.tf_config = WORKERS ",\"task\":{\"type\":\"chief\",\"index\":0}}"), YK_USAGE,
                 "has 0 of that type");
    expect_error(ASK(.tf_config = WORKERS ",\"task\":{\"type\":\"evil\",\"index\":0}}"), YK_USAGE,
                 "TF_CONFIG says this is 'evil 0', but its cluster has 0 of that type");
    expect_error(ASK(.tf_config = CLUSTER ",\"task\":{\"type\":\"ps\",\"index\":2}}"), YK_USAGE,
                 "has 2 of that type");
    expect_error(
        ASK(.tf_config =
                "{\"cluster\":{\"worker\":[]},\"task\":{\"type\":\"worker\",\"index\":0}}"),
        YK_USAGE, "no worker");
    expect_error(ASK(.tf_config = "{\"cluster\":{\"wroker\":[\"a\"]}}"), YK_USAGE, "no worker");
}

static void test_local(void **state)
{
    (void)state;
    char own[256] = "";
    struct yk_hosts h;
    assert_int_equal(gethostname(own, sizeof own - 1), 0);
    assert_true(yk_host_is_local("localhost"));
    assert_true(yk_host_is_local("127.0.0.1"));
    assert_true(yk_host_is_local("127.3.2.1"));
    assert_true(yk_host_is_local(own));
    assert_false(yk_host_is_local("127.example.org"));
    assert_false(yk_host_is_local("some-other-host"));
    assert_int_equal(yk_hosts_read(&h, ASK(.hosts = "localhost:2,127.0.0.1"), NULL), YK_OK);
    assert_true(yk_hosts_local(&h));
    yk_hosts_release(&h);
    assert_int_equal(
        yk_hosts_read(&h, ASK(.hosts = "localhost", .ps_hosts = "some-other-host"), NULL), YK_OK);
    assert_false(yk_hosts_local(&h));
    yk_hosts_release(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_slots_limit),
        cmocka_unit_test(test_bad_lists),
        cmocka_unit_test(test_workers),
        cmocka_unit_test_setup_teardown(test_files, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_precedence, testdir_setup, testdir_teardown),
        cmocka_unit_test(test_tf_config),
        cmocka_unit_test(test_local),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
