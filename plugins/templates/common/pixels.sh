# pixels.sh - for test.sh: sourced. Makes $work, and compares pictures by their pixels (files carry their workflows too).
set -eu
kiln=${KILN:-kiln}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pixels() { tail -c "+$(grep -abo IDAT "$1" | head -n 1 | cut -d: -f1)" "$1" | cksum; }
same() { # NAME FILE FILE
    [ -s "$2" ] && [ "$(pixels "$2")" = "$(pixels "$3")" ] || { echo "FAIL $1: $2 and $3 differ"; trap - EXIT; exit 1; }
    echo "ok   $1"
}
