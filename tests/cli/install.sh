#!/bin/bash
# install.sh - 'make install' puts every file where others look for it, a program can be built on
# it, and 'make uninstall' leaves nothing behind.
. "$(dirname "$0")/../lib.sh"
need_command pkg-config
stage=$tmp/stage

make_() # in the source folder, quietly
{
    make -C "$top" --no-print-directory BUILD="$BUILD" "$@"
}

case_ "make install fills DESTDIR and PREFIX"
expect_exit 0 make_ install DESTDIR="$stage" PREFIX=/opt/yoke
for file in bin/yoke lib/libyoke.a include/yoke.h lib/pkgconfig/yoke.pc share/man/man1/yoke.1 \
    share/bash-completion/completions/yoke share/zsh/site-functions/_yoke \
    share/fish/vendor_completions.d/yoke.fish; do
    expect test -s "$stage/opt/yoke/$file"
done
expect_exit 0 "$stage/opt/yoke/bin/yoke" --version
expect_out '[0-9]+\.[0-9]+\.[0-9]+'

case_ "pkg-config knows the library and what it needs"
export PKG_CONFIG_PATH=$stage/opt/yoke/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$stage
expect_exit 0 pkg-config --static --cflags --libs yoke
expect_out '-lyoke.* -ljansson'
expect_out "-I$stage/opt/yoke/include"

case_ "a program that includes yoke.h alone builds"
echo '#include <yoke.h>
int main(void) { return 0; }' >program.c
flags=$(pkg-config --static --cflags --libs yoke)
# shellcheck disable=SC2086 # a list of words
expect_exit 0 cc -std=c17 -Wall -Wextra -Werror -pedantic program.c $flags -o program
expect_exit 0 ./program

case_ "the example of examples/ builds as its first lines say, trains, predicts, reports errors"
# shellcheck disable=SC2086
expect_exit 0 cc -std=c17 -Wall -Wextra -Werror -pedantic "$top/examples/embed.c" $flags -o embed
if yoke data fetch mnist >/dev/null 2>&1; then
    expect_exit 0 ./embed mine
    expect_no_err
    expect_out '^test_accuracy 0\.90'
    expect_out '^stroke 5: looks like a 1 '
    expect test "$(grep -c '^stroke ' "$OUT")" = 10
    expect_exit 0 "$stage/opt/yoke/bin/yoke" eval mine
    expect_exit 2 ./embed mine
    expect_err "^embed: .*'mine' exists already"
else
    skip "needs MNIST"
fi

case_ "the worked example in yoke.h builds and runs"
sed -n '/^ \*     #include <yoke.h>/,/^ \*     }$/s/^ \*     \{0,1\}//p' \
    "$stage/opt/yoke/include/yoke.h" >worked.c
expect grep -q 'int main(void)' worked.c
# shellcheck disable=SC2086
expect_exit 0 cc -std=c17 -Wall -Wextra -Werror worked.c $flags -o worked
if yoke data fetch mnist >/dev/null 2>&1; then
    expect_exit 0 ./worked
    expect_out '"stop_reason": "target_loss"'
    expect_no_err
else
    skip "needs MNIST"
fi

case_ "a C++ compiler accepts yoke.h"
if command -v c++ >/dev/null; then
    printf '#include <yoke.h>\nint main() { return yoke_version()[0] == 0; }\n' >program.cc
    # shellcheck disable=SC2086
    expect_exit 0 c++ -Wall -Wextra -Werror -pedantic program.cc $flags -o program
    expect_exit 0 ./program
else
    skip "c++ is not installed"
fi

case_ "the bash completion is a script that bash can read"
expect_exit 0 bash -n "$stage/opt/yoke/share/bash-completion/completions/yoke"

case_ "make uninstall leaves no file"
expect_exit 0 make_ uninstall DESTDIR="$stage" PREFIX=/opt/yoke
expect test -z "$(find "$stage" -type f)"
