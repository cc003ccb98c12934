/* wire.h - the messages between owners and workers. Owner 0 holds the clock.
 *
 * A message is a note of 64 bytes (comm.h), then its data. The header of a note is
 *
 *     0   u16 from, u16 to          endpoints
 *     4   u8 kind, u8 urgency, u16 flags
 *     8   u32 incarnation, u32 examples
 *     16  u64 bytes                 of the data
 *     24  u64 step                  of the parameters that the message belongs to
 *     32  32 bytes by kind          push, task, member or state
 *
 *     kind      from -> to        note     data and meaning
 *     JOIN      worker -> owner            I am new: give me parameters and a task
 *     PUSH      worker -> owner   push     a range of a sum of gradients
 *     ASK       worker -> owner   push     sparse: values of these keys, as of this step
 *     ACCOUNT   worker -> owner 0          where my time went, at the end
 *     REPLY     owner -> worker   task     parameters; from owner 0 also the next task, or STOP
 *     PIECE     owner -> worker   task     parameters that are not the end of an answer
 *     VALUES    owner -> worker   task     sparse: the answer to ASK
 *     AGAIN     clock -> worker   task     redo the step with other shards
 *     FENCED    clock -> worker            you were taken for dead: leave
 *     SET       clock -> owner             backups: these pushes form the step
 *     HAVE      owner -> clock    member   backups: all of this push is here
 *     FENCE     clock -> owner    member   a worker is lost: how many pushes of it did you apply?
 *     COUNT     owner -> clock    member   the answer to FENCE
 *     REPLACE   clock -> all      member   meet to start a new worker
 *     CLOSE     clock -> all               the run is over
 *     END       any -> clock -> all        the job fails: why, as text
 *     STATE     clock <-> owner   state    weights or optimizer state of a range
 *     STILL     clock -> owner    state    answer when so many pushes of each worker are applied;
 *                                          a dense owner sends its STATE before the answer
 *     READ      clock -> owner    state    values of these keys
 *     KEEP      clock -> owner    state    copy your range, or let go of the copy
 *     FETCH     clock -> owner    state    floats of the copy, or of the range if there is none
 *     ANSWER    owner -> clock    state    to any of the last four
 *
 * WHOLE BATCHES (exchange_bucket.c) do not wait for their end. A worker pushes each range as soon
 * as the model has finished it, cut into *buckets* of the owners' ranges. An owner applies a bucket
 * when every shard has sent its part of it, and sends the parameters back as a PIECE to all workers
 * of the step. A REPLY of owner 0 then is only the next task; a new worker gets the whole range
 * with it.
 *
 * URGENCY: the next task goes first. Then the earlier step: gradients of step t before parameters
 * of t+1, and those before gradients of t+1, or a worker that is ahead would delay the others.
 * Within either the range that was finished last goes first, because the next forward pass begins
 * where this backward pass ends.
 *
 * SPARSE (exchange_keys.c). A task touches a sorted list of *keys*, which are flat indices. A
 * worker stores everything by the place of a key in that list, its *slot*, so only owners hold
 * arrays of the size of the model. A list has a number, its *ask*; each owner remembers its part of
 * the list, so keys cross the wire once:
 *
 *     PUSH      [gradients of the keys of this task, once a subtree][keys of the next task]
 *     REPLY     [values of the keys of the next task]
 *
 * A step takes one round trip, one message an owner each way (also an empty one: steps count
 * everywhere; owner 0's comes last), and 12 bytes a key. When the next task is not the one that the
 * keys were for (the first one, another span of shards, the first of an epoch, a part with
 * backups), the worker asks once more:
 *
 *     ASK       [keys]
 *     VALUES    [values]
 *
 * A message with another ask than the worker's last is thrown away. Slots add up like parameters
 * (shard.h): a key that a shard does not touch is +0.0f there. No sum of gradients is ever -0.0 (a
 * model adds +0.0 to each of its leaves, and x + y is -0.0 only if both are), so adding that zero
 * is, bit for bit, adding no term.
 *
 * PACKED (pack.c; dense models between processes). Gradients and parameters are packed (codec.h)
 * and go in pieces, so that packing, the wire and unpacking overlap. Where parts are dealt one by
 * one the last piece of the parameters is the REPLY, and those before it are PIECEs.
 *
 *     PUSH      a sum of gradients, plus the rounding of earlier pushes       PACKED
 *     PIECE     whole batches: the change of a bucket since the last step     PACKED, CHANGE
 *     REPLY     parts: the parameters in bf16                                 PACKED
 *     REPLY     whole batches, to a new worker: the parameters as others have them
 *
 * Owners keep, and save, exact parameters. */
#ifndef YK_STRATEGY_WIRE_H
#define YK_STRATEGY_WIRE_H

#include "comm/comm.h"

enum yk_kind {
    YK_JOIN,
    YK_PUSH,
    YK_ASK,
    YK_ACCOUNT,
    YK_REPLY,
    YK_PIECE,
    YK_VALUES,
    YK_AGAIN,
    YK_FENCED,
    YK_SET,
    YK_HAVE,
    YK_FENCE,
    YK_COUNT,
    YK_REPLACE,
    YK_CLOSE,
    YK_END,
    YK_STATE,
    YK_STILL,
    YK_READ,
    YK_KEEP,
    YK_FETCH,
    YK_ANSWER,
};

enum {
    YK_STOP_FLAG = 1,   /* REPLY: there is no further task */
    YK_LAST_FLAG = 2,   /* PUSH: the worker's last message for this step; STATE: the last vector */
    YK_PACKED_FLAG = 4, /* PUSH, PIECE, REPLY: the data are packed */
    YK_CHANGE_FLAG = 8, /* PIECE: the data are to be added to the parameters of the step before */
    YK_FURTHER_FLAG = 16, /* REPLY: one more part of the same step; other owners do not answer */
    YK_CLEAN_FLAG = 32,   /* CLOSE: no process was lost */
    YK_OK_FLAG = 64,      /* ANSWER: the question could be answered; KEEP: copy, else let go */
};

/* Urgency of the `i`-th range that was finished in a step: the latest goes first, and parameters go
 * before the gradients that are computed with them. */
enum { YK_URGENT_LEVELS = 127 };
static inline uint8_t yk_urgency(unsigned i, bool gradient)
{
    return (uint8_t)((gradient ? 0 : YK_URGENT_LEVELS) + 1 +
                     (i < YK_URGENT_LEVELS ? i : YK_URGENT_LEVELS - 1));
}

#endif
