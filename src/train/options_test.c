/* options_test.c - the table of training's options: it contradicts neither itself nor the lists it
 * is made from, and a run's options survive the way through config.json. */
#include "train/options.h"

#include "kernel/kernel.h"
#include "model/model.h"
#include "optim/optim.h"
#include "strategy/rule.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct rig {
    struct yk_opts o;
    struct yk_options v;
    struct yk_error e;
};

static void rig_open(struct rig *r)
{
    memset(r, 0, sizeof *r);
    assert_int_equal(yk_opts_init(&r->o, yk_option_table, yk_option_count, &r->v, &r->e), YK_OK);
}

static void set(struct rig *r, const char *name, const char *value)
{
    if (yk_opts_set(&r->o, name, value, YK_COMMAND_LINE, &r->e) != YK_OK)
        fail_msg("%s", r->e.text);
}

static const struct yk_opt *option(const char *name)
{
    for (size_t i = 0; i < yk_option_count; i++)
        if (strcmp(yk_option_table[i].name, name) == 0)
            return &yk_option_table[i];
    fail_msg("no option '%s'", name);
    return NULL;
}

static size_t size_of(enum yk_opt_type type)
{
    return type == YK_OPT_FLAG ? sizeof(bool) : type == YK_OPT_EVERY ? sizeof(struct yk_every) : 8;
}

static void test_table(void **state)
{
    (void)state;
    char used[sizeof(struct yk_options)] = {0};
    for (size_t i = 0; i < yk_option_count; i++) {
        const struct yk_opt *t = &yk_option_table[i];
        size_t field = t->field, size = size_of(t->type);
        assert_true(field + size <= sizeof used);
        for (size_t k = 0; k < size; k++)
            assert_int_equal(used[field + k]++, 0); /* no two options share a field */
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(yk_option_table[k].name, t->name);
            assert_true(t->letter == 0 || yk_option_table[k].letter != t->letter);
        }
        for (const char *p = t->name; *p != '\0'; p++)
            assert_true(islower((unsigned char)*p) || *p == '-' || isdigit((unsigned char)*p));
        assert_true(strlen(t->name) <= 32); /* as far as 'did you mean' looks */
        assert_true(t->help[0] != '\0' && t->help[strlen(t->help) - 1] != '.' &&
                    !isupper((unsigned char)t->help[0]));
        assert_int_equal(t->meta[0] == '\0',
                         t->type == YK_OPT_FLAG); /* a flag shows no value, everything else does */
        assert_int_equal(t->choices != NULL, t->type == YK_OPT_CHOICE);
        if (t->type == YK_OPT_INT || t->type == YK_OPT_REAL)
            assert_true(t->min < t->max && t->max <= 9e15);
        if (t->type == YK_OPT_CHOICE && t->value != NULL)
            assert_true(yk_choice_has(t->choices, t->value));
    }
    assert_null(yk_option_table[yk_option_count].name);
}

/* A default is a value like any other: it can be typed, and lies within its range. */
static void test_defaults(void **state)
{
    (void)state;
    struct rig r, again;
    rig_open(&r);
    rig_open(&again);
    for (size_t i = 0; i < yk_option_count; i++) {
        char text[256];
        const struct yk_opt *t = &yk_option_table[i];
        yk_opt_text(&r.o, i, text, sizeof text);
        assert_int_equal(text[0] == '\0', t->value == NULL);
        if (t->value != NULL)
            set(&again, t->name, text);
    }
    yk_opts_release(&r.o);
    yk_opts_release(&again.o);
}

static void test_lists(void **state)
{
    (void)state;
    char names[256] = "";
    for (unsigned i = 0; yk_optimizer_at(i) != NULL; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i > 0 ? "|" : "",
                 yk_optimizer_at(i)->name);
    assert_string_equal(option("optimizer")->choices, names);
    for (unsigned i = 0; yk_kernels_at(i) != NULL; i++)
        assert_true(yk_choice_has(option("isa")->choices, yk_kernels_at(i)->name));
    assert_true(yk_choice_has(option("isa")->choices, "auto"));
    names[0] = '\0';
    for (unsigned i = 0; i < YK_MODE_COUNT; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i > 0 ? "|" : "",
                 yk_mode_name((enum yk_mode)i));
    assert_string_equal(option("mode")->choices, names);
}

/* Every option of a run, at a value that is not its default, through the text of config.json and
 * back. */
static void test_round_trip(void **state)
{
    (void)state;
    static const char *const VALUE[][2] = {
        {"data", "/tmp/x y"},
        {"test-data", "t"},
        {"holdout", "0.25"},
        {"augment", "crop"},
        {"test-batch", "77"},
        {"shuffle-buffer", "4000000000"},
        {"progressive", "true"},
        {"data-local", "true"},
        {"batch", "7"},
        {"global-batch", "21"},
        {"seed", "8999999999999999"},
        {"mode", "ssp"},
        {"workers", "3"},
        {"ps", "2"},
        {"backup", "1"},
        {"staleness", "4"},
        {"shards", "12"},
        {"hosts", "a:2,b"},
        {"hostfile", "hosts.txt"},
        {"ps-hosts", "c"},
        {"heartbeat", "0.7"},
        {"on-worker-loss", "replace"},
        {"restarts", "2"},
        {"optimizer", "adam"},
        {"lr", "0.3"},
        {"momentum", "0.1"},
        {"beta2", "0.7"},
        {"eps", "1e-20"},
        {"l1", "1e-7"},
        {"l2", "0.25"},
        {"ftrl-beta", "0.5"},
        {"schedule", "cosine:5"},
        {"weight-decay", "0.0005"},
        {"bias-lr", "0.002"},
        {"bias-momentum", "0.8"},
        {"bias-weight-decay", "0"},
        {"bias-schedule", "stairs:2:10:500"},
        {"clip", "5"},
        {"init", "glorot"},
        {"compress", "topk:0.01"},
        {"steps", "123456789012"},
        {"epochs", "3"},
        {"target-loss", "0.1"},
        {"target-accuracy", "0.3"},
        {"max-seconds", "0.1"},
        {"eval-every", "20000ex"},
        {"checkpoint-every", "0.1s"},
        {"keep", "9"},
        {"threads", "2"},
        {"isa", "plain"},
        {"engine", "lanes"},
        {"label-smoothing", "0.1"},
        {"net", "net t\ninput 3x3x1\ndense 2\nsoftmax\n"},
        {"format", "vw"},
        {"hash-bits", "18"},
        {"skip-bad", "5"},
        {"label-name", "y"},
        {"index-name", "i"},
        {"value-name", "v"},
        {"features", "4294967001"},
    };
    struct rig a, b;
    rig_open(&a);
    rig_open(&b);
    for (size_t i = 0; i < sizeof VALUE / sizeof VALUE[0]; i++)
        set(&a, VALUE[i][0], VALUE[i][1]);
    json_t *j = yk_opts_json(&a.o);
    char *text = json_dumps(j, JSON_INDENT(2));
    json_decref(j);
    j = json_loads(text, 0, NULL);
    assert_non_null(j);
    assert_int_equal(yk_opts_load(&b.o, j, "config.json", YK_RESUMED, 0, &b.e), YK_OK);
    for (size_t i = 0; i < yk_option_count; i++) {
        const struct yk_opt *t = &yk_option_table[i];
        char x[256], y[256];
        yk_opt_text(&a.o, i, x, sizeof x);
        yk_opt_text(&b.o, i, y, sizeof y);
        assert_string_equal(x, y);
        bool saved = !(t->flags & YK_OPT_TRANSIENT);
        assert_int_equal(json_object_get(j, t->name) != NULL, saved);
        assert_true(!saved || t->value == NULL ||
                    strcmp(x, t->value) != 0); /* VALUE above has forgotten none */
        assert_true(!saved || yk_opts_given(&a.o, t->name));
    }
    json_decref(j);
    free(text);
    yk_opts_release(&a.o);
    yk_opts_release(&b.o);
}

/* What the model says counts where nobody else does; its length only if no stop rule was given; its
 * rate only with its optimizer. */
static void test_model_defaults(void **state)
{
    (void)state;
    static const char *const DEFAULTS[] = {"data", "mnist", "batch",  "100", "optimizer", "sgd",
                                           "lr",   "0.05",  "epochs", "10",  NULL};
    static const char *const RULES[][2] = {{"steps", "5"},
                                           {"epochs", "2"},
                                           {"target-loss", "0.1"},
                                           {"target-accuracy", "0.9"},
                                           {"max-seconds", "1"}};
    struct rig r;
    rig_open(&r);
    assert_int_equal(yk_options_model(&r.o, DEFAULTS, &r.e), YK_OK);
    assert_true(r.v.batch == 100 && r.v.lr == 0.05 && r.v.epochs == 10 &&
                strcmp(r.v.optimizer, "sgd") == 0);
    yk_opts_release(&r.o);
    for (size_t i = 0; i < 5; i++) {
        rig_open(&r);
        set(&r, RULES[i][0], RULES[i][1]);
        set(&r, "batch", "7");
        assert_int_equal(yk_options_model(&r.o, DEFAULTS, &r.e), YK_OK);
        assert_int_equal(r.v.epochs, strcmp(RULES[i][0], "epochs") == 0 ? 2 : 0);
        assert_int_equal(r.v.batch, 7);
        yk_opts_release(&r.o);
    }
    for (unsigned i = 0; yk_optimizer_at(i) != NULL; i++) {
        rig_open(&r);
        set(&r, "optimizer", yk_optimizer_at(i)->name);
        assert_int_equal(yk_options_model(&r.o, DEFAULTS, &r.e), YK_OK);
        assert_true(r.v.lr == yk_optimizer_at(i)->lr);
        yk_opts_release(&r.o);
        rig_open(&r);
        set(&r, "optimizer", yk_optimizer_at(i)->name);
        set(&r, "lr", "0.7");
        assert_int_equal(yk_options_model(&r.o, DEFAULTS, &r.e), YK_OK);
        assert_true(r.v.lr == 0.7);
        yk_opts_release(&r.o);
    }
    static const char *const OWN[] = {
        "lr",    "0.3", "bias-lr", "0.6",
        "steps", "20",  NULL}; /* of a net: counts before what all nets have */
    rig_open(&r);
    assert_int_equal(yk_options_model(&r.o, OWN, &r.e), YK_OK);
    assert_int_equal(yk_options_model(&r.o, DEFAULTS, &r.e), YK_OK);
    assert_true(r.v.lr == 0.3 && r.v.bias_lr == 0.6 && r.v.steps == 20 && r.v.epochs == 0 &&
                r.v.batch == 100);
    assert_string_equal(r.v.optimizer, "sgd");
    yk_opts_release(&r.o);
    rig_open(&r);
    set(&r, "optimizer", "adam"); /* another one, and so none of the net's rates */
    assert_int_equal(yk_options_model(&r.o, OWN, &r.e), YK_OK);
    assert_int_equal(yk_options_model(&r.o, DEFAULTS, &r.e), YK_OK);
    assert_true(r.v.lr == yk_optimizer_find("adam")->lr && r.v.bias_lr == 0 && r.v.steps == 20);
    yk_opts_release(&r.o);
    for (unsigned i = 0; yk_model_at(i) != NULL;
         i++) { /* every real model's defaults are options with good values */
        rig_open(&r);
        assert_int_equal(yk_options_model(&r.o, yk_model_at(i)->defaults, &r.e), YK_OK);
        assert_true(r.v.batch > 0 && r.v.lr > 0 && r.v.optimizer != NULL &&
                    (r.v.epochs > 0 || r.v.steps > 0));
        yk_opts_release(&r.o);
    }
}

static void test_check(void **state)
{
    (void)state;
    static const struct {
        const char *name[2], *value[2], *why; /* why NULL: fine */
    } CASES[] = {
        {{NULL}, {NULL}, NULL},
        {{"quiet", "verbose"}, {"true", "true"}, "exclude each other"},
        {{"quiet", "verbose"}, {"true", "false"}, NULL},
        {{"run", "resume"}, {"a", "b"}, "--run and --resume"},
        {{"schedule"}, {"staircase"}, "--schedule: 'staircase' is not a schedule"},
        {{"schedule"}, {"cosine:10"}, NULL},
        {{"optimizer", "l1"}, {"sgd", "0.1"}, NULL},
        {{"optimizer", "l1"}, {"adagrad", "0.1"}, NULL},
        {{"optimizer", "l1"}, {"ftrl", "0.1"}, NULL},
        {{"optimizer", "l1"}, {"adam", "0.1"}, "--l1 means nothing to --optimizer adam"},
        {{"optimizer", "l1"}, {"momentum", "0.1"}, "--l1 means nothing to --optimizer momentum"},
        {{"optimizer", "l2"}, {"momentum", "0.1"}, NULL},
        {{"optimizer", "l2"}, {"adam", "0.1"}, NULL},
        {{"optimizer", "ftrl-beta"}, {"ftrl", "2"}, NULL},
        {{"optimizer", "ftrl-beta"}, {"adam", "2"}, "--ftrl-beta means nothing"},
        {{"optimizer", "eps"}, {"ftrl", "1e-4"}, "--eps means nothing"},
        {{"optimizer", "weight-decay"}, {"momentum", "0.0005"}, NULL},
        {{"optimizer", "weight-decay"}, {"ftrl", "0.0005"}, "--weight-decay means nothing"},
        {{"optimizer", "bias-weight-decay"}, {"ftrl", "0"}, "--bias-weight-decay means nothing"},
        {{"optimizer", "bias-momentum"}, {"momentum", "0.5"}, NULL},
        {{"optimizer", "bias-momentum"}, {"sgd", "0.5"}, "--bias-momentum means nothing"},
        {{"weight-decay", "l2"}, {"0.1", "0.1"}, "--weight-decay and --l2 exclude"},
        {{"bias-weight-decay", "l1"}, {"0.1", "0.1"}, "--weight-decay and --l1 exclude"},
        {{"bias-schedule"}, {"stairs:2:10:500"}, NULL},
        {{"bias-schedule"}, {"stairs:2"}, "--bias-schedule: 'stairs:2' is not a schedule"},
        {{"compress"}, {"topk:0.01"}, NULL},
        {{"compress"}, {"zip"}, "'zip' is no way to compress"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct rig r;
        rig_open(&r);
        for (int k = 0; k < 2 && CASES[i].name[k] != NULL; k++)
            set(&r, CASES[i].name[k], CASES[i].value[k]);
        assert_int_equal(yk_options_check(&r.o, &r.e), CASES[i].why ? YK_USAGE : YK_OK);
        assert_true(CASES[i].why == NULL || strstr(r.e.text, CASES[i].why) != NULL);
        yk_opts_release(&r.o);
    }
}

/* Parsers are as many as the user asked for, and one per core (0) if nobody did. */
static void test_reading(void **state)
{
    (void)state;
    static const struct {
        enum yk_origin who;
        unsigned parsers;
    } CASES[] = {{YK_BUILT_IN, 0},  {YK_FROM_MODEL, 0},  {YK_RESUMED, 0},     {YK_USER_INI, 3},
                 {YK_LOCAL_INI, 3}, {YK_CONFIG_FILE, 3}, {YK_COMMAND_LINE, 3}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct rig r;
        struct yk_reading how;
        rig_open(&r);
        set(&r, "skip-bad", "5");
        if (CASES[i].who != YK_BUILT_IN)
            assert_int_equal(yk_opts_set(&r.o, "threads", "3", CASES[i].who, &r.e), YK_OK);
        yk_options_reading(&r.o, &how);
        assert_int_equal(how.threads, CASES[i].parsers);
        assert_true(how.skip_bad == 5 && strcmp(how.label, "label") == 0 && how.format == NULL);
        yk_opts_release(&r.o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),          cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_lists),          cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_model_defaults), cmocka_unit_test(test_check),
        cmocka_unit_test(test_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
