# test_mistakes.sh - what beginners do wrong: each line of tests/cli/mistakes ends with its exit status and says its words, in less than a screen,
# and nothing is left behind.
. "$KILN_ROOT/tests/cli/head.sh"
here="$PWD/tests/cli"
cd "$work" || exit 2
mkdir files && cd files || exit 2
. "$here/mistakes_files.sh"
before=$(find . | sort)
kiln() { command "$kiln" "$@"; }
export -f kiln; export kiln
n=0
while IFS=$'\t' read -r want words line; do
    n=$((n + 1))
    env KILN_CACHE=off KILN_MODELS= KILN_INPUT= bash -c "$line" >../said 2>&1 </dev/null; got=$?
    if [ "$got" != "$want" ]; then bad "mistake_$n" "$line: exit status $got, wanted $want: $(head -n 3 ../said)"
    elif ! grep -qF -- "$words" ../said; then bad "mistake_$n" "$line: does not say '$words' but: $(head -n 3 ../said)"
    elif [ "$(wc -l <../said)" -gt 24 ] || [ "$(wc -c <../said)" -gt 1900 ]; then bad "mistake_$n" "$line: says more than a screen"
    else ok "mistake_$n"; fi
    rm -rf out
done < <(grep -v '^#' "$here/mistakes")
check there_are_sixty [ "$n" -ge 60 ]
same nothing_is_left "$(find . | sort)" "$before"
exit "$status"
