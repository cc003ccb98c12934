/* opt_test.c - options as values: types, ranges, who may overwrite whom, and the way through JSON
 * and back, on a table of its own. */
#include "base/opt.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct values {
    bool fast;
    int64_t batch;
    double rate;
    char *name;
    char *kind;
    struct yk_every every;
    char *folder;
};

#define AT(f) offsetof(struct values, f)
static const struct yk_opt TABLE[] = {
    {"fast", 'f', YK_OPT_FLAG, AT(fast), NULL, 0, 0, NULL, "", 0, "be quick"},
    {"batch", 'b', YK_OPT_INT, AT(batch), "100", 1, 9e15, NULL, "N", 0, "examples a step"},
    {"rate", 0, YK_OPT_REAL, AT(rate), NULL, 1e-12, 1e6, NULL, "X", 0, "learning rate"},
    {"name", 0, YK_OPT_TEXT, AT(name), NULL, 0, 0, NULL, "TEXT", 0, "a name"},
    {"kind", 0, YK_OPT_CHOICE, AT(kind), "red", 0, 0, "red|green|blue", "KIND", 0, "a kind"},
    {"every", 0, YK_OPT_EVERY, AT(every), "10s", 0, 0, NULL, "N", 0, "how often"},
    {"folder", 0, YK_OPT_TEXT, AT(folder), NULL, 0, 0, NULL, "DIR", YK_OPT_TRANSIENT, "where"},
};
enum { N = sizeof TABLE / sizeof TABLE[0] };

struct rig {
    struct yk_opts o;
    struct values v;
    struct yk_error e;
};

static void rig_open(struct rig *r)
{
    memset(r, 0, sizeof *r);
    assert_int_equal(yk_opts_init(&r->o, TABLE, N, &r->v, &r->e), YK_OK);
}

static yk_code set(struct rig *r, const char *name, const char *text)
{
    r->e = (struct yk_error){0};
    return yk_opts_set(&r->o, name, text, YK_COMMAND_LINE, &r->e);
}

static void test_defaults(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    assert_true(!r.v.fast && r.v.batch == 100 && r.v.rate == 0 && r.v.name == NULL &&
                r.v.folder == NULL);
    assert_string_equal(r.v.kind, "red");
    assert_true(r.v.every.unit == YK_SECONDS && r.v.every.amount == 10);
    for (size_t i = 0; i < N; i++)
        assert_false(yk_opts_given(&r.o, TABLE[i].name)); /* a default was given by nobody */
    assert_false(yk_opts_given(&r.o, "nothing"));
    yk_opts_release(&r.o);
    assert_null(r.v.kind);
    yk_opts_release(&r.o);

    struct yk_opt bad = TABLE[1]; /* a table that contradicts itself is found out at once */
    bad.value = "0";
    assert_int_equal(yk_opts_init(&r.o, &bad, 1, &r.v, &r.e), YK_USAGE);
}

static void test_accepts(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *shown; /* shown: as yk_opt_text gives it back */
    } GOOD[] = {
        {"fast", "true", "true"},
        {"fast", "no", "false"},
        {"fast", "on", "true"},
        {"fast", "0", "false"},
        {"fast", "yes", "true"},
        {"fast", "off", "false"},
        {"fast", "1", "true"},
        {"fast", "false", "false"},
        {"batch", "1", "1"},
        {"batch", "60000", "60000"},
        {"batch", "1e3", "1000"},
        {"batch", "+5", "5"},
        {"batch", "8999999999999999",
         "8999999999999999"}, /* exact, though it went through a double */
        {"rate", "0.1", "0.10000000000000001"},
        {"rate", "1e-12", "9.9999999999999998e-13"},
        {"rate", "1e6", "1000000"},
        {"name", "a b", "a b"},
        {"name", "-", "-"},
        {"kind", "blue", "blue"},
        {"kind", "red", "red"},
        {"every", "1", "1"},
        {"every", "20000ex", "20000ex"},
        {"every", "0.5s", "0.5s"},
        {"every", "1e4", "10000"},
    };
    struct rig r;
    rig_open(&r);
    for (size_t k = 0; k < sizeof GOOD / sizeof GOOD[0]; k++) {
        char text[256];
        size_t i = 0;
        if (set(&r, GOOD[k].name, GOOD[k].text) != YK_OK)
            fail_msg("%s", r.e.text);
        assert_true(yk_opts_given(&r.o, GOOD[k].name));
        while (strcmp(TABLE[i].name, GOOD[k].name) != 0)
            i++;
        yk_opt_text(&r.o, i, text, sizeof text);
        assert_string_equal(text, GOOD[k].shown);
    }
    assert_true(r.v.rate == 1e6 && r.v.batch == 8999999999999999 && r.v.every.amount == 10000);
    yk_opts_release(&r.o);
}

static void test_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *why;
    } BAD[] = {
        {"fast", "maybe", "not true or false"},
        {"fast", "", "not true or false"},
        {"fast", "tru", "not true or false"},
        {"fast", "true|yes", "not true or false"},
        {"batch", "", "not a whole number"},
        {"batch", "ten", "not a whole number"},
        {"batch", "1.5", "not a whole number"},
        {"batch", "10x", "not a whole number"},
        {"batch", "1e400", "not a whole number"},
        {"batch", "inf", "not a whole number"},
        {"batch", "nan", "not a whole number"},
        {"batch", "0", "0 is out of range: 1 to 9e+15"},
        {"batch", "-3", "out of range"},
        {"batch", "1e16", "out of range"},
        {"rate", "x", "not a number"},
        {"rate", "0", "out of range"},
        {"rate", "-0.1", "out of range"},
        {"rate", "1000001", "out of range: 1e-12 to 1000000"},
        {"rate", "nan", "not a number"},
        {"name", "", "empty"},
        {"name", "caf\xe9", "not UTF-8"}, /* JSON could not save it */
        {"kind", "", "none of red|green|blue"},
        {"kind", "re", "none of"},
        {"kind", "redd", "none of"},
        {"kind", "red|green", "none of"},
        {"kind", "Red", "none of"},
        {"every", "", "not an interval"},
        {"every", "0", "not an interval"},
        {"every", "-5", "not an interval"},
        {"every", "1.5", "not an interval"},
        {"every", "0.5ex", "not an interval"},
        {"every", "10m", "not an interval"},
        {"every", "10 s", "not an interval"},
        {"every", "infs", "not an interval"},
        {"every", "s", "not an interval"},
    };
    struct rig r;
    rig_open(&r);
    for (size_t k = 0; k < sizeof BAD / sizeof BAD[0]; k++) {
        if (set(&r, BAD[k].name, BAD[k].text) != YK_USAGE)
            fail_msg("--%s '%s' was accepted", BAD[k].name, BAD[k].text);
        if (strstr(r.e.text, BAD[k].why) == NULL || strstr(r.e.text, BAD[k].name) == NULL)
            fail_msg("expected '%s' in: %s", BAD[k].why, r.e.text);
        assert_false(yk_opts_given(&r.o, BAD[k].name));
    }
    assert_true(r.v.batch == 100 && r.v.rate == 0 && strcmp(r.v.kind, "red") == 0 &&
                r.v.every.amount == 10);
    yk_opts_release(&r.o);
}

/* A weaker source never overwrites a stronger one, in whatever order they speak. */
static void test_origins(void **state)
{
    (void)state;
    static const enum yk_origin ORDER[] = {YK_FROM_MODEL, YK_USER_INI,    YK_LOCAL_INI,
                                           YK_RESUMED,    YK_CONFIG_FILE, YK_COMMAND_LINE};
    enum { ORIGINS = sizeof ORDER / sizeof ORDER[0] };
    for (int a = 0; a < ORIGINS; a++)
        for (int b = 0; b < ORIGINS; b++) {
            struct rig r;
            rig_open(&r);
            assert_int_equal(yk_opts_set(&r.o, "batch", "11", ORDER[a], &r.e), YK_OK);
            assert_int_equal(yk_opts_set(&r.o, "batch", "22", ORDER[b], &r.e), YK_OK);
            assert_int_equal(r.v.batch, b >= a ? 22 : 11); /* of equals the later */
            assert_int_equal(yk_opts_origin(&r.o, "batch"), ORDER[a > b ? a : b]);
            assert_int_equal(yk_opts_origin(&r.o, "rate"), YK_BUILT_IN);
            yk_opts_release(&r.o);
        }
}

static void test_suggestions(void **state)
{
    (void)state;
    static const struct {
        const char *typed, *near; /* NULL: nothing is near */
    } TYPED[] = {
        {"bach", "batch"}, {"btach", "batch"},  {"batchs", "batch"},
        {"rat", "rate"},   {"every ", "every"}, {"foldre", "folder"},
        {"zzz", NULL},     {"", NULL},          {"learning", NULL},
    };
    struct rig r;
    char hint[64], longest[201];
    rig_open(&r);
    for (size_t k = 0; k < sizeof TYPED / sizeof TYPED[0]; k++) {
        assert_int_equal(set(&r, TYPED[k].typed, "1"), YK_USAGE);
        assert_non_null(strstr(r.e.text, "unknown option"));
        snprintf(hint, sizeof hint, "did you mean '--%s'?", TYPED[k].near ? TYPED[k].near : "");
        assert_string_equal(r.e.hint, TYPED[k].near ? hint : "");
    }
    for (size_t n = 1; n < sizeof longest; n++) { /* no length of nonsense resembles anything */
        memset(longest, 'x', n);
        longest[n] = '\0';
        assert_int_equal(set(&r, longest, "1"), YK_USAGE);
        if (n > 6 && r.e.hint[0] != '\0')
            fail_msg("%zu times 'x': %s", n, r.e.hint);
    }
    yk_opts_release(&r.o);
}

static void test_json_round_trip(void **state)
{
    (void)state;
    struct rig a, b;
    rig_open(&a);
    rig_open(&b);
    assert_int_equal(set(&a, "rate", "0.1"), YK_OK);
    assert_int_equal(set(&a, "batch", "8999999999999999"), YK_OK);
    assert_int_equal(set(&a, "name", "caf\xc3\xa9 \"quoted\"\n"), YK_OK);
    assert_int_equal(set(&a, "every", "20000ex"), YK_OK);
    assert_int_equal(set(&a, "fast", "true"), YK_OK);
    assert_int_equal(set(&a, "folder", "/somewhere"), YK_OK);
    assert_ptr_equal(yk_opts_field(&a.o, "folder"), &a.v.folder);
    assert_null(yk_opts_field(&a.o, "file"));
    json_t *j = yk_opts_json(&a.o);
    assert_true(json_is_true(json_object_get(j, "fast")));
    assert_true(json_is_integer(json_object_get(j, "batch")));
    assert_true(json_is_real(json_object_get(j, "rate")));
    assert_string_equal(json_string_value(json_object_get(j, "kind")),
                        "red");                /* defaults too: the run saw them */
    assert_null(json_object_get(j, "folder")); /* about this call only */
    char *text = json_dumps(j, 0);
    json_decref(j);
    j = json_loads(text, 0, NULL); /* through bytes, as a run's config.json is */
    assert_non_null(j);
    json_object_set_new(j, "model", json_string("softmax")); /* no option: passed over */
    json_object_set_new(j, "folder", json_string("/elsewhere"));
    assert_int_equal(yk_opts_load(&b.o, j, "config.json", YK_RESUMED, 0, &b.e), YK_OK);
    assert_true(b.v.rate == a.v.rate && b.v.batch == a.v.batch && b.v.fast && b.v.folder == NULL);
    assert_string_equal(b.v.name, a.v.name);
    assert_true(b.v.every.unit == YK_EXAMPLES && b.v.every.amount == 20000);
    assert_int_equal(b.o.origin[1], YK_RESUMED);
    free(text);
    json_decref(j);
    yk_opts_release(&a.o);
    yk_opts_release(&b.o);
}

static void test_load_refuses(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "{\"batch\": 0}",    "{\"batch\": \"x\"}", "{\"batch\": 1.5}",    "{\"batch\": null}",
        "{\"batch\": [1]}",  "{\"fast\": 7}",      "{\"kind\": \"tea\"}", "{\"kind\": {}}",
        "{\"every\": true}", "{\"name\": \"\"}",   "{\"rate\": 1e300}",
    };
    struct rig r;
    rig_open(&r);
    for (size_t k = 0; k < sizeof BAD / sizeof BAD[0]; k++) {
        json_t *j = json_loads(BAD[k], 0, NULL);
        assert_non_null(j);
        if (yk_opts_load(&r.o, j, "old/config.json", YK_RESUMED, 0, &r.e) != YK_DATA)
            fail_msg("%s was accepted", BAD[k]);
        assert_non_null(strstr(r.e.text, "old/config.json"));
        json_decref(j);
    }
    yk_opts_release(&r.o);
}

/* A text may be a whole file: nothing of it is lost on any way. */
static void test_long(void **state)
{
    (void)state;
    enum { LENGTH = 100000 };
    struct rig a, b;
    struct yk_opts o;
    struct values v = {0};
    static char text[LENGTH + 1];
    for (size_t i = 0; i < LENGTH; i++)
        text[i] = (char)('a' + i % 26);
    rig_open(&a);
    rig_open(&b);
    assert_int_equal(set(&a, "name", text), YK_OK);
    assert_int_equal(yk_opts_copy(&o, &v, &a.o, &a.e), YK_OK);
    assert_string_equal(v.name, text);
    json_t *j = yk_opts_json(&o);
    assert_int_equal(yk_opts_load(&b.o, j, "config.json", YK_RESUMED, 0, &b.e), YK_OK);
    assert_string_equal(b.v.name, text);
    json_decref(j);
    yk_opts_release(&a.o);
    yk_opts_release(&b.o);
    yk_opts_release(&o);
}

static void test_copy(void **state)
{
    (void)state;
    struct rig a;
    struct yk_opts o;
    struct values v = {0};
    rig_open(&a);
    assert_int_equal(set(&a, "rate", "0.3"), YK_OK);
    assert_int_equal(set(&a, "name", "x"), YK_OK);
    assert_int_equal(yk_opts_set(&a.o, "batch", "7", YK_USER_INI, &a.e), YK_OK);
    assert_int_equal(yk_opts_copy(&o, &v, &a.o, &a.e), YK_OK);
    for (size_t i = 0; i < N; i++) {
        char x[64], y[64];
        yk_opt_text(&a.o, i, x, sizeof x);
        yk_opt_text(&o, i, y, sizeof y);
        assert_string_equal(x, y);
        assert_int_equal(a.o.given[i], o.given[i]);
        assert_int_equal(a.o.origin[i], o.origin[i]);
    }
    assert_true(v.rate == a.v.rate); /* to the last bit */
    assert_ptr_not_equal(v.name, a.v.name);
    yk_opts_release(&a.o);
    assert_string_equal(v.name, "x"); /* a life of its own */
    yk_opts_release(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),     cmocka_unit_test(test_accepts),
        cmocka_unit_test(test_refuses),      cmocka_unit_test(test_origins),
        cmocka_unit_test(test_suggestions),  cmocka_unit_test(test_json_round_trip),
        cmocka_unit_test(test_load_refuses), cmocka_unit_test(test_copy),
        cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
