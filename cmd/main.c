/* main.c - finds the verb, reads its options, runs it, and is the only place that ends the process.
 * Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 bad data, 4 rank lost, 128 + signal. */
#include "cmd/cmd.h"

#include "yoke.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DECLARE(name) extern const struct verb verb_##name;
YK_VERBS(DECLARE)

#define COLLECT(name) &verb_##name,
static const struct verb *const VERBS[] = {YK_VERBS(COLLECT)};

const struct verb *verb_at(unsigned i)
{
    return i < sizeof VERBS / sizeof VERBS[0] ? VERBS[i] : NULL;
}

const struct verb *verb_find(const char *name)
{
    for (unsigned i = 0; verb_at(i) != NULL; i++)
        if (strcmp(verb_at(i)->name, name) == 0)
            return verb_at(i);
    return NULL;
}

/* One line, whatever the text holds: a file's name may contain anything, line ends and escape sequences included. It leaves in one write, so
 * that lines of several ranks do not mix. */
static void print_line(const char *paint, const char *label, const char *text, bool color)
{
    char line[2048];
    int n = snprintf(line, sizeof line - 8, "%s%s: ", color ? paint : "", label);
    for (const char *p = text; *p != '\0' && n < (int)sizeof line - 8; p++)
        line[n++] = (unsigned char)*p < ' ' || *p == 127 ? '?' : *p;
    snprintf(line + n, 8, "%s\n", color ? "\033[0m" : "");
    fputs(line, stderr);
}

void print_error(const struct yk_error *e)
{
    const char *no_color = getenv("NO_COLOR");
    bool color = isatty(STDERR_FILENO) && (no_color == NULL || no_color[0] == '\0');
    print_line("\033[31m", "yoke", e->text, color);
    if (e->hint[0] != '\0')
        print_line("\033[2m", "hint", e->hint, color);
}

yk_code unknown_verb(const char *name, struct yk_error *e)
{
    const char *names[sizeof VERBS / sizeof VERBS[0]];
    for (size_t i = 0; i < sizeof VERBS / sizeof VERBS[0]; i++)
        names[i] = VERBS[i]->name;
    const char *near = yk_nearest(name, names, sizeof VERBS / sizeof VERBS[0], sizeof names[0]);
    yk_fail(e, YK_USAGE, "'%.40s' is not a verb", name);
    if (near != NULL)
        yk_hint(e, "did you mean 'yoke %s'?", near);
    else
        yk_hint(e, "'yoke help' lists them");
    return YK_USAGE;
}

/* A closed standard stream would be the number of the next file opened, and what is meant for a person would end in it. */
static void open_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

/* Is `word`, or its one-letter form, among the arguments? --help and --version win over everything else. */
static bool asks_for(const char *word, const char *letter, int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], word) == 0 || strcmp(argv[i], letter) == 0)
            return true;
    return false;
}

static yk_code run(const struct verb *v, int argc, char **argv, struct call *call,
                   struct yk_error *e)
{
    uint32_t bit = yk_verb_bit(v->name);
    for (int i = 0; v->takes_command && i < argc; i++)
        if (strcmp(argv[i], "--") == 0) {
            call->rest = argv + i + 1;
            argc = i;
        }
    yk_code rc = yk_opts_args(&call->config->opts, bit, v->name, argc, argv, call->word, v->most,
                              &call->words, e);
    if (rc == YK_OK && bit != YK_VERB(help)) /* help must be there when a file is wrong */
        rc = yk_options_files(&call->config->opts, bit, e);
    if (rc == YK_OK)
        rc = yk_options_check(&call->config->opts, bit, e);
    return rc == YK_OK ? v->run(call, e) : rc;
}

/* Results that could not be written (a full disk behind a redirection) are not results. */
static yk_code flush_output(yk_code rc)
{
    if ((fflush(stdout) == 0 && !ferror(stdout)) || rc != YK_OK)
        return rc;
    struct yk_error e;
    yk_fail_errno(&e, YK_FAILED, "cannot write to standard output");
    print_error(&e);
    return YK_FAILED;
}

int main(int argc, char **argv)
{
    open_streams();
    if (argc < 2) {
        help_overview(stderr);
        return YK_USAGE;
    }
    const char *word = argv[1];
    if (asks_for("--version", "-V", argc - 1, argv + 1)) {
        printf("yoke %s\n", yoke_version());
        return flush_output(YK_OK);
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        help_overview(stdout);
        return flush_output(YK_OK);
    }
    struct yk_error e = {0};
    const struct verb *v = verb_find(word);
    if (v == NULL) {
        unknown_verb(word, &e);
        print_error(&e);
        return YK_USAGE;
    }
    if (asks_for("--help", "-h", argc - 2, argv + 2)) {
        help_verb(stdout, v);
        return flush_output(YK_OK);
    }
    struct call call = {.config = yoke_config_new(), .argc = argc, .argv = argv};
    if (call.config == NULL) {
        fprintf(stderr, "yoke: out of memory\n");
        return YK_FAILED;
    }
    yk_code rc = run(v, argc - 2, argv + 2, &call, &e);
    if (rc != YK_OK && !call.told)
        print_error(&e);
    rc = flush_output(rc);
    yoke_config_free(call.config);
    int status = call.signal != 0 ? 128 + call.signal : rc != YK_OK ? (int)rc : call.status;
    if (call.quit)
        _exit(status);
    return status;
}
