/* json_check.c - is standard input exactly one JSON object, with these members?
 *
 *     json_check batch staleness.p99 workers_detail.0.phases.wait <summary.json
 *
 * A path names members by name and elements by number. Exit status 0 if all are there; 1, with a
 * sentence, if a member is missing, a name is used twice, or the text is not one object and nothing
 * else. The reader is jansson, so that yoke's own code does not judge itself. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const json_t *member(const json_t *at, const char *path)
{
    while (at != NULL) {
        char name[128];
        size_t n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        at = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10))
                               : json_object_get(at, name);
        if (path[n] == '\0')
            break;
        path += n + 1;
    }
    return at;
}

int main(int argc, char **argv)
{
    json_error_t error;
    json_t *root = json_loadf(stdin, JSON_REJECT_DUPLICATES, &error);
    int missing = 0;
    if (root == NULL || !json_is_object(root)) {
        printf("not one JSON object: line %d: %s\n", error.line, error.text);
        return 1;
    }
    for (int i = 1; i < argc; i++)
        if (member(root, argv[i]) == NULL) {
            printf("no member '%s'\n", argv[i]);
            missing = 1;
        }
    json_decref(root);
    return missing;
}
