/* hosts.c - fuzz target: any text, read as --hosts, as a host file and as TF_CONFIG, gives names
 * that a shell and mpirun cannot misread, or a sentence. */
#include "launch/hosts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool promise)
{
    if (!promise)
        abort();
}

static void sane(const struct yk_host_list *l)
{
    must(l->n <= YK_HOST_SLOTS_MAX);
    for (size_t i = 0; i < l->n; i++) {
        size_t len = strlen(l->name[i]);
        must(len > 0 && len <= YK_HOST_MAX && isalnum((unsigned char)l->name[i][0]));
        for (const char *p = l->name[i]; *p != '\0'; p++)
            must(strchr("-.", *p) != NULL ||
                 (isascii((unsigned char)*p) && isalnum((unsigned char)*p)));
    }
}

static void read_as(const struct yk_hosts_ask *ask)
{
    struct yk_hosts h;
    struct yk_error e = {0};
    yk_code rc = yk_hosts_read(&h, ask, &e);
    must(rc == YK_OK ? e.text[0] == '\0' : rc == YK_USAGE && e.code == rc && e.text[0] != '\0');
    must((h.workers.n > 0) == (h.part != YK_HOSTS_NONE));
    sane(&h.workers);
    sane(&h.owners);
    yk_hosts_release(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = malloc(n + 1);
    struct yk_hosts file = {0};
    struct yk_error e = {0};
    must(text != NULL);
    if (n > 0)
        memcpy(text, bytes, n);
    text[n] = '\0';
    read_as(&(struct yk_hosts_ask){.hosts = text, .ps_hosts = text});
    read_as(&(struct yk_hosts_ask){.tf_config = text});
    yk_code rc = yk_hosts_file_text(&file.workers, (const char *)bytes, n, "fuzz", &e);
    must(rc == YK_OK ? file.workers.n > 0
                     : rc == YK_DATA && e.code == rc && strncmp(e.text, "'fuzz' ", 7) == 0);
    sane(&file.workers);
    yk_hosts_release(&file);
    free(text);
    return 0;
}
