# pixels.sh - for test.sh: sourced. Makes $work, compares pictures by their pixels (files carry their workflows too), and latents by their numbers.
set -eu
kiln=${KILN:-kiln}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pixels() { tail -c "+$(grep -abo IDAT "$1" | head -n 1 | cut -d: -f1)" "$1" | cksum; }
same() { # NAME FILE FILE
    [ -s "$2" ] && [ "$(pixels "$2")" = "$(pixels "$3")" ] || { echo "FAIL $1: $2 and $3 differ"; trap - EXIT; exit 1; }
    echo "ok   $1"
}
drawn() { # NAME FILE: the picture is of more than one colour, which would be packed into less
    at=$(grep -abo IDAT "$2" | head -n 1 | cut -d: -f1)
    # shellcheck disable=SC2046
    set -- "$1" "$2" $(od -An -t u1 -j $((at - 4)) -N 4 "$2")
    [ $((($3 << 24) + ($4 << 16) + ($5 << 8) + $6)) -gt 2000 ] || { echo "FAIL $1: $2 is blank"; trap - EXIT; exit 1; }
    echo "ok   $1"
}
# The numbers of a .latent file, which is safetensors: the header's length, the header, the numbers.
numbers() {
    header=$(od -An -t u4 -N 4 "$1" | tr -d ' ')
    place=$(head -c $((8 + header)) "$1" | tail -c +9 | sed 's/.*"latent_tensor": *{[^}]*"data_offsets": *\[ *\([0-9]*\), *\([0-9]*\).*/\1 \2/')
    od -An -v -t f4 -j $((8 + header + ${place% *})) -N $((${place#* } - ${place% *})) "$1" | tr -s ' ' '\n' | grep .
}
near() { # NAME FILE FILE MOST: two latents, and how far apart they may be, as a share of the second's size
    numbers "$2" >"$work/a.txt" && numbers "$3" >"$work/b.txt"
    far=$(paste "$work/a.txt" "$work/b.txt" | awk '{ far += ($1 - $2) ^ 2; size += $2 ^ 2 } END { if (size > 0) print sqrt(far / size) }')
    awk -v far="${far:-nan}" -v most="$4" 'BEGIN { exit !(far ~ /^[0-9]/ && far + 0 <= most + 0) }' ||
        { echo "FAIL $1: $2 and $3 are ${far:-not} of their size apart, and $4 is allowed"; trap - EXIT; exit 1; }
    echo "ok   $1"
}
