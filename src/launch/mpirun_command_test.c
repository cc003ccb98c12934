/* mpirun_command_test.c - the words and the environment of mpirun, without starting it. */
#include "launch/mpirun_command.h"

#include "launch/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int count(const struct yk_words *w, const char *word)
{
    int n = 0;
    for (size_t i = 0; i < w->n; i++)
        n += strcmp(w->word[i], word) == 0;
    return n;
}

/* The contexts in rank order: what follows each --host and -np. */
static void contexts(const struct yk_words *w, char out[256])
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i + 1 < w->n; i++)
        if (strcmp(w->word[i], "--host") == 0 || strcmp(w->word[i], "-np") == 0)
            n += (size_t)snprintf(out + n, 256 - n, "%s%s", w->word[i][1] == '-' ? " " : "*",
                                  w->word[i + 1]);
}

static void test_command(void **state)
{
    (void)state;
    static const struct {
        const char *hosts, *ps;
        size_t owners;
        const char *contexts;
    } cases[] = {
        {"a,b,c", NULL, 1, " a*2 b*1 c*1"},
        {"a:2,b,a", NULL, 0, " a*2 b*1 a*1"},
        {"a,b", "p,q", 3, " p*1 q*1 p*1 a*1 b*1"},
        {"b,a", "a:2", 2, " a*2 b*1 a*1"},
        {"localhost,127.0.0.1,b", NULL, 2, " localhost*4 b*1"},
        {"a.east.example,a.west.example", NULL, 0, " a.east.example*1 a.west.example*1"},
    };
    char text[256], *argv[] = {(char *)"/bin/x", (char *)"a b", NULL},
                    *bad[] = {(char *)"/bin/x", (char *)":", NULL};
    struct yk_mpirun_command c;
    struct yk_hosts hosts;
    struct yk_launch l = {.hosts = &hosts};
    setenv("OMPI_MCA_btl_tcp_sndbuf", "77", 1);
    setenv("TF_CONFIG", "{}", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct yk_hosts_ask ask = {.hosts = cases[i].hosts, .ps_hosts = cases[i].ps};
        assert_int_equal(yk_hosts_read(&hosts, &ask, NULL), YK_OK);
        l.owners = cases[i].owners;
        assert_int_equal(yk_mpirun_command_build(&c, &l, argv, "/dev/shm/f", 2, NULL), YK_OK);
        contexts(&c.argv, text);
        assert_string_equal(text, cases[i].contexts);
        int n = count(&c.argv, "-np");
        assert_int_equal(count(&c.argv, "a b"), n);
        assert_int_equal(count(&c.argv, "--wdir"), n);
        assert_int_equal(count(&c.argv, YK_PARENT_VARIABLE), n);
        assert_int_equal(count(&c.env, "OMPI_MCA_orte_enable_recovery=1"), 1);
        assert_int_equal(count(&c.env, "OMPI_MCA_orte_keep_fqdn_hostnames=1"), 1);
        assert_int_equal(count(&c.env, "EVENT_NOEPOLL=1"), 1);
        assert_int_equal(count(&c.env, "OMPI_MCA_btl_tcp_sndbuf=77"), 1); /* the user's stays */
        assert_int_equal(count(&c.env, "OMPI_MCA_btl_tcp_sndbuf=4194304"), 0);
        assert_int_equal(count(&c.env, "OMPI_MCA_btl_vader_backing_directory=/dev/shm/f"), 1);
        assert_int_equal(count(&c.env, YK_PARENT_VARIABLE "=/dev/shm/f"), 1);
        assert_int_equal(count(&c.env, YK_RESTARTS_VARIABLE "=2"), 1);
        assert_int_equal(count(&c.env, "TF_CONFIG={}"), 0);
        assert_int_equal(count(&c.env, "OMPI_MCA_plm=isolated"), 0);
        yk_mpirun_command_release(&c);
        assert_int_equal(yk_mpirun_command_build(&c, &l, bad, "/dev/shm/f", 0, NULL), YK_USAGE);
        yk_hosts_release(&hosts);
    }
    unsetenv("OMPI_MCA_btl_tcp_sndbuf");
    unsetenv("TF_CONFIG");
}

static void test_local(void **state)
{
    (void)state;
    char *argv[] = {(char *)"/bin/x", NULL};
    struct yk_mpirun_command c;
    struct yk_hosts hosts;
    struct yk_launch l = {.hosts = &hosts, .owners = 1};
    assert_int_equal(
        yk_hosts_read(&hosts, &(struct yk_hosts_ask){.hosts = "localhost,127.0.0.2"}, NULL), YK_OK);
    assert_int_equal(yk_mpirun_command_build(&c, &l, argv, "/dev/shm/f", 0, NULL), YK_OK);
    assert_int_equal(count(&c.env, "OMPI_MCA_plm=isolated"),
                     1); /* no ssh needed, not even installed */
    yk_mpirun_command_release(&c);
    setenv("OMPI_MCA_plm", "rsh", 1);
    assert_int_equal(yk_mpirun_command_build(&c, &l, argv, "/dev/shm/f", 0, NULL), YK_OK);
    assert_int_equal(count(&c.env, "OMPI_MCA_plm=isolated"), 0);
    assert_int_equal(count(&c.env, "OMPI_MCA_plm=rsh"), 1);
    yk_mpirun_command_release(&c);
    unsetenv("OMPI_MCA_plm");
    yk_hosts_release(&hosts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_command),
                                       cmocka_unit_test(test_local)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
