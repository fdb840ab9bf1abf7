# test_encodings.sh - the engine's own objects have the instructions that stand-ins replace in tests: AMX's, and byte products of 256 bits as processors
# without AVX-512 know them; what is compiled for AVX2 or AVX-VNNI has no instruction of AVX-512.
cd "$KILN_ROOT" || exit 2
status=0
ok() { echo "ok $1"; }
bad() { echo "  $2"; echo "FAIL $1"; status=1; }
objects_in_tree=engine/backend/cpu
objects=$KILN_BUILD/$objects_in_tree
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
if [ "$(uname -m)" != x86_64 ] || ! command -v objdump >/dev/null; then echo "skip test_encodings: wants x86-64 and objdump"; exit 0; fi

# FIRST BYTES, MNEMONIC of each instruction
listing() { objdump -d -w "$1" | awk -F'\t' 'NF > 2 { split($2, b, " "); print b[1], $3 }'; }

found=$(listing "$objects/int8_kernels_avxvnni.o" | grep -c 'vpdpbusd')
others=$(listing "$objects/int8_kernels_avxvnni.o" | grep 'vpdpbusd' | grep -vc '^c4')
if [ "$found" -gt 0 ] && [ "$others" -eq 0 ]; then ok byte_products_of_avx_vnni; else bad byte_products_of_avx_vnni "$found byte products, $others of them as AVX-512 has them"; fi

for name in int8_kernels_avxvnni kernels_avx2; do
    wide=$(listing "$objects/$name.o" | grep -c '^62') # the first byte of each instruction of AVX-512
    if [ "$wide" -eq 0 ]; then ok "no_avx512_in_$name"; else bad "no_avx512_in_$name" "$wide instructions"; fi
done

while read -r name words; do
    missing=""
    listing "$objects/$name.o" >"$work/own"
    listing "$KILN_BUILD/standin/$objects_in_tree/$name.o" >"$work/standin"
    for word in $words; do
        grep -q "$word" "$work/own" || missing+=" $word"
        grep -q "$word" "$work/standin" && missing+=" ($word in the stand-in)"
    done
    if [ -z "$missing" ]; then ok "amx_in_$name"; else bad "amx_in_$name" "$missing"; fi
done <<END
int8_kernels_amx ldtilecfg tilerelease tilezero tileloadd tilestored tdpbssd
attention_tiles_amx ldtilecfg tilerelease tilezero tileloadd tilestored tdpbf16ps
attention_units_amx tilezero tileloadd tilestored tdpbf16ps
END
exit $status
