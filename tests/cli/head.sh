# shellcheck shell=bash
# head.sh - what test scripts that run the command share: sourced first. Goes to the repository root and sets $kiln, the command; $work, a
# folder that is removed at the end; and $status, which the script exits with.
#   expect_in="log"   before expect: the words have to be on standard error (default: on either stream)
cd "$KILN_ROOT" || exit 2
kiln="$PWD/$KILN_BUILD/kiln"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
status=0
expect_in="log stdout"

ok() { echo "ok $1"; }
bad() { echo "  $2"; echo "FAIL $1"; status=1; }
# check NAME COMMAND...: the command succeeds
check() { local name=$1; shift; if "$@"; then ok "$name"; else bad "$name" "$(tail -n 3 "$work/log" 2>/dev/null)"; fi; }
# verdict NAME STATUS: a status of 0 is a pass
verdict() { if [ "$2" -eq 0 ]; then ok "$1"; else bad "$1" "$(tail -n 3 "$work/log" 2>/dev/null)"; fi; }
# same NAME IS WANTED: two equal texts
same() { if [ "$2" = "$3" ]; then ok "$1"; else bad "$1" "is '$2', wanted '$3'"; fi; }
# expect NAME STATUS WORDS COMMAND...: the command ends with this exit status and prints these words
expect() {
    local name=$1 want=$2 part=$3 got; shift 3
    "$@" >"$work/stdout" 2>"$work/log"; got=$?
    # shellcheck disable=SC2086
    if [ $got -ne "$want" ]; then bad "$name" "exit status $got, wanted $want: $(tail -n 3 "$work/log")"
    elif [ -n "$part" ] && ! (cd "$work" && cat $expect_in) | grep -F -- "$part" >/dev/null; then bad "$name" "does not say '$part' but: $(head -n 3 "$work/log")"
    else ok "$name"; fi
}
# The checksum of a picture's pixels: what follows the first IDAT, since the texts before it differ.
pixels() { [ -s "$1" ] && tail -c "+$(grep -abo IDAT "$1" | head -n 1 | cut -d: -f1)" "$1" | cksum; }
