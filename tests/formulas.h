/* formulas.h - the optimizers' formulas as people write them, in double, one parameter and one step
 * at a time: what the tests of src/optim compare with. */
#ifndef YK_TESTS_FORMULAS_H
#define YK_TESTS_FORMULAS_H

#include "optim/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* w' = -(l2 w + l1 sgn w) for the time x, and zero is where it ends. */
static inline double formula_flow(const struct yk_update *u, double w, double x)
{
    double l1 = (double)u->l1, l2 = (double)u->l2;
    double size = l2 > 0 ? fabs(w) * exp(-l2 * x) + l1 / l2 * expm1(-l2 * x) : fabs(w) - l1 * x;
    return size > 0 ? copysign(size, w) : 0;
}

/* One step at the rate `lr`; m and v are whatever the optimizer calls its state, "seen" apart. */
static inline void formula(const char *name, const struct yk_update *u, double lr, double *w,
                           double g, double *m, double *v)
{
    double mu = (double)u->momentum, b2 = (double)u->beta2, eps = (double)u->eps,
           t = (double)u->step + 1;
    double l1 = (double)u->l1, l2 = (double)u->l2, beta = (double)u->beta;
    g *= (double)u->scale;
    if (u->decay > 0)
        g += (double)u->decay * *w;
    if (strcmp(name, "sgd") == 0) {
        *w = formula_flow(u, *w - lr * g, lr);
    } else if (strcmp(name, "momentum") == 0) {
        *m = mu * *m + g + l2 * *w;
        *w -= lr * *m;
    } else if (strcmp(name, "adagrad") == 0) {
        *m += g * g;
        double rate = *m > 0 ? lr / (sqrt(*m) + eps) : 0;
        *w = formula_flow(u, *w - rate * g, rate);
    } else if (strcmp(name, "adam") == 0) {
        g += l2 * *w;
        *m = mu * *m + (1 - mu) * g;
        *v = b2 * *v + (1 - b2) * g * g;
        *w -= lr * (*m / (1 - pow(mu, t))) / (sqrt(*v / (1 - pow(b2, t))) + eps);
    } else if (strcmp(name, "ftrl") == 0) {
        double n = *v + g * g, s = (sqrt(n) - sqrt(*v)) / lr;
        *m += g - s * *w;
        *v = n;
        if (g != 0)
            *w = fabs(*m) <= l1 ? 0 : -(*m - copysign(l1, *m)) / ((beta + sqrt(n)) / lr + l2);
    } else {
        fail_msg("'%s' is new: its formula belongs here", name);
    }
}

#endif
