/* net_read_test.c - what .net files say is what yk_net has; what they cannot say gets a sentence
 * with a place; nothing else happens. */
#include "model/net/net.h"

#include "base/buf.h"
#include "base/file.h"
#include "tests/testdir.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static yk_code parse(const char *text, struct yk_net *n, struct yk_error *e)
{
    *e = (struct yk_error){0};
    return yk_net_parse("x.net", text, strlen(text), n, e);
}

#define TINY "net tiny\ninput 4x4x1\n"

static void test_everything(void **state)
{
    (void)state;
    struct yk_net n;
    struct yk_error e;
    static const char TEXT[] =
        "# a comment\n"
        "\n"
        "  net every-thing_1\n"
        "input 16x20x3 mean 0.5 0.25 -1 std 2 # behind a line\n"
        "conv 8 3x5 stride 2x1 pad 1x2 groups 1 init normal 0.01 bias 0.1 name first\n"
        "batchnorm momentum 0.99 eps 0.001\n"
        "relu\n"
        "maxpool 2\n"
        "\tconv 6 3 pad 0x1x2x2 groups 2 bias none\n"
        "tanh\n"
        "avgpool 2x2 stride 1 pad 1\n"
        "lrn 5 alpha 1e-3 beta 0.5 k 2\n"
        "sigmoid\n"
        "flatten\n"
        "dropout 0.5\n"
        "dense 7 init zero\n"
        "softmax name out\n"
        "train batch 64 lr 0.05\n"
        "train biases lr 0.1 schedule staircase:0.1:30";
    assert_int_equal(parse(TEXT, &n, &e), YK_OK);
    assert_string_equal(n.name, "every-thing_1");
    assert_true(n.input.h == 16 && n.input.w == 20 && n.input.c == 3 && n.classes == 7 &&
                n.layers == 13);
    assert_true(n.normalized && n.mean[0] == 0.5f && n.mean[2] == -1 && n.deviation[0] == 2 &&
                n.deviation[2] == 2);

    const struct yk_layer *l = n.layer;
    assert_string_equal(l[0].name, "first");
    assert_true(l[0].kind == YK_LAYER_conv && l[0].line == 5 && l[0].column == 1 && l[0].bias);
    assert_true(l[0].kernel[0] == 3 && l[0].kernel[1] == 5 && l[0].stride[0] == 2 &&
                l[0].stride[1] == 1);
    assert_true(l[0].pad[0] == 1 && l[0].pad[1] == 2 && l[0].pad[2] == 1 && l[0].pad[3] == 2);
    assert_string_equal(l[0].init, "normal");
    assert_true(l[0].init_given && l[0].init_scale == 0.01f && l[0].bias_start == 0.1f);
    assert_true(l[1].momentum == 0.99f && l[1].eps == 0.001f);
    assert_true(l[3].kernel[1] == 2 && l[3].stride[0] == 2 && l[3].stride[1] == 2);
    assert_string_equal(l[4].name, "conv2");
    assert_true(l[4].column == 2 && l[4].groups == 2 && !l[4].bias && l[4].kernel[1] == 3);
    assert_true(l[4].pad[0] == 0 && l[4].pad[1] == 1 && l[4].pad[2] == 2 && l[4].pad[3] == 2);
    assert_true(l[6].kind == YK_LAYER_avgpool && l[6].stride[0] == 1 && l[6].pad[3] == 1);
    assert_true(l[7].size == 5 && l[7].alpha == 1e-3f && l[7].beta == 0.5f && l[7].k == 2);
    assert_true(l[10].kind == YK_LAYER_dropout && l[10].rate == 0.5f);
    assert_string_equal(l[11].init, "zero");
    assert_string_equal(l[12].name, "out");

    static const char *const SETTINGS[] = {
        "batch", "64", "lr", "0.05", "bias-lr", "0.1", "bias-schedule", "staircase:0.1:30"};
    for (int i = 0; i < 8; i++)
        assert_string_equal(n.setting[i], SETTINGS[i]);
    assert_null(n.setting[8]);
    assert_true(n.setting_line[0] == 18 && n.setting_line[1] == 18 && n.setting_line[3] == 19);
    assert_true(n.text_length == strlen(TEXT) && strcmp(n.text, TEXT) == 0);
    yk_net_release(&n);
    assert_null(n.layer);
    yk_net_release(&n);
}

/* Line ends of other systems, and none at all: the same net. */
static void test_line_ends(void **state)
{
    (void)state;
    static const char *const SAME[] = {TINY "dense 2\nsoftmax\n", TINY "dense 2\nsoftmax",
                                       "net tiny\r\ninput 4x4x1\r\ndense 2\r\nsoftmax\r\n",
                                       TINY "\tdense  2 \t\n\n\nsoftmax#",
                                       "#\xc3\xa9 \x01\n" TINY "dense 2\nsoftmax # \xc3\xa9\n"};
    for (size_t i = 0; i < sizeof SAME / sizeof *SAME; i++) {
        struct yk_net n;
        struct yk_error e;
        assert_int_equal(parse(SAME[i], &n, &e), YK_OK);
        assert_true(n.layers == 2 && n.classes == 2 && n.weights == 34 && !n.normalized &&
                    n.deviation[0] == 1);
        yk_net_release(&n);
    }
}

/* Weights before a relu begin as He says, the others as Glorot does, unless the file says
 * something. */
static void test_starting_values(void **state)
{
    (void)state;
    struct yk_net n;
    struct yk_error e;
    assert_int_equal(parse(TINY "conv 2 1x1\nbatchnorm\nmaxpool 2\nrelu\nconv 2 1\ntanh\ndense 3 "
                                "init glorot\nrelu\ndense 2\nsoftmax",
                           &n, &e),
                     YK_OK);
    static const struct {
        unsigned layer;
        const char *init;
        bool said;
    } WANT[] = {{0, "he", false}, {4, "glorot", false}, {6, "glorot", true}, {8, "glorot", false}};
    for (size_t i = 0; i < sizeof WANT / sizeof *WANT; i++) {
        assert_string_equal(n.layer[WANT[i].layer].init, WANT[i].init);
        assert_int_equal(n.layer[WANT[i].layer].init_given, WANT[i].said);
    }
    yk_net_release(&n);
}

/* Every mistake: YK_USAGE, the place, and words that say what it is. */
static void test_mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } CASES[] = {
        {"", "'x.net' is empty"},
        {"# nothing\n\n", "'x.net' is empty"},
        {"input 4x4x1\n", "x.net:1:1: a net begins with 'net NAME', not with 'input'"},
        {"\x7f"
         "ELF\x02",
         "x.net:1:1: byte 0x7f"},
        {"net x\ninput 4x4x1\n\x80", "x.net:3:1: byte 0x80"},
        {"net x\rinput 4x4x1", "x.net:1:6: byte 0x0d"},
        {"net\n", "x.net:1:1: the net's name is missing"},
        {"net 7up\n", "x.net:1:5: the net's name is '7up'"},
        {"net ../x\n", "x.net:1:5: the net's name is '../x'"},
        {"net x y\n", "x.net:1:7: unexpected 'y' at the end of the line"},
        {"net x\nnet y\n", "x.net:2:1: a second 'net' line"},
        {"net x\n", "x.net:1:1: the net has no 'input' line"},
        {"net x\nrelu\n", "x.net:2:1: 'relu' stands before the 'input' line"},
        {"net x\ninput\n", "x.net:2:1: the input is missing"},
        {"net x\ninput 4x4\n", "x.net:2:7: the input is '4x4', not height x width x channels"},
        {"net x\ninput 4x4x1x1\n", "x.net:2:7: the input is '4x4x1x1', not whole numbers"},
        {"net x\ninput 4x4x\n", "x.net:2:7: the input is '4x4x', not whole"},
        {"net x\ninput 4x0x1\n", "x.net:2:7: the input is '4x0x1': 1 to 1048576"},
        {"net x\ninput -4x4x1\n", "x.net:2:7: the input is '-4x4x1'"},
        {"net x\ninput 99999999999999999999999x1x1\n", "x.net:2:7: the input is '9999"},
        {"net x\ninput 1048576x1048576x1048576\nsoftmax\n",
         "x.net:3:1: 1048576x1048576x1048576 are more than 2^31 - 1 numbers"},
        {TINY "input 4x4x1\n", "x.net:3:1: a second 'input' line"},
        {"net x\ninput 4x4x3 mean 1 2\n", "x.net:2:20: mean needs one number or 3"},
        {"net x\ninput 4x4x5 mean 1\n", "x.net:2:13: mean needs an input of at most 4 channels"},
        {"net x\ninput 4x4x1 std 0\n", "x.net:2:17: std is 0"},
        {"net x\ninput 4x4x1 std 1 std 2\n", "x.net:2:19: 'std' stands twice"},
        {"net x\ninput 4x4x1 mean\n", "x.net:2:13: mean is missing"},
        {"net x\ninput 4x4x1 mean nan\n", "x.net:2:18: mean is 'nan', not a number"},
        {"net x\ninput 4x4x1 mean 0x10\n", "x.net:2:18: mean is '0x10', not a number"},
        {"net x\ninput 4x4x1 mean 1e999\n", "x.net:2:18: mean is '1e999', not a number"},
        {"net x\ninput 4x4x1 medium 1\n", "x.net:2:13: input does not know 'medium'"},
        {TINY "dance 10\n", "x.net:3:1: 'dance' is no layer"},
        {TINY "conv\n", "x.net:3:1: the number of channels is missing"},
        {TINY "conv 6\n", "x.net:3:6: the window is missing"},
        {TINY "conv 6 5x5x5\n", "x.net:3:8: the window is '5x5x5', not whole numbers"},
        {TINY "conv 6 2x2 stride 0\n", "x.net:3:19: stride is '0'"},
        {TINY "conv 6 2x2 stride\n", "x.net:3:12: stride is missing"},
        {TINY "conv 6 2x2 pad 1x1x1\n", "x.net:3:16: pad is '1x1x1': one, two or four"},
        {TINY "conv 6 2x2 strive 1\n", "x.net:3:12: conv does not know 'strive'"},
        {TINY "conv 6 2x2 alpha 1\n", "x.net:3:12: conv does not know 'alpha'"},
        {TINY "conv 6 2x2 pad 1 pad 1\n", "x.net:3:18: 'pad' stands twice"},
        {TINY "conv 6 2x2 init uniform\n", "x.net:3:17: init is 'uniform'"},
        {TINY "conv 6 2x2 init normal\n", "x.net:3:17: the deviation after 'normal' is missing"},
        {TINY "conv 6 2x2 bias much\n", "x.net:3:17: bias is 'much', not a number"},
        {TINY "conv 6 2x2 name a.b\n", "x.net:3:17: name is 'a.b'"},
        {TINY "relu name a\nrelu name a\n", "x.net:4:1: the layer in line 3 is called 'a' too"},
        {TINY "relu name relu2\nrelu\n", "x.net:4:1: the layer in line 3 is called 'relu2' too"},
        {TINY "relu 5\n", "x.net:3:6: relu does not know '5'"},
        {TINY "lrn 4\n", "x.net:3:5: the number of channels is 4: lrn needs an odd one"},
        {TINY "dropout 1\n", "x.net:3:9: the share to drop is 1: 0 to 0.999"},
        {TINY "dropout\n", "x.net:3:1: the share to drop is missing"},
        {TINY "batchnorm eps 0\n", "x.net:3:15: eps is 0"},
        {TINY "dense 1000000000000\n",
         "x.net:3:7: the number of outputs is '1000000000000': 1 to 1048576"},
        {TINY "dense 1048577\n", "x.net:3:7: the number of outputs is '1048577': 1 to 1048576"},
        {TINY "train\n", "x.net:3:1: 'train' needs an option and a value"},
        {TINY "train biases\n", "x.net:3:7: 'train' needs an option and a value"},
        {TINY "train lr 1 batch\n", "x.net:3:12: 'batch' has no value"},
        {TINY "train lr 1\ntrain batch 2 lr 3\n", "x.net:4:15: line 3 sets 'lr' already"},
        {TINY, "x.net:1:1: the last layer is not softmax"},
        {TINY "dense 2 # \xff\nsoftmax\n", "x.net:3:9: the comment is not UTF-8 text"},
        {TINY "flatten\nsoftmax\n",
         "x.net:3:1: the net has nothing to learn: no conv, dense or batchnorm"},
        {TINY "dense 2\n", "x.net:3:1: the last layer is not softmax"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct yk_net n;
        struct yk_error e;
        if (parse(CASES[i].text, &n, &e) != YK_USAGE ||
            strncmp(e.text, CASES[i].want, strlen(CASES[i].want)) != 0)
            fail_msg("%s\n    says '%s'\n    not  '%s'", CASES[i].text, e.text, CASES[i].want);
        assert_true(e.code == YK_USAGE && n.layer == NULL && n.setting == NULL && n.text == NULL);
    }
    struct yk_net n;
    assert_int_equal(yk_net_parse("x.net", "net\0x", 5, &n, NULL),
                     YK_USAGE); /* the caller does not ask why */
}

static void test_hints(void **state)
{
    (void)state;
    struct yk_net n;
    struct yk_error e;
    assert_int_equal(parse(TINY "dens 10\n", &n, &e), YK_USAGE);
    assert_string_equal(e.hint, "did you mean 'dense'?");
    assert_int_equal(parse(TINY "conv 6 2x2 strde 2\n", &n, &e), YK_USAGE);
    assert_string_equal(e.hint, "did you mean 'stride'?");
    assert_int_equal(yk_net_read("lnet", &n, &e), YK_USAGE);
    assert_string_equal(e.text, "there is no net 'lnet'");
    assert_string_equal(e.hint, "did you mean 'lenet'?");
}

/* Bounds: one more of anything is refused with its number, and costs no memory that grows with
 * it. */
static void test_bounds(void **state)
{
    (void)state;
    struct yk_net n;
    struct yk_error e;
    struct yk_buf b = {0};
    yk_buf_text(&b, TINY);
    for (int i = 0; i < YK_NET_LAYERS - 2; i++)
        yk_buf_text(&b, "relu\n");
    size_t fits = b.len;
    yk_buf_text(&b, "dense 2\nsoftmax\n");
    assert_int_equal(yk_net_parse("x.net", b.data, b.len, &n, &e), YK_OK);
    assert_int_equal(n.layers, YK_NET_LAYERS);
    yk_net_release(&n);
    b.len = fits;
    yk_buf_text(&b, "relu\ndense 2\nsoftmax\n");
    assert_int_equal(yk_net_parse("x.net", b.data, b.len, &n, &e), YK_USAGE);
    assert_string_equal(e.text, "x.net:515:1: a net has at most 512 layers");

    yk_buf_clear(&b);
    yk_buf_text(&b, "net x\n");
    for (int i = 0; i < 65; i++)
        yk_buf_format(&b, "train a%d 1\n", i);
    assert_int_equal(yk_net_parse("x.net", b.data, b.len, &n, &e), YK_USAGE);
    assert_string_equal(e.text, "x.net:66:7: a net has at most 64 settings");

    yk_buf_clear(&b);
    for (int i = 0; i < 65; i++)
        yk_buf_text(&b, "a ");
    assert_int_equal(yk_net_parse("x.net", b.data, b.len, &n, &e), YK_USAGE);
    assert_string_equal(e.text, "x.net:1:129: a line has at most 64 words");

    yk_buf_clear(&b);
    for (int i = 0; i < 256; i++)
        yk_buf_text(&b, "a");
    assert_int_equal(yk_net_parse("x.net", b.data, b.len, &n, &e), YK_USAGE);
    assert_string_equal(e.text, "x.net:1:1: a word has 256 characters: at most 255 are possible");
    b.data[255] = ' ';
    assert_int_equal(yk_net_parse("x.net", b.data, b.len, &n, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "x.net:1:1: a net begins with 'net NAME'"));

    char name[80] = "net x\ninput 4x4x1\nrelu name ";
    memset(name + strlen(name), 'a', 48); /* 47 fit */
    assert_int_equal(parse(name, &n, &e), YK_USAGE);
    assert_string_equal(e.text, "x.net:3:11: name is longer than 47 characters");

    yk_buf_clear(&b);
    while (b.len <= 1 << 20)
        yk_buf_text(&b, "# a long file\n");
    assert_int_equal(yk_net_parse("x.net", b.data, b.len, &n, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "a net has at most 1048576"));
    yk_buf_release(&b);
}

static void test_files(void **state)
{
    char path[YK_PATH_MAX];
    struct yk_net n;
    struct yk_error e = {0};
    assert_int_equal(yk_path(path, &e, "%s/mine.net", (const char *)*state), YK_OK);
    assert_int_equal(yk_net_read(path, &n, &e), YK_USAGE);
    assert_true(e.code == YK_USAGE && strstr(e.text, "no such file") != NULL);
    assert_int_equal(
        yk_file_write(path, TINY "dense 3\nsoftmax\n", strlen(TINY "dense 3\nsoftmax\n"), &e),
        YK_OK);
    assert_int_equal(yk_net_read(path, &n, &e), YK_OK);
    assert_int_equal(n.classes, 3);
    yk_net_release(&n);
    assert_int_equal(yk_file_write(path, TINY "dense\n", strlen(TINY "dense\n"), &e), YK_OK);
    assert_int_equal(yk_net_read(path, &n, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "mine.net:3:1: the number of outputs is missing"));
    assert_int_equal(yk_net_read(*state, &n, &e), YK_USAGE); /* a folder */
    assert_int_equal(yk_net_read("", &n, &e), YK_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_line_ends),
        cmocka_unit_test(test_starting_values),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test_setup_teardown(test_files, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
