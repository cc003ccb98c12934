/* options_test.c - what is read from the options of a testbed, and what is not. The sentences of
 * the refusals are checked in tests/cluster/testbed.sh, where the program prints them. */
#include "testbed/testbed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_values(void **state)
{
    (void)state;
    struct yk_testbed_options o;
    assert_int_equal(yk_testbed_read(&o, "3", "1.8gbit", "n2:0.3,n1:1.5", "n0:100Mbit/s", NULL),
                     YK_OK);
    assert_int_equal(o.hosts, 3);
    assert_true(o.rate[0] == 100000000 && o.rate[1] == 1800000000 && o.rate[2] == 1800000000 &&
                o.rate[3] == 0);
    assert_true(o.cpu[0] == 0 && o.cpu[1] == 1.5 && o.cpu[2] == 0.3 && o.cpu[3] == 0);
    assert_int_equal(
        yk_testbed_read(&o, "64", NULL, NULL, "n63:500kbit,n9:.5Gbit,n1:100000bit", NULL), YK_OK);
    assert_true(o.hosts == 64 && o.rate[63] == 500000 && o.rate[9] == 500000000 &&
                o.rate[1] == 100000 && o.rate[0] == 0);
    assert_int_equal(yk_testbed_read(&o, "1", NULL, NULL, NULL, NULL), YK_OK);
    assert_true(o.hosts == 1 && o.rate[0] == 0 && o.cpu[0] == 0);
}

static void test_mistakes(void **state)
{
    (void)state;
    static const char *const HOSTS[] = {"0",
                                        "65",
                                        "-1",
                                        "3.0",
                                        "0x3",
                                        "nan",
                                        "1e1",
                                        "3 ",
                                        "",
                                        "n0",
                                        "99999999999999999999999999999999999"};
    static const char *const RATES[] = {"",       "1",       "gbit",   "1.2.3gbit",
                                        "-1gbit", "infgbit", "1gbits", "1gbit/",
                                        "1gb",    "1 gbit",  "99kbit", "101gbit"};
    static const char *const LISTS[] = {",",   "n0",   "n0:",   ":1",        "n3:1",     "n00:1",
                                        "n:1", "N0:1", "n0:1,", "n0:1,n0:1", "n0:1;n1:1"};
    static const char *const PARTS[] = {"n0:0",   "n0:0.009", "n0:2000", "n0:-1",
                                        "n0:nan", "n0:1e0",   "n0:50%"};
    struct yk_testbed_options o;
    for (size_t i = 0; i < sizeof HOSTS / sizeof HOSTS[0]; i++)
        assert_int_equal(yk_testbed_read(&o, HOSTS[i], NULL, NULL, NULL, NULL), YK_USAGE);
    for (size_t i = 0; i < sizeof RATES / sizeof RATES[0]; i++)
        assert_int_equal(yk_testbed_read(&o, "3", RATES[i], NULL, NULL, NULL), YK_USAGE);
    for (size_t i = 0; i < sizeof LISTS / sizeof LISTS[0]; i++)
        assert_int_equal(yk_testbed_read(&o, "3", NULL, LISTS[i], NULL, NULL), YK_USAGE);
    for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++)
        assert_int_equal(yk_testbed_read(&o, "3", NULL, PARTS[i], NULL, NULL), YK_USAGE);
}

static void test_addresses(void **state)
{
    (void)state;
    char text[16];
    assert_string_equal(yk_testbed_address(0, text), "198.18.0.1");
    assert_string_equal(yk_testbed_address(63, text), "198.18.0.64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
