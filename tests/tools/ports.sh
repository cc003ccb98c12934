# shellcheck shell=bash
# ports.sh - which TCP ports a process listens on, and strangers who connect to them. For scripts
# that have sourced lib.sh.
: "${top:?lib.sh comes first}"

# The ports that PID listens on, one a line, as its own network namespace has them: a socket is told
# by its inode. Those of IPv4 and IPv6, or of one of them.
ports_of() # PID [tcp|tcp6]
{
    local fd socket tables=("/proc/$1/net/tcp" "/proc/$1/net/tcp6")
    [ $# = 1 ] || tables=("/proc/$1/net/$2")
    for fd in "/proc/$1/fd/"*; do
        socket=$(readlink "$fd" 2>/dev/null)
        socket=${socket#socket:[}
        socket=${socket%]}
        [ -n "${socket//[!0-9]/}" ] || continue
        cat "${tables[@]}" 2>/dev/null |
            awk -v inode="$socket" '$4 == "0A" && $10 == inode { sub(".*:", "", $2); print $2 }'
    done | sort -u | while read -r hex; do
        echo $((16#$hex))
    done
}

# Connects, sends four bytes, which is less than Open MPI waits for, and is then silent for SECONDS.
stranger() # ADDRESS PORT SECONDS
{
    local line
    exec {line}<>"/dev/tcp/$1/$2" || return 1
    printf 'GET ' >&"$line"
    read -rt "$3" -u "$line" # no sleep: that process would outlive this one
    exec {line}>&-
}
