#!/bin/sh
# check-words.sh - finds text that a reader should not meet: notes to ourselves, files without an
# opening essay, and paths or hosts that exist on one machine only. The script looks at the tree it
# is started in.
set -u

bad=0
complain()
{
    echo "$1"
    bad=$((bad + 1))
}

text=$(find . \( -path ./build -o -path ./runs -o -path ./.git -o -path '*/corpus' \
    -o -path '*/golden' \) -prune -o -type f \( -name '*.[ch]' -o -name '*.sh' -o -name '*.md' \
    -o -name '*.py' -o -name '*.net' -o -name Makefile -o -path ./.ci/run -o -path './docs/*' \) \
    -print | LC_ALL=C sort)

# search WHY REGEX FILES...: brackets in the patterns keep this file from finding itself
search()
{
    why=$1
    pattern=$2
    shift 2
    hits=$(grep -nIE -- "$pattern" "$@" /dev/null) && complain "$hits
check-words: $why"
}

# shellcheck disable=SC2086 # lists of words from here on
{
    search "say it in an issue, not in the code" '\b(TOD[O]|FIXM[E]|XX[X]|HAC[K])\b' $text
    search "a path of one machine" '(/wor[k]/|/roo[t]/|/hom[e]/[a-z]|\.\./share[d])' $text
    search "a placeholder" '@[A-Z]+[@]' $text
    search "the host of a package registry" \
        '(registr[y]\.npmjs|de[b]\.debian\.org|registr[y]\.yarnpkg|pyp[i]\.org)' $text
}

for file in $text; do
    first=$(head -n 2 "$file")
    case $file in
    *.[ch])
        case $first in
        '/* '*) ;;
        *) complain "$file:1: does not open with an essay on its job" ;;
        esac ;;
    *.sh | ./.ci/run)
        case $first in
        '#!'*'
# '* | '# '*) ;;
        *) complain "$file:1: does not open with a comment on its job" ;;
        esac ;;
    esac
done

if [ "$bad" != 0 ]; then
    echo "check-words: $bad complaints"
    exit 1
fi
echo "ok check-words: $(echo "$text" | wc -l) files"
