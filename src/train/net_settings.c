/* net_settings.c - see net_settings.h. Every setting is tried on options of its own, so the code
 * that checks the command line checks its range and choices, too. */
#include "train/net_settings.h"

#include "train/options.h"

#include <string.h>

static yk_code check(struct yk_opts *o, const char *what, uint32_t line, const char *option,
                     const char *value, struct yk_error *e)
{
    /* Options of the machines, of sparse rows, and `net`, where a run keeps the net's text. */
    static const char OTHERS[] = "net|mode|workers|ps|backup|staleness|hosts|hostfile|ps-hosts|"
                                 "compress|heartbeat|on-worker-loss|restarts|"
                                 "data-local|threads|isa|engine|progressive|format|hash-bits|skip-"
                                 "bad|label-name|index-name|value-name|features";
    struct yk_error why = {0};
    const struct yk_opt *t = NULL;
    for (size_t i = 0; i < yk_option_count && t == NULL; i++)
        t = strcmp(yk_option_table[i].name, option) == 0 ? &yk_option_table[i] : NULL;
    if (t != NULL && ((t->flags & YK_OPT_TRANSIENT) || yk_choice_has(OTHERS, option)))
        return yk_net_fail(e, what, line, 1, "a net may not set the option '%.60s'", option);
    if (yk_opts_set(o, option, value, YK_FROM_MODEL, &why) == YK_OK &&
        yk_options_check(o, &why) == YK_OK)
        return YK_OK;
    yk_net_fail(e, what, line, 1, "%.200s", why.text);
    if (why.hint[0] != '\0')
        yk_hint(e, "%s", why.hint);
    return YK_USAGE;
}

yk_code yk_net_settings_check(const char *what, const struct yk_net *n, struct yk_error *e)
{
    struct yk_options values = {0};
    struct yk_opts o;
    yk_code rc = yk_opts_init(&o, yk_option_table, yk_option_count, &values, e);
    if (rc != YK_OK)
        return rc;
    for (size_t i = 0; rc == YK_OK && n->setting[2 * i] != NULL; i++)
        rc = check(&o, what, n->setting_line[i], n->setting[2 * i], n->setting[2 * i + 1], e);
    yk_opts_release(&o);
    return rc;
}
