/* append.c - see append.h.
 * LIMITS: the file must have one writer; removing a cut record would remove another writer's,
 * too. */
#include "record/append.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { FULL = 64 << 10 };

yk_code yk_append_open(struct yk_append *a, const char *path, struct yk_error *e)
{
    memset(a, 0, sizeof *a);
    yk_code rc = yk_path(a->path, e, "%s", path);
    if (rc != YK_OK)
        return rc;
    a->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (a->fd < 0)
        return yk_fail_errno(e, YK_FAILED, "cannot open '%s'", path);
    a->size = lseek(a->fd, 0, SEEK_END);
    return YK_OK;
}

static void write_out(struct yk_append *a)
{
    struct yk_error *first = a->failed.code == YK_OK ? &a->failed : NULL;
    size_t done = 0;
    if (a->buf.failed)
        yk_fail_memory(first, a->buf.len);
    while (done < a->buf.len && !a->buf.failed) {
        ssize_t k = write(a->fd, a->buf.data + done, a->buf.len - done);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            yk_fail_errno(first, YK_FAILED, "cannot write '%s'", a->path);
            break;
        }
        done += (size_t)k;
    }
    if (done == a->buf.len)
        a->size += (off_t)done;
    else if (done > 0 && ftruncate(a->fd, a->size) != 0)
        yk_fail_errno(first, YK_FAILED, "cannot remove a cut record from '%s'", a->path);
    yk_buf_clear(&a->buf);
}

void yk_append_done(struct yk_append *a)
{
    if (a->buf.len >= FULL || a->buf.failed)
        write_out(a);
}

yk_code yk_append_flush(struct yk_append *a, struct yk_error *e)
{
    write_out(a);
    if (a->failed.code != YK_OK && e != NULL)
        *e = a->failed;
    return a->failed.code;
}

yk_code yk_append_close(struct yk_append *a, struct yk_error *e)
{
    yk_code rc = yk_append_flush(a, e);
    if (close(a->fd) != 0 && rc == YK_OK)
        rc = yk_fail_errno(e, YK_FAILED, "cannot write '%s'", a->path);
    yk_buf_release(&a->buf);
    return rc;
}
