/* optread_test.c - command lines and configuration files: which words are options, whose they are,
 * and the sentence for what is neither. */
#include "base/opt.h"

#include "base/file.h"
#include "tests/testdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct values {
    bool json;
    int64_t batch;
    double rate;
    char *data;
    char *run;
    char *hosts;
};

#define AT(f) offsetof(struct values, f)
static const struct yk_opt TRAIN_TABLE[] = {
    {"json", 'j', YK_OPT_FLAG, AT(json), NULL, 0, 0, NULL, "", 0, "as JSON"},
    {"batch", 'b', YK_OPT_INT, AT(batch), "100", 1, 1000, NULL, "N", 0, "examples a step"},
    {"rate", 0, YK_OPT_REAL, AT(rate), NULL, -10, 10, NULL, "X", 0, "learning rate"},
    {"data", 0, YK_OPT_TEXT, AT(data), NULL, 0, 0, NULL, "DATA", 0, "what to learn"},
    {"run", 'r', YK_OPT_TEXT, AT(run), NULL, 0, 0, NULL, "DIR", YK_OPT_TRANSIENT, "where"},
    {"hosts", 0, YK_OPT_TEXT, AT(hosts), NULL, 0, 0, NULL, "LIST", YK_OPT_FAR, "on whom"},
};
static const struct yk_opt EVAL_TABLE[] = {
    {"json", 'j', YK_OPT_FLAG, AT(json), NULL, 0, 0, NULL, "", 0, "as JSON"},
    {"data", 0, YK_OPT_TEXT, AT(data), NULL, 0, 0, NULL, "DATA", 0, "what to learn"},
};
static const struct yk_opt_set SET[] = {{"train", TRAIN_TABLE, 6}, {"eval", EVAL_TABLE, 2}};
static const struct yk_opt_set *const ALL[] = {&SET[0], &SET[1], NULL};
enum verb { TRAIN, EVAL };

struct rig {
    struct yk_opts o;
    struct values v;
    const char *words[2];
    size_t n;
    struct yk_error e;
};

static void rig_open_for(struct rig *r, enum verb verb)
{
    memset(r, 0, sizeof *r);
    assert_int_equal(yk_opts_init(&r->o, SET[verb].table, SET[verb].n, &r->v, &r->e), YK_OK);
}

static void rig_open(struct rig *r)
{
    rig_open_for(r, TRAIN);
}

/* A fresh set of options, told `line` (words separated by one blank; '_' stands for an empty
 * one). */
static yk_code args(struct rig *r, enum verb verb, const char *line)
{
    char copy[256], *argv[16];
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *p = strtok(copy, " "); p != NULL; p = strtok(NULL, " ")) {
        argv[argc] = strdup(strcmp(p, "_") == 0 ? "" : p);
        assert_non_null(argv[argc++]);
    }
    yk_opts_release(&r->o);
    rig_open_for(r, verb);
    yk_code rc = yk_opts_args(&r->o, SET[verb].verb, ALL, argc, argv, r->words, 2, &r->n, &r->e);
    static char word[2][64];
    for (size_t i = 0; rc == YK_OK && i < r->n; i++) {
        snprintf(word[i], sizeof word[i], "%s", r->words[i]);
        r->words[i] = word[i];
    }
    while (argc > 0)
        free(argv[--argc]);
    return rc;
}

static void test_command_line(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    assert_int_equal(args(&r, TRAIN, "softmax --batch 10 --rate=0.5 --json --data mnist"), YK_OK);
    assert_int_equal(r.n, 1);
    assert_string_equal(r.words[0], "softmax");
    assert_true(r.v.batch == 10 && r.v.rate == 0.5 && r.v.json && strcmp(r.v.data, "mnist") == 0);

    assert_int_equal(args(&r, TRAIN, "-b 7 a -j -r out"), YK_OK); /* words may stand anywhere */
    assert_true(r.v.batch == 7 && r.v.json && strcmp(r.v.run, "out") == 0 &&
                strcmp(r.words[0], "a") == 0);

    assert_int_equal(args(&r, TRAIN, "-b12"),
                     YK_OK); /* a letter's value may stand at once behind it */
    assert_int_equal(r.v.batch, 12);

    assert_int_equal(args(&r, TRAIN, "--rate -3"), YK_OK); /* a value may begin with a dash */
    assert_true(r.v.rate == -3);

    assert_int_equal(args(&r, TRAIN, "-- --batch -j"), YK_OK); /* after -- all are words */
    assert_true(r.n == 2 && r.v.batch == 100 && !r.v.json);
    assert_string_equal(r.words[1], "-j");

    assert_int_equal(args(&r, TRAIN, "- --data -"), YK_OK); /* a lone dash is a word */
    assert_true(r.n == 1 && strcmp(r.words[0], "-") == 0 && strcmp(r.v.data, "-") == 0);

    assert_int_equal(args(&r, TRAIN, "--json=false --batch 1 --batch 2"),
                     YK_OK); /* the last one counts */
    assert_true(!r.v.json && r.v.batch == 2);

    assert_int_equal(args(&r, TRAIN, "--data=a=b"), YK_OK);
    assert_string_equal(r.v.data, "a=b");
    assert_int_equal(args(&r, TRAIN, "--json word"), YK_OK); /* a flag takes no value */
    assert_int_equal(r.n, 1);
    yk_opts_release(&r.o);
}

static void test_command_line_refuses(void **state)
{
    (void)state;
    static const struct {
        enum verb verb;
        const char *line, *text, *hint;
    } BAD[] = {
        {TRAIN, "--bach 10", "unknown option '--bach'", "did you mean '--batch'?"},
        {TRAIN, "--bach=10", "unknown option '--bach'", "did you mean '--batch'?"},
        {TRAIN, "--xyzzyx", "unknown option '--xyzzyx'", "'yoke help train' lists the options"},
        {EVAL, "--data --batch", "--data needs a value", ""}, /* another verb's option */
        {EVAL, "--batch 10", "'yoke eval' takes no option '--batch'", "'yoke help eval'"},
        {EVAL, "--bach 10", "unknown option '--bach'",
         "'yoke help eval'"}, /* never what the verb does not take */
        {EVAL, "-b 10", "takes no option", "'yoke help eval'"},
        {TRAIN, "-x", "unknown option", "'yoke help train'"},
        {TRAIN, "-bj", "'j' is not a whole number", ""},
        {TRAIN, "-xb", "unknown option", ""},
        {TRAIN, "--batch", "--batch needs a value: --batch N", ""},
        {TRAIN, "a --batch", "--batch needs a value", ""},
        {TRAIN, "--batch=", "'' is not a whole number", ""},
        {TRAIN, "--batch 1001", "out of range", ""},
        {TRAIN, "--batch _", "not a whole number", ""},
        {TRAIN, "--data _", "empty", ""},
        {TRAIN, "--json=2", "not true or false", ""},
        {TRAIN, "a b c", "does not know what to do with 'c'", "'yoke help train' shows"},
        {TRAIN, "--=3", "unknown option '--'", ""},
    };
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        if (args(&r, BAD[i].verb, BAD[i].line) != YK_USAGE)
            fail_msg("'%s' was accepted", BAD[i].line);
        if (strstr(r.e.text, BAD[i].text) == NULL || strstr(r.e.hint, BAD[i].hint) == NULL)
            fail_msg("'%s': expected '%s' and '%s', got '%s' and '%s'", BAD[i].line, BAD[i].text,
                     BAD[i].hint, r.e.text, r.e.hint);
    }
    yk_opts_release(&r.o);
}

static yk_code ini(struct rig *r, const char *text)
{
    yk_opts_release(&r->o);
    rig_open(r);
    return yk_opts_ini_text(&r->o, text, "yoke.ini", "train", ALL, YK_LOCAL_INI, &r->e);
}

static void test_ini(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    assert_int_equal(
        ini(&r, "# a comment\n; another\n\nbatch = 10\nrate=0.5 ; and here\n  \njson = yes\n"),
        YK_OK);
    assert_true(r.v.batch == 10 && r.v.rate == 0.5 && r.v.json);
    assert_int_equal(r.o.origin[1], YK_LOCAL_INI);

    assert_int_equal(ini(&r, "batch = 1\n[eval]\ndata = e\n[train]\nbatch = 2\ndata = t"),
                     YK_OK);                                   /* no newline at the end */
    assert_true(r.v.batch == 2 && strcmp(r.v.data, "t") == 0); /* eval's data is not train's */

    assert_int_equal(ini(&r, "\r\nbatch = 3\r\n[train]\r\nrate = 1\r\n"), YK_OK);
    assert_true(r.v.batch == 3 && r.v.rate == 1);
    assert_int_equal(ini(&r, "\xef\xbb\xbf"
                             "batch = 4\n"),
                     YK_OK);
    assert_int_equal(r.v.batch, 4);
    assert_int_equal(ini(&r, ""), YK_OK);

    /* what stands on the command line is stronger, whoever is read first */
    yk_opts_release(&r.o);
    rig_open(&r);
    assert_int_equal(yk_opts_set(&r.o, "batch", "77", YK_COMMAND_LINE, &r.e), YK_OK);
    assert_int_equal(
        yk_opts_ini_text(&r.o, "batch = 10\nrate = 2\n", "x", "train", ALL, YK_USER_INI, &r.e),
        YK_OK);
    assert_true(r.v.batch == 77 && r.v.rate == 2);
    yk_opts_release(&r.o);

    /* an option of other verbs only, outside of sections, is not this verb's business */
    rig_open_for(&r, EVAL);
    assert_int_equal(
        yk_opts_ini_text(&r.o, "batch = 10\ndata = x\n", "x", "eval", ALL, YK_USER_INI, &r.e),
        YK_OK);
    assert_true(r.v.batch == 0 && strcmp(r.v.data, "x") == 0);
    yk_opts_release(&r.o);
}

/* Who stands in a folder has not chosen the hosts that its file names; whoever wrote the other
 * files has. */
static void test_ini_of_the_folder_names_no_hosts(void **state)
{
    (void)state;
    static const enum yk_origin FINE[] = {YK_USER_INI, YK_CONFIG_FILE};
    struct rig r;
    rig_open(&r);
    for (int i = 0; i < 2; i++) {
        const char *text =
            i == 0 ? "batch = 7\nhosts = evil.example\n" : "\n[train]\nhosts = a,b\n";
        assert_int_equal(ini(&r, text), YK_USAGE);
        assert_non_null(strstr(r.e.text, i == 0 ? "'yoke.ini' line 2: 'hosts' is refused"
                                                : "'yoke.ini' line 3: 'hosts' is refused"));
        assert_non_null(strstr(r.e.hint, "--hosts"));
        assert_null(r.v.hosts);
    }
    for (int i = 0; i < 2; i++) {
        yk_opts_release(&r.o);
        rig_open(&r);
        assert_int_equal(yk_opts_ini_text(&r.o, "hosts = a,b\n", "x", "train", ALL, FINE[i], &r.e),
                         YK_OK);
        assert_string_equal(r.v.hosts, "a,b");
    }
    yk_opts_release(&r.o);
}

static void test_ini_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why, *hint;
    } BAD[] = {
        {"batch = 10\nnonsense\n", "'yoke.ini' line 2 is neither", ""},
        {"[train\nbatch = 1\n", "'yoke.ini' line 1 is neither", ""},
        {"\n\nbach = 10\n", "'yoke.ini' line 3: unknown option '--bach'",
         "did you mean '--batch'?"},
        {"batch = x\n", "line 1: --batch: 'x' is not a whole number", ""},
        {"batch = 0", "line 1: --batch: 0 is out of range", ""},
        {"batch =\n", "line 1: --batch: '' is not", ""},
        {"[trian]\nbatch = 1\n", "line 2: [trian] is not a verb", ""},
        {"[eval]\nbatch = 1\n", "line 2: 'yoke eval' takes no option 'batch'", ""},
        {"run = out\n", "line 1: 'run' belongs on the command line", ""},
        {"[train]\nrun = out\n", "line 2: 'run' belongs on the command line", ""},
        {"json = perhaps", "line 1: --json: 'perhaps'", ""},
        /* of several mistakes the first is told, with its own line, and good lines after it do not
         * hide it */
        {"batch = x\nrate = 1\n", "line 1: --batch: 'x' is not a whole number", ""},
        {"batch = x\nbach = 1\n", "line 1: --batch: 'x' is not a whole number", ""},
        {"rate = 1\n[tran]\nbatch = 2\n[train]\nbatch = 3\n", "line 3: [tran] is not a verb", ""},
        {"nonsense\nbatch = x\n", "line 1 is neither", ""},
    };
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        if (ini(&r, BAD[i].text) != YK_USAGE)
            fail_msg("'%s' was accepted", BAD[i].text);
        if (strstr(r.e.text, BAD[i].why) == NULL || strstr(r.e.hint, BAD[i].hint) == NULL)
            fail_msg("expected '%s' and '%s', got '%s' and '%s'", BAD[i].why, BAD[i].hint, r.e.text,
                     r.e.hint);
    }
    yk_opts_release(&r.o);
}

/* inih cuts long lines without a word; a value must never arrive shortened. */
static void test_long_lines(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    for (size_t n = 1; n < 1000; n++) {
        char text[1100] = "batch = 3\ndata = ";
        size_t begin = strlen(text);
        memset(text + begin, 'x', n);
        strcpy(text + begin + n, "\n");
        if (ini(&r, text) == YK_OK) {
            assert_int_equal(strlen(r.v.data), n);
            assert_true(n <= 200);
        } else {
            assert_true(n > 180);
            assert_non_null(strstr(r.e.text, "'yoke.ini' line 2 is longer than"));
        }
    }
    yk_opts_release(&r.o);
}

static void test_ini_file(void **state)
{
    char path[YK_PATH_MAX];
    struct rig r;
    rig_open(&r);
    assert_int_equal(yk_path(path, NULL, "%s/my.ini", (char *)*state), YK_OK);
    assert_int_equal(yk_opts_ini(&r.o, path, "train", ALL, YK_CONFIG_FILE, &r.e),
                     YK_USAGE); /* named, but not there */
    assert_non_null(strstr(r.e.text, path));
    assert_int_equal(yk_file_write(path, "[train]\nbatch = 12\n", 19, NULL), YK_OK);
    assert_int_equal(yk_opts_ini(&r.o, path, "train", ALL, YK_CONFIG_FILE, &r.e), YK_OK);
    assert_int_equal(r.v.batch, 12);
    assert_int_equal(r.o.origin[1], YK_CONFIG_FILE);
    assert_int_equal(yk_file_write(path, "batch = 1\n\0rate = 1\n", 20, NULL), YK_OK);
    assert_int_equal(yk_opts_ini(&r.o, path, "train", ALL, YK_CONFIG_FILE, &r.e), YK_USAGE);
    assert_non_null(strstr(r.e.text, "is not text"));
    assert_int_equal(yk_opts_ini(&r.o, *state, "train", ALL, YK_CONFIG_FILE, &r.e),
                     YK_USAGE); /* a folder */
    yk_opts_release(&r.o);
}

static void put(const char *path, const char *text)
{
    assert_int_equal(yk_file_write(path, text, strlen(text), NULL), YK_OK);
}

static void test_usual_inis(void **state)
{
    char old[YK_PATH_MAX], folder[YK_PATH_MAX];
    struct rig r;
    assert_non_null(getcwd(old, sizeof old));
    assert_int_equal(chdir(*state), 0);
    assert_int_equal(yk_path(folder, NULL, "%s/config", (char *)*state), YK_OK);
    assert_int_equal(setenv("XDG_CONFIG_HOME", folder, 1), 0);
    rig_open(&r);
    assert_int_equal(yk_opts_usual_inis(&r.o, "train", ALL, &r.e), YK_OK); /* neither is there */
    yk_opts_release(&r.o);

    assert_int_equal(yk_mkdirs("config/yoke", NULL), YK_OK);
    put("config/yoke/yoke.ini", "batch = 1\nrate = 1\nhosts = a\n");
    put("yoke.ini", "batch = 2\nrate = 2\n[eval]\ndata = x\n");
    put("my.ini", "[train]\nbatch = 3\n");
    rig_open(&r);
    assert_int_equal(yk_opts_ini(&r.o, "my.ini", "train", ALL, YK_CONFIG_FILE, &r.e), YK_OK);
    assert_int_equal(yk_opts_usual_inis(&r.o, "train", ALL, &r.e), YK_OK);
    assert_true(r.v.batch == 3 && r.v.rate == 2 && r.v.data == NULL);
    assert_string_equal(r.v.hosts, "a");
    yk_opts_release(&r.o);

    put("yoke.ini", "batch = 2\nbach = 2\n");
    rig_open_for(&r, EVAL);
    assert_int_equal(yk_opts_usual_inis(&r.o, "eval", ALL, &r.e),
                     YK_USAGE); /* a mistake is one for every verb */
    assert_non_null(strstr(r.e.text, "'yoke.ini' line 2"));
    assert_string_equal(r.e.hint, "did you mean '--batch'?");
    yk_opts_release(&r.o);

    assert_int_equal(unsetenv("XDG_CONFIG_HOME"), 0); /* then below HOME */
    assert_int_equal(setenv("HOME", *state, 1), 0);
    assert_int_equal(yk_mkdirs(".config/yoke", NULL), YK_OK);
    put(".config/yoke/yoke.ini", "batch = 5\n");
    put("yoke.ini", "");
    rig_open(&r);
    assert_int_equal(yk_opts_usual_inis(&r.o, "train", ALL, &r.e), YK_OK);
    assert_int_equal(r.v.batch, 5);
    yk_opts_release(&r.o);
    assert_int_equal(chdir(old), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_usual_inis, testdir_setup, testdir_teardown),
        cmocka_unit_test(test_command_line),
        cmocka_unit_test(test_command_line_refuses),
        cmocka_unit_test(test_ini),
        cmocka_unit_test(test_ini_refuses),
        cmocka_unit_test(test_ini_of_the_folder_names_no_hosts),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test_setup_teardown(test_ini_file, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
