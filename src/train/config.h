/* config.h - what stands behind a yoke_config: the values of the options and their origin. The
 * program fills it from the command line and configuration files, an embedding program by
 * yoke_config_set. */
#ifndef YK_TRAIN_CONFIG_H
#define YK_TRAIN_CONFIG_H

#include "train/options.h"

struct yoke_config {
    struct yk_opts opts;
    struct yk_options o;
    unsigned restarts; /* earlier starts of this job that ended by a loss */
};

#endif
