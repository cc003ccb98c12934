/* options.c - reads the options of a testbed, and refuses mistakes in one sentence.
 * THREADS: nothing is shared. */
#include "testbed/testbed.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* bits per second, between the limits of the kernel's token bucket */
static const double SLOWEST = 1e5, FASTEST = 1e11;
static const double LEAST_CPU = 0.01, MOST_CPU = 1024;

/* A number written plainly (12, 0.3, .5), so neither "nan" nor "0x10"; `rest` is the text behind
 * it. */
static bool plain_number(const char *text, double *value, const char **rest)
{
    size_t len = strspn(text, "0123456789.");
    char digits[32];
    if (len == 0 || len >= sizeof digits)
        return false;
    memcpy(digits, text, len);
    digits[len] = '\0';
    char *end;
    *value = strtod(digits, &end);
    *rest = text + len;
    return *end == '\0';
}

static yk_code read_rate(const char *option, const char *text, uint64_t *rate, struct yk_error *e)
{
    static const struct {
        const char *name;
        double bits;
    } UNITS[] = {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
    double value = 0, bits = 0;
    const char *unit = "";
    if (plain_number(text, &value, &unit)) {
        size_t len = strlen(unit);
        if (len > 2 && strcmp(unit + len - 2, "/s") == 0)
            len -= 2;
        for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++)
            if (strlen(UNITS[i].name) == len && strncasecmp(UNITS[i].name, unit, len) == 0)
                bits = UNITS[i].bits;
    }
    if (bits == 0) {
        yk_fail(e, YK_USAGE, "--%s: '%.60s' is not a rate", option, text);
        yk_hint(e, "write it like 1.8gbit, 100mbit or 500kbit");
        return YK_USAGE;
    }
    if (!(value * bits >= SLOWEST && value * bits <= FASTEST))
        return yk_fail(e, YK_USAGE, "--%s: %.60s is out of range: 100kbit to 100gbit", option,
                       text);
    *rate = (uint64_t)(value * bits + 0.5);
    return YK_OK;
}

static yk_code read_cpu(const char *option, const char *text, double *cpu, struct yk_error *e)
{
    const char *rest = "";
    double value = 0;
    if (!plain_number(text, &value, &rest) || *rest != '\0') {
        yk_fail(e, YK_USAGE, "--%s: '%.60s' is not a part of a core", option, text);
        yk_hint(e, "0.3 gives a host 30 %% of one core");
        return YK_USAGE;
    }
    if (!(value >= LEAST_CPU && value <= MOST_CPU))
        return yk_fail(e, YK_USAGE, "--%s: %.60s is out of range: %g to %g cores", option, text,
                       LEAST_CPU, MOST_CPU);
    *cpu = value;
    return YK_OK;
}

/* Takes the next "HOST:VALUE" of a list: the host's number, and the value in `value`. The list is
 * NULL after its last. */
static yk_code next_item(const char *option, const char **list, unsigned hosts, unsigned *host,
                         char value[64], struct yk_error *e)
{
    size_t len = strcspn(*list, ","), colon = strcspn(*list, ":,");
    if (colon == len || colon == 0 || len - colon - 1 >= 64) {
        yk_fail(e, YK_USAGE, "--%s: '%.*s' is not HOST:VALUE", option, len > 60 ? 60 : (int)len,
                *list);
        yk_hint(e, strcmp(option, "slow") == 0 ? "for example --slow n2:0.3"
                                               : "for example --slow-link n2:100mbit");
        return YK_USAGE;
    }
    unsigned i = 0;
    for (char name[16]; i < hosts; i++) {
        snprintf(name, sizeof name, "n%u", i);
        if (strlen(name) == colon && memcmp(name, *list, colon) == 0)
            break;
    }
    if (i == hosts)
        return yk_fail(e, YK_USAGE,
                       hosts > 1 ? "--%s: there is no host '%.*s': they are n0 to n%u"
                                 : "--%s: there is no host '%.*s', only n%u",
                       option, colon > 60 ? 60 : (int)colon, *list, hosts - 1);
    memcpy(value, *list + colon + 1, len - colon - 1);
    value[len - colon - 1] = '\0';
    *list = (*list)[len] == ',' ? *list + len + 1 : NULL;
    *host = i;
    return YK_OK;
}

/* "n2:VALUE,n1:VALUE": for every host named, once. */
static yk_code read_list(const char *option, const char *list, struct yk_testbed_options *o,
                         struct yk_error *e)
{
    bool seen[YK_TESTBED_HOSTS] = {false}, cpu = strcmp(option, "slow") == 0;
    while (list != NULL) {
        char value[64];
        unsigned host = 0;
        yk_code rc = next_item(option, &list, o->hosts, &host, value, e);
        if (rc == YK_OK && seen[host])
            rc = yk_fail(e, YK_USAGE, "--%s: n%u is named twice", option, host);
        if (rc == YK_OK)
            rc = cpu ? read_cpu(option, value, &o->cpu[host], e)
                     : read_rate(option, value, &o->rate[host], e);
        if (rc != YK_OK)
            return rc;
        seen[host] = true;
    }
    return YK_OK;
}

yk_code yk_testbed_read(struct yk_testbed_options *o, const char *hosts, const char *bandwidth,
                        const char *slow, const char *slow_link, struct yk_error *e)
{
    memset(o, 0, sizeof *o);
    double count = 0;
    const char *rest = "";
    if (!plain_number(hosts, &count, &rest) || *rest != '\0' || strchr(hosts, '.') != NULL) {
        yk_fail(e, YK_USAGE, "--hosts: '%.60s' is not a number of hosts", hosts);
        yk_hint(e, "the testbed names its hosts itself: --hosts 3 makes n0, n1 and n2");
        return YK_USAGE;
    }
    if (!(count >= 1 && count <= YK_TESTBED_HOSTS))
        return yk_fail(e, YK_USAGE, "--hosts: %.60s is out of range: 1 to %d", hosts,
                       YK_TESTBED_HOSTS);
    o->hosts = (unsigned)count;
    uint64_t rate = 0;
    yk_code rc = bandwidth != NULL ? read_rate("bandwidth", bandwidth, &rate, e) : YK_OK;
    for (unsigned i = 0; i < o->hosts; i++)
        o->rate[i] = rate;
    if (rc == YK_OK)
        rc = read_list("slow", slow, o, e);
    if (rc == YK_OK)
        rc = read_list("slow-link", slow_link, o, e);
    return rc;
}

const char *yk_testbed_address(unsigned host, char out[16])
{
    /* 198.18.0.0/15 is for testing networks, and routed nowhere */
    snprintf(out, 16, "198.18.0.%u", (host + 1) & 255);
    return out;
}
