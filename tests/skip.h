/* skip.h - skips a case of a unit test that cannot run here, with a reason that run.sh shows. */
#ifndef YK_TESTS_SKIP_H
#define YK_TESTS_SKIP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define skip_because(...) (print_message("SKIP " __VA_ARGS__), print_message("\n"), skip())

#endif
