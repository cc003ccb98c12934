#!/bin/bash
# tools.sh - each check of the tree accepts a good tree and complains about several bad ones; the
# scripts that install packages and run tests do as they promise.
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
unset T # the pattern of the run that this script is part of

# tree FILE LINE...: a file of the small source tree in the current folder
tree()
{
    mkdir -p "$(dirname "$1")"
    printf '%s\n' "/* ${1##*/} - a file of a test. */" "${@:2}" >"$1"
}

case_ "check-layers accepts includes that point down or stay at home"
tree src/base/a.c '#include "base/a.h"'
tree src/model/m.c '#include "base/a.h"' '#include "data/d.h"' '#include "model/m.h"' \
    '#include <math.h>' '#include "yoke.h"'
tree cmd/train.c '#include "cmd/cmd.h"' '#include "train/train.h"'
tree src/comm/mpi_wire.c '#include <mpi.h>'
tree src/kernel/onednn_x.c '#include <oneapi/dnnl/dnnl.h>'
tree src/data/images/jpeg.c '#include <turbojpeg.h>'
expect_exit 0 "$top/tools/check-layers.sh"
expect_out '^ok check-layers: 6 files'

case_ "check-layers names file and line of an upward include"
tree src/base/up.c '#include <stdio.h>' '#include "train/train.h"'
expect_exit 1 "$top/tools/check-layers.sh"
expect_out '^src/base/up.c:3: .*upward'
rm src/base/up.c

case_ "check-layers sees siblings"
tree src/data/side.c '#include "param/param.h"'
expect_exit 1 "$top/tools/check-layers.sh"
expect_out '^src/data/side.c:2: .*siblings'
rm src/data/side.c

case_ "check-layers keeps the wrapped libraries wrapped"
tree src/model/wire.c '#include <mpi.h>' '#include <oneapi/dnnl/dnnl.h>' '#include <turbojpeg.h>'
expect_exit 1 "$top/tools/check-layers.sh"
expect_out '^src/model/wire.c:2: mpi.h'
expect_out '^src/model/wire.c:3: dnnl.h'
expect_out '^src/model/wire.c:4: turbojpeg.h'
rm src/model/wire.c

case_ "check-layers keeps the public header alone"
tree include/yoke.h '#include "base/error.h"'
expect_exit 1 "$top/tools/check-layers.sh"
expect_out '^include/yoke.h:2: the public header'
rm include/yoke.h

case_ "check-layers wants a layer for every folder"
tree src/misc/x.c 'int x;'
expect_exit 1 "$top/tools/check-layers.sh"
expect_out '"misc" is in no layer'
rm -r src/misc

case_ "check-words accepts a clean tree"
expect_exit 0 "$top/tools/check-words.sh"
expect_out '^ok check-words'

for word in "TO DO" "FIX ME" "X XX" "/ro ot/x" "../sha red/x"; do
    word=${word/ /} # in two parts above, lest this file be the one that is found
    case_ "check-words finds '$word'"
    tree src/base/note.c "int x; /* $word */"
    expect_exit 1 "$top/tools/check-words.sh"
    expect_out '^./src/base/note.c:2:'
done
rm src/base/note.c

case_ "check-words wants an essay"
echo 'int x;' >src/base/bare.c
expect_exit 1 "$top/tools/check-words.sh"
expect_out '^./src/base/bare.c:1: .*essay'
rm src/base/bare.c

case_ "check-lines accepts 100 columns, and any width where Markdown is no prose"
wide=$(printf '%0101d' 0)
tree src/base/wide.c "${wide#0}"
printf '%s\n' prose '' "    $wide" '' "| $wide |" '' '```' "$wide" '```' "see https://$wide" \
    '<!-- bench:x -->' "$wide" '<!-- /bench -->' >page.md
expect_exit 0 "$top/tools/check-lines.sh"
expect_out '^ok check-lines'

case_ "check-lines counts characters, and a tab up to the next eighth column"
printf '# %s\n' "${wide:4}–" >page.sh
expect_exit 0 "$top/tools/check-lines.sh"
printf 'all:\n\t%s\n' "${wide:8}" >Makefile
expect_exit 1 "$top/tools/check-lines.sh"
expect_out '^Makefile:2: 101 columns'
rm Makefile page.sh

case_ "check-lines names file and line of each that is wider"
tree src/base/wide.c "" "$wide"
printf '%s\n' "- prose" "    $wide" '<!-- bench:x -->' '<!-- /bench -->' "$wide" >page.md
printf '# x\n# %s\n' "$wide" >page.sh
expect_exit 1 "$top/tools/check-lines.sh"
expect_out '^src/base/wide.c:3: 101 columns'
expect_out '^page.md:2: 105 columns' # a paragraph of a list, no code
expect_out '^page.md:5: 101 columns'
expect_out '^page.sh:2: 103 columns'
expect_out '^check-lines: 4 lines'
rm src/base/wide.c page.md page.sh

case_ "check-lines remarks on a long file, which is no error"
tree src/base/long.c "$(seq -f 'int x%g;' 600)"
expect_exit 0 "$top/tools/check-lines.sh"
expect_out '^remark: src/base/long.c has 601 lines'
expect_out '^ok check-lines'
rm src/base/long.c

case_ "check-files accepts names of files that exist, in any form, and examples"
tree src/base/names.c \
    '/* a.c, base/a.c and src/base/a.c are one file; jpeg.c is in images/jpeg.c,' \
    ' * mpi*.c and *_x.c in src/comm and src/kernel. A new x.c has an x_test.c */' \
    'char *name = "gone.c"; /* turbojpeg.h is a header of others */' \
    '/* src/data/images/ */ int x; /* models/NAME.net, layer_NAME.c, out.c x 3 */'
echo 'See [the code](src/base/a.c), ./page.md and https://example.com/gone.c.' >page.md
echo 'gone.c was called so once' >CHANGELOG.md
expect_exit 0 "$top/tools/check-files.sh"
expect_out '^ok check-files: 8 files'

case_ "check-files names file and line of each name that is stale"
tree src/base/names.c '/* gone.h - calls model/gone.c,' ' * and src/gone/ */ int x; /* gone*.c */'
echo 'See [the code](src/base/gone.c) and gone.sh.' >page.md
expect_exit 1 "$top/tools/check-files.sh"
expect_out '^src/base/names.c:2: there is no "gone.h"'
expect_out '^src/base/names.c:2: there is no "model/gone.c"'
expect_out '^src/base/names.c:3: there is no "src/gone/"'
expect_out '^src/base/names.c:3: there is no "gone\*.c"'
expect_out '^page.md:1: there is no "src/base/gone.c"'
expect_out '^page.md:1: there is no "gone.sh"'
expect_out '^check-files: 6 names'
rm src/base/names.c page.md CHANGELOG.md

case_ "check-tags accepts tags of one meaning, and those that a .c file keeps to itself"
tree src/base/t.h 'struct yk_t {' '    int x;' '};' 'struct yk_u;'
tree src/base/t.c 'struct slot {' '    struct yk_t *t;' '};' 'static struct yk_u *u;'
tree src/base/u.c 'struct slot {' '    int x;' '};' 'struct yk_u {' '    int x;' '};'
expect_exit 0 "$top/tools/check-tags.sh"
expect_out '^ok check-tags: 2 tags'

case_ "check-tags names both places of a tag with two meanings"
tree src/model/t.c 'struct yk_t {' '    float x;' '};'
tree src/model/a.h 'enum side { LEFT };'
tree src/model/b.h 'union side { int x; };'
expect_exit 1 "$top/tools/check-tags.sh"
expect_out '^src/model/t.c:2: "yk_t" is defined here and in src/base/t.h:2'
expect_out '^src/model/b.h:2: "side" is defined here and in src/model/a.h:2'
rm src/base/[tu].[ch] src/model/t.c src/model/[ab].h

# unused: check-unused.sh on the objects of src and cmd of the small tree
unused()
{
    local source objects=()
    rm -rf obj
    for source in src/base/u_*.c cmd/u_*.c; do
        [[ $source != *_test.c ]] || continue
        mkdir -p "obj/${source%/*}"
        cc -O1 -c -o "obj/${source%.c}.o" "$source" || fail "$source does not compile"
        objects+=("obj/${source%.c}.o")
    done
    "$top/tools/check-unused.sh" "${objects[@]}"
}

case_ "check-unused accepts symbols with a user elsewhere, public ones, and what the list allows"
tree include/yoke.h 'void yoke_go(void);'
tree src/base/u_one.c 'int yk_size = 1;' 'void yk_called(void) {}' 'void yk_timed(void) {}' \
    'void yoke_go(void) {}' 'void yk_parse(void) {}'
tree cmd/u_main.c 'extern int yk_size;' 'void yk_called(void);' \
    'int main(void) { yk_called(); return yk_size; }'
tree bench/time.c 'void yk_timed(void);' 'void time_it(void) { yk_timed(); }'
tree src/base/u_one_test.c 'void yk_parse(void);' 'int main(void) { yk_parse(); }'
mkdir tools
printf '%s\n' '# a comment' 'yk_parse a test hands it text' >tools/unused.txt
expect_exit 0 unused
expect_out '^ok check-unused: 2 objects'

case_ "check-unused finds what wants to be static, to go, or to be explained"
tree src/base/u_two.c 'void yk_inner(void) {}' 'void yk_outer(void) { yk_inner(); }' \
    'int yk_left;' 'int yk_peeked;'
tree src/base/u_two_test.c 'extern int yk_peeked;'
expect_exit 1 unused
expect_out '^src/base/u_two: no other file uses yk_inner'
expect_out '^src/base/u_two: no other file uses yk_outer'
expect_out '^src/base/u_two: no other file uses yk_left'
expect_out '^src/base/u_two: only tests use yk_peeked'
expect_out '^check-unused: 4 complaints'
rm src/base/u_two*.c

case_ "check-unused wants a reason for each entry of its list, and a need"
printf '%s\n' 'yk_parse' 'yk_called a test calls it' >tools/unused.txt
expect_exit 1 unused
expect_out '^tools/unused.txt:1: this line is not "SYMBOL REASON"'
expect_out '^tools/unused.txt:2: yk_called needs no entry'
rm -r src/base/u_* cmd/u_* include bench tools obj

case_ "deps.sh is silent when nothing is missing"
expect_exit 0 "$top/tools/deps.sh" build
expect_no_out
expect_no_err

case_ "deps.sh --check names what is missing and the cure, and installs nothing"
mkdir bin
printf '#!/bin/sh\nexit 1\n' >bin/cc
printf '#!/bin/sh\ntouch "%s"\n' "$PWD/installed" >bin/apt-get
chmod +x bin/cc bin/apt-get
expect_exit 1 env PATH="$PWD/bin:$PATH" "$top/tools/deps.sh" --check build
expect_err "^missing: .*libjansson-dev.*; run 'make deps' to install"
expect test ! -e installed

case_ "deps.sh says what it installs and why, and shows what apt-get said if it fails"
printf '#!/bin/sh\necho "apt-get $*"\ntest -e fine\n' >bin/apt-get
printf '#!/bin/sh\necho 0\n' >bin/id
chmod +x bin/id
expect_exit 1 env PATH="$PWD/bin:$PATH" "$top/tools/deps.sh" build
expect_out '^  libjansson-dev +JSON'
expect_err '^apt-get .*install -y --no-install-recommends .*libjansson-dev'
expect_err 'apt-get failed'

case_ "deps.sh notices that an installation did not help"
touch fine
expect_exit 1 env PATH="$PWD/bin:$PATH" "$top/tools/deps.sh" build
expect_err 'still missing after the installation: .*libjansson-dev'

case_ "deps.sh without root and without sudo says who can help"
printf '#!/bin/sh\necho 1000\n' >bin/id
ln -s "$(command -v sh)" "$(command -v sed)" "$(command -v sort)" "$(command -v grep)" \
    "$(command -v cut)" "$(command -v tr)" bin/
expect_exit 1 env PATH="$PWD/bin" sh "$top/tools/deps.sh" build
expect_err 'neither root nor sudo'

case_ "run.sh counts passes, failures and skips"
mkdir -p project/tests/cli
cp "$top/tests/run.sh" "$top/tests/lib.sh" project/tests/
mkdir project/build
cat >project/tests/cli/a.sh <<'END'
. tests/lib.sh
case_ one; expect true
case_ two; expect false
case_ three; skip "not today"
END
cat >project/tests/cli/b.sh <<'END'
. tests/lib.sh
case_ four; skip_all "not here"
END
expect_exit 1 env BUILD=build project/tests/run.sh cli
expect_out '^    not ok two: not true: false'
expect_out 'SKIP .*not here'
expect test "$(tail -n 1 "$OUT")" = "2 passed, 1 failed, 2 skipped"

case_ "a command that is not there fails its case, whatever becomes of its status"
rm project/tests/cli/*.sh
# shellcheck disable=SC2016 # the script expands it
printf '%s\n' '. tests/lib.sh' 'case_ one; expect test -z "$(frobnicate || true)"' \
    'case_ two; expect true' >project/tests/cli/a.sh
expect_exit 1 env BUILD=build project/tests/run.sh cli
expect_out "not ok one: there is no command 'frobnicate'"
expect test "$(tail -n 1 "$OUT")" = "1 passed, 1 failed, 0 skipped"

case_ "run.sh takes a script without a case for a failure"
rm project/tests/cli/*.sh
echo ': # all is well' >project/tests/cli/a.sh
expect_exit 1 env BUILD=build project/tests/run.sh cli
expect_out 'status: nothing ran'
expect test "$(tail -n 1 "$OUT")" = "0 passed, 1 failed, 0 skipped"

case_ "run.sh lets nothing run beside a script that wants to be alone, and others side by side"
for name in a b c; do
    # shellcheck disable=SC2016 # the script expands these
    printf '%s\n' '# a test' '. tests/lib.sh' "case_ $name" "touch \"\$top/$name\"" 'sleep 1' \
        '[ $(ls "$top" | grep -cx "[abc]") = 1 ] || touch "$top/together"' "rm \"\$top/$name\"" \
        >project/tests/cli/$name.sh
done
sed -i '1s/.*/# alone: it measures/' project/tests/cli/c.sh
expect_exit 0 env BUILD=build T=c.sh project/tests/run.sh cli
expect test ! -e project/together
expect_exit 0 env BUILD=build project/tests/run.sh cli
expect test "$(grep -c '^ok ' "$OUT")" = 3
expect test "$(tail -n 1 <(grep '^ok ' "$OUT") | awk '{ print $2 }')" = cli/c.sh
if [ "$(nproc)" -gt 1 ]; then
    expect test -e project/together
    sed -i '1s/.*/# alone: it measures too/' project/tests/cli/[ab].sh
    rm project/together
    expect_exit 0 env BUILD=build project/tests/run.sh cli
    expect test ! -e project/together
fi

case_ "run.sh asks make only for what the tests need that T names"
mkdir -p project/src/x
touch project/src/x/{a,b}_test.c
echo x/b_test >project/tests/threaded.txt
sed -i '2i# san-1: all of it' project/tests/cli/b.sh
printf '%s\n' need_mnist 'tool json_check mpi/comm' >>project/tests/cli/c.sh
goals() # BUILD T
{
    (cd project && BUILD=build T=$2 tests/run.sh --goals "$1" unit cli) | tr '\n' ' '
}
expect_same "$(goals plain x/a)/$(goals san-1 x/a)/$(goals san-thread x/a)/$(goals mnist x/a)" \
    "build/src/x/a_test /build/san-1/src/x/a_test //"
expect_same "$(goals plain thread)/$(goals san-1 thread)/$(goals san-thread thread)" \
    "//build/san-thread/src/x/b_test "
expect_same "$(goals plain cli/a)/$(goals san-1 cli/a)/$(goals mnist cli/a)" "all //"
expect_same "$(goals plain cli/b)/$(goals san-1 cli/b)/$(goals mnist cli/b)" "all /all /"
expect_same "$(goals plain cli/c)/$(goals san-1 cli/c)/$(goals mnist cli/c)" \
    "all build/tests/mpi/comm build/tests/tools/json_check //mnist "
rm -r project/src

case_ "the gate accepts what the CPU lacks, and no other skip"
mkdir project/.ci
cp "$top/.ci/run" project/.ci/
printf 'test:\n\t@BUILD=build tests/run.sh cli\ncheck:\n\t@echo checked\n' >project/Makefile
rm project/tests/cli/*.sh
printf '%s\n' '. tests/lib.sh' 'case_ one; expect true' 'case_ two; skip "this CPU lacks avx512"' \
    >project/tests/cli/a.sh
expect_exit 0 project/.ci/run
expect test "$(tail -n 1 "$OUT")" = "1 passed, 0 failed, 1 skipped"
for other in "zsh is not installed" "this CPU lacks patience" \
    "this CPU lacks avx512, and zsh is not installed"; do
    printf '%s\n' "case_ three; skip '$other'" >>project/tests/cli/a.sh
    expect_exit 1 project/.ci/run
    expect_out 'not all is well'
    sed -i '$d' project/tests/cli/a.sh
done
echo 'case_ three; fail "no"' >>project/tests/cli/a.sh
expect_exit 1 project/.ci/run
expect test "$(tail -n 1 "$OUT")" = "1 passed, 1 failed, 1 skipped"

case_ "run.sh stops a test that hangs"
rm project/tests/cli/*.sh
echo 'sleep 60' >project/tests/cli/a.sh
expect_exit 1 env BUILD=build LIMIT=1 project/tests/run.sh cli
expect_out 'stopped after 1 s'
expect test "$(tail -n 1 "$OUT")" = "0 passed, 1 failed, 0 skipped"
