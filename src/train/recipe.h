/* recipe.h - how the parameters move, from the options to the recipe that every owner follows. */
#ifndef YK_TRAIN_RECIPE_H
#define YK_TRAIN_RECIPE_H

#include "train/options.h"
#include "train/snapshot.h"

/* The part of the recipe that holds for all parameters. `name` is the model's. */
yk_code yk_recipe_plan(struct yk_recipe *r, const struct yk_opts *opts,
                       const struct yk_model_ops *ops, const char *name, struct yk_error *e);
/* The part that is special to biases and running statistics, once the parameters are laid out. */
yk_code yk_recipe_groups(struct yk_recipe *r, const struct yk_opts *opts,
                         const struct yk_model_ops *ops, const char *name, struct yk_state *s,
                         struct yk_error *e);

#endif
