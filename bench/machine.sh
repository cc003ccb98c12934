# shellcheck shell=bash
# machine.sh - says what the figures that follow were measured on, and whether others use it. Sourced by run.sh and peers.sh.

# Ticks of all cores since the start: busy and in all. (The load average would still remember the build.)
ticks()
{
    awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 + $9, $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9 }' /proc/stat
}

describe_machine()
{
    local cpu before after
    cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
    echo "machine: ${cpu:-$(uname -m)}, $(nproc) cores, Linux $(uname -r), $(cc --version | head -n 1)"
    before=$(ticks)
    sleep 2
    after=$(ticks)
    echo "$before $after" | awk '{
        busy = 100 * ($3 - $1) / ($4 - $2)
        printf("others: %.0f %% of the processors%s\n\n", busy, (busy > 3 ? " - BUSY, TRUST NO FIGURE BELOW" : ""))
    }'
}
