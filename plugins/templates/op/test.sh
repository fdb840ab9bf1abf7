# test.sh - make test: the contract, the op against its reference, and a picture whose pixels are known.
. ./pixels.sh
"$kiln" plugin check .
"$kiln" run my-plugin.yaml --plugins . --no-cache --quiet --out "$work" >"$work/said.txt"
same light_stays_to_the_right "$work/got_00001_.png" "$work/wanted_00001_.png"
