/* config.h - what stands behind a yoke_config: the option values and who set them. The program fills one from the command line and
 * configuration files, an embedding program by yoke_config_set. */
#ifndef YK_TRAIN_CONFIG_H
#define YK_TRAIN_CONFIG_H

#include "train/options.h"

struct yoke_config {
    struct yk_opts opts;
    struct yk_options o;
    unsigned restarts; /* how often this job was started again, after a loss; its parent knows */
};

#endif
