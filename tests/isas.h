/* isas.h - tests of kernels, run once for every instruction set that there is a build for.
 *
 * A set that this CPU cannot run is a skip of its own for each test, by name, so that the last line
 * of a run tells how much of the code the machine has left untested. Tests find the set in
 * `kernels`. */
#ifndef YK_TESTS_ISAS_H
#define YK_TESTS_ISAS_H

#include "kernel/kernel.h"
#include "tests/skip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct yk_kernels *kernels; /* the set under test */

/* The state of a test is its name, "test_x:avx2". */
static inline const char *isa_named(void **state)
{
    return strrchr(*state, ':') + 1;
}

static inline int isa_begin(void **state)
{
    struct yk_error e;
    return yk_kernels_pick(isa_named(state), &kernels, &e) == YK_OK ? 0 : -1;
}

static inline void isa_lacking(void **state)
{
    skip_because("%s: this CPU lacks %s", (const char *)*state, isa_named(state));
}

/* Runs `once` as they are, and `each` with every set. */
static inline int isa_run(const struct CMUnitTest *once, size_t n_once,
                          const struct CMUnitTest *each, size_t n_each)
{
#define NAME(set) #set,
    static const char *const SETS[] = {YK_ISAS(NAME)};
#undef NAME
    static struct CMUnitTest all[128];
    static char names[128][64];
    size_t n = 0;
    assert_true(n_once + n_each * (sizeof SETS / sizeof SETS[0]) <= sizeof all / sizeof all[0]);
    for (size_t i = 0; i < n_once; i++)
        all[n++] = once[i];
    for (size_t s = 0; s < sizeof SETS / sizeof SETS[0]; s++)
        for (size_t i = 0; i < n_each; i++, n++) {
            const struct yk_kernels *k;
            struct yk_error e;
            bool able = yk_kernels_pick(SETS[s], &k, &e) == YK_OK;
            snprintf(names[n], sizeof names[n], "%s:%s", each[i].name, SETS[s]);
            all[n] = (struct CMUnitTest){.name = names[n],
                                         .test_func = able ? each[i].test_func : isa_lacking,
                                         .setup_func = able ? isa_begin : NULL,
                                         .initial_state = names[n]};
        }
    return _cmocka_run_group_tests("kernels", all, n, NULL, NULL);
}

#endif
