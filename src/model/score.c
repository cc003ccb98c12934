/* score.c - figures of an evaluation of two classes: precision, recall and the area under the
 * ROC curve; see model.h. */
#include "model/model.h"

#include <math.h>

double yk_score_auc(const struct yk_score *s, double *error)
{
    /* doubles, because numbers of pairs may exceed 2^64 */
    double below = 0, pairs = 0, tied = 0, positives = 0;
    if (s->bins == NULL)
        return NAN;
    for (unsigned i = 0; i < YK_BINS; i++) {
        double zeros = (double)s->bins->n[0][i], ones = (double)s->bins->n[1][i];
        pairs += ones * (below + zeros / 2);
        tied += ones * zeros;
        below += zeros;
        positives += ones;
    }
    double all = positives * below;
    if (error != NULL)
        *error = tied / 2 / all;
    return pairs / all;
}

double yk_score_precision(const struct yk_score *s)
{
    return (double)s->true_positives / (double)(s->true_positives + s->false_positives);
}

double yk_score_recall(const struct yk_score *s)
{
    return (double)s->true_positives / (double)(s->true_positives + s->false_negatives);
}
