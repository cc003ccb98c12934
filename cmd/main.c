/* main.c - finds the verb, reads its options, runs it, and is the only place that ends the process.
 * Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 bad data, 4 rank lost, 128 + signal. */
#include "cmd/cmd.h"

#include "comm/comm.h"
#include "yoke.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes one line. Control characters become '?', because a file's name may contain line ends and
 * escape sequences. The line leaves in one write, so that lines of several ranks do not mix. */
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

/* The next file to be opened would get the number of a closed standard stream, and messages would
 * end in it. Results for a closed standard output are lost, so it becomes one that cannot be
 * written. */
static void open_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR) < 0)
            return;
}

/* Is `word`, or its one-letter form, among the arguments? --help and --version win over all
 * else. */
static bool asks_for(const char *word, const char *letter, int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], word) == 0 || strcmp(argv[i], letter) == 0)
            return true;
    return false;
}

/* The text of an option that many verbs have; NULL if it was not given, or the verb
 * lacks it. */
static const char *text_option(const struct yk_opts *o, const char *name)
{
    char *const *field = yk_opts_field(o, name);
    return field != NULL ? *field : NULL;
}

static bool flag_option(const struct yk_opts *o, const char *name)
{
    const bool *field = yk_opts_field(o, name);
    return field != NULL && *field;
}

/* A resumed run, and a rank that replaces a lost one, have their options from the run, so that of
 * all files only --config FILE counts for them. */
static yk_code read_files(struct yk_opts *o, const char *verb, struct yk_error *e)
{
    const char *config = text_option(o, "config");
    bool from_run = yk_opts_field(o, "resume") != NULL &&
                    (text_option(o, "resume") != NULL || yk_mpi_replaces());
    yk_code rc = from_run ? YK_OK : yk_opts_usual_inis(o, verb, all_options(), e);
    if (rc == YK_OK && config != NULL)
        rc = yk_opts_ini(o, config, verb, all_options(), YK_CONFIG_FILE, e);
    return rc;
}

static yk_code run(const struct verb *v, int argc, char **argv, struct call *call,
                   struct yk_error *e)
{
    if (v->takes_command)
        for (int i = 0; i < argc; i++)
            if (strcmp(argv[i], "--") == 0) {
                call->rest = argv + i + 1;
                argc = i;
            }
    struct yk_opts *o = &call->opts;
    yk_code rc =
        yk_opts_args(o, v->name, all_options(), argc, argv, call->word, v->most, &call->words, e);
    if (rc == YK_OK && strcmp(v->name, "help") != 0) /* help must work when a file is wrong */
        rc = read_files(o, v->name, e);
    if (rc == YK_OK && flag_option(o, "quiet") && flag_option(o, "verbose"))
        rc = yk_fail(e, YK_USAGE, "--quiet and --verbose exclude each other");
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

/* Everything about one verb, from its options to the exit code. */
static int call_verb(const struct verb *v, int argc, char **argv, struct yk_error *e)
{
    const struct yk_opt_set *set = verb_options(v);
    struct call call = {.argc = argc, .argv = argv};
    void *values = calloc(1, v->values);
    yk_code rc = values == NULL ? yk_fail_memory(e, v->values)
                                : yk_opts_init(&call.opts, set->table, set->n, values, e);
    call.values = values;
    if (rc == YK_OK)
        rc = run(v, argc - 2, argv + 2, &call, e);
    if (rc != YK_OK && !call.told)
        print_error(e);
    rc = flush_output(rc);
    yk_opts_release(&call.opts);
    free(values);
    int status = call.signal != 0 ? 128 + call.signal : call.status != 0 ? call.status : (int)rc;
    if (call.quit)
        _exit(status);
    return status;
}

static int serve(int argc, char **argv)
{
    struct yk_error e = {0};
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
    return call_verb(v, argc, argv, &e);
}

int main(int argc, char **argv)
{
    struct yk_error e = {0};
    open_streams();
    int status = verbs_open(&e);
    if (status == YK_OK)
        status = serve(argc, argv);
    else
        print_error(&e);
    verbs_close();
    return status;
}
