/* guard.c - see guard.h.
 *
 * The handler walks a table of fixed size whose entries are atomics, and calls only mmap, as a
 * plain system call, so it may run in any thread at any moment. An entry is marked as broken before
 * its zeros appear, so a thread that has read such a zero will find the mark.
 * LIMITS: MOST mappings at a time. A program that installs its own SIGBUS handler later undoes
 * this. */
#include "base/guard.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 256 };

static struct {
    atomic_bool taken;
    atomic_uintptr_t start; /* 0: the entry guards nothing */
    atomic_size_t length;
    atomic_bool broken;
} table[MOST];

static struct sigaction before; /* the previous action; set before our handler is installed */

/* Handles a SIGBUS outside all guarded mappings as if our handler were not there. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else if (before.sa_handler == SIG_DFL || info->si_code > 0) { /* a fault cannot be ignored */
        struct sigaction act = {.sa_handler = SIG_DFL};
        sigaction(number, &act, NULL);
        raise(number); /* delivered when this handler returns */
    }
}

static void on_bus(int number, siginfo_t *info, void *context)
{
    int kept = errno;
    uintptr_t at = (uintptr_t)info->si_addr;
    unsigned entries = info->si_code == BUS_ADRERR ? MOST : 0;
    for (unsigned i = 0; i < entries; i++) {
        uintptr_t start = atomic_load(&table[i].start);
        size_t n = atomic_load(&table[i].length);
        if (start == 0 || at < start || at - start >= n)
            continue;
        atomic_store(&table[i].broken, true);
        if (syscall(SYS_mmap, start, n, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) < 0)
            break;
        errno = kept;
        return;
    }
    pass_on(number, info, context);
    errno = kept;
}

static void install(void)
{
    struct sigaction act = {.sa_sigaction = on_bus,
                            .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigemptyset(&act.sa_mask);
    sigaction(SIGBUS, NULL, &before);
    sigaction(SIGBUS, &act, NULL);
}

unsigned yk_guard(void *start, size_t n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    for (unsigned i = 0; i < MOST; i++) {
        bool free_one = false;
        if (!atomic_compare_exchange_strong(&table[i].taken, &free_one, true))
            continue;
        atomic_store(&table[i].broken, false);
        atomic_store(&table[i].length, n);
        atomic_store(&table[i].start, (uintptr_t)start); /* last: the handler may use it now */
        return i + 1;
    }
    return 0;
}

void yk_unguard(unsigned guard)
{
    if (guard == 0)
        return;
    atomic_store(&table[guard - 1].start, 0);
    atomic_store(&table[guard - 1].taken, false);
}

bool yk_guard_broken(unsigned guard)
{
    return guard != 0 && atomic_load_explicit(&table[guard - 1].broken, memory_order_acquire);
}

void yk_block_signals(sigset_t *was)
{
    static const int OWN[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof OWN / sizeof OWN[0]; i++)
        sigdelset(&all, OWN[i]);
    pthread_sigmask(SIG_SETMASK, &all, was);
}
